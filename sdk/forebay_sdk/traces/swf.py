"""Reads the Standard Workload Format, version 2.2.

Feitelson, Tsafrir, Krakov: *Experience with using the Parallel Workloads Archive*, JPDC 74(10),
2014; format: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from __future__ import annotations

import re
from math import inf, nan
from pathlib import Path

import numpy as np

from forebay import MILLIS_PER_UNIT, DeviceKind, Fault, Request, ResourceItem
from forebay_sdk.traces.fleet import Fleet, NodeShape
from forebay_sdk.traces.gangs import number_distinct, split_by_node
from forebay_sdk.traces.reading import Row, TraceError, is_text, lines_of
from forebay_sdk.traces.trace import Trace

CORES_MAX = 1 << 24

# The eighteen fields of a job, as the format's definition calls them.
_FIELDS = tuple(
    f"field {place} ({name})"
    for place, name in enumerate(
        (
            "job number",
            "submit time",
            "wait time",
            "run time",
            "allocated processors",
            "average CPU time",
            "used memory",
            "requested processors",
            "requested time",
            "requested memory",
            "status",
            "user",
            "group",
            "executable",
            "queue",
            "partition",
            "preceding job",
            "think time",
        ),
        start=1,
    )
)
_NUMBER, _SUBMIT, _RUN, _ALLOCATED, _REQUESTED, _TOLD = (
    _FIELDS[place - 1] for place in (1, 2, 4, 5, 8, 9)
)
_HEADER = re.compile(r"\s*;\s*(MaxNodes|MaxProcs):\s*(\d{1,9})(?!\d)", re.ASCII)


def cpu_fleet(nodes: int, cores_per_node: int) -> Fleet:
    """Return equal nodes of cores alone; the format tells of no other resource."""
    names = tuple(f"node-{number:06d}" for number in range(nodes))
    shape = NodeShape(cores_per_node * MILLIS_PER_UNIT, 0)
    return Fleet(f"{nodes} nodes", names, (shape,), np.zeros(nodes, np.int32))


def read_swf_machine(path: Path) -> tuple[int, int]:
    """Return the nodes of the machine and the cores of each, as the header tells.

    A header of ``MaxNodes`` alone means one core a node; where the cores do not divide evenly,
    each node gets the larger number.

    Raises
    ------
    TraceError
        The file cannot be read, or its header has no ``MaxNodes``.
    """
    found: dict[str, int] = {}
    for _, text in lines_of(path):
        if text.strip() and not text.lstrip().startswith(";"):
            break
        if match := _HEADER.match(text):
            found.setdefault(match[1], int(match[2]))
    nodes = found.get("MaxNodes", 0)
    if not nodes:
        raise TraceError(
            Fault(
                "has no MaxNodes among its comments, expected a count of nodes.",
                source=str(path),
                fix="Tell how many cores a node has.",
            )
        )
    return nodes, max(-(-found.get("MaxProcs", nodes) // nodes), 1)


def read_swf(path: Path, cores_per_node: int | None = None) -> Trace:
    """Read the jobs; one of more cores than a node has is a gang of whole nodes and a remainder.

    Run time is field 4, cores are field 8, or 5 where that is missing (-1), and what the
    scheduler is told is field 9.  Of lines with one job number the first counts; those after it
    are the parts of a job that was swapped out (statuses 2 to 4).

    Parameters
    ----------
    path : Path
    cores_per_node : int, optional
        As the header tells where not given; see :func:`read_swf_machine`.

    Raises
    ------
    TraceError
        The file cannot be read or holds no job, or a node has no core.
    """
    source = str(path)
    per_node = read_swf_machine(path)[1] if cores_per_node is None else cores_per_node
    jobs: list[tuple[float, int, float, int, float]] = []
    refused: list[Fault] = []
    seen: set[int] = set()
    for line, text in lines_of(path):
        if not text.strip() or text.lstrip().startswith(";"):
            continue
        fields = text.split()
        if len(fields) != len(_FIELDS) or not is_text(text):
            expected = f"expected {len(_FIELDS)} numbers."
            refused.append(Fault(f"found {len(fields)} fields, {expected}", source, line))
            continue
        row = Row(dict(zip(_FIELDS, fields, strict=True)), source, line)
        job = _job(row)
        if job[1] in seen and not row.faults:
            row.fault(_NUMBER, f"{job[1]} is there twice; the first is kept.")
        if row.faults:
            refused += row.faults
            continue
        seen.add(job[1])
        jobs.append(job)
    if not jobs and not refused:
        raise TraceError(Fault("holds no job.", source=source))
    jobs.sort(key=lambda job: job[:2])
    cores = np.array([job[3] for job in jobs], np.int64)
    sizes, task_offsets = split_by_node(cores, per_node, source)
    distinct, task_request = number_distinct(sizes)
    return Trace(
        name=f"swf {path.name}",
        requests=tuple(
            Request((ResourceItem(DeviceKind.CPU, size * MILLIS_PER_UNIT),)) for size in distinct
        ),
        submit_s=np.array([job[0] for job in jobs], np.float64),
        duration_s=np.array([job[2] for job in jobs], np.float64),
        estimate_s=np.array([job[4] for job in jobs], np.float64),
        priority=np.zeros(len(jobs), np.int32),
        task_offsets=task_offsets,
        task_request=task_request,
        refused=tuple(refused),
    )


def _job(row: Row) -> tuple[float, int, float, int, float]:
    """Return submission, number, run time, cores and estimate of a job."""
    for name in _FIELDS:
        # Fields that nothing is made of are numbers too, or the columns are not what they seem.
        row.number(name, least=-inf)
    if row.faults:
        return 0.0, 0, 0.0, 0, nan
    number = row.whole(_NUMBER)
    submit_s = row.number(_SUBMIT)
    run_s = row.number(_RUN)
    allocated = row.whole(_ALLOCATED, least=-1, most=CORES_MAX)
    requested = row.whole(_REQUESTED, least=-1, most=CORES_MAX)
    told_s = row.number(_TOLD, least=-1.0)
    cores = requested if requested > 0 else allocated
    if cores < 1 and not row.faults:
        row.fault(_REQUESTED, f"found {requested} and {allocated} allocated, expected 1 or more.")
    return submit_s, number, run_s, cores, told_s if told_s >= 0 else nan
