"""Phase 1: the node of the highest score, from scores that are kept and repaired.

Each distinct request keeps a row of scores, one a node.  A placement writes the node it touched
into a log; a row is repaired when its request comes again, for the nodes logged since then alone,
each of them once.  So a decision costs what has changed, not what there is.
Kernels: see :mod:`forebay_core.scheduling.compiled`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forebay import FleetArrays, Parameters, RequestArrays
from forebay.drawing import ClassArrays, Draws, draw, fits, limit_of, take, unit_serves
from forebay_core.scheduling.index import (
    count_highest,
    first_highest,
    nth_highest,
    rebuild,
    set_score,
)

ScoreKernel = Callable[
    [
        FleetArrays,
        RequestArrays,
        NDArray[np.int32],
        int,
        Parameters,
        NDArray[np.float64],
        NDArray[np.int32],
    ],
    None,
]

BEHIND_PER_ROW = 4
"""A row may fall so many changes behind for each row that there is."""

NODES_PER_ROW_MIN = 16
"""Rows are kept up only where there are so many nodes for each of them."""

DONE = 0
BAD_SCORE = 1
"""A score was NaN or plus infinity; nothing was placed for the request."""
NO_ROOM = 2
"""The rows for draws are used up; to be called again with more."""


class ScoreCache(NamedTuple):
    """Scores of every distinct request, and what changed since they were right.

    Parameters
    ----------
    tree : (C, any) float64
        A row of :mod:`forebay_core.scheduling.index` for each request.
    starts : (levels + 1,) int64
    wish : (C, N) int32
        The unit that the policy wishes for on each node.
    seen : (C,) int64
        How much of the log each row has followed; -1 for a row never filled.
    log : (any,) int32
        Nodes touched, in a ring.
    touched : (N,) int64
        Number of the last entry of each node.
    clock : (1,) int64
        Entries so far.
    nodes, feasible : (N,) int32
    scores : (N,) float64
    units : (N,) int32
        Room to work in.
    no_quota : (K,) int64
        A quota without limit: what is kept must not depend on it.
    quota_slack : (C, K) int64
        The most that a request can come to once rounded up to steps.
    node_of : (1,) int32
        The node of the last placement.
    turn : (1,) int64
        The row that is looked at next; see :func:`keep_up`.
    """

    tree: NDArray[np.float64]
    starts: NDArray[np.int64]
    wish: NDArray[np.int32]
    seen: NDArray[np.int64]
    log: NDArray[np.int32]
    touched: NDArray[np.int64]
    clock: NDArray[np.int64]
    nodes: NDArray[np.int32]
    feasible: NDArray[np.int32]
    scores: NDArray[np.float64]
    units: NDArray[np.int32]
    no_quota: NDArray[np.int64]
    quota_slack: NDArray[np.int64]
    node_of: NDArray[np.int32]
    turn: NDArray[np.int64]


def touch(cache: ScoreCache, node: int) -> None:
    """Note that a node has changed; O(1)."""
    entry = cache.clock[0]
    cache.log[entry % len(cache.log)] = node
    cache.touched[node] = entry
    cache.clock[0] = entry + 1


def repair(
    score: ScoreKernel,
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    parameters: Parameters,
    request: int,
) -> int:
    """Bring a request's scores up to date; O(changed nodes), at first O(N).

    Returns
    -------
    int
        -1, or the node whose score is no number.
    """
    now = cache.clock[0]
    seen = cache.seen[request]
    count = 0
    everything = seen < 0 or now - seen > len(cache.log)
    if everything:
        count = len(cache.touched)
        for node in range(count):
            cache.nodes[node] = node
    else:
        for entry in range(seen, now):
            node = cache.log[entry % len(cache.log)]
            if cache.touched[node] == entry:
                cache.nodes[count] = node
                count += 1
    tree = cache.tree[request]
    feasible = 0
    for index in range(count):
        node = cache.nodes[index]
        if fits(fleet, classes, request, node, cache.no_quota):
            cache.feasible[feasible] = node
            cache.units[feasible] = -1
            feasible += 1
        elif everything:
            tree[node] = -np.inf
        else:
            set_score(tree, cache.starts, node, -np.inf)
    score(
        fleet,
        request_arrays(classes, request),
        cache.feasible,
        feasible,
        parameters,
        cache.scores,
        cache.units,
    )
    for index in range(feasible):
        node = cache.feasible[index]
        value = cache.scores[index]
        if np.isnan(value) or value == np.inf:
            cache.seen[request] = -1
            return node
        cache.wish[request, node] = cache.units[index]
        if everything:
            tree[node] = value
        else:
            set_score(tree, cache.starts, node, value)
    if everything:
        rebuild(tree, cache.starts)
    cache.seen[request] = now
    return -1


def request_arrays(classes: ClassArrays, request: int) -> RequestArrays:
    """Return one request as policies see it; O(1)."""
    return RequestArrays(
        classes.millis[request],
        classes.memory_bytes[request],
        classes.kind[request],
        classes.form[request],
        classes.candidates[classes.mask[request]],
    )


def quota_state(fleet: FleetArrays, classes: ClassArrays, cache: ScoreCache, request: int) -> int:
    """Return how the pool's quota bears on a request: 1 ample, 0 it may not do, -1 it does not."""
    state = 1
    for kind in range(len(fleet.quota_free_millis)):
        if classes.wanted[request, kind]:
            if fleet.quota_free_millis[kind] < classes.millis[request, kind]:
                return -1
            if fleet.quota_free_millis[kind] < cache.quota_slack[request, kind]:
                state = 0
    return state


