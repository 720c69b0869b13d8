"""Draws fleets, traces and failures: simulated input, for sizes that no trace has.

Durations are log-normal, which has the long tail that run times of production jobs have; Lublin
and Feitelson (*The workload on parallel supercomputers*, JPDC 63(11), 2003) fit a hyper-gamma
distribution to their logarithm, with more parameters.  Arrivals are a Poisson process whose rate
follows the hour of the day; failures and repairs are exponential, maintenance rolls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from forebay import (
    MILLIS_PER_UNIT,
    DeviceKind,
    Fault,
    InputError,
    Operator,
    Request,
    ResourceItem,
    Selector,
)
from forebay_sdk.traces.capacity import hosting_nodes, scarce_demand
from forebay_sdk.traces.fleet import DeviceShape, Fleet, NodeShape
from forebay_sdk.traces.trace import Trace

GIB = 1 << 30
DAY_S = 86_400.0
DIURNAL = 0.5
"""By how much of the mean the rate of arrivals rises at noon and falls at midnight."""

ZONES = 4

SHAPES: tuple[tuple[float, NodeShape], ...] = (
    (0.30, NodeShape(96_000, 768 * GIB, (DeviceShape(DeviceKind.GPU, 8, "A", 80 * GIB),))),
    (0.15, NodeShape(128_000, 1024 * GIB, (DeviceShape(DeviceKind.GPU, 8, "B", 96 * GIB),))),
    (0.15, NodeShape(64_000, 512 * GIB, (DeviceShape(DeviceKind.GPU, 4, "A", 80 * GIB),))),
    (0.10, NodeShape(32_000, 256 * GIB, (DeviceShape(DeviceKind.GPU, 2, "C", 24 * GIB),))),
    (0.05, NodeShape(16_000, 128 * GIB, (DeviceShape(DeviceKind.GPU, 1, "C", 24 * GIB),))),
    (0.10, NodeShape(192_000, 1536 * GIB, (DeviceShape(DeviceKind.NPU, 8, "N", 64 * GIB),))),
    (0.05, NodeShape(96_000, 512 * GIB, (DeviceShape(DeviceKind.NPU, 16, "M", 32 * GIB),))),
    (0.10, NodeShape(64_000, 256 * GIB)),
)
"""Share of each shape of node; invented, with the proportions of training and serving hosts."""


AMOUNTS = ((100, 1), (250, 2), (500, 2), (1000, 4), (2000, 2), (4000, 1), (8000, 1))
"""Thousandths of a device that requests ask for, and how often."""


def synthetic_fleet(
    nodes: int, seed: int = 0, *, mix: Sequence[tuple[float, NodeShape]] = SHAPES
) -> Fleet:
    """Draw a fleet; O(nodes).

    Nodes lie in :data:`ZONES` zones of equal size, which their label ``zone`` names.

    Parameters
    ----------
    nodes : int
    seed : int
    mix : sequence of (float, NodeShape)
        How often each shape comes, relative to the others.
    """
    rng = np.random.default_rng(seed)
    shares = np.array([share for share, _ in mix])
    drawn = rng.choice(len(mix), nodes, p=shares / shares.sum())
    zone = np.arange(nodes) * ZONES // max(nodes, 1)
    return Fleet(
        f"synthetic {nodes}",
        tuple(f"node-{number:06d}" for number in range(nodes)),
        tuple(
            replace(shape, labels={**shape.labels, "zone": f"zone-{number}"})
            for number in range(ZONES)
            for _, shape in mix
        ),
        (zone * len(mix) + drawn).astype(np.int32),
    )


def synthetic_requests(fleet: Fleet) -> tuple[tuple[Request, ...], NDArray[np.float64]]:
    """Return the requests that traces of a fleet draw from, and how often: at most 64.

    Parts of devices, whole devices on one node, with and without a model, and cores alone; of
    them those that some node can hold, for one that none can would wait for ever.

    Raises
    ------
    InputError
        No node can hold any.
    """
    requests: list[Request] = []
    weights: list[float] = []
    for kind, share in ((DeviceKind.GPU, 0.75), (DeviceKind.NPU, 0.15)):
        for millis, frequency in AMOUNTS:
            for cores in (2, 4, 8):
                asked = max(millis // MILLIS_PER_UNIT, 1) * cores
                items = (
                    ResourceItem(DeviceKind.CPU, asked * MILLIS_PER_UNIT, asked * 4 * GIB),
                    ResourceItem(kind, millis, 0),
                )
                requests.append(Request(items))
                weights.append(share * frequency)
                if kind is DeviceKind.GPU and cores == 4 and millis <= 4000:
                    selector = Selector("model", Operator.IN, "A|B")
                    requests.append(Request(items, device_selectors=(selector,)))
                    weights.append(share * frequency)
    for cores in (1, 2, 4, 8, 16):
        cpu = ResourceItem(DeviceKind.CPU, cores * MILLIS_PER_UNIT, cores * 4 * GIB)
        requests.append(Request((cpu,)))
        weights.append(0.5)
    held = hosting_nodes(fleet, requests) > 0
    if not held.any():
        raise InputError(
            Fault(
                f"no node of {fleet.name} can hold any request that is drawn.",
                fix="Name a fleet whose nodes have cores and memory.",
            )
        )
    weight = np.array(weights)[held]
    kept = tuple(requests[index] for index in np.flatnonzero(held))
    return kept, weight / weight.sum()


def synthetic_trace(
    fleet: Fleet,
    jobs: int,
    seed: int = 0,
    *,
    load: float = 0.8,
    mean_duration_s: float = 7200.0,
    days: float | None = None,
    spread: float = 1.5,
    gang_share: float = 0.02,
) -> Trace:
    """Draw a trace whose mean demand of accelerators is a share of the fleet's; O(jobs).

    Where the fleet has no accelerator, the demand is that of cores.

    Parameters
    ----------
    fleet : Fleet
    jobs : int
    seed : int
    load : float
        Demand by capacity, over all accelerators.
    mean_duration_s : float
    days : float, optional
        How long jobs keep coming; durations are scaled to it.  Where not given it follows from
        the other numbers.
    spread : float
        Standard deviation of the durations' logarithm.
    gang_share : float
        Part of the jobs that are gangs of two to eight equal tasks, each of which could have a
        node of its own.

    Raises
    ------
    InputError
        No node of the fleet can hold any request, or a number is out of its range.
    """
    _check(load=load, mean_duration_s=mean_duration_s, days=1.0 if days is None else days)
    rng = np.random.default_rng(seed)
    requests, weight = synthetic_requests(fleet)
    chosen = rng.choice(len(requests), jobs, p=weight).astype(np.int32)
    duration_s = rng.lognormal(np.log(mean_duration_s) - spread**2 / 2, spread, jobs)
    sizes = np.where(rng.random(jobs) < gang_share, rng.integers(2, 9, jobs), 1)
    sizes = np.minimum(sizes, hosting_nodes(fleet, requests)[chosen])
    asked, capacity = scarce_demand(fleet, requests)
    span_s = float((asked[chosen] * sizes * duration_s).sum()) / (load * capacity)
    if days is not None and span_s:
        duration_s *= days * DAY_S / span_s
        span_s = days * DAY_S
    return Trace(
        name=f"synthetic {jobs} jobs",
        requests=requests,
        submit_s=_arrivals(rng, jobs, span_s),
        duration_s=duration_s,
        estimate_s=duration_s * rng.uniform(1.0, 3.0, jobs),
        priority=np.zeros(jobs, np.int32),
        task_offsets=np.concatenate(([0], np.cumsum(sizes))).astype(np.int32),
        task_request=np.repeat(chosen, sizes),
    )


def _arrivals(rng: np.random.Generator, jobs: int, span_s: float) -> NDArray[np.float64]:
    """Draw instants of a Poisson process over a span, denser at noon than at midnight."""
    # The integral of the rate is inverted on a grid fine against a day.
    grid = np.linspace(0.0, span_s, 20_001)
    mean = grid - DIURNAL * DAY_S / (2 * np.pi) * np.sin(2 * np.pi * grid / DAY_S)
    return np.sort(np.interp(rng.random(jobs) * mean[-1], mean, grid))


def failures(
    nodes: int, span_s: float, seed: int = 0, *, mtbf_s: float = 30 * DAY_S, mttr_s: float = 3600.0
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Draw failures and repairs of nodes: node (E,), down (E,) and up (E,) in seconds.

    They come in order of time; a node's failures never overlap.  O(nodes + E).

    Parameters
    ----------
    nodes : int
    span_s : float
        Failures begin within it.
    seed : int
    mtbf_s, mttr_s : float
        Mean time between failures, counted from the repair, and to repair.

    Raises
    ------
    InputError
        A mean is not above 0.
    """
    _check(mtbf_s=mtbf_s, mttr_s=mttr_s)
    rng = np.random.default_rng(seed)
    node = np.arange(nodes, dtype=np.int32)
    up_s = np.zeros(nodes)
    rounds = []
    # Each round draws the next failure of the nodes that had one in the last.
    while len(node):
        down_s = up_s + rng.exponential(mtbf_s, len(node))
        within = down_s < span_s
        node, down_s = node[within], down_s[within]
        up_s = down_s + rng.exponential(mttr_s, len(node))
        rounds.append((node, down_s, up_s))
    return _in_order(rounds)


