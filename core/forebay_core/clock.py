"""The clock is an object handed in, so that simulated and real time share one engine."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now_s(self) -> float:
        """Return seconds since the epoch."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_s(self) -> float:
        """Return seconds since the epoch by the operating system."""
        return time.time()
