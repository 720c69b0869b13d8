"""Whether a request can ever be served: asked at once, answered with by how much not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forebay import (
    KIND_ORDER,
    MILLIS_PER_UNIT,
    CapacityError,
    DeviceKind,
    Request,
    ResourceItem,
    Snapshot,
)
from forebay.allocation import (
    Free,
    feasible_nodes,
    one_unit_a_device,
    relevant_units,
    unit_free_memory_bytes,
    unit_free_millis,
    unit_is_gang,
)
from forebay.units import Dimension, format_quantity
from forebay_core.requests import format_amount
from forebay_core.scheduling.arrays import build_batch


def check_ever_fits(snapshot: Snapshot, request: Request) -> None:
    """Check that a pool can serve a request when nothing is lent.

    Selectors are left aside: a device that matches may still come.

    Parameters
    ----------
    snapshot : Snapshot
        Of the pool with nothing lent.
    request : Request

    Raises
    ------
    CapacityError
        It asks for more than any node of the pool has, or than the pool's quota;
        the message says by how much.
    """
    batch = build_batch([request])
    relevant = relevant_units(snapshot, batch)[0]
    free = Free.of(snapshot)
    if feasible_nodes(snapshot, free, batch, 0, relevant).any():
        return
    faults = [fault for item in request.items if (fault := _fault(snapshot, request, item.kind))]
    raise CapacityError(
        " ".join(faults)
        or f"no single node of pool {snapshot.pool} has everything that is asked for.",
        fix="Ask for less, or see what there is with: forebay pools",
    )


def _fault(snapshot: Snapshot, request: Request, kind: DeviceKind) -> str:
    """Return by how much one kind is too much, empty when it would fit alone."""
    (item,) = (item for item in request.items if item.kind is kind)
    alone = build_batch([Request((item,), pool=request.pool)])
    free = Free.of(snapshot)
    relevant = relevant_units(snapshot, alone)[0]
    if feasible_nodes(snapshot, free, alone, 0, relevant).any():
        return ""
    index = KIND_ORDER.index(kind)
    where = f"pool {snapshot.pool}"
    asked = f"asked for {_amount(item)}"
    units = np.flatnonzero((snapshot.unit_kind == index) & ~unit_is_gang(snapshot))
    if item.linked and (snapshot.unit_kind == index).any():
        return _linked_fault(snapshot, index, item, f"{asked} linked, {where}")
    if not len(units):
        return f"{asked}, {where} has no {kind}."
    least = _least_drawn(snapshot, item, units)
    if least != item.millis:
        asked += f", {format_amount(least)} in whole steps"
    lendable = unit_free_millis(snapshot, free)
    distinct = one_unit_a_device(snapshot, units[np.argsort(-lendable[units], kind="stable")])
    most = int(_sum_by_node(snapshot, distinct, lendable).max())
    quota = int(snapshot.quota_free_millis[index])
    if least > quota and quota <= most:
        return (
            f"{asked}, the quota of {where} is {format_amount(quota)}: "
            f"{format_amount(least - quota)} too much."
        )
    asked = f"{asked}, {where}"
    if item.millis > most:
        return (
            f"{asked} has {format_amount(most)} on its largest node: "
            f"{format_amount(item.millis - most)} too much."
        )
    return _memory_fault(snapshot, free, item, distinct, asked)


def _amount(item: ResourceItem) -> str:
    """Return what an item asks for: ``gpu=2 with 16GiB each``."""
    if not item.memory_bytes:
        return f"{item.kind}={format_amount(item.millis)}"
    if not item.millis:
        return f"{item.kind}.memory={_bytes(item.memory_bytes)}"
    each = not item.kind.divides_freely and item.millis > MILLIS_PER_UNIT
    memory = f"{_bytes(item.memory_bytes)}{' each' if each else ''}"
    return f"{item.kind}={format_amount(item.millis)} with {memory}"


def _memory_fault(
    snapshot: Snapshot, free: Free, item: ResourceItem, units: NDArray[np.intp], asked: str
) -> str:
    """Return why no node serves an amount that it has enough of, memory left aside."""
    memory = unit_free_memory_bytes(snapshot, free)
    by_node = _sum_by_node(snapshot, units, memory)
    largest = int(by_node.max() if item.kind.divides_freely else memory[units].max())
    wanted = item.memory_bytes or 0
    if wanted > largest:
        return f"{asked} has {_bytes(largest)} at most: {_bytes(wanted - largest)} too much."
    return f"{asked} has that much of both, but on no single node together."


def _linked_fault(snapshot: Snapshot, kind: int, item: ResourceItem, asked: str) -> str:
    """Return why no gang serves."""
    gangs = (snapshot.unit_kind == kind) & unit_is_gang(snapshot)
    sizes = sorted({int(size) for size in snapshot.unit_capacity_millis[gangs]})
    if item.millis in sizes:
        quota = int(snapshot.quota_free_millis[kind])
        if item.millis > quota:
            return f"{asked} has a quota of {format_amount(quota)}: less than that gang."
        return f"{asked} has gangs of that size, but with less memory."
    known = ", ".join(format_amount(size) for size in sizes)
    return f"{asked} has no gang of that size{f': there are gangs of {known}' if known else ''}."


def _least_drawn(snapshot: Snapshot, item: ResourceItem, units: NDArray[np.intp]) -> int:
    """Return the least that an amount comes to, rounded up to the step of some unit."""
    steps = snapshot.unit_step_millis[units]
    part = item.millis if item.kind.divides_freely else min(item.millis, MILLIS_PER_UNIT)
    return item.millis - part + int((-(-part // steps) * steps).min())


def _sum_by_node(
    snapshot: Snapshot, units: NDArray[np.intp], amounts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the sum over the units of each node: (N,) int64."""
    total = np.zeros(len(snapshot.node_ids), dtype=np.int64)
    np.add.at(total, snapshot.unit_node[units], amounts[units])
    return total


def _bytes(value: int) -> str:
    return format_quantity(value, Dimension.BYTES, binary=True)
