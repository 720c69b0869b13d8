"""Which lease is kept on which CPUs: a small record that several processes share."""

from __future__ import annotations

import fcntl
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from forebay import MILLIS_PER_UNIT


def choose_cpus(
    millis: int, available: Sequence[int], pinned: Mapping[str, Sequence[int]]
) -> tuple[int, ...]:
    """Choose CPUs for an amount: those that fewest leases are kept on, ties to the lowest.

    Parameters
    ----------
    millis : int
        Rounded up to whole CPUs.
    available : sequence of int
    pinned : mapping of str to sequence of int
        CPUs of the other leases.
    """
    load = Counter(cpu for cpus in pinned.values() for cpu in cpus)
    count = min(-(-millis // MILLIS_PER_UNIT), len(available))
    return tuple(sorted(sorted(available, key=lambda cpu: (load[cpu], cpu))[:count]))


class PinRecord:
    """The record, in a file that is locked while it is changed.

    Parameters
    ----------
    directory : Path
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "pins.json"

    def pin(self, lease: str, draws: Mapping[tuple[int, ...], int]) -> tuple[int, ...]:
        """Keep a lease on CPUs; a lease that is kept already stays where it is.

        Parameters
        ----------
        lease : str
        draws : mapping of tuple of int to int
            Millis to draw from each set of CPUs.
        """
        with self._open() as pinned:
            if lease not in pinned:
                chosen: list[int] = []
                for available, millis in draws.items():
                    chosen += choose_cpus(millis, available, pinned)
                pinned[lease] = sorted(chosen)
            return tuple(pinned[lease])

    def release(self, lease: str) -> None:
        """Forget a lease; one that is not kept is no error."""
        with self._open() as pinned:
            pinned.pop(lease, None)

    @contextmanager
    def _open(self) -> Iterator[dict[str, list[int]]]:
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                pinned = json.loads(self._path.read_text())
            except (FileNotFoundError, ValueError):
                # A torn record loses pins, which are advice, and never a lease.
                pinned = {}
            before = json.dumps(pinned)
            yield pinned
            if (after := json.dumps(pinned)) != before:
                new = self._path.with_suffix(".new")
                new.write_text(after)
                new.replace(self._path)
