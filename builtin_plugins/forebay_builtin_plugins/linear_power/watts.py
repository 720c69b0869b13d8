"""The most power that known models draw, as their makers state it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from forebay import Device, DeviceKind

MAX_WATTS: Mapping[str, float] = {
    "a100 sxm4": 400.0,  # NVIDIA A100 datasheet, max TDP, SXM
    "a100 80gb pcie": 300.0,  # ibid., PCIe, 80 GB
    "a100 pcie 40gb": 250.0,  # ibid., PCIe, 40 GB
    "h100 80gb hbm3": 700.0,  # NVIDIA H100 datasheet, max TDP, SXM (the name that NVML gives)
    "h100 sxm": 700.0,
    "h100 sxm5": 700.0,
    "h100 pcie": 350.0,  # NVIDIA H100 PCIe product brief PB-11133, max TDP
    "h200": 700.0,  # NVIDIA H200 datasheet, max TDP, SXM
    "h200 nvl": 600.0,  # ibid., NVL
    "l40s": 350.0,  # NVIDIA L40S datasheet, max power consumption
    "t4": 70.0,  # NVIDIA T4 datasheet
    "mi300x": 750.0,  # AMD Instinct MI300X datasheet, max TBP
    "mi250x": 560.0,  # AMD Instinct MI250X datasheet, peak TBP
}
"""Watts of a device whose model holds all these words; the entry of most words wins."""

CPU_MAX_WATTS: Mapping[str, tuple[float, int]] = {
    "epyc 9654": (360.0, 96),  # AMD product page, default TDP
    "epyc 7763": (280.0, 64),  # AMD product page, default TDP
    "xeon platinum 8480+": (350.0, 56),  # Intel ARK, TDP
    "xeon platinum 8380": (270.0, 40),  # Intel ARK, TDP
}
"""Watts of a whole socket, and its cores; a virtual machine shows the model but has fewer."""


def most_watts(device: Device) -> float | None:
    """Return the most that a device draws, None where neither it nor the tables tell.

    The limit that its own driver enforces (attribute ``power_limit_milliwatts``) wins:
    boards of one model are sold with several.
    """
    limit = device.attributes.get("power_limit_milliwatts")
    if limit:
        return float(limit) / 1000
    words = set(re.findall(r"[a-z0-9+]+", device.model.lower()))
    if device.kind is DeviceKind.CPU:
        for name, (watts, cores) in CPU_MAX_WATTS.items():
            if words.issuperset(name.split()) and device.attributes.get("cores") == cores:
                return watts
        return None
    found = [name for name in MAX_WATTS if words.issuperset(name.split())]
    return MAX_WATTS[max(found, key=lambda name: len(name.split()))] if found else None
