"""Turns rows into domain values and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

from forebay import (
    Device,
    DeviceId,
    Draw,
    Event,
    EventKind,
    Job,
    JobId,
    JobSpec,
    JobState,
    JsonValue,
    Lease,
    LeaseId,
    NodeId,
)
from forebay_core.ledger.tables import DeviceRow, DrawRow, EventRow, JobRow, LeaseRow

T = TypeVar("T")


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def _adapter(cls: type[T]) -> TypeAdapter[T]:
    if cls not in _ADAPTERS:
        _ADAPTERS[cls] = TypeAdapter(cls)
    return _ADAPTERS[cls]


def document(value: object) -> dict[str, JsonValue]:
    """Return a domain value as plain JSON data."""
    plain = _adapter(type(value)).dump_python(value, mode="json")
    return cast("dict[str, JsonValue]", plain)


def to_device(row: DeviceRow) -> Device:
    """Return the device of a row."""
    return _adapter(Device).validate_python(row.document)


def to_job(row: JobRow) -> Job:
    """Return the job of a row."""
    return Job(
        id=JobId(row.id or 0),
        spec=_adapter(JobSpec).validate_python(row.spec),
        state=JobState(row.state),
        submitted_s=row.submitted_s,
        started_s=row.started_s,
        ended_s=row.ended_s,
        exit_status=row.exit_status,
        reason=row.reason,
    )


def to_lease(row: LeaseRow, draws: Sequence[DrawRow]) -> Lease:
    """Return the lease of a row and its draws."""
    return Lease(
        id=LeaseId(row.id or 0),
        job=JobId(row.job_id),
        pool=row.pool,
        node=NodeId(row.node_id),
        draws=tuple(
            Draw(DeviceId(draw.device_id), draw.millis, draw.memory_bytes)
            for draw in sorted(draws, key=lambda draw: draw.device_id)
        ),
        created_s=row.created_s,
        expires_s=row.expires_s,
        ended_s=row.ended_s,
    )


def to_event(row: EventRow) -> Event:
    """Return the event of a row."""
    return Event(
        sequence=row.sequence or 0,
        time_s=row.time_s,
        kind=EventKind(row.kind),
        subject=row.subject,
        facts=row.facts,
    )
