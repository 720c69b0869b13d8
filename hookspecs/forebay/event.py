"""Events: what changed, in the order it changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

JsonValue: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any] | None
"""Anything JSON can say; Any inside, since Python 3.11 cannot name a recursive type at run time."""


class EventKind(StrEnum):
    """What happened; every change of the ledger's state has one."""

    NODE_ADDED = "node_added"
    DEVICE_ADDED = "device_added"
    DEVICE_CHANGED = "device_changed"
    DEVICE_REMOVED = "device_removed"
    POOL_CHANGED = "pool_changed"
    JOB_SUBMITTED = "job_submitted"
    JOB_CANCELLING = "job_cancelling"
    JOB_STARTED = "job_started"
    JOB_ENDED = "job_ended"
    LEASE_CREATED = "lease_created"
    LEASE_ENDED = "lease_ended"


@dataclass(frozen=True, slots=True)
class Event:
    """One change of state.

    Replaying all events in order of ``sequence`` gives the state of the ledger.

    Parameters
    ----------
    sequence : int
        Position in the ledger's log, from 1, without gaps.
    time_s : float
        Seconds since the epoch, by the host's clock.
    kind : EventKind
    subject : str
        Id of the node, device, pool, job or lease.
    facts : mapping of str to JsonValue
        The new values.
    """

    sequence: int
    time_s: float
    kind: EventKind
    subject: str
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
