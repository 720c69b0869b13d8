"""Single changes after which a waiting request could run: to itself, or to what is lent.

Each is found by trying it on the masks and functions that place requests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from forebay import (
    KIND_INDEX,
    MILLIS_PER_UNIT,
    Lease,
    Request,
    ResourceItem,
    Selector,
    Snapshot,
)
from forebay.allocation import Free, feasible_nodes, kind_of_devices, unit_is_gang
from forebay.units import Dimension, format_quantity
from forebay_core.requests import format_amount
from forebay_core.scheduling.arrays import NO_QUOTA, build_batch
from forebay_core.scheduling.engine import SchedulingEngine
from forebay_core.scheduling.shortage import Shortage, shortage_on

Fits = Callable[[Request], bool]

JOBS_NAMED_MAX = 10
"""How many jobs to wait for are told by number."""


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


def feasible_now(
    snapshot: Snapshot, request: Request, engine: SchedulingEngine
) -> NDArray[np.bool_]:
    """Return the nodes that could serve a request in the state given: (N,) bool."""
    batch = build_batch([request])
    candidates = engine.candidates(snapshot, batch)[0]
    return feasible_nodes(snapshot, Free.of(snapshot), batch, 0, candidates)


def changes_of_request(
    snapshot: Snapshot, request: Request, engine: SchedulingEngine
) -> Iterator[Change]:
    """Find what could be asked for instead, all else unchanged."""

    def fits(changed: Request) -> bool:
        return bool(feasible_now(snapshot, changed, engine).any())

    for item in request.items:
        yield from _less_of(snapshot, request, item, fits)
        if item.memory_bytes:
            yield from _less_memory_of(request, item, item.memory_bytes, fits)
        if item.linked and fits(_with_item(request, replace(item, linked=False))):
            yield Change(f"do not ask for {item.kind} to be linked", 1.0)
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
    snapshot: Snapshot, request: Request, item: ResourceItem, fits: Fits
) -> Iterator[Change]:
    """Find the most of one kind that would fit."""

    def fits_with(millis: int) -> bool:
        return fits(_with_item(request, replace(item, millis=millis)))

    if item.linked:
        # A smaller gang may be busy where a larger one is free, so each size is tried.
        of_kind = unit_is_gang(snapshot) & (snapshot.unit_kind == KIND_INDEX[item.kind])
        sizes = np.unique(snapshot.unit_capacity_millis[of_kind])[::-1]
        fitting = (int(size) for size in sizes if size < item.millis and fits_with(int(size)))
        millis = next(fitting, 0)
    else:
        amounts = _amounts_below(item)
        millis = _largest(amounts, fits_with)
    if millis:
        yield Change(
            f"ask for {item.kind}={format_amount(millis)} instead of {format_amount(item.millis)}",
            (item.millis - millis) / item.millis,
        )
    elif len(request.items) > 1 and fits(
        replace(request, items=tuple(other for other in request.items if other is not item))
    ):
        yield Change(f"do without {item.kind}", 1.0)


def _amounts_below(item: ResourceItem) -> Sequence[int]:
    """Return the lesser amounts that can be asked for, in order."""
    if item.kind.divides_freely or item.millis <= MILLIS_PER_UNIT:
        return range(1, item.millis)
    whole = range(MILLIS_PER_UNIT, item.millis, MILLIS_PER_UNIT)
    return [*range(1, MILLIS_PER_UNIT), *whole]


def _less_memory_of(
    request: Request, item: ResourceItem, memory_bytes: int, fits: Fits
) -> Iterator[Change]:
    """Find the most memory of one kind that would fit."""
    memory = _largest(
        range(1, memory_bytes),
        lambda amount: fits(_with_item(request, replace(item, memory_bytes=amount))),
    )
    if memory:
        yield Change(
            f"ask for {item.kind}.memory="
            f"{format_quantity(memory, Dimension.BYTES, binary=True, exact=True)} instead of "
            f"{format_quantity(memory_bytes, Dimension.BYTES, binary=True)}",
            (memory_bytes - memory) / memory_bytes,
        )


def _largest(amounts: Sequence[int], fits: Callable[[int], bool]) -> int:
    """Return the largest of ordered amounts that fits, 0 if none does; the less the likelier."""
    low, high = 0, len(amounts)
    while low < high:
        middle = (low + high) // 2
        if fits(amounts[middle]):
            low = middle + 1
        else:
            high = middle
    return amounts[low - 1] if low else 0


def _with_item(request: Request, item: ResourceItem) -> Request:
    items = tuple(item if other.kind is item.kind else other for other in request.items)
    return replace(request, items=items)


def waits(
    snapshot: Snapshot, request: Request, engine: SchedulingEngine, leases: Sequence[Lease]
) -> Iterator[Change]:
    """Find what it would suffice to wait for."""
    for item in request.items:
        yield from _wait_for_kind(snapshot, request, item, engine)
        yield from _wait_for_quota(snapshot, request, item, engine)
    yield from _wait_for_jobs(snapshot, request, engine, leases)


def _wait_for_kind(
    snapshot: Snapshot, request: Request, item: ResourceItem, engine: SchedulingEngine
) -> Iterator[Change]:
    """Find the node on which the least must be given back, of this kind alone."""
    # Nodes do not bear on one another, so all are emptied at once and judged one by one.
    of_kind = kind_of_devices(snapshot) == KIND_INDEX[item.kind]
    emptied = replace(
        snapshot,
        device_free_millis=np.where(
            of_kind, snapshot.device_capacity_millis, snapshot.device_free_millis
        ),
        device_free_memory_bytes=np.where(
            of_kind, snapshot.device_memory_bytes, snapshot.device_free_memory_bytes
        ),
    )
    candidates = engine.candidates(emptied, build_batch([request]))[0]
    least: tuple[Shortage, int] | None = None
    for node in np.flatnonzero(feasible_now(emptied, request, engine)):
        found = shortage_on(snapshot, item, candidates & (snapshot.unit_node == node))
        if least is None or found < least[0]:
            least = (found, int(node))
    if least is not None:
        shortage, where = least
        parts = [f"{format_amount(shortage.millis)} of {item.kind}"] if shortage.millis else []
        if shortage.memory_bytes:
            size = format_quantity(shortage.memory_bytes, Dimension.BYTES, binary=True)
            parts.append(f"{size} of memory of {item.kind}")
        yield Change(
            f"wait until {' and '.join(parts)} is given back on node {snapshot.node_ids[where]}",
            min(shortage.millis / max(item.millis, 1), 1.0),
        )


def _wait_for_quota(
    snapshot: Snapshot, request: Request, item: ResourceItem, engine: SchedulingEngine
) -> Iterator[Change]:
    """Find how much of one kind must be given back to the pool's quota."""
    kind = KIND_INDEX[item.kind]
    free = int(snapshot.quota_free_millis[kind])

    def fits_with(quota_millis: int) -> bool:
        quota = snapshot.quota_free_millis.copy()
        quota[kind] = quota_millis
        changed = replace(snapshot, quota_free_millis=quota)
        return bool(feasible_now(changed, request, engine).any())

    # Rounding up adds less than the largest step.
    most = item.millis + int(snapshot.unit_step_millis[snapshot.unit_kind == kind].max(initial=0))
    if most <= free or not fits_with(most):
        return
    missing = _largest(range(1, most - free), lambda more: not fits_with(free + more))
    yield Change(
        f"wait until {format_amount(missing + 1)} of {item.kind} is given back to the quota "
        f"of pool {snapshot.pool}",
        min((missing + 1) / max(item.millis, 1), 1.0),
    )


