"""Finds and ends what is left of work whose supervisor was killed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

VARIABLE = "FOREBAY_WORK"
"""Variable that every process of a piece of work carries."""

END_WAIT_S = 2.0
"""Longest to wait for killed processes to go."""


def token(place: Path) -> str:
    """Return the mark of the work of one lease of one home directory."""
    return str(place)


def end(place: Path) -> None:
    """Kill every process that carries the mark of this work."""
    until = time.monotonic() + END_WAIT_S
    while (rest := find(place)) and time.monotonic() < until:
        for pid in rest:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def find(place: Path) -> list[int]:
    """Return the processes that carry the mark; O(processes on the node)."""
    mark = f"{VARIABLE}={token(place)}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found
