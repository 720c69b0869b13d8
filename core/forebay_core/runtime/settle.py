"""Compares the leases in force with what the engine says, and ends those whose work has ended.

The same code serves the normal end of work and the start after a crash:
whatever was running is found again, whatever was not is settled.
"""

from __future__ import annotations

from dataclasses import dataclass

from forebay import EndCause, JobState, WorkState, WorkStatus
from forebay_core.ledger import ActiveLease

EXPIRY_MARGIN_S = 30.0
"""How long past its expiry a lease may last before the host steps in for the engine."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What has become of a lease.

    Parameters
    ----------
    state : JobState
        Final, or RUNNING; STARTING asks for the work to be started.
    exit_status : int, optional
    reason : str
    """

    state: JobState
    exit_status: int | None = None
    reason: str = ""


def judge(active: ActiveLease, status: WorkStatus, *, owner_alive: bool) -> Verdict | None:
    """Tell what a status means for a lease; a pure function.

    Parameters
    ----------
    active : ActiveLease
    status : WorkStatus
        Of the lease's work, by its engine.
    owner_alive : bool
        Whether the process that took the lease still runs, and so may be about to start it.

    Returns
    -------
    Verdict or None
        None when there is nothing to do yet.
    """
    match status.state:
        case WorkState.RUNNING:
            return Verdict(JobState.RUNNING)
        case WorkState.EXITED:
            return _judge_end(status)
        case WorkState.VANISHED:
            return Verdict(JobState.LOST, reason=status.message or "the work vanished.")
        case WorkState.UNKNOWN:
            return _judge_unknown(active, owner_alive)


def _judge_unknown(active: ActiveLease, owner_alive: bool) -> Verdict | None:
    if active.job.state is JobState.RUNNING:
        return Verdict(JobState.LOST, reason="the engine no longer knows the work.")
    if owner_alive:
        return None
    if active.cancelling:
        return Verdict(JobState.CANCELLED, reason="cancelled before it started.")
    return Verdict(JobState.STARTING)


def _judge_end(status: WorkStatus) -> Verdict:
    match status.cause:
        case EndCause.TIME_LIMIT:
            return Verdict(JobState.TIMEOUT, status.exit_status, "the time limit was reached.")
        case EndCause.CANCEL:
            return Verdict(JobState.CANCELLED, status.exit_status, status.message or "cancelled.")
        case EndCause.START_FAILED:
            return Verdict(JobState.FAILED, status.exit_status, status.message)
        case EndCause.SELF:
            state = JobState.COMPLETED if status.exit_status == 0 else JobState.FAILED
            return Verdict(state, status.exit_status, status.message)