def _wait_for_jobs(
    snapshot: Snapshot, request: Request, engine: SchedulingEngine, leases: Sequence[Lease]
) -> Iterator[Change]:
    """Find the jobs of which the end of any one would do."""
    limited = any(
        snapshot.quota_free_millis[KIND_INDEX[item.kind]] < NO_QUOTA for item in request.items
    )
    # Nodes do not bear on one another, so one lease of each is given back at a time;
    # a quota is the whole pool's, so where there is one each lease is tried by itself.
    turns = [[lease] for lease in leases] if limited else _one_a_node(leases)
    enough: list[Lease] = []
    for tried in turns:
        feasible = feasible_now(_given_back(snapshot, tried), request, engine)
        nodes = {snapshot.node_ids[node] for node in np.flatnonzero(feasible)}
        enough += [lease for lease in tried if (nodes if limited else lease.node in nodes)]
    if enough:
        jobs = sorted({lease.job for lease in enough})
        named = ", ".join(map(str, jobs[:JOBS_NAMED_MAX]))
        more = len(jobs) - JOBS_NAMED_MAX
        asked = sum(item.millis for item in request.items)
        given = min(sum(draw.millis for draw in lease.draws) for lease in enough)
        yield Change(
            f"wait for job {named}{f' or one of {more} more' if more > 0 else ''} to end"
            + (": any one of them" if len(jobs) > 1 else ""),
            min(given / max(asked, 1), 1.0),
        )


def _one_a_node(leases: Sequence[Lease]) -> list[list[Lease]]:
    """Return leases in as few lists as can be, in each at most one of a node."""
    by_node = defaultdict(list)
    for lease in leases:
        by_node[lease.node].append(lease)
    return [
        [lease for lease in turn if lease is not None] for turn in zip_longest(*by_node.values())
    ]


def _given_back(snapshot: Snapshot, leases: Sequence[Lease]) -> Snapshot:
    """Return the state after leases have ended."""
    devices = {device: index for index, device in enumerate(snapshot.device_ids)}
    millis = snapshot.device_free_millis.copy()
    memory = snapshot.device_free_memory_bytes.copy()
    quota = snapshot.quota_free_millis.copy()
    kinds = kind_of_devices(snapshot)
    for lease in leases:
        for draw in lease.draws:
            device = devices.get(draw.device)
            if device is None or kinds[device] < 0:
                continue
            millis[device] += draw.millis
            memory[device] += draw.memory_bytes
            if lease.pool == snapshot.pool and quota[kinds[device]] < NO_QUOTA:
                quota[kinds[device]] += draw.millis
    return replace(
        snapshot,
        device_free_millis=millis,
        device_free_memory_bytes=memory,
        quota_free_millis=quota,
    )
