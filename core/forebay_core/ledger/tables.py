"""The ledger's tables.

Capacity is checked by triggers (see the migrations), so that no code, ours or another's,
can lend a device twice; the columns ``used_*`` are theirs to keep.
"""

from __future__ import annotations

from sqlalchemy import JSON, CheckConstraint, Column, Index, text
from sqlmodel import Field, SQLModel

from forebay import JsonValue


class NodeRow(SQLModel, table=True):
    """A node that was ever seen."""

    __tablename__ = "node"

    id: str = Field(primary_key=True)
    labels: dict[str, str] = Field(sa_column=Column(JSON, nullable=False))


class DeviceRow(SQLModel, table=True):
    """A device that was ever seen, and what is lent of it."""

    __tablename__ = "device"
    __table_args__ = (
        CheckConstraint("capacity_millis >= 0"),
        CheckConstraint("memory_bytes >= 0"),
        CheckConstraint("used_millis >= 0"),
        CheckConstraint("used_memory_bytes >= 0"),
    )

    id: str = Field(primary_key=True)
    node_id: str = Field(foreign_key="node.id", index=True)
    kind: str
    adapter: str
    """Name of the adapter that reported it."""
    present: bool
    """False once a discovery no longer reports it."""
    capacity_millis: int
    memory_bytes: int
    used_millis: int = 0
    used_memory_bytes: int = 0
    document: dict[str, JsonValue] = Field(sa_column=Column(JSON, nullable=False))
    """The whole :class:`forebay.Device`."""


class PoolRow(SQLModel, table=True):
    """What a pool has lent of one kind, and may."""

    __tablename__ = "pool"
    __table_args__ = (CheckConstraint("used_millis >= 0"),)

    name: str = Field(primary_key=True)
    kind: str = Field(primary_key=True)
    quota_millis: int | None = None
    """None is no limit."""
    used_millis: int = 0


class JobRow(SQLModel, table=True):
    """A job."""

    __tablename__ = "job"
    __table_args__ = (
        # Numbers of jobs are never used again, even if a row were removed by hand.
        {"sqlite_autoincrement": True},
    )

    id: int | None = Field(default=None, primary_key=True)
    state: str = Field(index=True)
    priority: int
    pool: str
    spec: dict[str, JsonValue] = Field(sa_column=Column(JSON, nullable=False))
    cancelling: bool = False
    submitted_s: float
    started_s: float | None = None
    ended_s: float | None = None
    exit_status: int | None = None
    reason: str = ""


class LeaseRow(SQLModel, table=True):
    """A placement in force, or one that was."""

    __tablename__ = "lease"
    __table_args__ = (
        Index(
            "lease_in_force",
            "job_id",
            unique=True,
            sqlite_where=text("ended_s IS NULL"),
            postgresql_where=text("ended_s IS NULL"),
        ),
        {"sqlite_autoincrement": True},
    )

    id: int | None = Field(default=None, primary_key=True)
    job_id: int = Field(foreign_key="job.id")
    pool: str
    node_id: str = Field(foreign_key="node.id")
    engine: str
    owner: str
    """Process that starts the work, as :func:`forebay_core.processes.own_identity` names it."""
    policy: str
    terms: dict[str, float] = Field(sa_column=Column(JSON, nullable=False))
    created_s: float
    expires_s: float | None = None
    ended_s: float | None = None


class DrawRow(SQLModel, table=True):
    """What a lease takes from one device; never changed once written."""

    __tablename__ = "draw"
    __table_args__ = (
        CheckConstraint("millis >= 0"),
        CheckConstraint("memory_bytes >= 0"),
        CheckConstraint("millis + memory_bytes > 0"),
    )

    lease_id: int = Field(foreign_key="lease.id", primary_key=True)
    device_id: str = Field(foreign_key="device.id", primary_key=True)
    millis: int
    memory_bytes: int


class EventRow(SQLModel, table=True):
    """One change; rows are only ever added."""

    __tablename__ = "event"

    sequence: int | None = Field(default=None, primary_key=True)
    time_s: float
    kind: str
    subject: str
    facts: dict[str, JsonValue] = Field(sa_column=Column(JSON, nullable=False))


class CursorRow(SQLModel, table=True):
    """How far a reader of the event log has come."""

    __tablename__ = "cursor"

    name: str = Field(primary_key=True)
    sequence: int
