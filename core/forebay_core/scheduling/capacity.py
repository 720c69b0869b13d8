"""Whether a request can ever be served: asked at once, answered with by how much not."""

from __future__ import annotations

import numpy as np

from forebay import KIND_ORDER, CapacityError, DeviceKind, Request, Snapshot
from forebay.allocation import Free, feasible_nodes, relevant_units, unit_is_gang
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
    asked = f"asked for {kind}={format_amount(item.millis)}"
    index = KIND_ORDER.index(kind)
    of_kind = (snapshot.unit_kind == index) & ~unit_is_gang(snapshot)
    if not of_kind.any():
        return f"{asked}, pool {snapshot.pool} has no {kind}."
    quota = int(snapshot.quota_free_millis[index])
    if item.millis > quota:
        return (
            f"{asked}, the quota of pool {snapshot.pool} is {format_amount(quota)}: "
            f"{format_amount(item.millis - quota)} too much."
        )
    devices = np.unique(snapshot.member_devices[snapshot.member_offsets[:-1][of_kind]])
    nodes = snapshot.device_node[devices]
    most = int(np.bincount(nodes, weights=snapshot.device_capacity_millis[devices]).max())
    if item.millis > most:
        return (
            f"{asked}, pool {snapshot.pool} has {format_amount(most)} on its largest node: "
            f"{format_amount(item.millis - most)} too much."
        )
    if item.linked:
        return f"{asked} linked, pool {snapshot.pool} has no gang of that size."
    wanted = item.memory_bytes or 0
    memory = snapshot.device_memory_bytes[devices]
    largest = int(memory.max() if kind is not DeviceKind.CPU else np.bincount(nodes, memory).max())
    return (
        f"asked for {kind}.memory={_bytes(wanted)}, pool {snapshot.pool} has "
        f"{_bytes(largest)} at most: {_bytes(wanted - largest)} too much."
    )


def _bytes(value: int) -> str:
    return format_quantity(value, Dimension.BYTES, binary=True)
