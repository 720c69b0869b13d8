"""The local engine, with real processes: what it starts it finds again, and ends whole."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from forebay import (
    DeviceAccess,
    DeviceKind,
    EndCause,
    EngineError,
    JobId,
    JobSpec,
    Lease,
    LeaseId,
    LogStream,
    NodeId,
    PluginContext,
    Request,
    ResourceItem,
    StateError,
    WorkOrder,
    WorkState,
    WorkStatus,
)
from forebay_builtin_plugins.local import remnants
from forebay_builtin_plugins.local.engine import LocalEngine
from polling import wait_until

ONE = LeaseId(1)


def make(directory: Path) -> LocalEngine:
    return LocalEngine(PluginContext("local", NodeId("here"), {}, str(directory)))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    yield make(tmp_path)
    for place in (tmp_path / "leases").glob("*"):
        remnants.end(place)


def order(
    *command: str,
    lease: int = 1,
    limit_s: float | None = None,
    environment: Mapping[str, str] | None = None,
    directory: str = "",
    access: DeviceAccess | None = None,
) -> WorkOrder:
    return WorkOrder(
        Lease(LeaseId(lease), JobId(lease), "default", NodeId("here"), (), created_s=0.0),
        JobSpec(
            command,
            Request((ResourceItem(DeviceKind.CPU, 1000),)),
            environment=environment or {},
            directory=directory,
            time_limit_s=limit_s,
        ),
        access or DeviceAccess(),
    )


def ended(engine: LocalEngine, lease: int = 1) -> WorkStatus:
    def final() -> WorkStatus | None:
        (status,) = engine.status([LeaseId(lease)])
        return status if status.state in {WorkState.EXITED, WorkState.VANISHED} else None

    return wait_until(final)


def written(engine: LocalEngine, stream: LogStream = LogStream.STDOUT, lease: int = 1) -> bytes:
    chunk = engine.logs(LeaseId(lease), stream, 0, 1 << 20)
    return base64.b64decode(chunk.data_base64)


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


@pytest.mark.parametrize("status", [0, 1, 3, 255])
def test_the_exit_status_is_that_of_the_command(engine: LocalEngine, status: int) -> None:
    engine.submit(order("sh", "-c", f"exit {status}"))
    found = ended(engine)
    assert (found.state, found.cause) == (WorkState.EXITED, EndCause.SELF)
    assert found.exit_status == status


def test_a_signal_is_told_as_minus_its_number(engine: LocalEngine) -> None:
    engine.submit(order("sh", "-c", "kill -SEGV $$"))
    assert ended(engine).exit_status == -signal.SIGSEGV


def test_both_outputs_are_kept_as_bytes_and_read_by_offset(engine: LocalEngine) -> None:
    engine.submit(order("sh", "-c", r"printf 'a\377b'; printf err >&2"))
    ended(engine)
    assert written(engine) == b"a\xffb"
    assert written(engine, LogStream.STDERR) == b"err"
    rest = engine.logs(ONE, LogStream.STDOUT, 1, 1)
    assert (base64.b64decode(rest.data_base64), rest.next_offset) == (b"\xff", 2)
    beyond = engine.logs(ONE, LogStream.STDOUT, 3, 100)
    assert (beyond.data_base64, beyond.next_offset) == ("", 3)


def test_environment_directory_and_cpus_are_those_of_the_order(
    engine: LocalEngine, tmp_path: Path
) -> None:
    cpu = min(os.sched_getaffinity(0))
    code = (
        "import os, json; print(json.dumps([os.getcwd(), os.environ['A'], os.environ['B'],"
        "os.environ['FOREBAY_JOB_ID'], sorted(os.sched_getaffinity(0))]))"
    )
    engine.submit(
        order(
            *python(code),
            environment={"A": "user", "B": "user"},
            directory=str(tmp_path),
            access=DeviceAccess(environment={"B": "device"}, cpus=(cpu,)),
        )
    )
    ended(engine)
    assert json.loads(written(engine)) == [str(tmp_path), "user", "device", "1", [cpu]]


@pytest.mark.parametrize(
    ("command", "cwd", "status", "expected"),
    [
        (("no-such-program",), "", 127, "no-such-program: No such file or directory."),
        (("/etc/passwd",), "", 126, "/etc/passwd: Permission denied."),
        (("true",), "/no/such/directory", 127, "/no/such/directory: No such file or directory."),
    ],
)
def test_what_cannot_be_started_says_why(
    engine: LocalEngine, command: tuple[str, ...], cwd: str, status: int, expected: str
) -> None:
    engine.submit(order(*command, directory=cwd))
    found = ended(engine)
    assert (found.cause, found.exit_status, found.message) == (
        EndCause.START_FAILED,
        status,
        expected,
    )


def test_the_time_limit_holds_and_ends_what_ignores_sigterm(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forebay_builtin_plugins.local.engine.TIME_LIMIT_GRACE_S", 0.2)
    engine.submit(order("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done", limit_s=0.3))
    found = ended(engine)
    assert found.cause is EndCause.TIME_LIMIT
    assert found.exit_status == -signal.SIGKILL
    assert found.ended_s is not None
    assert found.started_s is not None
    assert 0.3 <= found.ended_s - found.started_s < 3


TREE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


def escaped_pid(engine: LocalEngine) -> int:
    """Return the process that left session, group and parent behind."""
    return int(wait_until(lambda: written(engine).strip()))


def test_cancel_ends_the_whole_tree(engine: LocalEngine) -> None:
    engine.submit(order(*python(TREE)))
    pid = escaped_pid(engine)
    engine.cancel(ONE, 1.0)
    assert ended(engine).cause is EndCause.CANCEL
    assert not psutil.pid_exists(pid)
    engine.cancel(ONE, 1.0)


def test_work_ends_with_its_command_and_leaves_nothing(engine: LocalEngine) -> None:
    engine.submit(order("sh", "-c", "setsid sleep 600 & echo $!"))
    pid = escaped_pid(engine)
    assert ended(engine).exit_status == 0
    assert not psutil.pid_exists(pid)


def test_work_cancelled_before_it_started_never_starts(engine: LocalEngine, tmp_path: Path) -> None:
    engine.cancel(ONE, 0.0)
    status = engine.submit(order("touch", str(tmp_path / "ran")))
    assert (status.state, status.cause) == (WorkState.EXITED, EndCause.CANCEL)
    assert not (tmp_path / "ran").exists()


def test_however_often_it_is_submitted_work_starts_once(
    tmp_path: Path, engine: LocalEngine
) -> None:
    count = tmp_path / "count"
    work = order("sh", "-c", f"echo x >> {count}; sleep 0.2")
    threads = [threading.Thread(target=lambda: make(tmp_path).submit(work)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended(engine)
    assert engine.submit(work).state is WorkState.EXITED
    assert count.read_text() == "x\n"


HOLDER = """
import sys, time
from forebay import *
from forebay_builtin_plugins.local.engine import LocalEngine
engine = LocalEngine(PluginContext("local", NodeId("here"), {}, sys.argv[1]))
lease = Lease(LeaseId(1), JobId(1), "default", NodeId("here"), (), 0.0)
spec = JobSpec(tuple(sys.argv[2:]), Request((ResourceItem(DeviceKind.CPU, 1000),)))
print(engine.submit(WorkOrder(lease, spec)).state, flush=True)
time.sleep(600)
"""


def test_work_outlives_the_process_that_started_it(engine: LocalEngine, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    command = f"while [ ! -e {gate} ]; do sleep 0.02; done; exit 7"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path), "sh", "-c", command],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == b"running"
    os.killpg(holder.pid, signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    (status,) = engine.status([ONE])
    assert status.state is WorkState.RUNNING
    gate.touch()
    assert ended(engine).exit_status == 7


def test_without_its_supervisor_work_has_vanished_and_nothing_is_left(
    engine: LocalEngine, tmp_path: Path
) -> None:
    engine.submit(order(*python(TREE)))
    pid = escaped_pid(engine)
    started = json.loads((tmp_path / "leases/1/started.json").read_text())
    os.kill(started["supervisor"], signal.SIGKILL)
    assert ended(engine).state is WorkState.VANISHED
    wait_until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie")


@pytest.mark.parametrize("torn", ["", "{", "[1]", '{"exit_sta'])
def test_a_torn_file_is_as_good_as_none(engine: LocalEngine, tmp_path: Path, torn: str) -> None:
    place = tmp_path / "leases/1"
    place.mkdir(parents=True)
    (place / "exit.json").write_text(torn)
    assert engine.status([ONE])[0].state is WorkState.UNKNOWN


def test_a_directory_that_cannot_be_written_is_an_error_of_the_engine(tmp_path: Path) -> None:
    (tmp_path / "leases").write_text("a file where a directory should be")
    with pytest.raises(EngineError, match="cannot start lease 1"):
        make(tmp_path).submit(order("true"))


def test_what_is_forgotten_is_gone_and_what_runs_cannot_be(
    engine: LocalEngine, tmp_path: Path
) -> None:
    engine.submit(order("sleep", "600"))
    with pytest.raises(StateError, match="still runs"):
        engine.forget(ONE)
    engine.cancel(ONE, 1.0)
    ended(engine)
    engine.forget(ONE)
    engine.forget(ONE)
    assert not (tmp_path / "leases/1").exists()
    assert engine.status([ONE])[0].state is WorkState.UNKNOWN


def test_many_short_jobs_leave_no_process_behind(engine: LocalEngine) -> None:
    before = {child.pid for child in psutil.Process().children()}
    for lease in range(1, 41):
        engine.submit(order("true", lease=lease))
    for lease in range(1, 41):
        assert ended(engine, lease).exit_status == 0

    def reaped() -> bool:
        engine.status([])
        return {child.pid for child in psutil.Process().children()} <= before

    wait_until(reaped)


def test_this_node_is_described(engine: LocalEngine) -> None:
    (node,) = engine.nodes()
    assert node.id == "here"
    assert node.labels["os"] == "linux"