def highest(tree: NDArray[np.float64], cache: ScoreCache, uniform_ties: bool, chance: float) -> int:
    """Return the node of the highest score, -1 for none; O(log N), with uniform ties O(N)."""
    if not uniform_ties:
        return first_highest(tree, cache.starts)
    ties = count_highest(tree, cache.starts, len(cache.touched))
    if ties == 0:
        return -1
    return nth_highest(tree, cache.starts, len(cache.touched), min(int(chance * ties), ties - 1))


def highest_within_quota(
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    request: int,
    draws: Draws,
    at: int,
) -> int:
    """Return the node of the highest score on which the quota allows what is drawn; O(N)."""
    tree = cache.tree[request]
    best = -1
    for node in range(len(cache.touched)):
        if (
            tree[node] > -np.inf
            and (best < 0 or tree[node] > tree[best])
            and draw(fleet, classes, request, node, -1, fleet.quota_free_millis, draws, at) >= 0
        ):
            best = node
    return best


def uniform_wish(
    fleet: FleetArrays, classes: ClassArrays, request: int, node: int, chance: float
) -> int:
    """Return any unit of the node that serves a part of a device, each as likely."""
    kind = classes.kind[request]
    if kind < 0:
        return -1
    limit = limit_of(classes, request, kind, fleet.quota_free_millis)
    serving = 0
    for position in range(fleet.first_of_kind[node, kind], fleet.first_of_kind[node, kind + 1]):
        if unit_serves(fleet, classes, request, kind, fleet.node_units[position], limit):
            serving += 1
    left = min(int(chance * serving), serving - 1)
    for position in range(fleet.first_of_kind[node, kind], fleet.first_of_kind[node, kind + 1]):
        unit = fleet.node_units[position]
        if unit_serves(fleet, classes, request, kind, unit, limit):
            if left == 0:
                return unit
            left -= 1
    return -1


def place_one(
    score: ScoreKernel,
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    parameters: Parameters,
    request: int,
    uniform_ties: bool,
    uniform_units: bool,
    chance: NDArray[np.float64],
    draws: Draws,
    at: int,
    node_of: NDArray[np.int32],
) -> int:
    """Place one request and take what it draws; the node goes to ``node_of[0]``.

    Returns
    -------
    int
        The row after the last draw; -2 where a score is no number, of the node told.
    """
    node_of[0] = -1
    bad = repair(score, fleet, classes, cache, parameters, request)
    if bad >= 0:
        node_of[0] = bad
        return -2
    quota = quota_state(fleet, classes, cache, request)
    if quota < 0:
        return at
    wish = -1
    if quota == 0:
        # Units that round up less may keep within the quota, so no wish is heard.
        node = highest_within_quota(fleet, classes, cache, request, draws, at)
    else:
        node = highest(cache.tree[request], cache, uniform_ties, chance[0])
    if node < 0:
        return at
    if quota > 0:
        wish = cache.wish[request, node]
        if uniform_units:
            wish = uniform_wish(fleet, classes, request, node, chance[1])
    end = draw(fleet, classes, request, node, wish, fleet.quota_free_millis, draws, at)
    if end < 0:
        return at
    take(fleet, classes, request, node, draws, at, end, 1)
    touch(cache, node)
    node_of[0] = node
    return end


