"""Splits jobs that are larger than a node into gangs: whole nodes and a remainder.

Axes: ``J`` jobs, ``T`` tasks of all jobs one after another, ``C`` distinct values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forebay import Fault
from forebay_sdk.traces.reading import TraceError

TASKS_MAX = 1 << 27
"""More tasks than this are refused before memory is asked for them: half a GiB a column."""


def split_by_node(
    units: NDArray[np.int64], per_node: int, source: str
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the units of each task (T,) and the jobs' offsets (J + 1,); O(T).

    Parameters
    ----------
    units : (J,) int64
        What each job asks for, at least 1: devices or cores.
    per_node : int
        What a node has.
    source : str
        File that the jobs come from, for the error.

    Raises
    ------
    TraceError
        A node has nothing, or there are more than :data:`TASKS_MAX` tasks.
    """
    if per_node < 1:
        raise TraceError(
            Fault(f"cannot be split over nodes of {per_node} units, expected 1 or more.", source)
        )
    whole, rest = np.divmod(units, per_node)
    offsets = np.concatenate(([0], np.cumsum(whole + (rest > 0))))
    if offsets[-1] > TASKS_MAX:
        raise TraceError(
            Fault(
                f"makes {offsets[-1]} tasks of {per_node} units a node, at most {TASKS_MAX} fit.",
                source,
                fix="Split it over larger nodes, or replay a part of it.",
            )
        )
    sizes = np.full(int(offsets[-1]), per_node, np.int64)
    partial = rest > 0
    sizes[offsets[1:][partial] - 1] = rest[partial]
    return sizes, offsets.astype(np.int32)


def number_distinct(values: NDArray[np.int64]) -> tuple[list[int], NDArray[np.int32]]:
    """Return the distinct values (C,) in order of first appearance, and each one's place (T,)."""
    distinct, first, place = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return distinct[order].tolist(), rank[place]
