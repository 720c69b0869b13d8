"""Power as a line from idle to the most: a model, not a measurement.

``P(u) = P_idle + (P_max - P_idle) u`` (Fan, Weber, Barroso:
*Power Provisioning for a Warehouse-sized Computer*, ISCA 2007, section 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay import Device, EnergyModel, PluginContext

IDLE_SHARE = 0.3
"""Idle power as a share of the most, where no datasheet tells; a round guess, to be configured."""

MAX_WATTS: Mapping[str, float] = {
    "a100-sxm": 400.0,  # NVIDIA A100 Tensor Core GPU datasheet, max TDP, SXM
    "a100-pcie-80gb": 300.0,  # ibid., PCIe, 80 GB
    "h100 80gb hbm3": 700.0,  # NVIDIA H100 datasheet, max TDP, SXM (NVML's name)
    "h100 sxm": 700.0,
    "h100 pcie": 350.0,  # ibid., PCIe
    "h200": 700.0,  # NVIDIA H200 datasheet, max TDP, SXM
    "l40s": 350.0,  # NVIDIA L40S datasheet
    "tesla t4": 70.0,  # NVIDIA T4 datasheet
    "mi300x": 750.0,  # AMD Instinct MI300X datasheet, peak board power
    "mi250x": 560.0,  # AMD Instinct MI250X datasheet, peak board power
}
"""Most power of a device, by a part of its model's name in lower case."""


class LinearPower(EnergyModel):
    """Predicts power from utilisation by a straight line.

    Parameters
    ----------
    context : PluginContext
        Options ``idle_share``, and ``models``: watts by name, which win over the table.
    """

    name = "linear-power"

    def __init__(self, context: PluginContext) -> None:
        options: Mapping[str, Any] = context.config
        self._idle_share = float(options.get("idle_share", IDLE_SHARE))
        self._configured: Mapping[str, Mapping[str, float]] = {
            name.lower(): watts for name, watts in options.get("models", {}).items()
        }

    def power_watts(
        self, devices: Sequence[Device], utilization: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return watts; NaN for models in neither configuration nor table. O(D)."""
        lines = np.array([self._line(device) for device in devices]).reshape(-1, 2)
        idle, most = lines[:, 0], lines[:, 1]
        power: NDArray[np.float64] = idle + (most - idle) * utilization
        return power

    def _line(self, device: Device) -> tuple[float, float]:
        """Return idle and most power of a device."""
        model = device.model.lower()
        for name, watts in self._configured.items():
            if name in model:
                most = watts["max_watts"]
                return watts.get("idle_watts", most * self._idle_share), most
        for name, most in MAX_WATTS.items():
            if name in model:
                return most * self._idle_share, most
        return float("nan"), float("nan")
