"""Reads the Alibaba GPU trace v2023, "openb": nodes and tasks.

Weng et al., *Beware of Fragmentation*, USENIX ATC 2023; repository alibaba/clusterdata,
cluster-trace-gpu-v2023.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from forebay import MILLIS_PER_UNIT, DeviceKind, Fault, Operator, Request, ResourceItem, Selector
from forebay_sdk.traces.fleet import DeviceShape, Fleet, NodeShape
from forebay_sdk.traces.reading import Row, rows_of
from forebay_sdk.traces.trace import Trace

MIB = 1 << 20
MEMORY_MIB_MAX = 1 << 40
"""What more there is would not fit an array of bytes."""

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
# The files of the multigpu family have no gpu_spec.
_TASK_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


def read_openb_nodes(path: Path) -> tuple[Fleet, tuple[Fault, ...]]:
    """Read the nodes, in order of their serial number ``sn``, and what is wrong with the others.

    Raises
    ------
    TraceError
        The file cannot be read, lacks a column, or holds no row.
    """
    shapes: list[NodeShape] = []
    nodes: dict[str, int] = {}
    refused: list[Fault] = []
    for row in rows_of(path, _NODE_COLUMNS, refused):
        name = row.text("sn")
        gpus = row.whole("gpu", most=1024)
        shape = NodeShape(
            row.whole("cpu_milli"),
            row.whole("memory_mib", most=MEMORY_MIB_MAX) * MIB,
            (DeviceShape(DeviceKind.GPU, gpus, row.text("model")),) if gpus else (),
        )
        if name in nodes:
            row.fault("sn", f"{name} is there twice; the first is kept.")
        if row.faults:
            refused += row.faults
            continue
        if shape not in shapes:
            shapes.append(shape)
        nodes[name] = shapes.index(shape)
    names = tuple(sorted(nodes))
    numbers = np.array([nodes[name] for name in names], np.int32)
    return Fleet("openb", names, tuple(shapes), numbers), tuple(refused)


def read_openb_tasks(path: Path, *, timed: bool = False) -> Trace:
    """Read the tasks; each is a job of one task.

    Parameters
    ----------
    path : Path
    timed : bool
        Whether to take the recorded times, in order of creation; a task without a time of
        deletion never ends.  Otherwise the tasks come in order of name, a second apart, and none
        ends, as in the paper.

    Raises
    ------
    TraceError
        The file cannot be read, lacks a column, or holds no row.
    """
    columns = (*_TASK_COLUMNS, "creation_time", "deletion_time") if timed else _TASK_COLUMNS
    tasks: dict[str, tuple[float, float, Request]] = {}
    refused: list[Fault] = []
    for row in rows_of(path, columns, refused):
        name = row.text("name")
        request = _request(row)
        created = row.number("creation_time") if timed else 0.0
        deleted = row.number("deletion_time", default=float("inf")) if timed else float("inf")
        if deleted < created:
            row.fault("deletion_time", f"found {deleted:g}, before creation_time {created:g}.")
        if name in tasks:
            row.fault("name", f"{name} is there twice; the first is kept.")
        if row.faults or request is None:
            refused += row.faults
            continue
        tasks[name] = created, deleted - created, request
    order = sorted(tasks, key=lambda name: (tasks[name][0], name))
    numbers: dict[Request, int] = {}
    count = len(order)
    task_request = np.array(
        [numbers.setdefault(tasks[name][2], len(numbers)) for name in order], np.int32
    )
    submit_s = np.array([tasks[name][0] for name in order], np.float64)
    return Trace(
        name=f"openb {trace_name(path)}",
        requests=tuple(numbers),
        submit_s=submit_s if timed else np.arange(count, dtype=np.float64),
        duration_s=np.array([tasks[name][1] for name in order], np.float64),
        estimate_s=np.full(count, np.nan),
        priority=np.zeros(count, np.int32),
        task_offsets=np.arange(count + 1, dtype=np.int32),
        task_request=task_request,
        refused=tuple(refused),
    )


def trace_name(path: Path) -> str:
    """Return what a file of tasks is called in results: ``default`` for the default one."""
    return path.name.split(".")[0].removeprefix("openb_pod_list_")


def _request(row: Row) -> Request | None:
    cpu = row.whole("cpu_milli")
    memory = row.whole("memory_mib", most=MEMORY_MIB_MAX) * MIB
    gpus = row.whole("num_gpu", most=1024)
    items = []
    if cpu or memory:
        items.append(ResourceItem(DeviceKind.CPU, cpu, memory))
    selectors: tuple[Selector, ...] = ()
    if gpus:
        each = row.whole("gpu_milli", least=1, most=MILLIS_PER_UNIT)
        if gpus > 1 and each != MILLIS_PER_UNIT:
            row.fault("gpu_milli", f"found {each} of each of {gpus}, expected whole devices.")
        millis = each if gpus == 1 else gpus * MILLIS_PER_UNIT
        items.append(ResourceItem(DeviceKind.GPU, millis, 0))
        selectors = _models(row)
    if not items and not row.faults:
        row.fault("", "asks for nothing.")
    return Request(tuple(items), device_selectors=selectors) if items else None


def _models(row: Row) -> tuple[Selector, ...]:
    """Return the condition on the GPUs' model; none where every model will do."""
    spec = row.values.get("gpu_spec", "").strip()
    if not spec:
        return ()
    if not all(spec.split("|")):
        row.fault("gpu_spec", f"found {spec!r}, expected models with | between them.")
    operator = Operator.IN if "|" in spec else Operator.EQUAL
    return (Selector("model", operator, spec),)
