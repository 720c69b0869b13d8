"""Readers take every good row and account for every bad one."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay import DeviceKind
from forebay_sdk.traces import Trace, TraceError
from forebay_sdk.traces.dlrm import read_dlrm
from forebay_sdk.traces.openb import read_openb_nodes, read_openb_tasks
from forebay_sdk.traces.philly import read_philly
from forebay_sdk.traces.swf import read_swf
from forebay_sdk.traces.synthetic import failures, synthetic_fleet, synthetic_trace

TASKS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time"
GOOD_TASK = "{name},4000,1024,1,500,T4|P100,10,20"
GOOD_JOB = "2017-10-09 07:01:55,66.0,{name},66.0,x"
GOOD_SWF = "{name} 10 -1 60 4 -1 -1 4 120 -1 1 1 1 1 1 -1 -1 -1"
DLRM = (
    "instance_sn,app_name,cpu_request,gpu_request,rdma_request,memory_request,"
    "max_instance_per_node,creation_time,deletion_time"
)
GOOD_INSTANCE = "{name},app,12,1,25,120.0,8,10,20"

cells = st.sampled_from(["", "-1", "x", "1e9", "nan", "inf", "3.5", "  7 ", "2017-13-40", "é"])


def swf(path: Path) -> Trace:
    return read_swf(path, 8)


@pytest.mark.parametrize(
    ("reader", "head", "good", "separator"),
    [
        (read_openb_tasks, TASKS, GOOD_TASK, ","),
        (read_philly, "timestamp,duration,num_gpus,gpu_time,cluster", GOOD_JOB, ","),
        (swf, "; a comment", GOOD_SWF, " "),
        (read_dlrm, DLRM, GOOD_INSTANCE, ","),
    ],
    ids=["openb", "philly", "swf", "dlrm"],
)
@given(changes=st.lists(st.tuples(st.integers(0, 17), cells), max_size=6))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_row_is_taken_or_told_of(
    tmp_path: Path,
    reader: Callable[[Path], Trace],
    head: str,
    good: str,
    separator: str,
    changes: list[tuple[int, str]],
) -> None:
    rows = [good.format(name=index + 1) for index in range(4)]
    for index, (column, value) in enumerate(changes):
        fields = rows[index % 4].split(separator)
        fields[column % len(fields)] = value
        rows[index % 4] = separator.join(fields)
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([head, *rows, good.format(name=9)]) + "\n")
    trace = reader(path)
    lines = {fault.line for fault in trace.refused}
    assert len(trace) + len(lines) == 5
    assert 6 not in lines, "a good row is never refused"
    assert all(fault.source == str(path) for fault in trace.refused)
    assert (np.diff(trace.submit_s) >= 0).all()
    assert np.isfinite(trace.submit_s).all()
    assert (trace.duration_s >= 0).all()


def test_files_may_be_compressed_and_repeated_names_keep_the_first(tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write(f"{TASKS}\n{GOOD_TASK.format(name='b')}\n{GOOD_TASK.format(name='a')}\n")
        file.write(f"{GOOD_TASK.format(name='b')}\n")
    trace = read_openb_tasks(path, timed=True)
    assert len(trace) == 2
    assert trace.duration_s.tolist() == [10.0, 10.0]
    (fault,) = trace.refused
    assert str(fault).endswith("name: b is there twice; the first is kept.")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no column"),
        (b"name,cpu_milli\na,1\n", "has no column memory_mib"),
        (b"\xff\xfe\x00", "has no column"),
        (b"\x1f\x8bnot gzip", "cannot be read"),
    ],
)
def test_what_is_no_trace_is_refused_whole(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "tasks.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=said):
        read_openb_tasks(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        read_openb_nodes(tmp_path / "nothing.csv")


@pytest.mark.shared_data
def test_openb_is_as_its_authors_count_it(shared_data: Path) -> None:
    folder = shared_data / "alibaba-gpu-v2023" / "csv"
    fleet, refused = read_openb_nodes(folder / "openb_node_list_gpu_node.csv.gz")
    assert not refused
    assert len(fleet) == 1213
    gpus = [sum(device.count for device in shape.devices) for shape in fleet.shapes]
    cores = [shape.cpu_millis for shape in fleet.shapes]
    assert np.array(gpus)[fleet.node_shape].sum() == 6212
    assert np.array(cores)[fleet.node_shape].sum() == 107_018_000
    trace = read_openb_tasks(folder / "openb_pod_list_default.csv.gz")
    assert not trace.refused
    millis = np.array(
        [
            sum(item.millis for item in one.items if item.kind is DeviceKind.GPU)
            for one in trace.requests
        ]
    )[trace.task_request]
    assert [
        int((millis == 0).sum()),
        int(((millis > 0) & (millis < 1000)).sum()),
        int((millis == 1000).sum()),
        int((millis > 1000).sum()),
    ] == [1088, 3078, 3911, 75]


@pytest.mark.shared_data
def test_philly_is_as_its_readme_counts_it(shared_data: Path) -> None:
    trace = read_philly(shared_data / "philly-queue" / "philly_jobs.csv.gz")
    assert len(trace) == 82_247
    assert not trace.refused
    single = np.array([request.items[0].millis == 1000 for request in trace.requests])
    tasks = np.diff(trace.task_offsets)
    share = (single[trace.task_request[trace.task_offsets[:-1]]] & (tasks == 1)).mean()
    assert share == pytest.approx(0.932, abs=0.001)
    assert trace.duration_s.mean() == pytest.approx(13_136, abs=1)


@pytest.mark.shared_data
def test_dlrm_instances_ask_for_four_resources_and_keep_apart(shared_data: Path) -> None:
    (path,) = (shared_data / "alibaba-gpu-v2025-dlrm").glob("*.csv.gz")
    trace = read_dlrm(path)
    assert not trace.refused
    assert len(trace) == 16_591
    kinds = {item.kind for request in trace.requests for item in request.items}
    assert kinds == {DeviceKind.CPU, DeviceKind.GPU, DeviceKind.RDMA_NIC}
    assert all(
        (request.spread_max >= 1) == bool(request.spread_group) for request in trace.requests
    )
    assert any(request.spread_group for request in trace.requests)


def test_what_is_drawn_is_drawn_alike_and_to_the_load() -> None:
    fleet = synthetic_fleet(400, seed=5)
    first, second = (synthetic_trace(fleet, 20_000, seed=5, load=0.7) for _ in range(2))
    assert (first.submit_s == second.submit_s).all()
    assert (first.task_request == second.task_request).all()
    millis = np.array(
        [
            sum(item.millis for item in one.items if item.kind is not DeviceKind.CPU)
            for one in first.requests
        ]
    )
    tasks = np.repeat(first.duration_s, np.diff(first.task_offsets))
    capacity = sum(
        1000 * device.count * int((fleet.node_shape == index).sum())
        for index, shape in enumerate(fleet.shapes)
        for device in shape.devices
    )
    demand = (millis[first.task_request] * tasks).sum() / first.submit_s[-1]
    assert demand / capacity == pytest.approx(0.7, rel=0.01)
    assert len(first.requests) <= 64


def test_failures_of_a_node_never_overlap() -> None:
    node, down_s, up_s = failures(50, 1e6, seed=1, mtbf_s=1e5, mttr_s=1e4)
    assert (up_s > down_s).all()
    for one in range(50):
        mine = node == one
        assert (down_s[mine][1:] >= up_s[mine][:-1]).all()
    assert len(node) == pytest.approx(50 * 1e6 / 1.1e5, rel=0.2)
