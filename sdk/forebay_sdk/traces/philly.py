"""Reads the Philly trace: deep-learning jobs of Microsoft's cluster, 2017.

Jeon et al., *Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads*,
USENIX ATC 2019; as derived by the authors of Sia (siasosp23/artifacts).
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from forebay import MILLIS_PER_UNIT, DeviceKind, Fault, Request, ResourceItem
from forebay_sdk.traces.fleet import DeviceShape, Fleet, NodeShape
from forebay_sdk.traces.reading import rows_of
from forebay_sdk.traces.trace import Trace

GPUS_PER_NODE = 8


def philly_fleet(gpus: int, gpus_per_node: int = GPUS_PER_NODE) -> Fleet:
    """Return equal nodes with so many GPUs in all; the trace tells of no other resource."""
    count = gpus // gpus_per_node
    shape = NodeShape(0, 0, (DeviceShape(DeviceKind.GPU, gpus_per_node),))
    names = tuple(f"node-{number:05d}" for number in range(count))
    return Fleet(f"{gpus} GPUs", names, (shape,), np.zeros(count, np.int32))


def read_philly(path: Path, gpus_per_node: int = GPUS_PER_NODE) -> Trace:
    """Read the jobs in order of submission, the shorter first where that is equal.

    A job of more GPUs than a node has is a gang of whole nodes and a remainder.
    The scheduler is told the true run time; a policy that must not know it ignores the estimate.

    Raises
    ------
    TraceError
        The file cannot be read, or lacks a column.
    """
    jobs: list[tuple[str, float, int]] = []
    refused: list[Fault] = []
    for row in rows_of(path, ("timestamp", "duration", "num_gpus")):
        stamp = row.text("timestamp")
        duration = row.number("duration")
        gpus = row.whole("num_gpus", least=1, most=100_000)
        try:
            datetime.fromisoformat(stamp)
        except ValueError:
            row.fault("timestamp", f"found {stamp!r}, expected YYYY-MM-DD HH:MM:SS.")
        if row.faults:
            refused += row.faults
            continue
        jobs.append((stamp, duration, gpus))
    jobs.sort(key=lambda job: job[:2])
    sizes: list[int] = []
    offsets = [0]
    for _, _, gpus in jobs:
        sizes += [gpus_per_node] * (gpus // gpus_per_node)
        if gpus % gpus_per_node:
            sizes.append(gpus % gpus_per_node)
        offsets.append(len(sizes))
    numbers: dict[int, int] = {}
    task_request = np.array([numbers.setdefault(size, len(numbers)) for size in sizes], np.int32)
    # The time zone is not told; with any fixed one the differences are the same.
    at_s = np.array(
        [datetime.fromisoformat(job[0]).replace(tzinfo=UTC).timestamp() for job in jobs]
    )
    duration_s = np.array([job[1] for job in jobs], np.float64)
    return Trace(
        name="philly",
        requests=tuple(
            Request((ResourceItem(DeviceKind.GPU, size * MILLIS_PER_UNIT, 0),)) for size in numbers
        ),
        submit_s=at_s - at_s.min(initial=np.inf) if len(at_s) else np.zeros(0),
        duration_s=duration_s,
        estimate_s=duration_s.copy(),
        priority=np.zeros(len(jobs), np.int32),
        task_offsets=np.array(offsets, np.int32),
        task_request=task_request,
        refused=tuple(refused),
    )
