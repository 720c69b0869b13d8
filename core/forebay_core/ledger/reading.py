"""What can be asked of a ledger; each answer is of one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlmodel import Session, col, func, select

from forebay import (
    Device,
    DeviceId,
    DeviceKind,
    Event,
    Job,
    JobId,
    JobState,
    Lease,
    LeaseId,
    NodeId,
    NotFoundError,
)
from forebay_core.ledger.database import open_database, transaction
from forebay_core.ledger.replay import (
    DeviceState,
    JobStatus,
    LeaseState,
    LedgerState,
    PoolState,
)
from forebay_core.ledger.rows import to_device, to_event, to_job, to_lease
from forebay_core.ledger.tables import (
    CursorRow,
    DeviceRow,
    DrawRow,
    EventRow,
    JobRow,
    LeaseRow,
    NodeRow,
    PoolRow,
)


@dataclass(frozen=True, slots=True)
class ActiveLease:
    """A lease in force with what its keeper needs to know.

    Parameters
    ----------
    lease : Lease
    job : Job
    engine : str
        Name of the engine that runs the work.
    owner : str
        Identity of the process that starts it.
    cancelling : bool
        Whether somebody asked for the job's end.
    """

    lease: Lease
    job: Job
    engine: str
    owner: str
    cancelling: bool


@dataclass(frozen=True, slots=True)
class RecordedLease:
    """A lease, in force or ended, with how it came about.

    Parameters
    ----------
    lease : Lease
    engine : str
        Name of the engine that runs the work.
    policy : str
        Name of the policy that chose.
    terms : mapping of str to float
        Terms of its score.
    """

    lease: Lease
    engine: str
    policy: str
    terms: Mapping[str, float]


class LedgerReader:
    """Opens a ledger to be read.

    Parameters
    ----------
    path : Path
        The database file.
    max_page_count : int, optional
        See :func:`~forebay_core.ledger.database.open_database`.
    """

    def __init__(self, path: Path, *, max_page_count: int | None = None) -> None:
        self._engine = open_database(path, max_page_count=max_page_count)

    def close(self) -> None:
        """Let go of the database; what was committed stays."""
        self._engine.dispose()

    def devices(self) -> tuple[Device, ...]:
        """Return the devices present, in order of id."""
        with transaction(self._engine, write=False) as session:
            rows = session.exec(
                select(DeviceRow).where(col(DeviceRow.present)).order_by(col(DeviceRow.id))
            )
            return tuple(to_device(row) for row in rows)

    def adapters(self) -> Mapping[DeviceId, str]:
        """Return the name of the adapter that reported each device ever seen."""
        with transaction(self._engine, write=False) as session:
            rows = session.exec(select(DeviceRow.id, DeviceRow.adapter))
            return {DeviceId(device): adapter for device, adapter in rows}

    def usage(self) -> Mapping[DeviceId, tuple[int, int]]:
        """Return what is lent of each device: millis and bytes of memory."""
        with transaction(self._engine, write=False) as session:
            rows = session.exec(
                select(DeviceRow.id, DeviceRow.used_millis, DeviceRow.used_memory_bytes)
            )
            return {DeviceId(device): (millis, memory) for device, millis, memory in rows}

    def pool_usage(self) -> Mapping[tuple[str, DeviceKind], int]:
        """Return what each pool has lent of each kind, in millis."""
        with transaction(self._engine, write=False) as session:
            rows = session.exec(select(PoolRow.name, PoolRow.kind, PoolRow.used_millis))
            return {(name, DeviceKind(kind)): used for name, kind, used in rows}

    def job(self, job: JobId) -> Job:
        """Return a job.

        Raises
        ------
        NotFoundError
            No job has that number.
        """
        with transaction(self._engine, write=False) as session:
            return to_job(self._job_row(session, job))

    def jobs(
        self, states: Sequence[JobState] | None = None, *, limit: int | None = None
    ) -> tuple[Job, ...]:
        """Return jobs in order of number.

        Parameters
        ----------
        states : sequence of JobState, optional
            Only jobs in one of these.
        limit : int, optional
            Only so many of the newest.
        """
        with transaction(self._engine, write=False) as session:
            query = select(JobRow).order_by(col(JobRow.id).desc())
            if states is not None:
                query = query.where(col(JobRow.state).in_([state.value for state in states]))
            if limit is not None:
                query = query.limit(limit)
            return tuple(reversed([to_job(row) for row in session.exec(query)]))

    def queue(self) -> tuple[Job, ...]:
        """Return the pending jobs in the order they are to be placed."""
        pending = self.jobs([JobState.PENDING])
        return tuple(sorted(pending, key=lambda job: (-job.spec.priority, job.id)))

    def job_counts(self) -> Mapping[JobState, int]:
        """Return how many jobs there are in each state; states without any are left out."""
        with transaction(self._engine, write=False) as session:
            rows = session.exec(select(JobRow.state, func.count()).group_by(JobRow.state))
            return {JobState(state): count for state, count in rows}

    def active_leases(self) -> tuple[ActiveLease, ...]:
        """Return the leases in force, in order of number."""
        with transaction(self._engine, write=False) as session:
            rows = session.exec(
                select(LeaseRow, JobRow)
                .where(col(LeaseRow.ended_s).is_(None), col(LeaseRow.job_id) == col(JobRow.id))
                .order_by(col(LeaseRow.id))
            ).all()
            return tuple(
                ActiveLease(
                    lease=self._to_lease(session, lease),
                    job=to_job(job),
                    engine=lease.engine,
                    owner=lease.owner,
                    cancelling=job.cancelling,
                )
                for lease, job in rows
            )

    def leases(self, job: JobId) -> tuple[RecordedLease, ...]:
        """Return the leases a job ever had, in order of number."""
        with transaction(self._engine, write=False) as session:
            rows = session.exec(
                select(LeaseRow).where(LeaseRow.job_id == job).order_by(col(LeaseRow.id))
            ).all()
            return tuple(
                RecordedLease(self._to_lease(session, row), row.engine, row.policy, row.terms)
                for row in rows
            )

    def events(self, after: int = 0, *, limit: int | None = None) -> tuple[Event, ...]:
        """Return events in order, those with a sequence above ``after``."""
        with transaction(self._engine, write=False) as session:
            query = select(EventRow).where(col(EventRow.sequence) > after)
            query = query.order_by(col(EventRow.sequence))
            if limit is not None:
                query = query.limit(limit)
            return tuple(to_event(row) for row in session.exec(query))

    def last_sequence(self) -> int:
        """Return the sequence of the newest event, 0 where there is none."""
        with transaction(self._engine, write=False) as session:
            return session.exec(select(func.max(EventRow.sequence))).one() or 0

    def cursor(self, name: str) -> int:
        """Return the last sequence that a reader has noted, 0 at first."""
        with transaction(self._engine, write=False) as session:
            row = session.get(CursorRow, name)
            return 0 if row is None else row.sequence

    def state(self) -> LedgerState:
        """Return the whole state, to compare with :func:`~forebay_core.ledger.replay.replay`."""
        with transaction(self._engine, write=False) as session:
            return LedgerState(
                nodes={NodeId(row.id) for row in session.exec(select(NodeRow))},
                devices={
                    DeviceId(row.id): DeviceState(
                        row.kind,
                        row.capacity_millis,
                        row.memory_bytes,
                        row.present,
                        row.used_millis,
                        row.used_memory_bytes,
                    )
                    for row in session.exec(select(DeviceRow))
                },
                pools={
                    (row.name, row.kind): PoolState(row.quota_millis, row.used_millis)
                    for row in session.exec(select(PoolRow))
                },
                jobs={
                    JobId(row.id or 0): JobStatus(
                        JobState(row.state), row.cancelling, row.exit_status
                    )
                    for row in session.exec(select(JobRow))
                },
                leases={
                    LeaseId(row.id or 0): _lease_state(self._to_lease(session, row))
                    for row in session.exec(select(LeaseRow)).all()
                },
            )

    def _job_row(self, session: Session, job: JobId) -> JobRow:
        row = session.get(JobRow, job)
        if row is None:
            raise NotFoundError(f"there is no job {job}.", fix="List jobs with: forebay jobs")
        return row

    def _to_lease(self, session: Session, row: LeaseRow) -> Lease:
        draws = session.exec(select(DrawRow).where(DrawRow.lease_id == row.id)).all()
        return to_lease(row, draws)


def _lease_state(lease: Lease) -> LeaseState:
    return LeaseState(
        job=lease.job,
        pool=lease.pool,
        draws={draw.device: (draw.millis, draw.memory_bytes) for draw in lease.draws},
        in_force=lease.ended_s is None,
    )
