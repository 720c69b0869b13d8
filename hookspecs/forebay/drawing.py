"""How a request is drawn from the units of one node, in a form that can be compiled.

The rules are those of :mod:`forebay.allocation`, which states them for whole fleets in NumPy;
a property test holds the two against each other.  Every function is plain Python on arrays,
within what Numba supports: a host runs it as it is on a few nodes, and compiled on many.

Axes are those of :mod:`forebay.scoring`; ``C`` are the distinct requests, ``Q`` distinct masks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from forebay.scoring import FleetArrays

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CPU = 0
"""Index of CPUs along ``K``."""

WHOLE = 1000
"""A whole device in thousandths."""

TOO_MUCH = 1 << 62
"""More than any unit has."""


class ClassArrays(NamedTuple):
    """Distinct requests as kernels see them.

    Parameters
    ----------
    millis : (C, K) int64
    memory_bytes : (C, K) int64
        -1 asks for the same share as of the device.
    wanted : (C, K) bool
    linked : (C, K) bool
    mask : (C,) int32
        Index along ``Q``.
    candidates : (Q, U) bool
        Units that every filter lets through.
    kind : (C,) int64
        The first kind asked for that is no CPU; -1 where there is none.
    form : (C,) int64
        Index along ``F``.
    spread_group : (C,) int64
        Index along ``A``; -1 for none.
    spread_max : (C,) int64
    """

    millis: NDArray[np.int64]
    memory_bytes: NDArray[np.int64]
    wanted: NDArray[np.bool_]
    linked: NDArray[np.bool_]
    mask: NDArray[np.int32]
    candidates: NDArray[np.bool_]
    kind: NDArray[np.int64]
    form: NDArray[np.int64]
    spread_group: NDArray[np.int64]
    spread_max: NDArray[np.int64]


class Draws(NamedTuple):
    """Room for what is drawn; one row a draw.

    Parameters
    ----------
    unit : (any,) int32
    millis : (any,) int64
    memory_bytes : (any,) int64
        From each member of the unit.
    """

    unit: NDArray[np.int32]
    millis: NDArray[np.int64]
    memory_bytes: NDArray[np.int64]


def unit_free(fleet: FleetArrays, unit: int) -> int:
    """Return the millis that a unit could lend now, in whole steps; a gang all or nothing."""
    first = fleet.member_offsets[unit]
    end = fleet.member_offsets[unit + 1]
    if end - first > 1:
        for member in range(first, end):
            device = fleet.member_devices[member]
            if fleet.device_free_millis[device] != fleet.device_capacity_millis[device]:
                return 0
        return fleet.unit_capacity_millis[unit]
    free = fleet.device_free_millis[fleet.member_devices[first]]
    step = fleet.unit_step_millis[unit]
    # Division is the slowest thing that a processor does here.
    if step == 1 or free <= 0:
        return max(free, 0)
    return free - free % step


def unit_free_memory(fleet: FleetArrays, unit: int) -> int:
    """Return the free memory of a unit, that of its poorest member."""
    first = fleet.member_offsets[unit]
    least = fleet.device_free_memory_bytes[fleet.member_devices[first]]
    for member in range(first + 1, fleet.member_offsets[unit + 1]):
        memory = fleet.device_free_memory_bytes[fleet.member_devices[member]]
        least = min(least, memory)
    return least


def unit_is_candidate(
    fleet: FleetArrays, classes: ClassArrays, request: int, kind: int, unit: int
) -> bool:
    """Tell whether a unit has the kind and form asked for and passed every filter."""
    if fleet.unit_kind[unit] != kind or not classes.candidates[classes.mask[request], unit]:
        return False
    gang = fleet.member_offsets[unit + 1] - fleet.member_offsets[unit] > 1
    return gang == classes.linked[request, kind]


def unit_millis(
    fleet: FleetArrays, classes: ClassArrays, request: int, kind: int, unit: int
) -> int:
    """Return what a request draws from a unit that serves it, rounded up; a gang whole."""
    millis = classes.millis[request, kind]
    if classes.linked[request, kind]:
        return millis if fleet.unit_capacity_millis[unit] == millis else TOO_MUCH
    step = fleet.unit_step_millis[unit]
    if step == 1:
        return min(millis, WHOLE)
    return -(-min(millis, WHOLE) // step) * step


def unit_memory(
    fleet: FleetArrays, classes: ClassArrays, request: int, kind: int, unit: int
) -> int:
    """Return the memory that a request draws from each member of a unit of devices."""
    memory = classes.memory_bytes[request, kind]
    if memory >= 0:
        return memory
    first = fleet.member_offsets[unit]
    least = fleet.device_memory_bytes[fleet.member_devices[first]]
    for member in range(first + 1, fleet.member_offsets[unit + 1]):
        least = min(least, fleet.device_memory_bytes[fleet.member_devices[member]])
    return least * min(classes.millis[request, kind], WHOLE) // WHOLE


def units_needed(classes: ClassArrays, request: int, kind: int) -> int:
    """Return how many units of devices serve a request: 1 for a part or a gang."""
    millis = classes.millis[request, kind]
    if classes.linked[request, kind] or millis < WHOLE:
        return 1
    return millis // WHOLE


def limit_of(classes: ClassArrays, request: int, kind: int, quota: NDArray[np.int64]) -> int:
    """Return how much the quota allows each unit that serves a request."""
    if quota[kind] >= TOO_MUCH:
        return quota[kind]
    return quota[kind] // units_needed(classes, request, kind)


def unit_serves(
    fleet: FleetArrays,
    classes: ClassArrays,
    request: int,
    kind: int,
    unit: int,
    limit: int,
) -> bool:
    """Tell whether a unit of devices can serve its part of a request; O(members).

    ``limit`` is what the quota allows each unit.
    """
    if not unit_is_candidate(fleet, classes, request, kind, unit):
        return False
    millis = unit_millis(fleet, classes, request, kind, unit)
    return (
        millis <= limit
        and unit_free(fleet, unit) >= millis
        and unit_free_memory(fleet, unit) >= unit_memory(fleet, classes, request, kind, unit)
    )


def fits(
    fleet: FleetArrays,
    classes: ClassArrays,
    request: int,
    node: int,
    quota: NDArray[np.int64],
) -> bool:
    """Tell whether a node can serve a request whole; O(units of the node).

    The quota of CPUs is not judged, since how much is rounded up is known when drawn.
    """
    if not fleet.node_open[node]:
        return False
    group = classes.spread_group[request]
    if group >= 0 and fleet.spread_used[group, node] >= classes.spread_max[request]:
        return False
    for kind in range(classes.wanted.shape[1]):
        if classes.millis[request, kind] > fleet.node_free_millis[node, kind]:
            return False
    for kind in range(classes.wanted.shape[1]):
        if classes.wanted[request, kind] and not kind_fits(
            fleet, classes, request, kind, node, quota
        ):
            return False
    return True


def kind_fits(
    fleet: FleetArrays,
    classes: ClassArrays,
    request: int,
    kind: int,
    node: int,
    quota: NDArray[np.int64],
) -> bool:
    """Tell whether a node can serve one kind's part of a request; O(units of that kind)."""
    if kind == CPU:
        return _cpu_fits(fleet, classes, request, node)
    return _devices_fit(fleet, classes, request, kind, node, quota)


