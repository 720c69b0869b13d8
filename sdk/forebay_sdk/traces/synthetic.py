"""Draws fleets, traces and failures: simulated input, for sizes that no trace has.

Durations are log-normal, as run times of production jobs are found to be (Lublin, Feitelson: *The
workload on parallel supercomputers*, JPDC 63(11), 2003); arrivals are a Poisson process whose rate
follows the hour of the day; failures and repairs are exponential.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forebay import MILLIS_PER_UNIT, DeviceKind, Operator, Request, ResourceItem, Selector
from forebay_sdk.traces.fleet import DeviceShape, Fleet, NodeShape
from forebay_sdk.traces.trace import Trace

GIB = 1 << 30
DAY_S = 86_400.0
DIURNAL = 0.5
"""By how much of the mean the rate of arrivals rises at noon and falls at midnight."""

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


def synthetic_fleet(nodes: int, seed: int = 0) -> Fleet:
    """Draw a fleet of so many nodes of :data:`SHAPES`; O(nodes)."""
    rng = np.random.default_rng(seed)
    shares = np.array([share for share, _ in SHAPES])
    return Fleet(
        f"synthetic {nodes}",
        tuple(f"node-{number:06d}" for number in range(nodes)),
        tuple(shape for _, shape in SHAPES),
        rng.choice(len(SHAPES), nodes, p=shares / shares.sum()).astype(np.int32),
    )


def synthetic_requests(fleet: Fleet) -> tuple[tuple[Request, ...], NDArray[np.float64]]:
    """Return the requests that traces of a fleet draw from, and how often: at most 64.

    Parts of devices, whole devices on one node, with and without a model, and cores alone.
    """
    requests: list[Request] = []
    weights: list[float] = []
    kinds = {device.kind for shape in fleet.shapes for device in shape.devices}
    for kind, share in ((DeviceKind.GPU, 0.75), (DeviceKind.NPU, 0.15)):
        if kind not in kinds:
            continue
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
    weight = np.array(weights)
    return tuple(requests), weight / weight.sum()


def synthetic_trace(
    fleet: Fleet,
    jobs: int,
    seed: int = 0,
    *,
    load: float = 0.8,
    mean_duration_s: float = 7200.0,
    spread: float = 1.5,
    gang_share: float = 0.02,
) -> Trace:
    """Draw a trace whose mean demand of accelerators is a share of the fleet's; O(jobs).

    Parameters
    ----------
    fleet : Fleet
    jobs : int
    seed : int
    load : float
        Demand by capacity, over all accelerators.
    mean_duration_s : float
    spread : float
        Standard deviation of the durations' logarithm.
    gang_share : float
        Part of the jobs that are gangs of two to eight equal tasks.
    """
    rng = np.random.default_rng(seed)
    requests, weight = synthetic_requests(fleet)
    chosen = rng.choice(len(requests), jobs, p=weight).astype(np.int32)
    duration_s = rng.lognormal(np.log(mean_duration_s) - spread**2 / 2, spread, jobs)
    sizes = np.where(rng.random(jobs) < gang_share, rng.integers(2, 9, jobs), 1)
    asked = np.array(
        [
            sum(item.millis for item in one.items if item.kind is not DeviceKind.CPU)
            for one in requests
        ]
    )
    capacity = sum(
        device.count * MILLIS_PER_UNIT * int((fleet.node_shape == index).sum())
        for index, shape in enumerate(fleet.shapes)
        for device in shape.devices
    )
    work = float((asked[chosen] * sizes * duration_s).sum())
    span_s = work / (load * max(capacity, 1)) if work else float(jobs)
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

    A node's failures never overlap.

    Parameters
    ----------
    nodes : int
    span_s : float
        Failures begin within it.
    seed : int
    mtbf_s, mttr_s : float
        Mean time between failures, and to repair.
    """
    rng = np.random.default_rng(seed)
    cycles = int(span_s / (mtbf_s + mttr_s) * 2) + 8
    lasting = rng.exponential(mtbf_s, (nodes, cycles))
    repair = rng.exponential(mttr_s, (nodes, cycles))
    down = np.cumsum(lasting, axis=1) + np.cumsum(repair, axis=1) - repair
    up = down + repair
    within = down < span_s
    node = np.broadcast_to(np.arange(nodes, dtype=np.int32)[:, None], down.shape)[within]
    order = np.argsort(down[within], kind="stable")
    return node[order], down[within][order], up[within][order]
