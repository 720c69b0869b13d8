"""Why a request does not fit, node by node: exact counts, and the most that would fit instead.

One pass over the nodes, with the scores that phase 1 keeps and the rules by which it draws.
Each node is counted once, under the first thing that stands in the way there, so the counts add up
to the fleet.  Kernels: see :mod:`forebay_core.scheduling.compiled`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from forebay import KIND_ORDER, DeviceKind, FleetArrays, Request
from forebay.drawing import (
    CPU,
    WHOLE,
    ClassArrays,
    kind_fits,
    unit_free,
    unit_free_memory,
    unit_is_candidate,
    unit_memory,
)
from forebay_core.scheduling.choosing import ScoreCache, repair

if TYPE_CHECKING:
    from forebay_core.scheduling.phase1 import Phase1

FITS, CLOSED, APART, VETOED, NOT_SELECTED, TOO_SMALL, NOT_FREE, SCATTERED = range(8)
"""Columns of the counts; the last four by kind."""

WORDS = {
    CLOSED: "takes no new work",
    APART: "runs as many of the request's group as it may",
    VETOED: "is vetoed by the policy",
    NOT_SELECTED: "has no {kind} that is selected and healthy",
    TOO_SMALL: "has less {kind} than is asked for",
    NOT_FREE: "has not enough {kind} free",
    SCATTERED: "has enough {kind} free, but not on one device or without the memory",
}


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Why a request does not fit.

    Parameters
    ----------
    nodes : int
    fitting : int
        Nodes that could serve it now, the pool's quota aside.
    reasons : mapping of str to int
        How many nodes each reason rules out; with ``fitting`` they add up to ``nodes``.
    quota : tuple of DeviceKind
        Kinds of which the pool's quota allows less than is asked for.
    most : mapping of DeviceKind to int
        The most of each kind, in thousandths, that would fit now with all else as asked for;
        0 where not even the least would.
    """

    nodes: int
    fitting: int
    reasons: Mapping[str, int]
    quota: tuple[DeviceKind, ...]
    most: Mapping[DeviceKind, int]


def amount_free(
    fleet: FleetArrays, classes: ClassArrays, request: int, kind: int, node: int
) -> int:
    """Return the most of a kind that a request could draw on a node, in its own form.

    A part of a device is of the one with the most free; whole devices are counted; cores add up.
    """
    total = 0
    largest = 0
    asked = classes.millis[request, kind]
    for position in range(fleet.first_of_kind[node, kind], fleet.first_of_kind[node, kind + 1]):
        unit = fleet.node_units[position]
        if not unit_is_candidate(fleet, classes, request, kind, unit):
            continue
        free = unit_free(fleet, unit)
        if kind == CPU:
            total += free
            continue
        if unit_free_memory(fleet, unit) < unit_memory(fleet, classes, request, kind, unit):
            continue
        largest = max(largest, free)
        if free >= WHOLE:
            total += WHOLE
    if kind == CPU:
        return total
    if classes.linked[request, kind] or asked < WHOLE:
        return min(largest, asked)
    return total


def classify(
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    request: int,
    counts: NDArray[np.int64],
    most: NDArray[np.int64],
) -> int:
    """Count the nodes under what stands in the way; O(N), and the units where it is needed.

    Parameters
    ----------
    counts : (8, K) int64
        Filled; rows that are not by kind use their first column.
    most : (K,) int64
        Filled with the most of each kind where that kind alone stands in the way.
    """
    tree = cache.tree[request]
    kinds = classes.wanted.shape[1]
    group = classes.spread_group[request]
    for node in range(len(fleet.node_open)):
        if tree[node] > -np.inf:
            counts[FITS, 0] += 1
            continue
        if not fleet.node_open[node]:
            counts[CLOSED, 0] += 1
            continue
        if group >= 0 and fleet.spread_used[group, node] >= classes.spread_max[request]:
            counts[APART, 0] += 1
            continue
        failing = -1
        also = False
        for kind in range(kinds):
            if not classes.wanted[request, kind]:
                continue
            enough = classes.millis[request, kind] <= fleet.node_free_millis[node, kind]
            if enough and kind_fits(fleet, classes, request, kind, node, cache.no_quota):
                continue
            if failing >= 0:
                also = True
                break
            failing = kind
        if failing < 0:
            # What a policy vetoes fits all the same.
            counts[VETOED, 0] += 1
            continue
        counts[_column(fleet, classes, request, failing, node), failing] += 1
        if not also and fleet.node_free_millis[node, failing] > most[failing]:
            free = amount_free(fleet, classes, request, failing, node)
            most[failing] = max(most[failing], free)
    return 0


def _column(fleet: FleetArrays, classes: ClassArrays, request: int, kind: int, node: int) -> int:
    """Return what stands in the way of a kind on a node that does not serve it."""
    asked = classes.millis[request, kind]
    if asked > fleet.node_capacity_millis[node, kind]:
        if fleet.node_capacity_millis[node, kind] == 0:
            return NOT_SELECTED
        return TOO_SMALL
    for position in range(fleet.first_of_kind[node, kind], fleet.first_of_kind[node, kind + 1]):
        if unit_is_candidate(fleet, classes, request, kind, fleet.node_units[position]):
            if asked > fleet.node_free_millis[node, kind]:
                return NOT_FREE
            return SCATTERED
    return NOT_SELECTED


def explain_shortfall(phase1: Phase1, request: Request) -> Shortfall:
    """Tell why a request does not fit, on the state as it is; O(N)."""
    (number,) = phase1.number([request])
    number = int(number)
    kinds = len(KIND_ORDER)
    phase1.kernel(repair)(
        phase1.score,
        phase1.fleet,
        phase1.classes.arrays,
        phase1.cache,
        phase1.parameters,
        number,
    )
    counts = np.zeros((8, kinds), np.int64)
    most = np.zeros(kinds, np.int64)
    phase1.kernel(classify)(phase1.fleet, phase1.classes.arrays, phase1.cache, number, counts, most)
    reasons: dict[str, int] = {}
    for column, words in WORDS.items():
        for index in np.flatnonzero(counts[column]):
            reasons[words.format(kind=KIND_ORDER[index])] = int(counts[column, index])
    asked = {item.kind: item.millis for item in request.items}
    quota = phase1.fleet.quota_free_millis
    return Shortfall(
        nodes=len(phase1.snapshot.node_ids),
        fitting=int(counts[FITS, 0]),
        reasons=dict(sorted(reasons.items(), key=lambda item: -item[1])),
        quota=tuple(
            kind for index, kind in enumerate(KIND_ORDER) if asked.get(kind, 0) > quota[index]
        ),
        most={kind: int(most[KIND_ORDER.index(kind)]) for kind in asked},
    )