def maintenance(
    nodes: int,
    span_s: float,
    seed: int = 0,
    *,
    every_s: float = 30 * DAY_S,
    lasting_s: float = 7200.0,
    share: float = 0.02,
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Plan drains that roll through the fleet: node (E,), drained (E,) and up (E,) in seconds.

    The nodes are cut into groups in random order; one group after another is drained, at equal
    intervals, each once in every period.  They come in order of time; a node's drains never
    overlap.  O(E).

    Parameters
    ----------
    nodes : int
    span_s : float
        Drains begin within it.
    seed : int
    every_s : float
        Period in which each node has its turn.
    lasting_s : float
        From a node's drain to its return.
    share : float
        Part of the nodes that are one group.

    Raises
    ------
    InputError
        A number is not above 0, a drain outlasts the period, or the share is above 1.
    """
    _check(every_s=every_s, lasting_s=lasting_s, share=share)
    if lasting_s > every_s or share > 1:
        raise InputError(
            Fault(
                f"found drains of {lasting_s:g} s every {every_s:g} s, for {share:g} of the nodes "
                "at once; expected drains within the period, and a share up to 1."
            )
        )
    size = max(round(share * nodes), 1)
    order = np.random.default_rng(seed).permutation(nodes).astype(np.int32)
    turn = np.arange(nodes) // size
    offset_s = every_s * (turn + 0.5) / (turn[-1:].max(initial=0) + 1)
    rounds = []
    for begin_s in np.arange(0.0, span_s, every_s):
        drained_s = begin_s + offset_s
        within = drained_s < span_s
        rounds.append((order[within], drained_s[within], drained_s[within] + lasting_s))
    return _in_order(rounds)


def _in_order(
    rounds: Sequence[tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]],
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    if not rounds:
        return np.zeros(0, np.int32), np.zeros(0), np.zeros(0)
    node, begin_s, end_s = (np.concatenate(column) for column in zip(*rounds, strict=True))
    order = np.argsort(begin_s, kind="stable")
    return node[order], begin_s[order], end_s[order]


def _check(**numbers: float) -> None:
    for name, value in numbers.items():
        if not 0 < value < np.inf:
            raise InputError(Fault(f"found {value:g}, expected more than 0.", field=name))
