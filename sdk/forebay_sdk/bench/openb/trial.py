"""One run of the benchmark: a policy on a trace with the orders of a seed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from forebay import ScorePolicy
from forebay_core.scheduling.fleet import build_fleet
from forebay_core.scheduling.phase1 import Phase1
from forebay_sdk.bench.openb.data import Openb
from forebay_sdk.bench.openb.fragmentation import fragmentation_curve, typical_tasks
from forebay_sdk.bench.openb.reference import rescan_duration_s
from forebay_sdk.simulator.simulation import mix_of

if TYPE_CHECKING:
    from forebay_sdk.bench.offered import Policies

BINS = 131
"""Arrived load in whole percent, 0 to 130."""

LATENCY_DECISIONS = 2000
"""Decisions that are timed one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """What one run gave.

    Parameters
    ----------
    trace, policy : str
    seed : int
    unallocated_percent, frag_percent : (131,) float64
        By arrived load, the mean over all arrivals of the bin; NaN where nothing arrived.
    placed, decisions : int
    duration_s : float
        Of all decisions in one call, in one thread.
    p99_s : float
        Of single decisions, each a call of its own from Python.
    rescan_s : float
        What a plain loop over all nodes took for the same decisions; NaN where not asked for,
        or where the policy leaves something to chance.
    """

    trace: str
    policy: str
    seed: int
    unallocated_percent: NDArray[np.float64]
    frag_percent: NDArray[np.float64]
    placed: int
    decisions: int
    duration_s: float
    p99_s: float
    rescan_s: float


def run_trial(
    openb: Openb,
    policy: ScorePolicy,
    seed: int,
    policies: Policies,
    *,
    reference: bool = False,
) -> Trial:
    """Run a policy; tasks arrive once, in order, and none departs.

    The policy knows what the trace asks for and how often, never the order.
    Ties go to the first node in the order of the seed.

    Parameters
    ----------
    openb : Openb
    policy : ScorePolicy
    seed : int
    policies : Policies
    reference : bool
        Whether to make the same decisions by a plain loop as well, and compare.
    """
    arrivals, nodes = openb.orders(seed)
    snapshot = openb.fleet.snapshot(nodes)
    judge = policies.judge(snapshot)
    mix = mix_of(openb.trace, judge)

    def phase1() -> tuple[Phase1, NDArray[np.int32]]:
        made = Phase1(snapshot, policy, judge, seed=seed, mix=mix, compile=True)
        return made, made.number(openb.trace.requests)[openb.trace.task_request[arrivals]]

    engine, requests = phase1()
    engine.place_numbered(requests[:1])
    engine, requests = phase1()
    began = time.perf_counter()
    placed = engine.place_numbered(requests)
    duration_s = time.perf_counter() - began
    millis = openb.gpu_millis[arrivals]
    load = np.cumsum(millis) / openb.capacity_millis
    bins = np.round(100 * load).astype(np.int64)
    allocated = np.cumsum(np.where(placed.nodes >= 0, millis, 0)) / openb.capacity_millis
    curve = np.zeros(len(arrivals))
    table, allowed = typical_tasks(openb.trace, snapshot, judge)
    engine.kernel(fragmentation_curve)(
        build_fleet(snapshot),
        engine.classes.arrays,
        requests,
        placed.nodes,
        placed.first_draw,
        placed.draws,
        table,
        allowed,
        curve,
    )
    return Trial(
        trace=openb.trace.name,
        policy=policy.name,
        seed=seed,
        # The published files hold two digits of each value before the mean is taken.
        unallocated_percent=100 - _mean_by_bin(bins, np.round(100 * allocated, 2)),
        frag_percent=_mean_by_bin(bins, 100 * curve / openb.capacity_millis),
        placed=int((placed.nodes >= 0).sum()),
        decisions=len(arrivals),
        duration_s=duration_s,
        p99_s=_p99_s(*phase1()),
        rescan_s=rescan_duration_s(*phase1(), placed.nodes)
        if reference and not policy.leaves_to_chance
        else float("nan"),
    )


def _mean_by_bin(bins: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    within = bins < BINS
    count = np.bincount(bins[within], minlength=BINS)
    sums = np.bincount(bins[within], weights=values[within], minlength=BINS)
    return np.where(count > 0, sums / np.maximum(count, 1), np.nan)


def _p99_s(engine: Phase1, requests: NDArray[np.int32]) -> float:
    """Return the 99th percentile over decisions made one by one, spread over the whole run."""
    spans = []
    step = max(len(requests) // LATENCY_DECISIONS, 1)
    for begin in range(0, len(requests) - 1, step):
        began = time.perf_counter()
        engine.place_numbered(requests[begin : begin + 1])
        spans.append(time.perf_counter() - began)
        engine.place_numbered(requests[begin + 1 : begin + step])
    return float(np.percentile(spans, 99)) if spans else float("nan")
