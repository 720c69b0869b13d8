"""Measures what a CPU really does."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable

from forebay import Evidence

REPEATS = 5
COPY_BYTES = 64 * 2**20
HASH_BYTES = 16 * 2**20


def measure() -> list[Evidence]:
    """Return one core's hashing rate and memory copy rate; the best of several repeats."""
    data = bytes(HASH_BYTES)
    source = bytearray(COPY_BYTES)
    target = bytearray(COPY_BYTES)

    def copy() -> None:
        target[:] = source

    hash_s = _best_s(lambda: hashlib.sha256(data).digest())
    copy_s = _best_s(copy)
    machine = f"{platform.node()} {platform.machine()} {platform.release()}"
    versions = {"python": platform.python_version()}
    now_s = time.time()
    return [
        Evidence(
            "sha256_rate",
            HASH_BYTES / hash_s,
            "By/s",
            f"SHA-256 of {HASH_BYTES} bytes on one core, best of {REPEATS}",
            versions=versions,
            machine=machine,
            time_s=now_s,
        ),
        Evidence(
            "memory_copy_rate",
            COPY_BYTES / copy_s,
            "By/s",
            f"copy of {COPY_BYTES} bytes by one core, best of {REPEATS}",
            versions=versions,
            machine=machine,
            time_s=now_s,
        ),
    ]


def _best_s(action: Callable[[], object]) -> float:
    best_s = float("inf")
    for _ in range(REPEATS):
        began = time.perf_counter()
        action()
        best_s = min(best_s, time.perf_counter() - began)
    return best_s
