"""The linear model of power."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay import ConfigError, Device, DeviceId, DeviceKind, NodeId, PluginContext
from forebay_builtin_plugins.linear_power.model import LinearPower
from forebay_builtin_plugins.linear_power.watts import CPU_MAX_WATTS, MAX_WATTS

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


@given(
    st.floats(1, 1e4),
    st.floats(0, 1),
    st.lists(st.floats(0, 1) | st.just(float("nan")), min_size=1, max_size=6),
)
def test_configured_power_stays_within_its_bounds_and_of_unknown_load_is_unknown(
    most: float, idle_share: float, load: list[float]
) -> None:
    idle = most * idle_share
    site = model(models={"made up": {"max_watts": most, "idle_watts": idle}})
    device = Device(DeviceId("x"), DeviceKind.NPU, model="Made Up 3000")
    watts = site.power_watts([device] * len(load), np.array(load))
    assert list(np.isnan(watts)) == list(np.isnan(load))
    known = watts[~np.isnan(watts)]
    assert ((idle <= known) & (known <= most * (1 + 1e-12))).all()
    order = np.argsort(load)[: len(known)]
    assert (np.diff(watts[order]) >= 0).all()


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


@pytest.mark.parametrize(
    ("name", "watts"),
    [
        ("NVIDIA H200", 700.0),
        ("NVIDIA H200 NVL", 600.0),
        ("NVIDIA A100 80GB PCIe", 300.0),
        ("NVIDIA A100-PCIE-40GB", 250.0),
        ("NVIDIA GH200 480GB", None),
        ("Tesla T4", 70.0),
        ("Tesla T40 24GB", None),
        ("AMD Instinct MI300X", 750.0),
    ],
)
def test_models_of_like_name_are_told_apart(name: str, watts: float | None) -> None:
    device = Device(DeviceId("g"), DeviceKind.GPU, model=name)
    (found,) = model().power_watts([device], np.array([1.0]))
    assert np.isnan(found) if watts is None else found == watts


def test_the_limit_that_a_device_tells_wins_over_the_table() -> None:
    limit = {"power_limit_milliwatts": 500_000}
    device = Device(DeviceId("g"), DeviceKind.GPU, model="NVIDIA A100-SXM4-80GB", attributes=limit)
    assert model().power_watts([device], np.array([1.0])) == [500.0]


def test_a_part_of_a_socket_is_not_taken_for_the_whole() -> None:
    def socket(cores: int) -> Device:
        name = "AMD EPYC 9654 96-Core Processor"
        return Device(DeviceId("c"), DeviceKind.CPU, model=name, attributes={"cores": cores})

    whole, part = model().power_watts([socket(96), socket(4)], np.array([1.0, 1.0]))
    assert whole == CPU_MAX_WATTS["epyc 9654"][0]
    assert np.isnan(part)


def test_of_two_configured_names_the_longer_wins() -> None:
    site = model(models={"H100": {"max_watts": 1}, "H100 80GB": {"max_watts": 2}})
    assert site.power_watts([H100], np.array([1.0])) == [2.0]


def test_more_power_when_idle_than_at_the_most_is_refused_for_every_model_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        model(
            models={"a": {"max_watts": 1, "idle_watts": 2}, "b": {"max_watts": 3, "idle_watts": 4}}
        )
    assert [fault.field.split(".")[-2] for fault in caught.value.faults] == ["a", "b"]


@pytest.mark.shared_data
def test_recorded_boards_have_the_limit_that_the_table_tells(shared_data: Path) -> None:
    """Boards as sold; another limit than the datasheet's is for the driver to tell."""
    known = {}
    for path in sorted((shared_data / "hardware-fixtures/nvidia-smi-captures").glob("*.txt")):
        text = path.read_text(errors="replace")
        (name,) = set(re.findall(r"Product Name +: (.+)", text))
        limits = {float(watts) for watts in re.findall(r"Default Power Limit +: ([0-9.]+) W", text)}
        device = Device(DeviceId("g"), DeviceKind.GPU, model=name)
        (watts,) = model().power_watts([device], np.array([1.0]))
        if not np.isnan(watts):
            known[name] = watts
            assert limits == {watts}
    assert set(known) == {"NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA L40S"}