def _devices_fit(
    fleet: FleetArrays,
    classes: ClassArrays,
    request: int,
    kind: int,
    node: int,
    quota: NDArray[np.int64],
) -> bool:
    missing = units_needed(classes, request, kind)
    begin = fleet.first_of_kind[node, kind]
    limit = limit_of(classes, request, kind, quota)
    for position in range(begin, fleet.first_of_kind[node, kind + 1]):
        unit = fleet.node_units[position]
        if not unit_serves(fleet, classes, request, kind, unit, limit):
            continue
        # Units on one device serve once; where each device has one unit the loop ends at once.
        device = fleet.member_devices[fleet.member_offsets[unit]]
        fresh = True
        if (
            fleet.first_unit[node + 1] - begin
            > fleet.first_device[node + 1] - (fleet.first_device[node])
        ):
            for other_position in range(begin, position):
                other = fleet.node_units[other_position]
                if fleet.member_devices[fleet.member_offsets[other]] == device and unit_serves(
                    fleet, classes, request, kind, other, limit
                ):
                    fresh = False
                    break
        if fresh:
            missing -= 1
            if missing == 0:
                return True
    return False


def _cpu_fits(fleet: FleetArrays, classes: ClassArrays, request: int, node: int) -> bool:
    millis = 0
    memory = 0
    for position in range(fleet.first_of_kind[node, CPU], fleet.first_of_kind[node, CPU + 1]):
        unit = fleet.node_units[position]
        if unit_is_candidate(fleet, classes, request, CPU, unit) and _is_best_of_cpu(
            fleet, classes, request, node, unit
        ):
            millis += unit_free(fleet, unit)
            memory += max(unit_free_memory(fleet, unit), 0)
    return millis >= classes.millis[request, CPU] and memory >= max(
        classes.memory_bytes[request, CPU], 0
    )


