"""How a request is drawn from the units of one node: the same rules for policies and the host.

Functions on the arrays of :mod:`forebay.snapshot`; axes are named there.

A CPU divides freely: an amount may come from several units of the node, in multiples of their
steps, few units rather than many.
Of any other kind a part of a device comes from one unit, whole devices each from a unit that is
entirely free, and linked devices from one gang of exactly that size.
An amount that is no multiple of a unit's step is rounded up to one.
Units may stand on the same device; a request then draws from the device through one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forebay.device import MILLIS_PER_UNIT, DeviceKind
from forebay.snapshot import KIND_INDEX, RequestBatch, Snapshot

_CPU = KIND_INDEX[DeviceKind.CPU]


@dataclass(slots=True, eq=False)
class Free:
    """What is free, to be changed while a batch is placed.

    Parameters
    ----------
    millis : (D,) int64
    memory_bytes : (D,) int64
    quota_millis : (K,) int64
    """

    millis: NDArray[np.int64]
    memory_bytes: NDArray[np.int64]
    quota_millis: NDArray[np.int64]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Free:
        """Return what is free in a snapshot; O(D)."""
        return cls(
            snapshot.device_free_millis.copy(),
            snapshot.device_free_memory_bytes.copy(),
            snapshot.quota_free_millis.copy(),
        )


@dataclass(frozen=True, slots=True)
class UnitDraw:
    """What a request takes from one unit.

    Parameters
    ----------
    unit : int
        Index along ``U``.
    millis : int
    memory_bytes : int
        From each member of the unit.
    """

    unit: int
    millis: int
    memory_bytes: int


def members(snapshot: Snapshot, unit: int) -> NDArray[np.int32]:
    """Return the devices of a unit."""
    return snapshot.member_devices[
        snapshot.member_offsets[unit] : snapshot.member_offsets[unit + 1]
    ]


def kind_of_devices(snapshot: Snapshot) -> NDArray[np.int8]:
    """Return the kind of each device that a unit stands on, -1 for others: (D,) int8; O(M)."""
    kinds = np.full(len(snapshot.device_ids), -1, dtype=np.int8)
    kinds[snapshot.member_devices] = np.repeat(snapshot.unit_kind, np.diff(snapshot.member_offsets))
    return kinds


def unit_is_gang(snapshot: Snapshot) -> NDArray[np.bool_]:
    """Return which units join several devices: (U,) bool."""
    return np.diff(snapshot.member_offsets) > 1


def unit_free_millis(snapshot: Snapshot, free: Free) -> NDArray[np.int64]:
    """Return what each unit could lend now, in whole steps: (U,) int64; O(M).

    A gang lends everything or nothing, and nothing once any member is in use.
    """
    if not snapshot.unit_ids:
        return np.zeros(0, dtype=np.int64)
    starts = snapshot.member_offsets[:-1]
    of_members = free.millis[snapshot.member_devices]
    untouched = of_members == snapshot.device_capacity_millis[snapshot.member_devices]
    whole = np.where(np.logical_and.reduceat(untouched, starts), snapshot.unit_capacity_millis, 0)
    # A device whose capacity has shrunk below what is lent has less than nothing free.
    single = np.maximum(of_members[starts], 0)
    single -= single % snapshot.unit_step_millis
    return np.where(unit_is_gang(snapshot), whole, single)


def unit_free_memory_bytes(snapshot: Snapshot, free: Free) -> NDArray[np.int64]:
    """Return the free memory of each unit, that of its poorest member: (U,) int64; O(M)."""
    if not snapshot.unit_ids:
        return np.zeros(0, dtype=np.int64)
    return np.minimum.reduceat(
        free.memory_bytes[snapshot.member_devices], snapshot.member_offsets[:-1]
    )


def relevant_units(snapshot: Snapshot, batch: RequestBatch) -> NDArray[np.bool_]:
    """Return which units have a kind and form that a request asks for: (R, U) bool."""
    wanted = batch.wanted[:, snapshot.unit_kind]
    linked = batch.linked[:, snapshot.unit_kind]
    relevant: NDArray[np.bool_] = wanted & (linked == unit_is_gang(snapshot))
    return relevant


def units_needed(batch: RequestBatch, request: int, kind: int) -> int:
    """Return how many whole devices a request asks for; 0 where it asks for a part or a gang."""
    millis = int(batch.millis[request, kind])
    if kind == _CPU or batch.linked[request, kind] or millis < MILLIS_PER_UNIT:
        return 0
    return millis // MILLIS_PER_UNIT


def unit_memory_needed(
    snapshot: Snapshot, batch: RequestBatch, request: int, kind: int
) -> NDArray[np.int64]:
    """Return the memory a request takes from each member of each unit: (U,) int64.

    Without a word on memory it is the same share as of the device; on a CPU, none.
    A gang takes from each member what its poorest member has.
    """
    memory = int(batch.memory_bytes[request, kind])
    if memory >= 0:
        return np.full(len(snapshot.unit_ids), memory, dtype=np.int64)
    if kind == _CPU or not snapshot.unit_ids:
        return np.zeros(len(snapshot.unit_ids), dtype=np.int64)
    share = min(int(batch.millis[request, kind]), MILLIS_PER_UNIT)
    poorest = np.minimum.reduceat(
        snapshot.device_memory_bytes[snapshot.member_devices], snapshot.member_offsets[:-1]
    )
    return poorest * share // MILLIS_PER_UNIT


def one_unit_a_device(snapshot: Snapshot, units: NDArray[np.intp]) -> NDArray[np.intp]:
    """Leave out units whose first device an earlier one of them stands on; O(units log units)."""
    devices = snapshot.member_devices[snapshot.member_offsets[units]]
    _, first = np.unique(devices, return_index=True)
    return units[np.sort(first)]


def unit_fits(
    snapshot: Snapshot,
    free: Free,
    batch: RequestBatch,
    request: int,
    kind: int,
) -> NDArray[np.bool_]:
    """Return which units can serve the kind's part of a request: (U,) bool; O(M).

    For a CPU: can contribute anything at all.
    """
    lendable = unit_free_millis(snapshot, free)
    memory = unit_free_memory_bytes(snapshot, free)
    millis = int(batch.millis[request, kind])
    if kind == _CPU:
        asks_memory = batch.memory_bytes[request, kind] > 0
        fits: NDArray[np.bool_] = (lendable > 0) & (millis > 0) | (memory > 0) & asks_memory
        return fits
    enough_memory = memory >= unit_memory_needed(snapshot, batch, request, kind)
    return enough_memory & (lendable >= _unit_millis(snapshot, batch, request, kind))


def _unit_millis(
    snapshot: Snapshot, batch: RequestBatch, request: int, kind: int
) -> NDArray[np.int64]:
    """Return what the request draws from each unit that serves it, rounded up: (U,) int64."""
    millis = int(batch.millis[request, kind])
    if batch.linked[request, kind]:
        # A gang of another size does not serve; more than any unit has says so.
        exact = snapshot.unit_capacity_millis == millis
        return np.where(exact, millis, np.iinfo(np.int64).max)
    each = min(millis, MILLIS_PER_UNIT)
    step = snapshot.unit_step_millis
    return -(-each // step) * step


def feasible_nodes(
    snapshot: Snapshot,
    free: Free,
    batch: RequestBatch,
    request: int,
    candidates: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return the nodes on which a request can be drawn whole: (N,) bool; O(M + N).

    Exact: :func:`draws_on_node` succeeds on these nodes and no others.

    Parameters
    ----------
    snapshot : Snapshot
    free : Free
    batch : RequestBatch
    request : int
        Index along ``R``.
    candidates : (U,) bool
        Units that may be drawn from, of relevant kind and form.
    """
    feasible = np.ones(len(snapshot.node_ids), dtype=bool)
    for kind in np.flatnonzero(batch.wanted[request]):
        feasible &= _feasible_for(snapshot, free, batch, request, int(kind), candidates)
    return feasible


