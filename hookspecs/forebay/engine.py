"""The engine: where work really runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from forebay.device import Node
from forebay.work import DeviceAccess, JobSpec, Lease, LeaseId


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """Everything an engine needs to start a job's work.

    Parameters
    ----------
    lease : Lease
        In force; its id names the work.
    spec : JobSpec
        Command, environment, directory and time limit.
    access : DeviceAccess
        What the adapters prepared, merged.
        Its environment and CPUs take precedence over those of ``spec``.
    """

    lease: Lease
    spec: JobSpec
    access: DeviceAccess = field(default_factory=DeviceAccess)


class WorkState(StrEnum):
    """What has become of a piece of work."""

    UNKNOWN = "unknown"
    """The engine never started it; starting it now is safe."""
    RUNNING = "running"
    EXITED = "exited"
    VANISHED = "vanished"
    """It was started, no longer runs, and left no exit status."""


class EndCause(StrEnum):
    """Why work that exited did so."""

    SELF = "self"
    TIME_LIMIT = "time_limit"
    CANCEL = "cancel"
    START_FAILED = "start_failed"
    """The command could not be started at all; the message says why."""


@dataclass(frozen=True, slots=True)
class WorkStatus:
    """State of one piece of work.

    Parameters
    ----------
    lease : LeaseId
    state : WorkState
    started_s, ended_s : float, optional
        Seconds since the epoch.
    exit_status : int, optional
        Exit status of the command when EXITED; minus the signal that ended it.
    cause : EndCause
        Meaningful when EXITED.
    message : str
        More, in the engine's words.
    process_id : int, optional
        Process of the command, where the engine has one.
    """

    lease: LeaseId
    state: WorkState
    started_s: float | None = None
    ended_s: float | None = None
    exit_status: int | None = None
    cause: EndCause = EndCause.SELF
    message: str = ""
    process_id: int | None = None


class LogStream(StrEnum):
    """The two outputs of work."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of a log.

    Parameters
    ----------
    data_base64 : str
        The bytes, in base64, since output need not be text.
    next_offset : int
        Where the next piece begins, in bytes.
    """

    data_base64: str
    next_offset: int


class Engine(ABC):
    """Starts, watches and stops work.

    Runs in a process of its own; every call has a deadline.
    Work outlives both that process and the host:
    after a crash the host asks for the status of every lease still in force.
    """

    name: str
    """Unique name."""

    @abstractmethod
    def nodes(self) -> Sequence[Node]:
        """List the nodes that work can run on; called with every discovery.

        Raises
        ------
        EngineError
            The engine's system does not answer.
        """

    @abstractmethod
    def submit(self, order: WorkOrder) -> WorkStatus:
        """Start the work of a lease.

        Idempotent by lease id: a second call for the same lease starts nothing
        and returns the present status, whatever crashed in between.
        Returns once the work is recorded so that ``status`` finds it.

        Parameters
        ----------
        order : WorkOrder

        Raises
        ------
        EngineError
            Nothing was started, nor will be.
        """

    @abstractmethod
    def status(self, leases: Sequence[LeaseId]) -> Sequence[WorkStatus]:
        """Tell the state of some work; called several times a second, so keep it cheap.

        Parameters
        ----------
        leases : sequence of LeaseId

        Returns
        -------
        sequence of WorkStatus
            One for each lease, in the same order; UNKNOWN for a lease never submitted.
        """

    @abstractmethod
    def cancel(self, lease: LeaseId, grace_s: float) -> None:
        """End the work and everything it started.

        Returns at once; ``status`` tells when nothing is left.
        Cancelling what has ended or was never started does nothing;
        work never started will not start afterwards either.

        Parameters
        ----------
        lease : LeaseId
        grace_s : float
            Time between the request to end (SIGTERM) and force (SIGKILL).
        """

    @abstractmethod
    def logs(self, lease: LeaseId, stream: LogStream, offset: int, limit: int) -> LogChunk:
        """Return a piece of what the work has written so far.

        Parameters
        ----------
        lease : LeaseId
        stream : LogStream
        offset : int
            First byte wanted.
        limit : int
            Most bytes wanted.

        Returns
        -------
        LogChunk
            Empty when there is nothing beyond ``offset`` yet, or the lease is unknown.
        """

    def forget(self, lease: LeaseId) -> None:
        """Remove what the engine keeps of ended work, logs included; idempotent.

        Parameters
        ----------
        lease : LeaseId

        Raises
        ------
        StateError
            The work still runs.
        """
        del lease
