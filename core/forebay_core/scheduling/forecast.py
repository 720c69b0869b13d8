"""When would it start?  The present state is played forward until a request fits.

What runs ends when it says it does; those that wait before the request start in order, as soon as
they fit, each running as long as it says.  A node changes only when something on it ends, so after
each end one node is looked at, not the fleet.  Everything is taken back in the end.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forebay import FleetArrays, Request
from forebay.drawing import ClassArrays, Draws, fits, take
from forebay_core.scheduling.choosing import ScoreCache, touch
from forebay_core.scheduling.phase1 import Phase1, Placed


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """What runs, and when it says that it ends.

    Parameters
    ----------
    placed : Placed
    end_s : (R,) float64
        Infinite where it does not say.
    """

    placed: Placed
    end_s: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits before the one asked about.

    Parameters
    ----------
    request : Request
    estimate_s : float
        How long it says that it runs.
    """

    request: Request
    estimate_s: float


def release_until_fit(
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    requests: NDArray[np.int32],
    nodes: NDArray[np.int32],
    first_draw: NDArray[np.int64],
    draws: Draws,
    order: NDArray[np.int64],
    begin: int,
    until: int,
    wanted: int,
) -> int:
    """Give back what ends, in order, until a request fits on a node that has changed.

    Returns
    -------
    int
        How far in the order it came; -1 where all was given back and it does not fit.
    """
    for position in range(begin, until):
        index = order[position]
        node = nodes[index]
        if node < 0:
            continue
        rows_begin, rows_end = first_draw[index], first_draw[index + 1]
        take(fleet, classes, requests[index], node, draws, rows_begin, rows_end, -1)
        touch(cache, node)
        if fits(fleet, classes, wanted, node, fleet.quota_free_millis):
            return position + 1
    return -1


def take_again(
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    requests: NDArray[np.int32],
    nodes: NDArray[np.int32],
    first_draw: NDArray[np.int64],
    draws: Draws,
    order: NDArray[np.int64],
    until: int,
) -> int:
    """Take back what was given back, the last first."""
    for position in range(until - 1, -1, -1):
        index = order[position]
        node = nodes[index]
        if node >= 0:
            rows_begin, rows_end = first_draw[index], first_draw[index + 1]
            take(fleet, classes, requests[index], node, draws, rows_begin, rows_end, 1)
            touch(cache, node)
    return 0


def forecast_start(
    phase1: Phase1,
    running: Running,
    request: Request,
    *,
    now_s: float = 0.0,
    ahead: Sequence[Waiting] = (),
) -> float:
    """Return when a request would start, if all run as long as they say; infinite for never.

    O(running + ahead), each some hundred nanoseconds where compiled.

    Parameters
    ----------
    phase1 : Phase1
        The present state; as it was when this returns.
    running : Running
    request : Request
    now_s : float
    ahead : sequence of Waiting
        In their order; none overtakes another.
    """
    order = np.argsort(running.end_s, kind="stable")
    ends = running.end_s[order]
    finite = int(np.searchsorted(ends, np.inf))
    placed = running.placed
    held: list[tuple[float, int, Placed]] = []
    undo: list[Placed] = []
    at = 0
    now = now_s
    arguments = (placed.requests, placed.nodes, placed.first_draw, placed.draws, order)
    try:
        for number, one in enumerate([*ahead, Waiting(request, np.inf)]):
            (wanted,) = phase1.number([one.request])
            while True:
                done = phase1.place([one.request])
                if done.nodes[0] >= 0:
                    break
                # The next end is of what runs now, or of what was started on the way.
                until = finite
                if held:
                    until = int(np.searchsorted(ends[:finite], held[0][0], side="right"))
                if at >= until and not held:
                    return float("inf")
                came = phase1.kernel(release_until_fit)(
                    phase1.fleet,
                    phase1.classes.arrays,
                    phase1.cache,
                    *arguments,
                    at,
                    until,
                    int(wanted),
                )
                fitting = came >= 0
                came = int(came) if fitting else until
                if came > at:
                    now = max(now, float(ends[came - 1]))
                at = came
                if held and not fitting:
                    end_s, _, over = heapq.heappop(held)
                    now = max(now, end_s)
                    phase1.give_back(over)
                    undo.remove(over)
            undo.append(done)
            if number < len(ahead) and one.estimate_s < np.inf:
                heapq.heappush(held, (now + one.estimate_s, number, done))
        return now
    finally:
        for done in reversed(undo):
            phase1.give_back(done)
        phase1.kernel(take_again)(phase1.fleet, phase1.classes.arrays, phase1.cache, *arguments, at)
