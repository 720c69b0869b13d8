"""The ledger's operations; each is one transaction, and writes its events in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from forebay import (
    Device,
    DeviceId,
    DeviceKind,
    EventKind,
    Job,
    JobId,
    JobSpec,
    JobState,
    JsonValue,
    Lease,
    LeaseId,
    Node,
    NotFoundError,
    Placement,
    Pool,
    StateError,
)
from forebay_core.clock import Clock, SystemClock
from forebay_core.ledger.database import transaction
from forebay_core.ledger.reading import LedgerReader
from forebay_core.ledger.rows import document, to_job, to_lease
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


class Ledger(LedgerReader):
    """Opens a ledger; any number of processes may have the same one open.

    Parameters
    ----------
    path : Path
        The database file.
    clock : Clock, optional
    max_page_count : int, optional
        See :func:`~forebay_core.ledger.database.open_database`.
    """

    def __init__(
        self, path: Path, clock: Clock | None = None, *, max_page_count: int | None = None
    ) -> None:
        super().__init__(path, max_page_count=max_page_count)
        self._clock = clock or SystemClock()

    def sync_devices(
        self, nodes: Sequence[Node], devices: Sequence[Device], adapters: Mapping[DeviceId, str]
    ) -> None:
        """Take in what a discovery found.

        Devices no longer reported are kept, not lent any more; their leases end with their work.

        Parameters
        ----------
        nodes : sequence of Node
        devices : sequence of Device
            All devices of those nodes.
        adapters : mapping of DeviceId to str
            Name of the adapter that reported each device.
        """
        with transaction(self._engine, write=True) as session:
            for node in nodes:
                row = session.get(NodeRow, node.id)
                if row is None:
                    session.add(NodeRow(id=node.id, labels=dict(node.labels)))
                    self._record(
                        session, EventKind.NODE_ADDED, node.id, {"labels": dict(node.labels)}
                    )
                else:
                    row.labels = dict(node.labels)
            session.flush()
            for device in devices:
                self._sync_device(session, device, adapters[device.id])
            seen = {device.id for device in devices}
            here = [node.id for node in nodes]
            rows = session.exec(
                select(DeviceRow).where(col(DeviceRow.node_id).in_(here), col(DeviceRow.present))
            )
            for device_row in rows:
                if device_row.id not in seen:
                    device_row.present = False
                    self._record(session, EventKind.DEVICE_REMOVED, device_row.id, {})

    def _sync_device(self, session: Session, device: Device, adapter: str) -> None:
        wanted: dict[str, JsonValue] = {
            "node_id": device.node,
            "kind": device.kind.value,
            "adapter": adapter,
            "present": True,
            "capacity_millis": device.capacity_millis,
            "memory_bytes": device.memory_bytes,
            "document": document(device),
        }
        row = session.get(DeviceRow, device.id)
        if row is None:
            kind = EventKind.DEVICE_ADDED
            row = DeviceRow.model_validate({"id": device.id, **wanted})
            session.add(row)
        else:
            if all(getattr(row, name) == value for name, value in wanted.items()):
                return
            kind = EventKind.DEVICE_CHANGED
            for name, value in wanted.items():
                setattr(row, name, value)
        facts = {name: wanted[name] for name in ("kind", "capacity_millis", "memory_bytes")}
        self._record(session, kind, device.id, {**facts, "node": device.node})

    def sync_pools(self, pools: Sequence[Pool]) -> None:
        """Take in the quotas of the configured pools; a pool no longer named keeps its own."""
        with transaction(self._engine, write=True) as session:
            for pool in pools:
                for kind in DeviceKind:
                    quota = pool.quota_millis.get(kind)
                    row = session.get(PoolRow, (pool.name, kind.value))
                    if row is None:
                        row = PoolRow(name=pool.name, kind=kind.value, quota_millis=quota)
                        session.add(row)
                    elif row.quota_millis == quota:
                        continue
                    row.quota_millis = quota
                    self._record(
                        session,
                        EventKind.POOL_CHANGED,
                        pool.name,
                        {"kind": kind.value, "quota_millis": quota},
                    )

    def submit(self, spec: JobSpec) -> Job:
        """Put a job into the queue."""
        with transaction(self._engine, write=True) as session:
            row = JobRow(
                state=JobState.PENDING.value,
                priority=spec.priority,
                pool=spec.request.pool,
                spec=document(spec),
                submitted_s=self._clock.now_s(),
            )
            session.add(row)
            session.flush()
            self._record(session, EventKind.JOB_SUBMITTED, str(row.id), {"spec": row.spec})
            return to_job(row)

    def cancel(self, job: JobId, reason: str) -> Job:
        """Ask for a job's end: a pending one ends here, a running one by its keeper.

        Returns
        -------
        Job
            As it is afterwards; a job that has ended already is left alone.
        """
        with transaction(self._engine, write=True) as session:
            row = self._job_row(session, job)
            state = JobState(row.state)
            if state is JobState.PENDING:
                self._end_job(session, row, JobState.CANCELLED, None, reason)
            elif not state.is_final and not row.cancelling:
                row.cancelling = True
                self._record(session, EventKind.JOB_CANCELLING, str(job), {"reason": reason})
            return to_job(row)

    def place(
        self, placements: Sequence[Placement], *, engine: str, owner: str
    ) -> tuple[Lease | None, ...]:
        """Turn placements into leases, in order.

        The database refuses a placement that no longer fits: another scheduler was faster,
        a device is gone, the job is no longer pending.
        The others are not touched by that.

        Returns
        -------
        tuple of Lease or None
            One for each placement; None where it was refused.
        """
        with transaction(self._engine, write=True) as session:
            return tuple(self._place(session, placement, engine, owner) for placement in placements)

    def _place(
        self, session: Session, placement: Placement, engine: str, owner: str
    ) -> Lease | None:
        job = session.get(JobRow, placement.job)
        if job is None or job.state != JobState.PENDING:
            return None
        now_s = self._clock.now_s()
        limit_s = to_job(job).spec.time_limit_s
        try:
            with session.begin_nested():
                row = LeaseRow(
                    job_id=placement.job,
                    pool=placement.pool,
                    node_id=placement.node,
                    engine=engine,
                    owner=owner,
                    policy=placement.policy,
                    terms=dict(placement.terms),
                    created_s=now_s,
                    expires_s=None if limit_s is None else now_s + limit_s,
                )
                session.add(row)
                session.flush()
                draws = [
                    DrawRow(
                        lease_id=row.id or 0,
                        device_id=draw.device,
                        millis=draw.millis,
                        memory_bytes=draw.memory_bytes,
                    )
                    for draw in placement.draws
                ]
                session.add_all(draws)
                job.state = JobState.STARTING.value
                session.flush()
        except IntegrityError:
            return None
        lease = to_lease(row, draws)
        self._record(
            session,
            EventKind.LEASE_CREATED,
            str(lease.id),
            {
                "job": lease.job,
                "pool": lease.pool,
                "node": lease.node,
                "policy": placement.policy,
                "terms": dict(placement.terms),
                "draws": [document(draw) for draw in lease.draws],
            },
        )
        return lease

    def started(self, lease: LeaseId, started_s: float) -> None:
        """Note that the engine runs the work of a lease; does nothing if that is known."""
        with transaction(self._engine, write=True) as session:
            row = self._lease_row(session, lease)
            job = self._job_row(session, JobId(row.job_id))
            if row.ended_s is None and job.state == JobState.STARTING:
                job.state = JobState.RUNNING.value
                job.started_s = started_s
                self._record(session, EventKind.JOB_STARTED, str(job.id), {"started_s": started_s})

    def end(
        self, lease: LeaseId, state: JobState, *, exit_status: int | None = None, reason: str = ""
    ) -> bool:
        """End a lease and its job, and give the devices back.

        Returns
        -------
        bool
            False when somebody else did so already; nothing is changed then.
        """
        if not state.is_final:
            raise StateError(f"a lease cannot end with its job {state}.")
        with transaction(self._engine, write=True) as session:
            row = self._lease_row(session, lease)
            if row.ended_s is not None:
                return False
            row.ended_s = self._clock.now_s()
            session.flush()
            self._record(session, EventKind.LEASE_ENDED, str(lease), {"job": row.job_id})
            job = self._job_row(session, JobId(row.job_id))
            self._end_job(session, job, state, exit_status, reason)
            return True

    def move_cursor(self, name: str, sequence: int) -> None:
        """Note how far a reader has come."""
        with transaction(self._engine, write=True) as session:
            session.merge(CursorRow(name=name, sequence=sequence))

    def _end_job(
        self, session: Session, row: JobRow, state: JobState, exit_status: int | None, reason: str
    ) -> None:
        row.state = state.value
        row.ended_s = self._clock.now_s()
        row.exit_status = exit_status
        row.reason = reason
        self._record(
            session,
            EventKind.JOB_ENDED,
            str(row.id),
            {"state": state.value, "exit_status": exit_status, "reason": reason},
        )

    def _record(
        self, session: Session, kind: EventKind, subject: str, facts: dict[str, JsonValue]
    ) -> None:
        session.add(
            EventRow(time_s=self._clock.now_s(), kind=kind.value, subject=subject, facts=facts)
        )
        # Rows get their sequence when flushed, so each is flushed in its turn.
        session.flush()

    def _lease_row(self, session: Session, lease: LeaseId) -> LeaseRow:
        row = session.get(LeaseRow, lease)
        if row is None:
            raise NotFoundError(f"there is no lease {lease}.")
        return row