def _is_best_of_cpu(
    fleet: FleetArrays, classes: ClassArrays, request: int, node: int, unit: int
) -> bool:
    """Tell whether no other unit of the CPU lends more; the smaller step, then the lower index."""
    begin = fleet.first_unit[node]
    end = fleet.first_unit[node + 1]
    if end - begin <= fleet.first_device[node + 1] - fleet.first_device[node]:
        return True
    device = fleet.member_devices[fleet.member_offsets[unit]]
    free = unit_free(fleet, unit)
    step = fleet.unit_step_millis[unit]
    for position in range(begin, end):
        other = fleet.node_units[position]
        if (
            other == unit
            or fleet.member_devices[fleet.member_offsets[other]] != device
            or not unit_is_candidate(fleet, classes, request, CPU, other)
        ):
            continue
        lends = unit_free(fleet, other)
        other_step = fleet.unit_step_millis[other]
        if lends > free or (
            lends == free and (other_step < step or (other_step == step and other < unit))
        ):
            return False
    return True


def draw(
    fleet: FleetArrays,
    classes: ClassArrays,
    request: int,
    node: int,
    wish: int,
    quota: NDArray[np.int64],
    draws: Draws,
    at: int,
) -> int:
    """Choose the units of one node that a request is drawn from; changes nothing.

    Parameters
    ----------
    wish : int
        The unit that is to serve a part of a device, if it can; -1 for none.
    quota : (K,) int64
        What the pool's quota allows.
    draws : Draws
        Filled from row ``at`` on; has room for as many rows as the node has units.

    Returns
    -------
    int
        The row after the last draw; -1 where the node cannot serve the request whole.
    """
    group = classes.spread_group[request]
    if group >= 0 and fleet.spread_used[group, node] >= classes.spread_max[request]:
        return -1
    end = at
    for kind in range(classes.wanted.shape[1]):
        if not classes.wanted[request, kind]:
            continue
        begin = end
        if kind == CPU:
            end = _draw_cpu(fleet, classes, request, node, draws, begin)
        else:
            end = _draw_devices(fleet, classes, request, kind, node, wish, quota, draws, begin)
        if end < 0:
            return -1
        total = 0
        for row in range(begin, end):
            total += draws.millis[row]
        if total > quota[kind]:
            return -1
    return end


def _draw_devices(
    fleet: FleetArrays,
    classes: ClassArrays,
    request: int,
    kind: int,
    node: int,
    wish: int,
    quota: NDArray[np.int64],
    draws: Draws,
    at: int,
) -> int:
    """Take units that round up the least, then those with the least free, then the lowest."""
    needed = units_needed(classes, request, kind)
    limit = limit_of(classes, request, kind, quota)
    if (
        wish >= 0
        and needed == 1
        and _has_unit(fleet, node, wish)
        and unit_serves(fleet, classes, request, kind, wish, limit)
    ):
        draws.unit[at] = wish
        draws.millis[at] = unit_millis(fleet, classes, request, kind, wish)
        draws.memory_bytes[at] = unit_memory(fleet, classes, request, kind, wish)
        return at + 1
    for row in range(at, at + needed):
        best = -1
        best_millis = 0
        best_free = 0
        best_memory = 0
        for position in range(fleet.first_of_kind[node, kind], fleet.first_of_kind[node, kind + 1]):
            unit = fleet.node_units[position]
            if not unit_serves(fleet, classes, request, kind, unit, limit) or _device_taken(
                fleet, draws, at, row, unit
            ):
                continue
            millis = unit_millis(fleet, classes, request, kind, unit)
            free = unit_free(fleet, unit)
            memory = unit_free_memory(fleet, unit)
            if (
                best < 0
                or millis < best_millis
                or (
                    millis == best_millis
                    and (free < best_free or (free == best_free and memory < best_memory))
                )
            ):
                best = unit
                best_millis = millis
                best_free = free
                best_memory = memory
        if best < 0:
            return -1
        draws.unit[row] = best
        draws.millis[row] = best_millis
        draws.memory_bytes[row] = unit_memory(fleet, classes, request, kind, best)
    return at + needed


