"""Waits for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(look: Callable[[], T | None], *, within_s: float = 60.0, every_s: float = 0.02) -> T:
    """Return what a look finds as soon as that is true; fail where it does not in time."""
    until = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < until, f"did not happen within {within_s:g} s"
        time.sleep(every_s)
    return found
