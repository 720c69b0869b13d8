"""The linear model of power."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forebay import Device, DeviceId, DeviceKind, NodeId, PluginContext
from forebay_builtin_plugins.linear_power.model import MAX_WATTS, LinearPower

H100 = Device(DeviceId("g"), DeviceKind.GPU, model="NVIDIA H100 80GB HBM3")


def model(**options: object) -> LinearPower:
    return LinearPower(PluginContext("linear-power", NodeId("n"), options))  # type: ignore[arg-type]  # as a site writes it


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(sorted(MAX_WATTS)))
def test_power_grows_with_load_between_idle_and_the_most(
    one: float, other: float, name: str
) -> None:
    device = Device(DeviceId("g"), DeviceKind.GPU, model=name.upper())
    low, high = model().power_watts([device] * 2, np.array(sorted([one, other])))
    assert 0 < low <= high <= MAX_WATTS[name] * (1 + 1e-12)


def test_full_load_is_the_datasheets_figure() -> None:
    assert model().power_watts([H100], np.array([1.0])) == [700.0]


def test_a_device_it_does_not_know_has_no_power() -> None:
    unknown = Device(DeviceId("x"), DeviceKind.NPU, model="made up")
    watts = model().power_watts([unknown, H100], np.array([0.5, 0.0]))
    assert np.isnan(watts[0])
    assert watts[1] == 0.3 * 700


def test_what_a_site_configures_wins() -> None:
    site = model(models={"H100": {"max_watts": 500, "idle_watts": 50}}, idle_share=0.5)
    assert list(site.power_watts([H100, H100], np.array([0.0, 1.0]))) == [50.0, 500.0]


def test_no_devices_draw_nothing() -> None:
    assert model().power_watts([], np.empty(0)).shape == (0,)
