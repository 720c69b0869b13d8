"""What becomes of a lease is decided by its state and the engine's word alone."""

from __future__ import annotations

import pytest

from forebay import (
    DeviceKind,
    EndCause,
    Job,
    JobId,
    JobSpec,
    JobState,
    Lease,
    LeaseId,
    NodeId,
    Request,
    ResourceItem,
    WorkState,
    WorkStatus,
)
from forebay_core.ledger import ActiveLease
from forebay_core.runtime.settle import judge

SPEC = JobSpec(("true",), Request((ResourceItem(DeviceKind.CPU, 1000),)))


def active(state: JobState, *, cancelling: bool = False) -> ActiveLease:
    return ActiveLease(
        lease=Lease(LeaseId(1), JobId(1), "default", NodeId("n"), (), created_s=0.0),
        job=Job(JobId(1), SPEC, state, submitted_s=0.0),
        engine="local",
        owner="1@0",
        cancelling=cancelling,
    )


@pytest.mark.parametrize("owner_alive", [False, True])
@pytest.mark.parametrize("cancelling", [False, True])
@pytest.mark.parametrize("job", [JobState.STARTING, JobState.RUNNING])
@pytest.mark.parametrize("work", list(WorkState))
def test_every_case_has_one_answer(
    work: WorkState, job: JobState, cancelling: bool, owner_alive: bool
) -> None:
    status = WorkStatus(LeaseId(1), work, exit_status=0 if work is WorkState.EXITED else None)
    verdict = judge(active(job, cancelling=cancelling), status, owner_alive=owner_alive)
    if work is WorkState.UNKNOWN and job is JobState.STARTING and owner_alive:
        # Somebody is about to start it; interfering would start it twice.
        assert verdict is None
        return
    assert verdict is not None
    may_start = work is WorkState.UNKNOWN and job is JobState.STARTING and not cancelling
    assert (verdict.state is JobState.STARTING) == may_start
    assert (verdict.state is JobState.RUNNING) == (work is WorkState.RUNNING)


@pytest.mark.parametrize(
    ("cause", "exit_status", "expected"),
    [
        (EndCause.SELF, 0, JobState.COMPLETED),
        (EndCause.SELF, 1, JobState.FAILED),
        (EndCause.SELF, -11, JobState.FAILED),
        (EndCause.TIME_LIMIT, -15, JobState.TIMEOUT),
        (EndCause.CANCEL, -9, JobState.CANCELLED),
        (EndCause.START_FAILED, 127, JobState.FAILED),
    ],
)
def test_the_cause_of_the_end_decides_the_job_state(
    cause: EndCause, exit_status: int, expected: JobState
) -> None:
    status = WorkStatus(LeaseId(1), WorkState.EXITED, exit_status=exit_status, cause=cause)
    verdict = judge(active(JobState.RUNNING), status, owner_alive=True)
    assert verdict is not None
    assert verdict.state is expected
    assert verdict.exit_status == exit_status
