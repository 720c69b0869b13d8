"""Jobs: submit, look, cancel, explain, read what they wrote."""

from __future__ import annotations

import base64
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from forebay import Fault, Job, JobId, JobSpec, JobState, LogStream, RequestError, StateError
from forebay.units import parse_duration_s
from forebay_core.api.models import (
    ExplanationAnswer,
    JobAnswer,
    JobsAnswer,
    JobSubmission,
    LeaseOfJob,
)
from forebay_core.api.state import NUMBER_MAX, HostOf
from forebay_core.requests import parse_request
from forebay_core.runtime.host import Host

router = APIRouter(prefix="/jobs", tags=["jobs"])

JobNumber = Annotated[int, Path(alias="job", ge=1, le=NUMBER_MAX)]

NEXT_OFFSET = "Next-Offset"
"""Header that tells where the next piece of a log begins."""


@router.get("")
def list_jobs(
    host: HostOf,
    state: Annotated[
        list[JobState] | None, Query(description="Only jobs in this state; may be repeated.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Only so many of the newest.")] = 100,
) -> JobsAnswer:
    """List jobs in order of number."""
    return JobsAnswer(jobs=list(host.ledger.jobs(state, limit=limit)))


@router.post("", status_code=201)
def submit_job(
    host: HostOf, submission: JobSubmission, request: Request, response: Response
) -> Job:
    """Put a job into the queue.

    What can never run here is refused at once.
    """
    job = host.submit(_spec(submission))
    response.headers["Location"] = request.app.url_path_for("show_job", job=job.id)
    return job


@router.get("/{job}")
def show_job(host: HostOf, number: JobNumber) -> JobAnswer:
    """Show a job and its leases."""
    job = host.ledger.job(JobId(number))
    return JobAnswer(job=job, leases=_leases(host, job))


@router.get("/{job}/explain")
def explain_job(host: HostOf, number: JobNumber) -> ExplanationAnswer:
    """Tell why a job waits and what would let it run, or where and why there it ran."""
    job = host.ledger.job(JobId(number))
    return ExplanationAnswer(
        job=job,
        leases=_leases(host, job),
        explanation=host.explain(job) if job.state is JobState.PENDING else None,
    )


@router.post("/{job}/cancel", status_code=202)
def cancel_job(host: HostOf, number: JobNumber) -> Job:
    """Ask for a job's end, with that of everything it started.

    Running work has ended when the job's state says so.
    """
    before = host.ledger.job(JobId(number))
    if before.state.is_final:
        raise StateError(f"job {number} has ended already: {before.state}.")
    return host.ledger.cancel(before.id, "cancelled through the control API.")


@router.get(
    "/{job}/logs",
    response_class=Response,
    responses={
        200: {
            "description": "The bytes as written; none when there is nothing new.",
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            },
            "headers": {
                NEXT_OFFSET: {
                    "description": "Where the next piece begins, in bytes.",
                    "schema": {"type": "integer"},
                }
            },
        }
    },
)
def read_logs(
    host: HostOf,
    number: JobNumber,
    stream: LogStream = LogStream.STDOUT,
    offset: Annotated[int, Query(ge=0, le=NUMBER_MAX, description="First byte wanted.")] = 0,
    limit: Annotated[int, Query(ge=1, le=2**24, description="Most bytes wanted.")] = 2**20,
) -> Response:
    """Return a piece of what a job has written so far."""
    job = host.ledger.job(JobId(number))
    leases = host.ledger.leases(job.id)
    data = b""
    if leases:
        engine = host.engine(leases[-1].engine)
        chunk = engine.logs(leases[-1].lease.id, stream, offset, limit)
        data, offset = base64.b64decode(chunk.data_base64), chunk.next_offset
    return Response(
        data,
        media_type="application/octet-stream",
        headers={NEXT_OFFSET: str(offset), "X-Content-Type-Options": "nosniff"},
    )


def _leases(host: Host, job: Job) -> list[LeaseOfJob]:
    return [
        LeaseOfJob(
            lease=recorded.lease,
            engine=recorded.engine,
            policy=recorded.policy,
            terms=dict(recorded.terms),
        )
        for recorded in host.ledger.leases(job.id)
    ]


def _spec(submission: JobSubmission) -> JobSpec:
    directory = submission.directory
    if directory and not (FilePath(directory).is_absolute() and FilePath(directory).is_dir()):
        raise RequestError(
            Fault(
                f"found {directory!r}, expected the absolute path of a directory.",
                source="body",
                field="directory",
            )
        )
    limit_s = None
    if submission.time_limit is not None:
        limit_s = float(parse_duration_s(submission.time_limit, source="body", field="time_limit"))
        if limit_s <= 0:
            raise RequestError(
                Fault(
                    f"found {submission.time_limit}, expected more than 0.",
                    source="body",
                    field="time_limit",
                )
            )
    return JobSpec(
        command=tuple(submission.command),
        request=parse_request(
            [submission.request],
            device_selectors=submission.device,
            node_selectors=submission.node,
            linked=submission.linked,
            pool=submission.pool,
        ),
        name=submission.name,
        environment=submission.environment,
        directory=directory,
        time_limit_s=limit_s,
        priority=submission.priority,
        accelerators=("*",) if submission.accelerate else (),
    )
