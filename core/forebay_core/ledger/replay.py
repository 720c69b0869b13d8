"""The state of a ledger, and how events lead to it.

Whoever has the event log can rebuild the ledger: the two must always agree,
which tests check after every step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from forebay import DeviceId, Event, EventKind, JobId, JobState, LeaseId, NodeId


@dataclass(slots=True)
class DeviceState:
    """What may be lent of a device, and is."""

    kind: str
    capacity_millis: int
    memory_bytes: int
    present: bool = True
    used_millis: int = 0
    used_memory_bytes: int = 0


@dataclass(slots=True)
class PoolState:
    """What a pool may lend of one kind, and has."""

    quota_millis: int | None
    used_millis: int = 0


@dataclass(slots=True)
class JobStatus:
    """How far a job has come."""

    state: JobState
    cancelling: bool = False
    exit_status: int | None = None


@dataclass(slots=True)
class LeaseState:
    """What a lease takes, and whether it is in force."""

    job: JobId
    pool: str
    draws: dict[DeviceId, tuple[int, int]]
    """Millis and bytes of memory, by device."""
    in_force: bool = True


@dataclass(slots=True)
class LedgerState:
    """Everything that decides what can be lent."""

    nodes: set[NodeId] = field(default_factory=set)
    devices: dict[DeviceId, DeviceState] = field(default_factory=dict)
    pools: dict[tuple[str, str], PoolState] = field(default_factory=dict)
    """By name and kind."""
    jobs: dict[JobId, JobStatus] = field(default_factory=dict)
    leases: dict[LeaseId, LeaseState] = field(default_factory=dict)


def replay(events: Iterable[Event]) -> LedgerState:
    """Return the state that a ledger's events lead to.

    Parameters
    ----------
    events : iterable of Event
        All of them, in order of sequence.
    """
    state = LedgerState()
    for event in events:
        _apply(state, event)
    return state


def _apply(state: LedgerState, event: Event) -> None:
    facts = event.facts
    match event.kind:
        case EventKind.NODE_ADDED:
            state.nodes.add(NodeId(event.subject))
        case EventKind.DEVICE_ADDED | EventKind.DEVICE_CHANGED:
            _change_device(state, event)
        case EventKind.DEVICE_REMOVED:
            state.devices[DeviceId(event.subject)].present = False
        case EventKind.POOL_CHANGED:
            key = (event.subject, str(facts["kind"]))
            pool = state.pools.setdefault(key, PoolState(None))
            pool.quota_millis = cast("int | None", facts["quota_millis"])
        case EventKind.JOB_SUBMITTED:
            state.jobs[JobId(int(event.subject))] = JobStatus(JobState.PENDING)
        case EventKind.JOB_CANCELLING:
            state.jobs[JobId(int(event.subject))].cancelling = True
        case EventKind.JOB_STARTED:
            state.jobs[JobId(int(event.subject))].state = JobState.RUNNING
        case EventKind.JOB_ENDED:
            job = state.jobs[JobId(int(event.subject))]
            job.state = JobState(str(facts["state"]))
            job.exit_status = cast("int | None", facts["exit_status"])
        case EventKind.LEASE_CREATED:
            _create_lease(state, event)
        case EventKind.LEASE_ENDED:
            lease = state.leases[LeaseId(int(event.subject))]
            lease.in_force = False
            _account(state, lease, -1)


def _change_device(state: LedgerState, event: Event) -> None:
    facts = event.facts
    device = state.devices.setdefault(
        DeviceId(event.subject), DeviceState(str(facts["kind"]), 0, 0)
    )
    device.kind = str(facts["kind"])
    device.capacity_millis = cast("int", facts["capacity_millis"])
    device.memory_bytes = cast("int", facts["memory_bytes"])
    device.present = True


def _create_lease(state: LedgerState, event: Event) -> None:
    facts = event.facts
    draws = cast("list[dict[str, str | int]]", facts["draws"])
    lease = LeaseState(
        job=JobId(cast("int", facts["job"])),
        pool=str(facts["pool"]),
        draws={
            DeviceId(str(draw["device"])): (int(draw["millis"]), int(draw["memory_bytes"]))
            for draw in draws
        },
    )
    state.leases[LeaseId(int(event.subject))] = lease
    state.jobs[lease.job].state = JobState.STARTING
    _account(state, lease, 1)


def _account(state: LedgerState, lease: LeaseState, sign: int) -> None:
    for device_id, (millis, memory_bytes) in lease.draws.items():
        device = state.devices[device_id]
        device.used_millis += sign * millis
        device.used_memory_bytes += sign * memory_bytes
        pool = state.pools.get((lease.pool, device.kind))
        if pool is not None:
            pool.used_millis += sign * millis
