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
    millis: int, groups: Sequence[Sequence[int]], load: Mapping[int, int]
) -> dict[int, int]:
    """Choose CPUs for an amount, the least used first, ties to the lowest number.

    An amount is rounded up to whole CPUs. They come from one group where that costs nothing:
    a CPU that nobody uses in another group is better than a used one in the same.

    Parameters
    ----------
    millis : int
    groups : sequence of sequence of int
        CPUs by NUMA node.
    load : mapping of int to int
        Millis that other leases keep on each CPU.

    Returns
    -------
    dict of int to int
        Millis on each chosen CPU.
    """
    everywhere = [cpu for group in groups for cpu in group]
    count = min(-(-millis // MILLIS_PER_UNIT), len(everywhere))

    def least_used(cpus: Sequence[int]) -> list[int]:
        return sorted(cpus, key=lambda cpu: (load.get(cpu, 0), cpu))[:count]

    # The minimum keeps the first of equals, so one group goes before all together.
    options = [least_used(group) for group in groups if len(group) >= count]
    options.append(least_used(everywhere))
    chosen = min(options, key=lambda cpus: sum(load.get(cpu, 0) for cpu in cpus))
    return {
        cpu: min(MILLIS_PER_UNIT, millis - MILLIS_PER_UNIT * place)
        for place, cpu in enumerate(chosen)
    }


class PinRecord:
    """The record, in a file that is locked while it is changed.

    Parameters
    ----------
    directory : Path
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "pins.json"

    def pin(
        self, lease: str, draws: Sequence[tuple[int, Sequence[Sequence[int]]]]
    ) -> tuple[int, ...]:
        """Keep a lease on CPUs; a lease that is kept already stays where it is.

        Parameters
        ----------
        lease : str
        draws : sequence of (int, sequence of sequence of int)
            Millis to draw, and the CPUs by NUMA node to draw them from.
        """
        with self._open() as pinned:
            if lease not in pinned:
                load: Counter[int] = Counter()
                for kept in pinned.values():
                    load.update(kept)
                chosen: dict[int, int] = {}
                for millis, groups in draws:
                    chosen |= choose_cpus(millis, groups, load)
                pinned[lease] = chosen
            return tuple(sorted(pinned[lease]))

    def release(self, lease: str) -> None:
        """Forget a lease; one that is not kept is no error."""
        with self._open() as pinned:
            pinned.pop(lease, None)

    @contextmanager
    def _open(self) -> Iterator[dict[str, dict[int, int]]]:
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self._read()
            pinned = dict(before)
            yield pinned
            if pinned != before:
                new = self._path.with_suffix(".new")
                new.write_text(json.dumps(pinned))
                new.replace(self._path)

    def _read(self) -> dict[str, dict[int, int]]:
        try:
            recorded = json.loads(self._path.read_text())
            return {
                lease: {int(cpu): millis for cpu, millis in kept.items()}
                for lease, kept in recorded.items()
            }
        except (FileNotFoundError, ValueError, AttributeError):
            # A torn record loses pins, which are advice, and never a lease.
            return {}
