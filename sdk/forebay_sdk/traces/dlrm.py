"""Reads the Alibaba GPU trace v2025: instances of recommendation models, served apart from GPUs.

Yang et al., *GPU-Disaggregated Serving for Deep Learning Recommendation Models at Scale*, NSDI
2025; repository alibaba/clusterdata, cluster-trace-gpu-v2025, disaggregated_DLRM_trace.csv.
An instance asks for cores, memory, a share of a network interface, and one GPU or none.
"""

from __future__ import annotations

from math import inf
from pathlib import Path

import numpy as np

from forebay import MILLIS_PER_UNIT, DeviceKind, Fault, Request, ResourceItem
from forebay_sdk.traces.fleet import DeviceShape, Fleet, NodeShape
from forebay_sdk.traces.reading import Row, rows_of
from forebay_sdk.traces.trace import Trace

GIB = 1 << 30
MILLIS_PER_PERCENT = MILLIS_PER_UNIT // 100

_COLUMNS = (
    "instance_sn",
    "app_name",
    "cpu_request",
    "gpu_request",
    "rdma_request",
    "memory_request",
    "max_instance_per_node",
    "creation_time",
    "deletion_time",
)


def dlrm_fleet(cpu_nodes: int, gpu_nodes: int) -> Fleet:
    """Return a fleet to replay the trace on, which has no list of nodes: the shapes are ours.

    A CPU node just holds the largest instance of the trace; a GPU node eight of those that are
    packed most densely (12 cores, 120 GiB and a quarter of a network interface each).
    """
    shapes = (
        NodeShape(192_000, 1000 * GIB, (DeviceShape(DeviceKind.RDMA_NIC, 1),)),
        NodeShape(
            96_000,
            960 * GIB,
            (DeviceShape(DeviceKind.GPU, 8), DeviceShape(DeviceKind.RDMA_NIC, 2)),
        ),
    )
    counts = (cpu_nodes, gpu_nodes)
    names = tuple(
        f"{sort}-{number:05d}"
        for sort, count in zip(("cn", "hn"), counts, strict=True)
        for number in range(count)
    )
    numbers = np.repeat(np.arange(2, dtype=np.int32), counts)
    return Fleet(f"{cpu_nodes} CPU and {gpu_nodes} GPU nodes", names, shapes, numbers)


def read_dlrm(path: Path, *, standing: bool = False) -> Trace:
    """Read the instances in order of creation; each is a job of one task.

    An instance without a time of deletion outlived the trace: it never ends.
    Instances of one application keep apart by ``max_instance_per_node``, where it is not -1.
    Disks are left out, as no kind of device stands for them.

    Parameters
    ----------
    path : Path
    standing : bool
        Whether to take the instances that were there before the trace began (no time of creation)
        as created at its beginning.  Otherwise they are among those refused.

    Raises
    ------
    TraceError
        The file cannot be read, lacks a column, or holds no row.
    """
    jobs: list[tuple[float, float, Request]] = []
    names: set[str] = set()
    refused: list[Fault] = []
    for row in rows_of(path, _COLUMNS, refused):
        name = row.text("instance_sn")
        request = _request(row)
        created = row.number("creation_time", default=0.0)
        deleted = row.number("deletion_time", default=inf)
        if not standing and not row.values["creation_time"].strip():
            row.fault("creation_time", "found nothing: it was there before the trace began.")
        if deleted < created:
            row.fault("deletion_time", f"found {deleted:g}, before creation_time {created:g}.")
        if name in names:
            row.fault("instance_sn", f"{name} is there twice; the first is kept.")
        if row.faults:
            refused += row.faults
            continue
        names.add(name)
        jobs.append((created, deleted - created, request))
    # Sorting is stable: instances that are created at once stay in the order of the file.
    jobs.sort(key=lambda job: job[0])
    numbers: dict[Request, int] = {}
    return Trace(
        name="dlrm",
        task_request=np.array([numbers.setdefault(job[2], len(numbers)) for job in jobs], np.int32),
        requests=tuple(numbers),
        submit_s=np.array([job[0] for job in jobs], np.float64),
        duration_s=np.array([job[1] for job in jobs], np.float64),
        estimate_s=np.full(len(jobs), np.nan),
        priority=np.zeros(len(jobs), np.int32),
        task_offsets=np.arange(len(jobs) + 1, dtype=np.int32),
        refused=tuple(refused),
    )


def _request(row: Row) -> Request:
    cpu_millis = round(row.number("cpu_request", most=1e6) * MILLIS_PER_UNIT)
    memory_bytes = round(row.number("memory_request", most=2.0**20) * GIB)
    gpus = row.whole("gpu_request", most=1024)
    nic_millis = round(row.number("rdma_request", most=100.0) * MILLIS_PER_PERCENT)
    together = row.whole("max_instance_per_node", least=-1)
    if together == 0 and not row.faults:
        row.fault("max_instance_per_node", "found 0, expected -1 or at least 1.")
    items = [
        ResourceItem(kind, millis, memory)
        for kind, millis, memory in (
            (DeviceKind.CPU, cpu_millis, memory_bytes),
            (DeviceKind.GPU, gpus * MILLIS_PER_UNIT, 0),
            (DeviceKind.RDMA_NIC, nic_millis, 0),
        )
        if millis or memory
    ]
    if not items and not row.faults:
        row.fault("", "asks for nothing.")
    if together > 0:
        return Request(tuple(items), spread_group=row.text("app_name"), spread_max=together)
    return Request(tuple(items))
