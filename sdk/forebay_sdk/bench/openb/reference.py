"""The reference for speed: the same decisions by a plain loop over all nodes, nothing kept.

One fused, compiled loop: for each task every node is tried, those that fit are scored by the same
compiled function, and the first of the highest is taken.  It must place exactly as the engine does.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from forebay import FleetArrays, Parameters
from forebay.drawing import ClassArrays, Draws, draw, fits, take
from forebay.errors import ForebayError
from forebay_core.scheduling.choosing import ScoreCache, ScoreKernel, request_arrays
from forebay_core.scheduling.phase1 import Phase1, empty_draws


def place_by_rescan(
    score: ScoreKernel,
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    parameters: Parameters,
    requests: NDArray[np.int32],
    nodes: NDArray[np.int32],
    draws: Draws,
) -> int:
    """Place tasks one after another; O(tasks x nodes).  The cache lends its room alone."""
    for index in range(len(requests)):
        request = requests[index]
        feasible = 0
        for node in range(len(fleet.node_open)):
            if fits(fleet, classes, request, node, cache.no_quota):
                cache.feasible[feasible] = node
                cache.units[feasible] = -1
                feasible += 1
        nodes[index] = -1
        if feasible == 0:
            continue
        score(
            fleet,
            request_arrays(classes, request),
            cache.feasible,
            feasible,
            parameters,
            cache.scores,
            cache.units,
        )
        best = 0
        for other in range(1, feasible):
            if cache.scores[other] > cache.scores[best]:
                best = other
        node = cache.feasible[best]
        end = draw(
            fleet, classes, request, node, cache.units[best], fleet.quota_free_millis, draws, 0
        )
        take(fleet, classes, request, node, draws, 0, end, 1)
        nodes[index] = node
    return 0


def rescan_duration_s(
    phase1: Phase1, requests: NDArray[np.int32], expected: NDArray[np.int32]
) -> float:
    """Run the reference on a fresh engine's fleet, and return how long it took.

    Raises
    ------
    ForebayError
        It placed a task elsewhere than the engine did.
    """
    nodes = np.empty(len(requests), np.int32)
    kernel = phase1.kernel(place_by_rescan)
    room = empty_draws(phase1.classes.draws_max + 1)
    arguments = (
        phase1.score,
        phase1.fleet,
        phase1.classes.arrays,
        phase1.cache,
        phase1.parameters,
    )
    # Compiled code is loaded by a call that has nothing to do.
    kernel(*arguments, requests[:0], nodes[:0], room)
    began = time.perf_counter()
    kernel(*arguments, requests, nodes, room)
    duration_s = time.perf_counter() - began
    if (nodes != expected).any():
        first = int(np.flatnonzero(nodes != expected)[0])
        raise ForebayError(
            f"the plain loop placed arrival {first} on node {nodes[first]}, "
            f"the engine on {expected[first]}.",
            fix="Report it: one of the two is wrong.",
        )
    return duration_s
