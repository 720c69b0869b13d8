"""Names processes so that a number used again is not taken for the same process."""

from __future__ import annotations

import os
from functools import cache

import psutil


@cache
def own_identity() -> str:
    """Return the identity of this process: its number and when it began."""
    return f"{os.getpid()}@{psutil.Process().create_time():.2f}"


def is_alive(identity: str) -> bool:
    """Tell whether the process of that identity still runs on this node."""
    number, _, began = identity.partition("@")
    try:
        process = psutil.Process(int(number))
        return f"{process.create_time():.2f}" == began and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, ValueError):
        return False
