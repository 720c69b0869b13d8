"""Readers take every good row exactly and account for every bad one."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from forebay import DeviceKind, Operator, Request, ResourceItem, Selector
from forebay_sdk.traces import Trace, TraceError
from forebay_sdk.traces.dlrm import read_dlrm
from forebay_sdk.traces.openb import read_openb_nodes, read_openb_tasks
from forebay_sdk.traces.philly import read_philly
from forebay_sdk.traces.swf import read_swf, read_swf_machine

MIB = 1 << 20
GIB = 1 << 30

TASKS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time"
GOOD_TASK = "task-{name},4000,1024,1,500,T4|P100,10,20"
INSTANCES = (
    "instance_sn,app_name,cpu_request,gpu_request,rdma_request,memory_request,"
    "max_instance_per_node,creation_time,deletion_time"
)
GOOD_INSTANCE = "instance-{name},app,12,1,25,120.0,8,10.0,20.0"
GOOD_SWF = "{name} 10 -1 60 4 -1 -1 4 120 -1 1 1 1 1 1 -1 -1 -1"


@dataclass(frozen=True)
class Case:
    """A reader, and how a good file of its looks."""

    read: Callable[[Path], Trace]
    head: str
    good: str
    separator: str = ","


CASES = {
    "openb": Case(lambda path: read_openb_tasks(path, timed=True), TASKS, GOOD_TASK),
    "philly": Case(read_philly, "timestamp,duration,num_gpus", "2017-10-09 07:01:55,66.0,{name}"),
    "dlrm": Case(read_dlrm, INSTANCES, GOOD_INSTANCE),
    "swf": Case(lambda path: read_swf(path, 8), "; a comment", GOOD_SWF, " "),
}

every_reader = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
many = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
cells = st.sampled_from(
    ["", "-1", "x", "1e9", "nan", "inf", "3.5", "1_0", "  7 ", "2017-13-40", "é", '"', "|", "-0.1"]
)
junk = st.binary(min_size=1, max_size=4) | st.sampled_from(
    [b'"', b",", b"\xff", b"\0", b"\n", b"\r", b"-", b"\xe2\x80\xa8", b"_", b"e9", b" "]
)


def check_whole(trace: Trace, path: Path) -> None:
    """Check what every trace must be, whatever it was read from."""
    jobs = len(trace)
    assert (np.diff(trace.submit_s) >= 0).all()
    assert np.isfinite(trace.submit_s).all()
    assert (trace.submit_s >= 0).all()
    assert (trace.duration_s >= 0).all()
    assert not (trace.estimate_s < 0).any()
    assert len(trace.task_offsets) == jobs + 1
    assert (np.diff(trace.task_offsets) >= 1).all()
    assert trace.task_offsets[-1] == len(trace.task_request)
    assert sorted(set(trace.task_request.tolist())) == list(range(len(trace.requests)))
    assert len(set(trace.requests)) == len(trace.requests)
    assert all(fault.source == str(path) for fault in trace.refused)
    assert all(fault.message for fault in trace.refused)


def columns(trace: Trace) -> list[object]:
    """Return all that a trace says of its jobs, to be compared."""
    arrays = (trace.submit_s, trace.duration_s, trace.estimate_s, trace.task_offsets)
    tasks = [trace.requests[index] for index in trace.task_request]
    return [*(array.astype(str).tolist() for array in arrays), tasks]


@every_reader
@given(changes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 17), cells), max_size=6))
@many
def test_every_row_is_taken_or_told_of(
    tmp_path: Path, case: Case, changes: list[tuple[int, int, str]]
) -> None:
    rows = [case.good.format(name=index + 1) for index in range(4)]
    for row, column, value in changes:
        fields = rows[row].split(case.separator)
        fields[column % len(fields)] = value
        rows[row] = case.separator.join(fields)
    path = tmp_path / "trace"
    path.write_text("\n".join([case.head, *rows, case.good.format(name=9)]) + "\n")
    trace = case.read(path)
    check_whole(trace, path)
    lines = {fault.line for fault in trace.refused}
    assert len(trace) + len(lines) == 5
    assert 6 not in lines, "a good row is never refused"


@every_reader
@given(changes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), junk), max_size=4))
@many
def test_whatever_bytes_a_row_holds_the_others_are_taken_as_without_it(
    tmp_path: Path, case: Case, changes: list[tuple[int, int, bytes]]
) -> None:
    good = [case.good.format(name=name).encode() for name in (7, 8, 9)]
    bad = [case.good.format(name=name).encode() for name in (1, 2, 3, 4)]
    for row, place, inserted in changes:
        bad[row] = bad[row][:place] + inserted + bad[row][place:]
    # A semicolon would begin a comment, which is no row.
    assume(not any(b";" in row for row in bad))
    path = tmp_path / "trace"
    content = b"\n".join([case.head.encode(), *good, *bad])
    path.write_bytes(content)
    trace = case.read(path)
    check_whole(trace, path)
    refused = {fault.line for fault in trace.refused}
    assert refused.isdisjoint({2, 3, 4}), "the first of a name is kept"
    lines = re.split(rb"\r\n|\r|\n", content)
    rows = [
        number
        for number, line in enumerate(lines, start=1)
        if number > 1 and line.decode(errors="surrogateescape").strip()
    ]
    assert refused <= set(rows)
    assert len(trace) + len(refused) == len(rows)
    path.write_bytes(
        b"\n".join(line for number, line in enumerate(lines, 1) if number not in refused)
    )
    without = case.read(path)
    assert not without.refused
    assert columns(without) == columns(trace)


@pytest.mark.parametrize(
    ("reader", "changed", "field", "said"),
    [
        ("openb", {1: "1_000"}, "cpu_milli", "found '1_000', expected a number."),
        ("openb", {1: "-1"}, "cpu_milli", "found -1, expected at least 0."),
        ("openb", {2: "1.5"}, "memory_mib", "found 1.5, expected a whole number."),
        ("openb", {2: "9e15"}, "memory_mib", "found 9e15, expected at most 1.09951e+12."),
        ("openb", {0: "a\0b"}, "", "is no UTF-8."),
        ("openb", {0: ""}, "name", "found nothing, expected text."),
        ("openb", {3: "2"}, "gpu_milli", "found 500 of each of 2, expected whole devices."),
        ("openb", {4: "1001"}, "gpu_milli", "found 1001, expected at most 1000."),
        ("openb", {5: "T4||G2"}, "gpu_spec", "found 'T4||G2', expected models with | between"),
        ("openb", {6: "inf"}, "creation_time", "found 'inf', expected a number."),
        ("openb", {7: "9"}, "deletion_time", "found 9, before creation_time 10."),
        ("openb", {1: "0", 2: "0", 3: "0"}, "", "asks for nothing."),
        ("openb", {7: "20,1"}, "", "found 9 fields, expected 8 as the header has."),
        ("philly", {0: "2017-10-09T07:01:55"}, "timestamp", "expected YYYY-MM-DD HH:MM:SS."),
        ("philly", {0: "2017-10-09 07:01:55+01:00"}, "timestamp", "expected YYYY-MM-DD HH:MM:SS."),
        ("philly", {0: "2017-02-30 07:01:55"}, "timestamp", "expected YYYY-MM-DD HH:MM:SS."),
        ("philly", {2: "0"}, "num_gpus", "found 0, expected at least 1."),
        ("dlrm", {6: "0"}, "max_instance_per_node", "found 0, expected -1 or at least 1."),
        ("dlrm", {1: ""}, "app_name", "found nothing, expected text."),
        ("dlrm", {4: "101"}, "rdma_request", "found 101, expected at most 100."),
        ("dlrm", {0: "instance-9"}, "instance_sn", "instance-9 is there twice"),
        ("swf", {6: "nan"}, "field 7 (used memory)", "found 'nan', expected a number."),
        ("swf", {0: "1.5"}, "field 1 (job number)", "found 1.5, expected a whole number."),
        ("swf", {8: "-2"}, "field 9 (requested time)", "found -2, expected at least -1."),
        ("swf", {17: "-1 0"}, "", "found 19 fields, expected 18 numbers."),
    ],
)
def test_a_fault_names_line_field_what_was_found_and_what_was_expected(
    tmp_path: Path, reader: str, changed: dict[int, str], field: str, said: str
) -> None:
    case = CASES[reader]
    fields = case.good.format(name=1).split(case.separator)
    for column, value in changed.items():
        fields[column] = value
    path = tmp_path / "trace"
    path.write_text("\n".join([case.head, case.good.format(name=9), case.separator.join(fields)]))
    trace = case.read(path)
    assert len(trace) == 1
    (fault,) = trace.refused
    assert (fault.source, fault.line, fault.field) == (str(path), 3, field)
    assert said in fault.message


@given(
    tasks=st.dictionaries(
        st.text("abc01", min_size=1, max_size=4),
        st.tuples(
            st.integers(0, 96_000),
            st.integers(0, 10**6),
            st.one_of(
                st.just((0, 0)),
                st.tuples(st.just(1), st.integers(1, 1000)),
                st.tuples(st.integers(2, 8), st.just(1000)),
            ),
            st.lists(st.sampled_from(["T4", "P100", "G2"]), unique=True, max_size=3),
            st.integers(0, 10**7),
            st.none() | st.integers(0, 10**6),
        ).filter(lambda task: task[0] or task[1] or task[2][0]),
        min_size=1,
        max_size=8,
    ),
    timed=st.booleans(),
)
@many
def test_an_openb_task_is_what_its_row_says(
    tmp_path: Path,
    tasks: dict[str, tuple[int, int, tuple[int, int], list[str], int, int | None]],
    timed: bool,
) -> None:
    path = tmp_path / "openb_pod_list_drawn.csv"
    lines = [TASKS]
    for name, (cpu, memory, (gpus, each), models, created, lasting) in tasks.items():
        ended = "" if lasting is None else created + lasting
        lines.append(f"{name},{cpu},{memory},{gpus},{each},{'|'.join(models)},{created},{ended}")
    path.write_text("\n".join(lines))
    trace = read_openb_tasks(path, timed=timed)
    check_whole(trace, path)
    assert trace.name == "openb drawn"
    assert not trace.refused
    order = sorted(tasks, key=lambda name: (tasks[name][4], name)) if timed else sorted(tasks)
    for job, name in enumerate(order):
        cpu, memory, (gpus, each), models, created, lasting = tasks[name]
        items = []
        if cpu or memory:
            items.append(ResourceItem(DeviceKind.CPU, cpu, memory * MIB))
        if gpus:
            items.append(ResourceItem(DeviceKind.GPU, gpus * each, 0))
        selectors: tuple[Selector, ...] = ()
        if gpus and models:
            operator = Operator.IN if len(models) > 1 else Operator.EQUAL
            selectors = (Selector("model", operator, "|".join(models)),)
        assert trace.requests[trace.task_request[job]] == Request(tuple(items), selectors)
        assert trace.submit_s[job] == (created if timed else job)
        assert trace.duration_s[job] == (lasting if timed and lasting is not None else np.inf)
        assert np.isnan(trace.estimate_s[job])


@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 86_399), st.integers(0, 10**5), st.integers(1, 40)),
        min_size=1,
        max_size=12,
    ),
    per_node=st.integers(1, 9),
)
@many
def test_a_philly_job_is_a_gang_of_whole_nodes_and_a_remainder(
    tmp_path: Path, jobs: list[tuple[int, int, int]], per_node: int
) -> None:
    path = tmp_path / "jobs.csv"
    lines = ["cluster,timestamp,num_gpus,duration"]
    for second, duration, gpus in jobs:
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        lines.append(f"x,2017-10-09 {clock},{gpus},{duration}")
    path.write_text("\n".join(lines))
    trace = read_philly(path, per_node)
    check_whole(trace, path)
    assert not trace.refused
    first = min(job[0] for job in jobs)
    for job, (second, duration, gpus) in enumerate(sorted(jobs, key=lambda job: job[:2])):
        assert trace.submit_s[job] == second - first
        assert trace.duration_s[job] == trace.estimate_s[job] == duration
        tasks = trace.task_request[trace.task_offsets[job] : trace.task_offsets[job + 1]]
        sizes = [trace.requests[task].items[0].millis // 1000 for task in tasks]
        assert sum(sizes) == gpus
        assert all(size == per_node for size in sizes[:-1])
        assert 1 <= sizes[-1] <= per_node


def test_a_dlrm_instance_asks_for_cores_memory_a_gpu_and_a_part_of_an_interface(
    tmp_path: Path,
) -> None:
    path = tmp_path / "dlrm.csv"
    rows = [
        "b,app_1,64,0,1,937.5,-1,5.5,",
        "a,app_0,12,1,25,120.0,8,3.0,4.5",
        "old,app_0,12,1,25,120.0,8,,2.0",
    ]
    path.write_text("\n".join([INSTANCES, *rows]))
    trace = read_dlrm(path)
    check_whole(trace, path)
    assert trace.submit_s.tolist() == [3.0, 5.5]
    assert trace.duration_s.tolist() == [1.5, np.inf]
    assert trace.requests == (
        Request(
            (
                ResourceItem(DeviceKind.CPU, 12_000, 120 * GIB),
                ResourceItem(DeviceKind.GPU, 1000, 0),
                ResourceItem(DeviceKind.RDMA_NIC, 250, 0),
            ),
            spread_group="app_0",
            spread_max=8,
        ),
        Request(
            (
                ResourceItem(DeviceKind.CPU, 64_000, 937 * GIB + GIB // 2),
                ResourceItem(DeviceKind.RDMA_NIC, 10, 0),
            )
        ),
    )
    (fault,) = trace.refused
    assert (fault.line, fault.field) == (4, "creation_time")
    everything = read_dlrm(path, standing=True)
    assert everything.submit_s.tolist() == [0.0, 3.0, 5.5]
    assert everything.duration_s.tolist() == [2.0, 1.5, np.inf]
    assert not everything.refused


def test_swf_takes_what_was_asked_for_and_else_what_was_given(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    rest = "-1 1 1 1 1 1 -1 -1 -1"
    rows = [
        "; MaxNodes: 4",
        ";  MaxProcs: 30",
        f"2 7.5 -1 60 4 -1 -1 20 120 {rest}",
        f"1 0 -1 0.25 3 -1 -1 -1 -1 {rest}",
        f"3 9 -1 60 0 -1 -1 -1 120 {rest}",
        f"4 9 -1 -1 1 -1 -1 -1 120 {rest}",
        f"2 7 -1 30 4 -1 -1 20 120 {rest}",
    ]
    path.write_text("\n".join(rows))
    assert read_swf_machine(path) == (4, 8)
    trace = read_swf(path)
    check_whole(trace, path)
    assert trace.submit_s.tolist() == [0.0, 7.5]
    assert trace.duration_s.tolist() == [0.25, 60.0]
    assert str(trace.estimate_s.tolist()) == "[nan, 120.0]"
    cores = [trace.requests[task].items[0].millis // 1000 for task in trace.task_request]
    assert trace.task_offsets.tolist() == [0, 1, 4]
    assert cores == [3, 8, 8, 4]
    assert [(fault.line, fault.field) for fault in trace.refused] == [
        (5, "field 8 (requested processors)"),
        (6, "field 4 (run time)"),
        (7, "field 1 (job number)"),
    ]


def test_swf_without_a_header_needs_to_be_told_of_the_nodes(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(GOOD_SWF.format(name=1))
    with pytest.raises(TraceError, match="has no MaxNodes"):
        read_swf(path)
    with pytest.raises(TraceError, match="nodes of 0 units"):
        read_swf(path, 0)
    path.write_text(
        "\n".join(GOOD_SWF.format(name=n).replace(" 4 ", " 16777216 ") for n in range(9))
    )
    with pytest.raises(TraceError, match="makes 150994944 tasks"):
        read_swf(path, 1)


def test_files_may_be_compressed_and_repeated_names_keep_the_first(tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write(f"{TASKS}\n{GOOD_TASK.format(name='b')}\n{GOOD_TASK.format(name='a')}\n")
        file.write(f"{GOOD_TASK.format(name='b')}\n")
    trace = read_openb_tasks(path, timed=True)
    assert len(trace) == 2
    assert trace.duration_s.tolist() == [10.0, 10.0]
    (fault,) = trace.refused
    assert str(fault).endswith("name: task-b is there twice; the first is kept.")


def test_what_a_spreadsheet_saves_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    quoted = ",".join(f'"{cell}"' for cell in GOOD_TASK.format(name="a").split(","))
    path.write_bytes(f"\ufeff{TASKS}\r\n{quoted}\r\n\r\n".encode())
    trace = read_openb_tasks(path, timed=True)
    assert not trace.refused
    assert trace.duration_s.tolist() == [10.0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no column"),
        (b"name,cpu_milli\na,1\n", "has no column memory_mib"),
        (b"\xff\xfe\x00", "has no column"),
        (f"{TASKS},name\n".encode(), "has twice the column name"),
        (f"{TASKS}\n\n".encode(), "holds no row"),
        (b"\x1f\x8bnot gzip", "cannot be read"),
        (gzip.compress(f"{TASKS}\n{GOOD_TASK}\n".encode())[:-9], "cannot be read"),
    ],
)
def test_what_is_no_trace_is_refused_whole(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "tasks.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=said) as caught:
        read_openb_tasks(path)
    # The message can be printed, whatever the file held.
    str(caught.value).encode()


@every_reader
@given(data=st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_broken_archive_is_told_of(tmp_path: Path, case: Case, data: st.DataObject) -> None:
    rows = [case.good.format(name=name) for name in range(1, 200)]
    zipped = bytearray(gzip.compress("\n".join([case.head, *rows]).encode(), mtime=0))
    # The name and time in an archive's head are not covered by its checksum.
    place = data.draw(st.integers(10, len(zipped) - 1))
    zipped[place] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "trace.gz"
    path.write_bytes(zipped)
    with pytest.raises(TraceError):
        case.read(path)


@every_reader
def test_a_missing_file_is_told(tmp_path: Path, case: Case) -> None:
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        case.read(tmp_path / "nothing.csv")


def test_nodes_come_in_order_of_their_serial_number(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    rows = ["b,64000,1024,2,P100", "a,32000,512,0,", "c,64000,1024,2,P100", "b,1,1,0,", "d,-1,1,0,"]
    path.write_text("\n".join(["sn,cpu_milli,memory_mib,gpu,model", *rows]))
    fleet, refused = read_openb_nodes(path)
    assert fleet.node_ids == ("a", "b", "c")
    assert len(fleet.shapes) == 2
    assert [fleet.shapes[shape].cpu_millis for shape in fleet.node_shape] == [32000, 64000, 64000]
    assert fleet.shapes[fleet.node_shape[1]].devices[0].model == "P100"
    assert fleet.shapes[fleet.node_shape[0]].memory_bytes == 512 * MIB
    assert [(fault.line, fault.field) for fault in refused] == [(5, "sn"), (6, "cpu_milli")]
