"""Reads the Standard Workload Format, version 2.2.

Feitelson, Tsafrir, Krakov: *Experience with using the Parallel Workloads Archive*, JPDC 74(10),
2014; format: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from forebay import MILLIS_PER_UNIT, DeviceKind, Fault, Request, ResourceItem
from forebay_sdk.traces.fleet import Fleet, NodeShape
from forebay_sdk.traces.reading import TraceError, open_text
from forebay_sdk.traces.trace import Trace

FIELDS = 18


def cpu_fleet(nodes: int, cores_per_node: int) -> Fleet:
    """Return equal nodes of cores alone; the format tells of no other resource."""
    names = tuple(f"node-{number:06d}" for number in range(nodes))
    shape = NodeShape(cores_per_node * MILLIS_PER_UNIT, 0)
    return Fleet(f"{nodes} nodes", names, (shape,), np.zeros(nodes, np.int32))


def read_swf(path: Path, cores_per_node: int) -> Trace:
    """Read the jobs; one of more cores than a node has is a gang of whole nodes and a remainder.

    Run time is field 4, cores are field 8, or 5 where that is missing (-1), and what the
    scheduler is told is field 9.

    Raises
    ------
    TraceError
        The file cannot be read, or holds no job.
    """
    source = str(path)
    jobs: list[tuple[float, int, float, int, float]] = []
    refused: list[Fault] = []
    seen: set[int] = set()
    with open_text(path) as file:
        for line, text in enumerate(file, start=1):
            if not text.strip() or text.lstrip().startswith(";"):
                continue
            found = _job(text.split(), source, line)
            if isinstance(found, Fault):
                refused.append(found)
            elif found[1] in seen:
                refused.append(
                    Fault(f"job {found[1]} is there twice; the first is kept.", source, line, "1")
                )
            else:
                seen.add(found[1])
                jobs.append(found)
    if not jobs and not refused:
        raise TraceError(Fault("holds no job.", source=source))
    jobs.sort()
    sizes: list[int] = []
    offsets = [0]
    for _, _, _, cores, _ in jobs:
        sizes += [cores_per_node] * (cores // cores_per_node)
        if cores % cores_per_node:
            sizes.append(cores % cores_per_node)
        offsets.append(len(sizes))
    numbers: dict[int, int] = {}
    task_request = np.array([numbers.setdefault(size, len(numbers)) for size in sizes], np.int32)
    return Trace(
        name=f"swf {path.name}",
        requests=tuple(
            Request((ResourceItem(DeviceKind.CPU, size * MILLIS_PER_UNIT),)) for size in numbers
        ),
        submit_s=np.array([job[0] for job in jobs], np.float64),
        duration_s=np.array([job[2] for job in jobs], np.float64),
        estimate_s=np.array([job[4] for job in jobs], np.float64),
        priority=np.zeros(len(jobs), np.int32),
        task_offsets=np.array(offsets, np.int32),
        task_request=task_request,
        refused=tuple(refused),
    )


def _job(fields: list[str], source: str, line: int) -> tuple[float, int, float, int, float] | Fault:
    """Return submission, number, run time, cores and estimate of a job, or what is wrong."""
    if len(fields) != FIELDS:
        return Fault(f"found {len(fields)} fields, expected {FIELDS}.", source, line)
    try:
        values = [float(field) for field in fields]
    except ValueError as error:
        return Fault(f"{error}, expected a number.", source, line)
    number, submit, run = values[0], values[1], values[3]
    cores = values[7] if values[7] > 0 else values[4]
    for name, value in (("1", number), ("2", submit), ("4", run)):
        if not 0 <= value < float("inf"):
            return Fault(f"found {value:g}, expected 0 or more.", source, line, name)
    if not 1 <= cores <= 1 << 24 or cores != int(cores):
        return Fault(f"found {cores:g} processors, expected 1 or more.", source, line, "8")
    estimate = values[8] if values[8] >= 0 else float("nan")
    return submit, int(number), run, int(cores), estimate