def give_back(
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    request: int,
    node: int,
    draws: Draws,
    begin: int,
    end: int,
) -> None:
    """Undo one placement; O(members)."""
    take(fleet, classes, request, node, draws, begin, end, -1)
    touch(cache, node)


def give_back_batch(
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    requests: NDArray[np.int32],
    nodes: NDArray[np.int32],
    first_draw: NDArray[np.int64],
    draws: Draws,
) -> int:
    """Undo placements, the last first; O(draws)."""
    for index in range(len(requests) - 1, -1, -1):
        if nodes[index] >= 0:
            give_back(
                fleet,
                classes,
                cache,
                requests[index],
                nodes[index],
                draws,
                first_draw[index],
                first_draw[index + 1],
            )
            nodes[index] = -1
    return 0


def keep_up(
    score: ScoreKernel,
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    parameters: Parameters,
) -> None:
    """Repair one row that has fallen behind, in turn, so that none takes long when it is wanted.

    Only where nodes are many against distinct requests: on a small fleet most changes of a row
    are overtaken by later ones before it is wanted.
    """
    rows = len(cache.quota_slack)
    if NODES_PER_ROW_MIN * rows > len(cache.touched):
        return
    row = cache.turn[0] % rows
    cache.turn[0] = row + 1
    if cache.seen[row] >= 0 and cache.clock[0] - cache.seen[row] > BEHIND_PER_ROW * rows:
        # A bad score is met again, and told, when the row is wanted.
        repair(score, fleet, classes, cache, parameters, row)


def place_batch(
    score: ScoreKernel,
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    parameters: Parameters,
    requests: NDArray[np.int32],
    gang_offsets: NDArray[np.int64],
    uniform_ties: bool,
    uniform_units: bool,
    chance: NDArray[np.float64],
    nodes: NDArray[np.int32],
    first_draw: NDArray[np.int64],
    draws: Draws,
    draws_max: int,
    progress: NDArray[np.int64],
) -> int:
    """Place gangs one after another, each all or nothing.

    Parameters
    ----------
    requests : (R,) int32
        Index along ``C``.
    gang_offsets : (G + 1,) int64
        Gang ``g`` are requests ``gang_offsets[g]`` to ``gang_offsets[g + 1]``.
    chance : (R, 2) float64
        Uniform random numbers; a single row where the policy needs none.
    nodes : (R,) int32
        Filled with the nodes, -1 for what waits.
    first_draw : (R + 1,) int64
        Filled with the first row of each request's draws.
    draws : Draws
    draws_max : int
        Most rows that one request needs.
    progress : (2,) int64
        Gangs done, and the node of a bad score; carried from call to call.

    Returns
    -------
    int
        :data:`DONE`, :data:`BAD_SCORE` or :data:`NO_ROOM`.
    """
    node_of = cache.node_of
    random = uniform_ties or uniform_units
    for gang in range(progress[0], len(gang_offsets) - 1):
        begin = gang_offsets[gang]
        end = gang_offsets[gang + 1]
        at = first_draw[begin]
        if at + (end - begin) * draws_max > len(draws.unit):
            return NO_ROOM
        placed = begin
        row = at
        for index in range(begin, end):
            row = place_one(
                score,
                fleet,
                classes,
                cache,
                parameters,
                requests[index],
                uniform_ties,
                uniform_units,
                chance[index if random else 0],
                draws,
                first_draw[index],
                node_of,
            )
            if row == -2 or node_of[0] < 0:
                break
            nodes[index] = node_of[0]
            first_draw[index + 1] = row
            placed += 1
        if placed < end:
            bad = row == -2
            for index in range(placed - 1, begin - 1, -1):
                give_back(
                    fleet,
                    classes,
                    cache,
                    requests[index],
                    nodes[index],
                    draws,
                    first_draw[index],
                    first_draw[index + 1],
                )
            for index in range(begin, end):
                nodes[index] = -1
                first_draw[index + 1] = at
            if bad:
                progress[1] = node_of[0]
                return BAD_SCORE
        progress[0] = gang + 1
        keep_up(score, fleet, classes, cache, parameters)
    return DONE
