"""Evidence: a measured statement that others can check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Evidence:
    """One measured statement.

    Parameters
    ----------
    what : str
        The quantity, for example ``matmul_duration``.
    value : float
    unit : str
        UCUM, for example ``s``.
    method : str
        How it was measured, so that a stranger can repeat it.
    baseline : float, optional
        The same quantity without the thing under test, in the same unit.
    versions : mapping of str to str
        Software that took part.
    machine : str
        Fingerprint of the machine.
    time_s : float
        When it was measured, seconds since the epoch.
    simulated : bool
        True where the device was an emulator.
    """

    what: str
    value: float
    unit: str
    method: str
    baseline: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: str = ""
    time_s: float = 0.0
    simulated: bool = False

    @property
    def gain(self) -> float | None:
        """Baseline over value: above 1 is better, for quantities where less is better."""
        if self.baseline is None or self.value == 0:
            return None
        return self.baseline / self.value
