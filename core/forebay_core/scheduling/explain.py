"""Why a request waits, and the smallest change that would let it run.

Everything is asked of the very masks and functions that place requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from forebay import CapacityError, Lease, Request, Snapshot
from forebay.allocation import relevant_units
from forebay_core.scheduling.arrays import NO_QUOTA, build_batch
from forebay_core.scheduling.capacity import check_ever_fits
from forebay_core.scheduling.changes import (
    Change,
    changes_of_request,
    feasible_now,
    waits,
)
from forebay_core.scheduling.engine import SchedulingEngine

TOGETHER = "enough nowhere on one node"
"""Reason of nodes on which no filter alone is to blame."""

QUOTA = "the pool's quota is used up"
"""Reason of nodes that could serve the request, were it not for the quota."""


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """What one reason rules out.

    Parameters
    ----------
    reason : str
    filter : str
        Name of the filter; empty for :data:`TOGETHER` and :data:`QUOTA`.
    devices : int
        Devices of the kinds asked for that it rules out, whatever other reasons do.
    nodes : int
        Nodes that cannot serve the request and on which it rules out at least one device.
    """

    reason: str
    filter: str
    devices: int
    nodes: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a request waits.

    Parameters
    ----------
    pool : str
    devices, nodes : int
        How many devices of the kinds asked for, and nodes, there are.
    nodes_feasible : int
        Nodes that could serve the request now; above 0 it is about to be placed.
    reasons : tuple of ReasonCount
    changes : tuple of Change
        Each by itself lets the request run; the smallest first.
    never_fits : str
        By how much it asks for more than the pool has with nothing lent; empty when it does not.
    """

    pool: str
    devices: int
    nodes: int
    nodes_feasible: int
    reasons: tuple[ReasonCount, ...]
    changes: tuple[Change, ...]
    never_fits: str = ""


def explain(
    snapshot: Snapshot,
    request: Request,
    engine: SchedulingEngine,
    leases: Sequence[Lease] = (),
) -> Explanation:
    """Tell why a request waits; O((changes + leases of the fullest node) * filters).

    In a pool with a quota it is all leases, not those of the fullest node.

    Parameters
    ----------
    snapshot : Snapshot
        The present state.
    request : Request
    engine : SchedulingEngine
        Whose filters judge.
    leases : sequence of Lease
        Those in force; of each it is tried whether its end alone would let the request run.
    """
    feasible = feasible_now(snapshot, request, engine)
    relevant = relevant_units(snapshot, build_batch([request]))[0]
    changes: list[Change] = []
    if not feasible.any():
        changes += changes_of_request(snapshot, request, engine)
        changes += waits(snapshot, request, engine, leases)
    return Explanation(
        pool=snapshot.pool,
        devices=_device_count(snapshot, relevant),
        nodes=len(snapshot.node_ids),
        nodes_feasible=int(feasible.sum()),
        reasons=tuple(_reasons(snapshot, request, engine, relevant, feasible)),
        changes=tuple(sorted(changes, key=lambda change: change.size)),
        never_fits="" if feasible.any() else _never_fits(snapshot, request),
    )


def _reasons(
    snapshot: Snapshot,
    request: Request,
    engine: SchedulingEngine,
    relevant: NDArray[np.bool_],
    feasible: NDArray[np.bool_],
) -> Iterator[ReasonCount]:
    blamed = feasible.copy()
    for ruling in engine.rulings(snapshot, build_batch([request])):
        for index, reason in enumerate(ruling.reasons):
            units = ruling.ruled_out[index, 0] & relevant
            nodes = np.zeros(len(snapshot.node_ids), dtype=bool)
            nodes[snapshot.unit_node[units]] = True
            nodes &= ~feasible
            blamed |= nodes
            count = _device_count(snapshot, units)
            if count:
                yield ReasonCount(reason, ruling.filter, count, int(nodes.sum()))
    unlimited = replace(
        snapshot, quota_free_millis=np.full_like(snapshot.quota_free_millis, NO_QUOTA)
    )
    by_quota = feasible_now(unlimited, request, engine) & ~feasible
    if by_quota.any():
        yield ReasonCount(QUOTA, "", 0, int(by_quota.sum()))
    together = ~(blamed | by_quota)
    if together.any():
        yield ReasonCount(TOGETHER, "", 0, int(together.sum()))


def _never_fits(snapshot: Snapshot, request: Request) -> str:
    """Return by how much a request is too much with nothing lent; the quota is left aside."""
    empty = replace(
        snapshot,
        device_free_millis=snapshot.device_capacity_millis,
        device_free_memory_bytes=snapshot.device_memory_bytes,
        quota_free_millis=np.full_like(snapshot.quota_free_millis, NO_QUOTA),
    )
    try:
        check_ever_fits(empty, request)
    except CapacityError as error:
        return str(error)
    return ""


def _device_count(snapshot: Snapshot, units: NDArray[np.bool_]) -> int:
    of_units = np.repeat(units, np.diff(snapshot.member_offsets))
    return len(np.unique(snapshot.member_devices[of_units]))
