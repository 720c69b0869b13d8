"""Power as a line from idle to the most: a model, not a measurement.

``P(u) = P_idle + (P_max - P_idle) u`` (Fan, Weber, Barroso:
*Power Provisioning for a Warehouse-sized Computer*, ISCA 2007, section 4,
where it is fitted to whole servers and their CPU load; for other devices it is a first guess).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay import ConfigError, Device, EnergyModel, Fault, PluginContext
from forebay_builtin_plugins.linear_power.watts import most_watts

IDLE_SHARE = 0.3
"""Idle power as a share of the most, which datasheets do not tell; a round guess.

Recorded SXM boards idle at about 0.12 of their limit, servers in the paper at more than 0.5:
configure it.
"""


class LinearPower(EnergyModel):
    """Predicts power from utilisation by a straight line.

    Parameters
    ----------
    context : PluginContext
        Options ``idle_share``, and ``models``: watts by a part of the model's name,
        of which the longest wins, also over what is known otherwise.

    Raises
    ------
    ConfigError
        A model is to draw more when idle than at the most.
    """

    name = "linear-power"

    def __init__(self, context: PluginContext) -> None:
        options: Mapping[str, Any] = context.config
        self._idle_share = float(options.get("idle_share", IDLE_SHARE))
        self._configured: Mapping[str, tuple[float, float]] = {
            name.lower(): self._line_of(watts["max_watts"], watts.get("idle_watts"))
            for name, watts in options.get("models", {}).items()
        }
        faults = tuple(
            Fault(
                f"found {idle:g} W when idle, expected no more than max_watts, {most:g} W.",
                field=f"plugin.linear-power.models.{name}.idle_watts",
            )
            for name, (idle, most) in self._configured.items()
            if idle > most
        )
        if faults:
            raise ConfigError(faults)

    def power_watts(
        self, devices: Sequence[Device], utilization: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return watts; NaN for devices that nothing is known of. O(D)."""
        lines = np.array([self._line(device) for device in devices]).reshape(-1, 2)
        idle, most = lines[:, 0], lines[:, 1]
        power: NDArray[np.float64] = idle + (most - idle) * utilization
        return power

    def _line(self, device: Device) -> tuple[float, float]:
        """Return idle and most power of a device."""
        model = device.model.lower()
        configured = [name for name in self._configured if name in model]
        if configured:
            return self._configured[max(configured, key=len)]
        most = most_watts(device)
        return (float("nan"), float("nan")) if most is None else self._line_of(most, None)

    def _line_of(self, most: float, idle: float | None) -> tuple[float, float]:
        return (most * self._idle_share if idle is None else float(idle), float(most))
