"""The highest score of many, kept while scores change: a tree of maxima, eight to a group.

Eight float64 fill a cache line, so a change touches one line a level: six levels at 100,000 nodes.
A change of score takes O(log N) and usually stops at the first level, since the highest of the
group is mostly another.  Kernels: see :mod:`forebay_core.scheduling.compiled`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FAN_OUT = 8


def level_starts(count: int) -> NDArray[np.int64]:
    """Return where each level lies in a row of the tree, leaves first; the last is the length."""
    starts = [0]
    size = count
    while True:
        size = -(-size // FAN_OUT)
        starts.append(starts[-1] + size * FAN_OUT)
        if size <= 1:
            break
    return np.array([*starts, starts[-1] + 1], dtype=np.int64)


def set_score(
    tree: NDArray[np.float64], starts: NDArray[np.int64], leaf: int, score: float
) -> None:
    """Change one score and what follows from it; O(log N)."""
    if tree[leaf] == score:
        return
    tree[leaf] = score
    position = leaf
    for level in range(1, len(starts) - 1):
        group = position // FAN_OUT
        begin = starts[level - 1] + group * FAN_OUT
        highest = tree[begin]
        for child in range(begin + 1, begin + FAN_OUT):
            highest = max(highest, tree[child])
        parent = starts[level] + group
        if tree[parent] == highest:
            return
        tree[parent] = highest
        position = group


def rebuild(tree: NDArray[np.float64], starts: NDArray[np.int64]) -> None:
    """Work out every level from the leaves; O(N)."""
    for level in range(1, len(starts) - 1):
        size = (starts[level] - starts[level - 1]) // FAN_OUT
        for group in range(size):
            begin = starts[level - 1] + group * FAN_OUT
            highest = tree[begin]
            for child in range(begin + 1, begin + FAN_OUT):
                highest = max(highest, tree[child])
            tree[starts[level] + group] = highest


def first_highest(tree: NDArray[np.float64], starts: NDArray[np.int64]) -> int:
    """Return the lowest leaf of the highest score; -1 where every score is minus infinity."""
    top = len(starts) - 2
    highest = tree[starts[top]]
    if highest == -np.inf:
        return -1
    position = 0
    for level in range(top - 1, -1, -1):
        begin = starts[level] + position * FAN_OUT
        child = begin
        while tree[child] != highest:
            child += 1
        position = child - starts[level]
    return position


def count_highest(tree: NDArray[np.float64], starts: NDArray[np.int64], count: int) -> int:
    """Return how many leaves have the highest score; O(N)."""
    highest = tree[starts[len(starts) - 2]]
    if highest == -np.inf:
        return 0
    found = 0
    for leaf in range(count):
        if tree[leaf] == highest:
            found += 1
    return found


def nth_highest(tree: NDArray[np.float64], starts: NDArray[np.int64], count: int, nth: int) -> int:
    """Return the leaf that is number ``nth`` among those of the highest score; O(N)."""
    highest = tree[starts[len(starts) - 2]]
    left = nth
    for leaf in range(count):
        if tree[leaf] == highest:
            if left == 0:
                return leaf
            left -= 1
    return -1
