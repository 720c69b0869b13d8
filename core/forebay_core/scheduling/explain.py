"""Why a request waits, and the smallest change that would let it run.

Everything is asked of the very masks and functions that place requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from forebay import (
    KIND_ORDER,
    MILLIS_PER_UNIT,
    DeviceKind,
    Request,
    ResourceItem,
    Selector,
    Snapshot,
)
from forebay.allocation import (
    Free,
    feasible_nodes,
    relevant_units,
    unit_free_memory_bytes,
    unit_free_millis,
)
from forebay.units import Dimension, format_quantity
from forebay_core.requests import format_amount
from forebay_core.scheduling.arrays import build_batch
from forebay_core.scheduling.engine import SchedulingEngine

TOGETHER = "enough nowhere on one node"
"""Reason of nodes on which no filter alone is to blame."""


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """What one reason rules out.

    Parameters
    ----------
    reason : str
    filter : str
        Name of the filter; empty for :data:`TOGETHER`.
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
class Change:
    """One change after which the request could run now.

    Parameters
    ----------
    text : str
        As a person would read it.
    size : float
        Part of what was asked for that changes, between 0 and 1.
    """

    text: str
    size: float


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
    """

    pool: str
    devices: int
    nodes: int
    nodes_feasible: int
    reasons: tuple[ReasonCount, ...]
    changes: tuple[Change, ...]


def explain(snapshot: Snapshot, request: Request, engine: SchedulingEngine) -> Explanation:
    """Tell why a request waits; O(changes * filters).

    Parameters
    ----------
    snapshot : Snapshot
        The present state.
    request : Request
    engine : SchedulingEngine
        Whose filters judge.
    """
    batch = build_batch([request])
    relevant = relevant_units(snapshot, batch)[0]
    feasible = _feasible(snapshot, request, engine)
    reasons = []
    blamed = np.zeros(len(snapshot.node_ids), dtype=bool)
    for ruling in engine.rulings(snapshot, batch):
        for index, reason in enumerate(ruling.reasons):
            units = ruling.ruled_out[index, 0] & relevant
            nodes = np.zeros(len(snapshot.node_ids), dtype=bool)
            nodes[snapshot.unit_node[units]] = True
            nodes &= ~feasible
            blamed |= nodes
            count = _device_count(snapshot, units)
            if count:
                reasons.append(ReasonCount(reason, ruling.filter, count, int(nodes.sum())))
    together = ~feasible & ~blamed
    if together.any():
        reasons.append(ReasonCount(TOGETHER, "", 0, int(together.sum())))
    changes = () if feasible.any() else tuple(_changes(snapshot, request, engine))
    return Explanation(
        pool=snapshot.pool,
        devices=_device_count(snapshot, relevant),
        nodes=len(snapshot.node_ids),
        nodes_feasible=int(feasible.sum()),
        reasons=tuple(reasons),
        changes=tuple(sorted(changes, key=lambda change: change.size)),
    )


def _feasible(snapshot: Snapshot, request: Request, engine: SchedulingEngine) -> NDArray[np.bool_]:
    batch = build_batch([request])
    candidates = engine.candidates(snapshot, batch)[0]
    return feasible_nodes(snapshot, Free.of(snapshot), batch, 0, candidates)


def _device_count(snapshot: Snapshot, units: NDArray[np.bool_]) -> int:
    of_units = np.repeat(units, np.diff(snapshot.member_offsets))
    return len(np.unique(snapshot.member_devices[of_units]))


def _changes(snapshot: Snapshot, request: Request, engine: SchedulingEngine) -> Iterator[Change]:
    def fits(changed: Request) -> bool:
        return bool(_feasible(snapshot, changed, engine).any())

    for item in request.items:
        yield from _less_of(request, item, fits)
        if item.linked and fits(_with_item(request, replace(item, linked=False))):
            yield Change(f"do not ask for {item.kind} to be linked", 1.0)
        yield from _wait_for(snapshot, request, item, engine)
    for selector in (*request.device_selectors, *request.node_selectors):
        without = replace(
            request,
            device_selectors=_others(request.device_selectors, selector),
            node_selectors=_others(request.node_selectors, selector),
        )
        if fits(without):
            yield Change(f"drop the condition {selector}", 1.0)


def _others(selectors: tuple[Selector, ...], one: Selector) -> tuple[Selector, ...]:
    return tuple(selector for selector in selectors if selector is not one)


def _less_of(
    request: Request, item: ResourceItem, fits: Callable[[Request], bool]
) -> Iterator[Change]:
    """Find the most of one kind, and of its memory, that would fit with all else unchanged."""
    step = 1 if item.kind.divides_freely or item.millis <= MILLIS_PER_UNIT else MILLIS_PER_UNIT
    millis = step * _largest(
        item.millis // step,
        lambda amount: (
            amount > 0 and fits(_with_item(request, replace(item, millis=amount * step)))
        ),
    )
    if millis:
        yield Change(
            f"ask for {item.kind}={format_amount(millis)} instead of {format_amount(item.millis)}",
            (item.millis - millis) / item.millis,
        )
    elif len(request.items) > 1 and fits(
        replace(request, items=tuple(other for other in request.items if other is not item))
    ):
        yield Change(f"do without {item.kind}", 1.0)
    if item.memory_bytes:
        memory = _largest(
            item.memory_bytes,
            lambda amount: fits(_with_item(request, replace(item, memory_bytes=amount))),
        )
        if memory:
            yield Change(
                f"ask for {item.kind}.memory="
                f"{format_quantity(memory, Dimension.BYTES, binary=True, exact=True)} instead of "
                f"{format_quantity(item.memory_bytes, Dimension.BYTES, binary=True)}",
                (item.memory_bytes - memory) / item.memory_bytes,
            )


def _largest(below: int, fits: Callable[[int], bool]) -> int:
    """Return the largest amount under ``below`` that fits, 0 if none; the less the likelier."""
    low, high = 0, below
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def _with_item(request: Request, item: ResourceItem) -> Request:
    items = tuple(item if other.kind is item.kind else other for other in request.items)
    return replace(request, items=items)


def _wait_for(
    snapshot: Snapshot, request: Request, item: ResourceItem, engine: SchedulingEngine
) -> Iterator[Change]:
    """Find the node on which the least must be given back, of this kind alone."""
    kind = KIND_ORDER.index(item.kind)
    best: tuple[int, int] | None = None
    for node in range(len(snapshot.node_ids)):
        needed = _shortage_millis(snapshot, request, item, kind, node, engine)
        if needed is not None and (best is None or needed < best[0]):
            best = (needed, node)
    if best is not None:
        millis, node = best
        what = f"{format_amount(millis)} of {item.kind}" if millis else f"memory of {item.kind}"
        yield Change(
            f"wait until {what} is given back on node {snapshot.node_ids[node]}",
            millis / max(item.millis, 1),
        )


def _shortage_millis(
    snapshot: Snapshot,
    request: Request,
    item: ResourceItem,
    kind: int,
    node: int,
    engine: SchedulingEngine,
) -> int | None:
    """Return what must be given back on a node, None where that would not help."""
    here = (snapshot.device_node == node) & _devices_of_kind(snapshot, kind)
    emptied = replace(
        snapshot,
        device_free_millis=np.where(
            here, snapshot.device_capacity_millis, snapshot.device_free_millis
        ),
        device_free_memory_bytes=np.where(
            here, snapshot.device_memory_bytes, snapshot.device_free_memory_bytes
        ),
    )
    if not _feasible(emptied, request, engine)[node]:
        return None
    free = Free.of(snapshot)
    units = (snapshot.unit_kind == kind) & (snapshot.unit_node == node)
    lendable = unit_free_millis(snapshot, free)[units]
    if item.kind is DeviceKind.CPU:
        return max(item.millis - int(lendable.sum()), 0)
    if item.linked:
        return item.millis
    if item.millis < MILLIS_PER_UNIT:
        enough = unit_free_memory_bytes(snapshot, free)[units] >= (item.memory_bytes or 0)
        most = int(lendable[enough].max(initial=0))
        return max(item.millis - most, 0)
    whole = int((lendable >= MILLIS_PER_UNIT).sum()) * MILLIS_PER_UNIT
    return max(item.millis - whole, 0)


def _devices_of_kind(snapshot: Snapshot, kind: int) -> NDArray[np.bool_]:
    of_kind = np.zeros(len(snapshot.device_ids), dtype=bool)
    of_units = np.repeat(snapshot.unit_kind == kind, np.diff(snapshot.member_offsets))
    of_kind[snapshot.member_devices[of_units]] = True
    return of_kind
