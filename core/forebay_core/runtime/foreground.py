"""Runs one job in the foreground, for ``forebay run``."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from forebay import Job, JobSpec, JobState, LeaseId, LogStream
from forebay_core.requests import format_amount, format_request
from forebay_core.runtime.host import Host
from forebay_core.runtime.service import service_is_running
from forebay_core.runtime.tail import Tail

POLL_MIN_S = 0.02
POLL_MAX_S = 0.25


class Foreground:
    """Submits a job, follows it to its end, and shows its output.

    While a service runs on the same home directory, that places and settles the job;
    otherwise this process does so itself.
    SIGINT and SIGTERM cancel the job, a second SIGINT leaves it to itself.

    Parameters
    ----------
    host : Host
    spec : JobSpec
    echo : bool
        Copy the output to this process's own streams.
    tell : callable
        Takes each step as a sentence.
    """

    def __init__(
        self, host: Host, spec: JobSpec, *, echo: bool, tell: Callable[[str], None]
    ) -> None:
        self._host = host
        self._spec = spec
        self._echo = echo
        self._tell = host.tell = tell
        self._lease: LeaseId | None = None
        self._tail: Tail | None = None
        self._engine = host.config.engine
        self._interrupts = 0

    def run(self) -> Job:
        """Run the job; returns it as it ended.

        Raises
        ------
        CapacityError, NotFoundError
            The job can never run here; nothing was queued.
        KeyboardInterrupt
            A second SIGINT came; the job goes on.
        """
        self._tell_inventory()
        job = self._host.submit(self._spec)
        self._tell(f"job {job.id} asks for {format_request(self._spec.request)}")
        with _handlers(self._interrupt):
            return self._follow(job)

    def output(self) -> dict[str, str]:
        """Return what the work wrote, by stream, where it was not echoed."""
        if self._tail is None:
            return {stream.value: "" for stream in LogStream}
        return self._tail.text()

    def _follow(self, job: Job) -> Job:
        pause_s = POLL_MIN_S
        state = job.state
        while True:
            if self._interrupts:
                self._host.ledger.cancel(job.id, "interrupted.")
            if not service_is_running(self._host.home):
                self._host.settle()
                self._host.cycle(only=job.id)
                self._host.dispatch_events()
            job = self._host.ledger.job(job.id)
            self._attach(job)
            if job.state is not state and not job.state.is_final:
                self._tell(f"engine {self._engine} runs it")
                pause_s = POLL_MIN_S
            state = job.state
            copied = self._tail is not None and self._echo and self._tail.copy()
            if job.state.is_final:
                self._tell_end(job)
                return job
            pause_s = POLL_MIN_S if copied else min(pause_s * 1.3, POLL_MAX_S)
            time.sleep(pause_s)

    def _attach(self, job: Job) -> None:
        if self._lease is not None or job.state is JobState.PENDING:
            return
        for recorded in self._host.ledger.leases(job.id):
            lease = recorded.lease
            self._lease = lease.id
            self._engine = recorded.engine
            self._tail = Tail(self._host.engine(recorded.engine), lease.id, list(LogStream))
            draws = ", ".join(
                f"{format_amount(draw.millis)} of {draw.device}" for draw in lease.draws
            )
            self._tell(
                f"policy {recorded.policy} placed it on node {lease.node}: {draws}"
                f" ({', '.join(f'{name} {value:.3g}' for name, value in recorded.terms.items())})"
            )

    def _tell_inventory(self) -> None:
        inventory = self._host.refresh(record=not service_is_running(self._host.home))
        for device in inventory.devices:
            self._tell(
                f"adapter {inventory.adapters[device.id]} found {device.kind} {device.id}: "
                f"{device.model}, {format_amount(device.capacity_millis)}"
                f"{' cores' if device.kind.divides_freely else ''}"
            )
        for plugin, failure in inventory.failures:
            self._tell(f"plugin {plugin} failed on {failure.subject}: {failure.reason}")
        for built in self._host.pools:
            self._tell(
                f"pool {built.pool.name} lends {len(built.units)} unit(s) "
                f"by strategy {built.pool.strategy}"
            )

    def _tell_end(self, job: Job) -> None:
        ran_s = (job.ended_s or 0) - (job.started_s or job.ended_s or 0)
        self._tell(
            f"job {job.id} {job.state} with exit status {job.exit_status} "
            f"after {ran_s:.2f} s; its lease is returned"
        )

    def _interrupt(self, number: int, _frame: FrameType | None) -> None:
        self._interrupts += 1
        if number == signal.SIGINT and self._interrupts > 1:
            raise KeyboardInterrupt


class _handlers:  # noqa: N801 - used as a statement
    """Install a handler for SIGINT and SIGTERM for the length of a block."""

    def __init__(self, handler: Callable[[int, FrameType | None], None]) -> None:
        self._handler = handler

    def __enter__(self) -> None:
        self._previous = {}
        if threading.current_thread() is threading.main_thread():
            self._previous = {
                number: signal.signal(number, self._handler)
                for number in (signal.SIGINT, signal.SIGTERM)
            }

    def __exit__(self, *_: object) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)


def exit_status(job: Job) -> int:
    """Return the exit status of ``forebay run`` for an ended job.

    That of the command, 128 plus the signal that ended it, as a shell says it;
    124 for the time limit, as :manpage:`timeout(1)` does; 125 where it never ran or was lost.
    """
    if job.state is JobState.TIMEOUT:
        return 124
    if job.exit_status is None:
        return 130 if job.state is JobState.CANCELLED else 125
    return job.exit_status if job.exit_status >= 0 else 128 - job.exit_status