def _feasible_for(
    snapshot: Snapshot,
    free: Free,
    batch: RequestBatch,
    request: int,
    kind: int,
    candidates: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    count = len(snapshot.node_ids)
    if kind == _CPU:
        return _feasible_for_cpu(snapshot, free, batch, request, candidates)
    fitting = np.flatnonzero(_serving_units(snapshot, free, batch, request, kind, candidates))
    distinct = one_unit_a_device(snapshot, fitting)
    needed = max(units_needed(batch, request, kind), 1)
    feasible: NDArray[np.bool_] = (
        np.bincount(snapshot.unit_node[distinct], minlength=count) >= needed
    )
    return feasible


def _serving_units(
    snapshot: Snapshot,
    free: Free,
    batch: RequestBatch,
    request: int,
    kind: int,
    candidates: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return the candidates that fit, and whose amounts the quota allows: (U,) bool."""
    needed = max(units_needed(batch, request, kind), 1)
    most = free.quota_millis[kind] // needed
    serving: NDArray[np.bool_] = (
        candidates
        & (snapshot.unit_kind == kind)
        & unit_fits(snapshot, free, batch, request, kind)
        & (_unit_millis(snapshot, batch, request, kind) <= most)
    )
    return serving


def _feasible_for_cpu(
    snapshot: Snapshot,
    free: Free,
    batch: RequestBatch,
    request: int,
    candidates: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    count = len(snapshot.node_ids)
    wanted = int(batch.millis[request, _CPU])
    usable = candidates & (snapshot.unit_kind == _CPU)
    lendable = unit_free_millis(snapshot, free)
    units = _cpu_units(snapshot, lendable, usable)
    nodes = snapshot.unit_node[units]
    memory_free = np.maximum(unit_free_memory_bytes(snapshot, free)[units], 0)
    # Sums stay far below 2**53, where float64 counts exactly.
    millis = np.bincount(nodes, weights=lendable[units], minlength=count)
    memory = np.bincount(nodes, weights=memory_free, minlength=count)
    enough: NDArray[np.bool_] = (millis >= wanted) & (
        memory >= max(int(batch.memory_bytes[request, _CPU]), 0)
    )
    # Rounding up to a step may go beyond the quota where the request itself does not.
    quota = int(free.quota_millis[_CPU])
    if quota < wanted:
        return np.zeros(count, dtype=bool)
    if quota - wanted < int(snapshot.unit_step_millis[units].max(initial=1)):
        for node in np.flatnonzero(enough):
            here = usable & (snapshot.unit_node == node)
            draws = _draw_cpu(snapshot, free, batch, request, here)
            enough[node] = draws is not None and sum(draw.millis for draw in draws) <= quota
    return enough


def _cpu_units(
    snapshot: Snapshot, lendable: NDArray[np.int64], usable: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Return for each CPU the unit that lends the most of it, those that lend most first.

    Where two lend the same of a CPU it is the one with the smaller step.
    """
    units = np.flatnonzero(usable)
    keys = (units, snapshot.unit_step_millis[units], -lendable[units])
    return one_unit_a_device(snapshot, units[np.lexsort(keys)])


def draws_on_node(
    snapshot: Snapshot,
    free: Free,
    batch: RequestBatch,
    request: int,
    candidates: NDArray[np.bool_],
    node: int,
) -> list[UnitDraw] | None:
    """Choose the units of one node that a request is drawn from; changes nothing.

    Units that round the amount up the least are taken first, then those with the least free
    that still fit, so that others stay whole; ties go to the lowest unit index.

    Returns
    -------
    list of UnitDraw or None
        None where the node cannot serve the request whole.
    """
    chosen: list[UnitDraw] = []
    for kind in np.flatnonzero(batch.wanted[request]):
        usable = candidates & (snapshot.unit_kind == kind) & (snapshot.unit_node == node)
        draws = (
            _draw_cpu(snapshot, free, batch, request, usable)
            if kind == _CPU
            else _draw_devices(snapshot, free, batch, request, int(kind), usable)
        )
        if draws is None or sum(draw.millis for draw in draws) > free.quota_millis[kind]:
            return None
        chosen += draws
    return chosen


def _draw_devices(
    snapshot: Snapshot,
    free: Free,
    batch: RequestBatch,
    request: int,
    kind: int,
    usable: NDArray[np.bool_],
) -> list[UnitDraw] | None:
    needed = max(units_needed(batch, request, kind), 1)
    fitting = np.flatnonzero(_serving_units(snapshot, free, batch, request, kind, usable))
    millis = unit_free_millis(snapshot, free)
    memory = unit_free_memory_bytes(snapshot, free)
    per_unit = _unit_millis(snapshot, batch, request, kind)
    keys = (fitting, memory[fitting], millis[fitting], per_unit[fitting])
    order = one_unit_a_device(snapshot, fitting[np.lexsort(keys)])
    if len(order) < needed:
        return None
    memory_needed = unit_memory_needed(snapshot, batch, request, kind)
    return [
        UnitDraw(int(unit), int(per_unit[unit]), int(memory_needed[unit]))
        for unit in order[:needed]
    ]


def _draw_cpu(
    snapshot: Snapshot,
    free: Free,
    batch: RequestBatch,
    request: int,
    usable: NDArray[np.bool_],
) -> list[UnitDraw] | None:
    """Draw cores from as few units as can be, and memory from those first.

    One unit that has both cores and memory goes before one that has the cores alone.
    """
    lendable = unit_free_millis(snapshot, free)
    memory_free = unit_free_memory_bytes(snapshot, free)
    units = _cpu_units(snapshot, lendable, usable)
    cores_left = int(batch.millis[request, _CPU])
    memory_left = max(int(batch.memory_bytes[request, _CPU]), 0)
    order = units
    sufficient = units[lendable[units] >= cores_left]
    if len(sufficient):
        steps = snapshot.unit_step_millis[sufficient]
        rounded_up = -(-cores_left // steps) * steps
        without_memory = memory_free[sufficient] < memory_left
        keys = (sufficient, lendable[sufficient], without_memory, rounded_up)
        order = sufficient[np.lexsort(keys)][:1]
    draws: dict[int, tuple[int, int]] = {}
    for unit in order if cores_left else ():
        step = int(snapshot.unit_step_millis[unit])
        millis = min(int(lendable[unit]), -(-cores_left // step) * step)
        if millis > 0:
            draws[int(unit)] = (millis, 0)
            cores_left -= millis
        if cores_left <= 0:
            break
    others = units[np.lexsort((units, -memory_free[units]))]
    for unit in [*draws, *(int(unit) for unit in others if int(unit) not in draws)]:
        memory = min(memory_left, max(int(memory_free[unit]), 0))
        if memory:
            draws[unit] = (draws.get(unit, (0, 0))[0], memory)
            memory_left -= memory
    if cores_left > 0 or memory_left > 0:
        return None
    return [UnitDraw(unit, millis, memory) for unit, (millis, memory) in sorted(draws.items())]


def take(snapshot: Snapshot, free: Free, draws: list[UnitDraw]) -> None:
    """Take draws out of what is free; O(members)."""
    for draw in draws:
        devices = members(snapshot, draw.unit)
        if len(devices) > 1:
            free.millis[devices] -= snapshot.device_capacity_millis[devices]
        else:
            free.millis[devices] -= draw.millis
        free.memory_bytes[devices] -= draw.memory_bytes
        free.quota_millis[snapshot.unit_kind[draw.unit]] -= draw.millis


__all__ = [
    "Free",
    "UnitDraw",
    "draws_on_node",
    "feasible_nodes",
    "kind_of_devices",
    "members",
    "one_unit_a_device",
    "relevant_units",
    "take",
    "unit_fits",
    "unit_free_memory_bytes",
    "unit_free_millis",
    "unit_is_gang",
    "unit_memory_needed",
    "units_needed",
]
