"""How much must be given back on a node before an amount can be drawn there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forebay import KIND_INDEX, MILLIS_PER_UNIT, Request, ResourceItem, Snapshot
from forebay.allocation import one_unit_a_device, unit_is_gang, unit_memory_needed, units_needed
from forebay_core.scheduling.arrays import build_batch


class Shortage(NamedTuple):
    """What is missing; compared by millis, then by memory.

    Parameters
    ----------
    millis : int
    memory_bytes : int
    """

    millis: int
    memory_bytes: int


def shortage_on(snapshot: Snapshot, item: ResourceItem, candidates: NDArray[np.bool_]) -> Shortage:
    """Return the least that must be given back for an item to be drawn; O(M).

    Parameters
    ----------
    snapshot : Snapshot
        The present state.
    item : ResourceItem
    candidates : (U,) bool
        Units of one node that would serve if they were free; enough of them.
    """
    units = np.flatnonzero(candidates & (snapshot.unit_kind == KIND_INDEX[item.kind]))
    if item.kind.divides_freely:
        return _of_cpu(snapshot, item, units)
    return _of_devices(snapshot, item, units)


def _of_devices(snapshot: Snapshot, item: ResourceItem, units: NDArray[np.intp]) -> Shortage:
    """Take the units that lack the least, each of which serves by itself."""
    batch = build_batch([Request((item,))])
    kind = KIND_INDEX[item.kind]
    needed = max(units_needed(batch, 0, kind), 1)
    starts = snapshot.member_offsets[:-1]
    devices = snapshot.member_devices
    counts = np.diff(snapshot.member_offsets)
    step = snapshot.unit_step_millis
    part = -(-min(item.millis, MILLIS_PER_UNIT) // step) * step
    each = np.where(
        np.repeat(unit_is_gang(snapshot), counts),
        snapshot.device_capacity_millis[devices],
        np.repeat(part, counts),
    )
    memory = np.repeat(unit_memory_needed(snapshot, batch, 0, kind), counts)
    millis_short = np.add.reduceat(
        np.maximum(each - snapshot.device_free_millis[devices], 0), starts
    )
    memory_short = np.add.reduceat(
        np.maximum(memory - snapshot.device_free_memory_bytes[devices], 0), starts
    )
    order = units[np.lexsort((units, memory_short[units], millis_short[units]))]
    chosen = one_unit_a_device(snapshot, order)[:needed]
    return Shortage(int(millis_short[chosen].sum()), int(memory_short[chosen].sum()))


def _of_cpu(snapshot: Snapshot, item: ResourceItem, units: NDArray[np.intp]) -> Shortage:
    """Fill up begun steps first, then take whole ones; exact where all steps are equal."""
    devices = snapshot.member_devices[snapshot.member_offsets[:-1]]
    steps = snapshot.unit_step_millis
    free = np.maximum(snapshot.device_free_millis[devices], 0)
    capacity = snapshot.device_capacity_millis[devices]
    # As much as can be lent when nothing is: through the unit that lends the most of its CPU.
    ever = capacity - capacity % steps
    distinct = one_unit_a_device(snapshot, units[np.lexsort((units, steps[units], -ever[units]))])
    missing = item.millis - int((free - free % steps)[distinct].sum())
    cost = 0
    begun = distinct[(free - free % steps)[distinct] < ever[distinct]]
    for unit in begun[np.argsort((steps - free % steps)[begun], kind="stable")]:
        if missing > 0:
            cost += int(steps[unit] - free[unit] % steps[unit])
            missing -= int(steps[unit])
    step = int(steps[distinct].max(initial=1))
    cost += max(-(-missing // step) * step, 0)
    memory = int(np.maximum(snapshot.device_free_memory_bytes[devices[distinct]], 0).sum())
    return Shortage(cost, max((item.memory_bytes or 0) - memory, 0))
