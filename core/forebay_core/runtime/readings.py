"""What devices and network do at this moment."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from forebay import (
    Device,
    DeviceId,
    FactState,
    ForebayError,
    InterfaceState,
    Reading,
    UnsupportedError,
)
from forebay_core.runtime.host import Host

UTILIZATION = frozenset({"hw.cpu.utilization", "hw.gpu.utilization"})
POWER = "hw.power"

SPAN_S = 0.25
"""Time between two looks, since some values are differences."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Everything read in one look.

    Parameters
    ----------
    devices : tuple of Reading
        Where no adapter reads a device's power and an energy model knows it, the model's
        prediction is among them, with the model as its source.
    interfaces : tuple of InterfaceState
    failures : tuple of (str, str)
        Plugins that could not read, with the reason.
    """

    devices: tuple[Reading, ...]
    interfaces: tuple[InterfaceState, ...]
    failures: tuple[tuple[str, str], ...]


def read(host: Host) -> Readings:
    """Ask every adapter, energy model and network state; takes :data:`SPAN_S`."""
    failures: list[tuple[str, str]] = []
    _telemetry(host, [])
    time.sleep(SPAN_S)
    readings = _telemetry(host, failures)
    readings += _modelled_power(host, readings, failures)
    interfaces: list[InterfaceState] = []
    for offered in host.plugins.network_states():
        try:
            found = offered.object.interfaces()
        except ForebayError as error:
            failures.append((offered.plugin, str(error)))
            continue
        interfaces += [state if state.node else replace(state, node=host.node) for state in found]
    return Readings(tuple(readings), tuple(interfaces), tuple(failures))


def _telemetry(host: Host, failures: list[tuple[str, str]]) -> list[Reading]:
    owners = host.inventory.adapters
    readings: list[Reading] = []
    for offered in host.plugins.hardware_adapters():
        mine = [device for device, owner in owners.items() if owner == offered.name]
        if not mine:
            continue
        try:
            readings += offered.object.telemetry(sorted(mine))
        except UnsupportedError:
            continue
        except ForebayError as error:
            failures.append((offered.plugin, str(error)))
    return readings


def _modelled_power(
    host: Host, readings: Sequence[Reading], failures: list[tuple[str, str]]
) -> list[Reading]:
    """Predict the power of devices whose load is read and whose power is not."""
    loads = {
        reading.device: reading.value
        for reading in readings
        if reading.name in UTILIZATION and reading.value is not None
    }
    measured = {
        reading.device
        for reading in readings
        if reading.name == POWER and reading.state is FactState.OK
    }
    devices = [
        device
        for device in host.inventory.devices
        if device.id in loads and device.id not in measured
    ]
    predicted: dict[DeviceId, Reading] = {}
    for offered in host.plugins.energy_models():
        try:
            watts = offered.object.power_watts(
                devices, np.array([loads[device.id] for device in devices], dtype=np.float64)
            )
            known = _known(devices, watts)
        except Exception as error:  # noqa: BLE001 - an energy model is a stranger's code
            host.plugins.report_failure(offered.plugin, error)
            failures.append((offered.plugin, f"{type(error).__name__}: {error}"))
            continue
        for device, value in known.items():
            predicted.setdefault(
                device,
                Reading(
                    device, POWER, FactState.OK, value, "W", time.time(), f"model {offered.name}"
                ),
            )
    return list(predicted.values())


def _known(devices: Sequence[Device], watts: NDArray[np.float64]) -> dict[DeviceId, float]:
    if watts.shape != (len(devices),):
        raise ValueError(f"returned shape {watts.shape}, expected ({len(devices)},)")
    return {
        device.id: float(value)
        for device, value in zip(devices, watts, strict=True)
        if not math.isnan(value)
    }
