"""Waits for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], bool], *, within_s: float = 60.0, every_s: float = 0.02) -> None:
    """Return as soon as a condition holds; fail where it does not in time."""
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until, f"did not happen within {within_s:g} s"
        time.sleep(every_s)
