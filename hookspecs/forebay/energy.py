"""The energy model: power drawn by devices at a given load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forebay.device import Device

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class EnergyModel(ABC):
    """Predicts electrical power from utilisation."""

    name: str
    """Unique name."""

    @abstractmethod
    def power_watts(
        self, devices: Sequence[Device], utilization: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the power that each device draws.

        Called once for each batch of devices, in the host's process; a pure function.

        Parameters
        ----------
        devices : sequence of Device, length D
        utilization : (D,) float64
            Between 0 (idle) and 1 (fully used).

        Returns
        -------
        (D,) float64
            Watts; NaN for a device that the model does not know.
        """
