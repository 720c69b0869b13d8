"""Stays with one piece of work from its start to its end, whatever becomes of Forebay.

Run by its path, with a lease's directory as the only argument; standard library alone.
It becomes the reaper of everything the work starts, so that nothing escapes it,
keeps the time limit, and writes down how the work ended.
"""

# One is started for every job, and importing pathlib would double its start-up time.
# ruff: noqa: PTH104, PTH110, PTH123, PTH208

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
POLL_S = 0.1


def main(directory: str) -> None:
    """Run the work of the lease in that directory, at most once."""
    os.chdir(directory)
    lock = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not take(lock):
        return
    with open("order.json") as file:
        order = json.load(file)
    if os.path.exists("cancel.json"):
        write("exit.json", ending("cancel", None, None, "cancelled before it started."))
        return
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    Supervisor(order).run()


def take(lock: int) -> bool:
    """Take the lock, unless the work was started before; whoever asks who runs holds it briefly."""
    while True:
        if os.path.exists("started.json") or os.path.exists("exit.json"):
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.005)
        else:
            # The other may have come and gone between the look and the lock.
            return not (os.path.exists("started.json") or os.path.exists("exit.json"))


class Supervisor:
    """One run of one command."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.cause = "self"
        self.term_until: float | None = None
        self.child = -1

    def run(self) -> None:
        """Start the command, wait for its end, end what is left of it, write down how it went."""
        # Signals end the pause in which the command is waited for.
        self.wakeup, wake = os.pipe()
        for end in (self.wakeup, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, self.on_cancel)
        started_s = time.time()
        error = self.start()
        if error is not None:
            status = 127 if error.errno == errno.ENOENT else 126
            write("exit.json", ending("start_failed", status, started_s, describe(error)))
            return
        write(
            "started.json", {"pid": self.child, "supervisor": os.getpid(), "started_s": started_s}
        )
        if os.path.exists("cancel.json"):
            # It was left before there was anybody to send a signal to.
            self.on_cancel(signal.SIGTERM, None)
        status = self.wait(started_s)
        self.end_rest()
        write("exit.json", ending(self.cause, status, started_s, ""))

    def start(self) -> OSError | None:
        """Start the command in a session of its own; returns why it could not be."""
        report, child_report = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.close(report)
            self.become_command(child_report)
        os.close(child_report)
        with os.fdopen(report, "rb") as file:
            failure = file.read()
        if not failure:
            return None
        os.waitpid(self.child, 0)
        number, _, name = failure.decode().partition(" ")
        return OSError(int(number), os.strerror(int(number)), name)

    def become_command(self, report: int) -> None:
        """Turn the forked child into the command; never returns."""
        order = self.order
        name = order["command"][0]
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for stream, path in ((1, "stdout.log"), (2, "stderr.log")):
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                os.dup2(file, stream)
                os.close(file)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            if order["cpus"]:
                os.sched_setaffinity(0, order["cpus"])
            if order["directory"]:
                name = order["directory"]
                os.chdir(name)
                name = order["command"][0]
            # Python's own habit, which programs of other make do not expect.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.execvpe(name, order["command"], order["environment"])
        except OSError as error:
            os.write(report, f"{error.errno} {name}".encode())
        finally:
            os._exit(127)

    def on_cancel(self, _number: int, _frame: object) -> None:
        """Somebody asks for the end: ask the work to end, and note when to use force."""
        grace_s = read("cancel.json").get("grace_s", 0.0)
        self.ask_to_end("cancel", grace_s)

    def ask_to_end(self, cause: str, grace_s: float) -> None:
        """Send SIGTERM to everything the work started."""
        if self.term_until is None:
            self.cause = cause
            self.term_until = time.monotonic() + grace_s
            for pid in descendants():
                kill(pid, signal.SIGTERM)

    def wait(self, started_s: float) -> int:
        """Wait for the command; returns its exit status, or minus the signal that ended it."""
        limit_s = self.order["time_limit_s"]
        while True:
            status = self.reap()
            if status is not None:
                return status
            if limit_s is not None and time.time() - started_s >= limit_s:
                self.ask_to_end("time_limit", self.order["grace_s"])
            if self.term_until is not None and time.monotonic() >= self.term_until:
                for pid in descendants():
                    kill(pid, signal.SIGKILL)
            select.select([self.wakeup], [], [], POLL_S)
            with contextlib.suppress(BlockingIOError):
                os.read(self.wakeup, 1024)

    def reap(self) -> int | None:
        """Collect everything that has ended; returns the command's status once it has."""
        found = None
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self.child:
                    found = os.waitstatus_to_exitcode(status)
        return found

    def end_rest(self) -> None:
        """End what the command left behind: work ends with its command."""
        if self.term_until is None:
            self.term_until = time.monotonic() + self.order["grace_s"]
            for pid in descendants():
                kill(pid, signal.SIGTERM)
        while rest := descendants():
            self.reap()
            if time.monotonic() >= self.term_until:
                for pid in rest:
                    kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        self.reap()


def descendants() -> list[int]:
    """Return every process below this one that still runs, children after their parents."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
                # The name in parentheses may itself hold blanks and parentheses.
                state, parent = file.read().rpartition(")")[2].split()[:2]
                if state != "Z":
                    children.setdefault(int(parent), []).append(int(name))
    found, queue = [], [os.getpid()]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def kill(pid: int, number: int) -> None:
    """Send a signal; the process may have gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def ending(cause: str, status: int | None, started_s: float | None, message: str) -> dict[str, Any]:
    """Return what is written down at the end."""
    return {
        "cause": cause,
        "exit_status": status,
        "started_s": started_s,
        "ended_s": time.time(),
        "message": message,
    }


def describe(error: OSError) -> str:
    """Return why a command could not be started."""
    return f"{error.filename}: {error.strerror}."


def read(name: str) -> Any:  # noqa: ANN401 - a JSON object
    """Return what a file says; nothing when it is missing or torn."""
    try:
        with open(name) as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def write(name: str, content: dict[str, Any]) -> None:
    """Write a file whole or not at all, to stay."""
    with open(f"{name}.new", "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{name}.new", name)


if __name__ == "__main__":
    main(sys.argv[1])
