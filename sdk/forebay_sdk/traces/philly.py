"""Reads the Philly trace: deep-learning jobs of Microsoft's cluster, 2017.

Jeon et al., *Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads*,
USENIX ATC 2019; as derived by the authors of Sia (siasosp23/artifacts).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from forebay import MILLIS_PER_UNIT, DeviceKind, Fault, Request, ResourceItem
from forebay_sdk.traces.fleet import DeviceShape, Fleet, NodeShape
from forebay_sdk.traces.gangs import number_distinct, split_by_node
from forebay_sdk.traces.reading import Row, rows_of
from forebay_sdk.traces.trace import Trace

GPUS_PER_NODE = 8

_COLUMNS = ("timestamp", "duration", "num_gpus")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.ASCII)


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
        The file cannot be read, lacks a column or holds no row; or a node has no GPU.
    """
    jobs: list[tuple[float, float, int]] = []
    refused: list[Fault] = []
    for row in rows_of(path, _COLUMNS, refused):
        job = (_instant(row), row.number("duration"), row.whole("num_gpus", least=1, most=100_000))
        if row.faults:
            refused += row.faults
        else:
            jobs.append(job)
    # Sorting is stable: jobs that are equal stay in the order of the file.
    jobs.sort(key=lambda job: job[:2])
    gpus = np.array([job[2] for job in jobs], np.int64)
    sizes, task_offsets = split_by_node(gpus, gpus_per_node, str(path))
    distinct, task_request = number_distinct(sizes)
    at_s = np.array([job[0] for job in jobs], np.float64)
    duration_s = np.array([job[1] for job in jobs], np.float64)
    return Trace(
        name="philly",
        requests=tuple(
            Request((ResourceItem(DeviceKind.GPU, size * MILLIS_PER_UNIT, 0),)) for size in distinct
        ),
        submit_s=at_s - at_s[:1],
        duration_s=duration_s,
        estimate_s=duration_s.copy(),
        priority=np.zeros(len(jobs), np.int32),
        task_offsets=task_offsets,
        task_request=task_request,
        refused=tuple(refused),
    )


def _instant(row: Row) -> float:
    """Return the time of submission in seconds since the epoch."""
    stamp = row.text("timestamp")
    try:
        if _STAMP.fullmatch(stamp):
            # The time zone is not told; with any fixed one the differences are the same.
            return datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp()
    except ValueError:
        pass
    if stamp:
        row.fault("timestamp", f"found {stamp!r}, expected YYYY-MM-DD HH:MM:SS.")
    return 0.0