def _has_unit(fleet: FleetArrays, node: int, unit: int) -> bool:
    for position in range(fleet.first_unit[node], fleet.first_unit[node + 1]):
        if fleet.node_units[position] == unit:
            return True
    return False


def _device_taken(fleet: FleetArrays, draws: Draws, begin: int, end: int, unit: int) -> bool:
    device = fleet.member_devices[fleet.member_offsets[unit]]
    for row in range(begin, end):
        if fleet.member_devices[fleet.member_offsets[draws.unit[row]]] == device:
            return True
    return False


def _draw_cpu(
    fleet: FleetArrays, classes: ClassArrays, request: int, node: int, draws: Draws, at: int
) -> int:
    """Draw cores from as few units as can be, and memory from those first.

    One unit that has both cores and memory goes before one that has the cores alone.
    """
    cores_left = classes.millis[request, CPU]
    memory_left = max(classes.memory_bytes[request, CPU], 0)
    end = at
    if cores_left > 0:
        sole = _sole_cpu(fleet, classes, request, node, cores_left, memory_left)
        while cores_left > 0:
            unit = sole if sole >= 0 else _next_cpu(fleet, classes, request, node, draws, at, end)
            if unit < 0:
                return -1
            free = unit_free(fleet, unit)
            if free <= 0:
                return -1
            step = fleet.unit_step_millis[unit]
            millis = min(free, -(-cores_left // step) * step)
            draws.unit[end] = unit
            draws.millis[end] = millis
            draws.memory_bytes[end] = 0
            end += 1
            cores_left -= millis
    for row in range(at, end):
        memory = min(memory_left, max(unit_free_memory(fleet, draws.unit[row]), 0))
        draws.memory_bytes[row] = memory
        memory_left -= memory
    while memory_left > 0:
        unit = _richest_cpu(fleet, classes, request, node, draws, at, end)
        if unit < 0:
            return -1
        memory = min(memory_left, max(unit_free_memory(fleet, unit), 0))
        if memory <= 0:
            return -1
        draws.unit[end] = unit
        draws.millis[end] = 0
        draws.memory_bytes[end] = memory
        end += 1
        memory_left -= memory
    _sort_by_unit(draws, at, end)
    return end


def _sole_cpu(
    fleet: FleetArrays, classes: ClassArrays, request: int, node: int, cores: int, memory: int
) -> int:
    """Return the unit that serves all cores and rounds up the least; -1 where none does."""
    best = -1
    best_millis = 0
    best_short = False
    best_free = 0
    for position in range(fleet.first_of_kind[node, CPU], fleet.first_of_kind[node, CPU + 1]):
        unit = fleet.node_units[position]
        if not unit_is_candidate(fleet, classes, request, CPU, unit):
            continue
        free = unit_free(fleet, unit)
        if free < cores or not _is_best_of_cpu(fleet, classes, request, node, unit):
            continue
        step = fleet.unit_step_millis[unit]
        millis = -(-cores // step) * step
        short = unit_free_memory(fleet, unit) < memory
        if (
            best < 0
            or millis < best_millis
            or (
                millis == best_millis
                and (
                    (best_short and not short)
                    or (
                        short == best_short
                        and (free < best_free or (free == best_free and unit < best))
                    )
                )
            )
        ):
            best = unit
            best_millis = millis
            best_short = short
            best_free = free
    return best


def _next_cpu(
    fleet: FleetArrays,
    classes: ClassArrays,
    request: int,
    node: int,
    draws: Draws,
    begin: int,
    end: int,
) -> int:
    """Return the unit that lends the most among those not yet drawn from."""
    best = -1
    best_free = 0
    for position in range(fleet.first_of_kind[node, CPU], fleet.first_of_kind[node, CPU + 1]):
        unit = fleet.node_units[position]
        if (
            not unit_is_candidate(fleet, classes, request, CPU, unit)
            or not _is_best_of_cpu(fleet, classes, request, node, unit)
            or _is_drawn(draws, begin, end, unit)
        ):
            continue
        free = unit_free(fleet, unit)
        if (
            best < 0
            or free > best_free
            or (
                free == best_free
                and (
                    fleet.unit_step_millis[unit] < fleet.unit_step_millis[best]
                    or (
                        fleet.unit_step_millis[unit] == fleet.unit_step_millis[best] and unit < best
                    )
                )
            )
        ):
            best = unit
            best_free = free
    return best


def _richest_cpu(
    fleet: FleetArrays,
    classes: ClassArrays,
    request: int,
    node: int,
    draws: Draws,
    begin: int,
    end: int,
) -> int:
    """Return the unit with the most free memory among those not yet drawn from."""
    best = -1
    best_memory = 0
    for position in range(fleet.first_of_kind[node, CPU], fleet.first_of_kind[node, CPU + 1]):
        unit = fleet.node_units[position]
        if (
            not unit_is_candidate(fleet, classes, request, CPU, unit)
            or not _is_best_of_cpu(fleet, classes, request, node, unit)
            or _is_drawn(draws, begin, end, unit)
        ):
            continue
        memory = unit_free_memory(fleet, unit)
        if best < 0 or memory > best_memory or (memory == best_memory and unit < best):
            best = unit
            best_memory = memory
    return best


def _is_drawn(draws: Draws, begin: int, end: int, unit: int) -> bool:
    for row in range(begin, end):
        if draws.unit[row] == unit:
            return True
    return False


def _sort_by_unit(draws: Draws, begin: int, end: int) -> None:
    """Order rows by unit; few rows, so by insertion."""
    for row in range(begin + 1, end):
        at = row
        while at > begin and draws.unit[at - 1] > draws.unit[at]:
            unit = draws.unit[at]
            millis = draws.millis[at]
            memory = draws.memory_bytes[at]
            draws.unit[at] = draws.unit[at - 1]
            draws.millis[at] = draws.millis[at - 1]
            draws.memory_bytes[at] = draws.memory_bytes[at - 1]
            draws.unit[at - 1] = unit
            draws.millis[at - 1] = millis
            draws.memory_bytes[at - 1] = memory
            at -= 1


def take(
    fleet: FleetArrays,
    classes: ClassArrays,
    request: int,
    node: int,
    draws: Draws,
    begin: int,
    end: int,
    sign: int,
) -> None:
    """Take draws out of what is free (``sign`` 1) or give them back (-1); O(members)."""
    for row in range(begin, end):
        unit = draws.unit[row]
        kind = fleet.unit_kind[unit]
        first = fleet.member_offsets[unit]
        last = fleet.member_offsets[unit + 1]
        gang = last - first > 1
        for member in range(first, last):
            device = fleet.member_devices[member]
            millis = fleet.device_capacity_millis[device] if gang else draws.millis[row]
            fleet.device_free_millis[device] -= sign * millis
            fleet.device_free_memory_bytes[device] -= sign * draws.memory_bytes[row]
            fleet.node_free_millis[node, kind] -= sign * millis
        if fleet.quota_free_millis[kind] < TOO_MUCH:
            fleet.quota_free_millis[kind] -= sign * draws.millis[row]
    fleet.node_hosted[node, classes.form[request]] += sign
    if classes.spread_group[request] >= 0:
        fleet.spread_used[classes.spread_group[request], node] += sign


__all__ = ["ClassArrays", "Draws", "draw", "fits", "kind_fits", "take", "unit_serves"]
