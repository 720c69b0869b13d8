"""Reads a GPU's present values, by OpenTelemetry's names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from forebay import DeviceId, FactState, Reading
from forebay_builtin_plugins.nvidia.nvml import state_by_uuid

_CORE_SENSOR = 0
"""``NVML_TEMPERATURE_GPU``."""


@dataclass(frozen=True, slots=True)
class _Metric:
    """One value: NVML's function, and how its answer becomes the unit."""

    name: str
    unit: str
    function: str
    value_of: Callable[[Any], float]
    arguments: tuple[int, ...] = ()


_METRICS = (
    _Metric(
        "hw.gpu.utilization", "1", "nvmlDeviceGetUtilizationRates", lambda rates: rates.gpu / 100
    ),
    _Metric("hw.gpu.memory.usage", "By", "nvmlDeviceGetMemoryInfo", lambda memory: memory.used),
    _Metric("hw.power", "W", "nvmlDeviceGetPowerUsage", lambda milliwatts: milliwatts / 1000),
    _Metric("hw.temperature", "Cel", "nvmlDeviceGetTemperature", float, (_CORE_SENSOR,)),
)


def read(pynvml: ModuleType, device: DeviceId, time_s: float) -> list[Reading]:
    """Return the readings of one device; each has its own state."""
    readings = []
    for metric in _METRICS:
        try:
            handle = pynvml.nvmlDeviceGetHandleByUUID(device)
            answer = getattr(pynvml, metric.function)(handle, *metric.arguments)
        except pynvml.NVMLError as error:
            readings.append(_without(metric, device, state_by_uuid(pynvml, error), time_s))
            continue
        readings.append(
            Reading(
                device,
                metric.name,
                FactState.OK,
                float(metric.value_of(answer)),
                metric.unit,
                time_s,
                metric.function,
            )
        )
    return readings


def read_nothing(device: DeviceId, state: FactState, time_s: float) -> list[Reading]:
    """Return the readings of one device while NVML cannot be used."""
    return [_without(metric, device, state, time_s) for metric in _METRICS]


def _without(metric: _Metric, device: DeviceId, state: FactState, time_s: float) -> Reading:
    return Reading(device, metric.name, state, None, metric.unit, time_s, metric.function)
