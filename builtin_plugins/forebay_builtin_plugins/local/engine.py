"""The local engine: directories of leases, and supervisors that outlive it.

Each lease has a directory: ``order.json`` says what to run, ``started.json`` that it runs,
``exit.json`` how it ended; the supervisor holds ``lock`` for as long as it lives.
Every answer is read from there, so any process may give it, before and after any crash.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forebay import (
    EndCause,
    Engine,
    EngineError,
    LeaseId,
    LogChunk,
    LogStream,
    Node,
    PluginContext,
    StateError,
    WorkOrder,
    WorkState,
    WorkStatus,
)
from forebay_builtin_plugins.local import remnants

SUPERVISOR = Path(__file__).with_name("supervisor.py")

START_WAIT_S = 5.0
"""Longest that ``submit`` waits for the supervisor's word that the work has started."""

TIME_LIMIT_GRACE_S = 5.0
"""Time that work has between SIGTERM and SIGKILL when its time is over."""


class LocalEngine(Engine):
    """Runs work on this node.

    Parameters
    ----------
    context : PluginContext
    """

    name = "local"

    def __init__(self, context: PluginContext) -> None:
        self._node = context.node
        self._directory = Path(context.state_directory) / "leases"
        # How work ended never changes, so it is read once.
        self._ended: dict[LeaseId, WorkStatus] = {}
        self._supervisors: set[int] = set()

    def nodes(self) -> Sequence[Node]:
        """Return this node."""
        labels = {
            "hostname": platform.node(),
            "os": platform.system().lower(),
            "arch": platform.machine(),
            "kernel": platform.release(),
        }
        return [Node(self._node, labels)]

    def submit(self, order: WorkOrder) -> WorkStatus:
        """Write the order and start its supervisor, unless that has been done."""
        place = self._place(order.lease.id)
        try:
            place.mkdir(parents=True, exist_ok=True)
            if not (place / "order.json").exists():
                _write(place / "order.json", self._order_document(order))
            status = self._status(order.lease.id)
            if status.state is not WorkState.UNKNOWN:
                return status
            supervisor = _spawn(place)
        except OSError as error:
            raise EngineError(
                f"engine local cannot start lease {order.lease.id}: {error}.",
                fix="Check the disk and the permissions of FOREBAY_HOME.",
            ) from error
        self._supervisors.add(supervisor)
        return self._await_start(order.lease.id)

    def _await_start(self, lease: LeaseId) -> WorkStatus:
        place = self._place(lease)
        until = time.monotonic() + START_WAIT_S
        while time.monotonic() < until:
            if (place / "started.json").exists() or (place / "exit.json").exists():
                break
            time.sleep(0.002)
        return self._status(lease)

    def _order_document(self, order: WorkOrder) -> dict[str, object]:
        environment = {
            **os.environ,
            **order.spec.environment,
            **order.access.environment,
            "FOREBAY_JOB_ID": str(order.lease.job),
            "FOREBAY_LEASE_ID": str(order.lease.id),
            remnants.VARIABLE: remnants.token(self._place(order.lease.id)),
        }
        return {
            "command": list(order.spec.command),
            "environment": environment,
            "directory": order.spec.directory,
            "cpus": list(order.access.cpus),
            "time_limit_s": order.spec.time_limit_s,
            "grace_s": TIME_LIMIT_GRACE_S,
        }

    def status(self, leases: Sequence[LeaseId]) -> Sequence[WorkStatus]:
        """Read the state of each lease; O(1) file look-ups a lease."""
        self._reap()
        return [self._status(lease) for lease in leases]

    def _reap(self) -> None:
        """Collect supervisors that have ended, which are children of this process."""
        for supervisor in list(self._supervisors):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(supervisor, os.WNOHANG) == (0, 0):
                    continue
            self._supervisors.discard(supervisor)

    def _status(self, lease: LeaseId) -> WorkStatus:
        if lease in self._ended:
            return self._ended[lease]
        place = self._place(lease)
        # Asked first: a supervisor that ends in between has written its word by then.
        locked = _is_locked(place)
        if ended := _read(place / "exit.json"):
            status = WorkStatus(
                lease,
                WorkState.EXITED,
                started_s=ended.get("started_s"),
                ended_s=ended.get("ended_s"),
                exit_status=ended.get("exit_status"),
                cause=EndCause(ended.get("cause", "self")),
                message=ended.get("message", ""),
            )
        elif started := _read(place / "started.json"):
            if locked:
                return WorkStatus(
                    lease,
                    WorkState.RUNNING,
                    started_s=started.get("started_s"),
                    process_id=started.get("pid"),
                )
            remnants.end(place)
            status = WorkStatus(
                lease,
                WorkState.VANISHED,
                started_s=started.get("started_s"),
                message="the supervisor of the work was killed.",
            )
        elif locked:
            return WorkStatus(lease, WorkState.RUNNING)
        elif _read(place / "cancel.json"):
            status = WorkStatus(
                lease,
                WorkState.EXITED,
                cause=EndCause.CANCEL,
                message="cancelled before it started.",
            )
        else:
            return WorkStatus(lease, WorkState.UNKNOWN)
        self._ended[lease] = status
        return status

    def cancel(self, lease: LeaseId, grace_s: float) -> None:
        """Leave word that the work must end, and wake its supervisor."""
        place = self._place(lease)
        if self._status(lease).state in {WorkState.EXITED, WorkState.VANISHED}:
            return
        try:
            place.mkdir(parents=True, exist_ok=True)
            _write(place / "cancel.json", {"grace_s": grace_s})
        except OSError as error:
            raise EngineError(f"engine local cannot cancel lease {lease}: {error}.") from error
        started = _read(place / "started.json")
        if started and _is_locked(place):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(started["supervisor"]), signal.SIGTERM)

    def logs(self, lease: LeaseId, stream: LogStream, offset: int, limit: int) -> LogChunk:
        """Read a piece of a log."""
        data = b""
        path = self._place(lease) / f"{stream.value}.log"
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            file.seek(offset)
            data = file.read(limit)
        return LogChunk(base64.b64encode(data).decode(), offset + len(data))

    def forget(self, lease: LeaseId) -> None:
        """Remove the lease's directory."""
        if self._status(lease).state is WorkState.RUNNING:
            raise StateError(f"lease {lease} still runs.", fix="Cancel its job first.")
        shutil.rmtree(self._place(lease), ignore_errors=True)
        self._ended.pop(lease, None)

    def _place(self, lease: LeaseId) -> Path:
        return self._directory / str(int(lease))


def _spawn(place: Path) -> int:
    """Start a supervisor and return its process; it is in a session of its own.

    That takes it out of the plugin's process group, which the host ends when it must.
    """
    null = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", str(SUPERVISOR), str(place)],
        os.environ,
        file_actions=null,
        setsid=True,
    )


def _is_locked(place: Path) -> bool:
    """Tell whether a supervisor lives for this directory."""
    try:
        descriptor = os.open(place / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def _read(path: Path) -> dict[str, Any]:
    """Return what a file says; nothing when it is missing or torn."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write(path: Path, content: Mapping[str, object]) -> None:
    """Write a file whole or not at all, to stay; readable by its owner alone."""
    # Several threads or processes may write the same file; each needs a new one of its own.
    descriptor, new = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    Path(new).replace(path)
