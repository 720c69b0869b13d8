"""Checks what a policy decided, as one would a stranger's sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forebay import KIND_ORDER, MILLIS_PER_UNIT, Decisions, DeviceKind, RequestBatch, Snapshot
from forebay.allocation import (
    Free,
    UnitDraw,
    members,
    unit_is_gang,
    unit_memory_needed,
    units_needed,
)


def check_shape(snapshot: Snapshot, batch: RequestBatch, decisions: object) -> str:
    """Return what is wrong with the arrays themselves, empty when nothing is."""
    if not isinstance(decisions, Decisions):
        return f"returned {type(decisions).__name__}, expected Decisions"
    requests, units = len(batch.requests), len(snapshot.unit_ids)
    draws = np.size(decisions.draw_request)
    for name, length in (
        ("node", requests),
        ("draw_request", draws),
        ("draw_unit", draws),
        ("draw_millis", draws),
        ("draw_memory_bytes", draws),
    ):
        found: object = getattr(decisions, name)
        if not isinstance(found, np.ndarray) or found.dtype.kind != "i":
            return f"{name} is not an array of whole numbers"
        if found.shape != (length,):
            return f"{name} has shape {found.shape}, expected ({length},)"
    for name, low, high in (
        ("node", -1, len(snapshot.node_ids)),
        ("draw_request", 0, requests),
        ("draw_unit", 0, units),
    ):
        array = getattr(decisions, name)
        if len(array) and not (low <= array.min() and array.max() < high):
            return f"{name} is out of range [{low}, {high})"
    return _check_terms(decisions, requests)


def _check_terms(decisions: Decisions, requests: int) -> str:
    placed = decisions.node >= 0
    for name, values in decisions.terms.items():
        if np.shape(values) != (requests,):
            return f"term {name} has shape {np.shape(values)}, expected ({requests},)"
        if not np.issubdtype(np.asarray(values).dtype, np.floating):
            return f"term {name} is not an array of numbers"
        if np.isinf(np.asarray(values)[placed]).any():
            return f"term {name} is infinite"
    if decisions.terms and placed.any():
        known = np.array([np.asarray(values)[placed] for values in decisions.terms.values()])
        if np.isnan(known).all(axis=0).any():
            return "every term of a placed request is NaN"
    return ""


def check_draws(  # noqa: PLR0911 - one return a fault
    snapshot: Snapshot,
    free: Free,
    batch: RequestBatch,
    request: int,
    candidates: NDArray[np.bool_],
    node: int,
    draws: list[UnitDraw],
) -> str:
    """Return why draws do not serve a request, empty when they do; O(draws * members).

    Written from the contract, not from the functions that make draws.
    """
    taken = Free(free.millis.copy(), free.memory_bytes.copy(), free.quota_millis.copy())
    gang = unit_is_gang(snapshot)
    for draw in draws:
        unit = draw.unit
        if not candidates[unit]:
            return f"unit {snapshot.unit_ids[unit]} is no candidate"
        if snapshot.unit_node[unit] != node:
            return f"unit {snapshot.unit_ids[unit]} is on another node"
        if (
            draw.millis < 0
            or draw.memory_bytes < 0
            or draw.millis % snapshot.unit_step_millis[unit]
        ):
            return f"{draw.millis} is no multiple of the step of unit {snapshot.unit_ids[unit]}"
        if gang[unit] and draw.millis != snapshot.unit_capacity_millis[unit]:
            return f"gang {snapshot.unit_ids[unit]} is not taken whole"
        devices = members(snapshot, unit)
        taken.millis[devices] -= (
            snapshot.device_capacity_millis[devices] if gang[unit] else draw.millis
        )
        taken.memory_bytes[devices] -= draw.memory_bytes
        if (taken.millis[devices] < 0).any():
            return f"unit {snapshot.unit_ids[unit]} has not that much free"
        if (taken.memory_bytes[devices] < 0).any():
            return f"unit {snapshot.unit_ids[unit]} has not that much memory free"
        kind = snapshot.unit_kind[unit]
        taken.quota_millis[kind] -= draw.millis
        if taken.quota_millis[kind] < 0:
            return f"the pool's quota of {KIND_ORDER[kind]} is used up"
    return _check_amounts(snapshot, batch, request, draws)


def _check_amounts(  # noqa: PLR0911 - one return a fault
    snapshot: Snapshot, batch: RequestBatch, request: int, draws: list[UnitDraw]
) -> str:
    units = [draw.unit for draw in draws]
    if len(set(units)) < len(units):
        return "a unit is drawn twice"
    for kind in np.flatnonzero(batch.wanted[request]):
        mine = [draw for draw in draws if snapshot.unit_kind[draw.unit] == kind]
        wanted = int(batch.millis[request, kind])
        total = sum(draw.millis for draw in mine)
        name = KIND_ORDER[kind]
        if total < wanted:
            return f"{total} of {wanted} millis of {name} are drawn"
        if name is DeviceKind.CPU:
            memory = sum(draw.memory_bytes for draw in mine)
            if memory != max(int(batch.memory_bytes[request, kind]), 0):
                return "the memory drawn of the host is not what was asked for"
            if any(not draw.millis and not draw.memory_bytes for draw in mine) or any(
                draw.millis and total - draw.millis >= wanted for draw in mine
            ):
                return "more units of cpu are drawn than needed"
            steps = [int(snapshot.unit_step_millis[draw.unit]) for draw in mine if draw.millis]
            if total - wanted >= max(steps, default=1):
                return f"{total} millis of cpu are drawn, {wanted} were asked for"
            continue
        needed = max(units_needed(batch, request, int(kind)), 1)
        if len(mine) != needed:
            return f"{len(mine)} units of {name} are drawn, expected {needed}"
        memory_needed = unit_memory_needed(snapshot, batch, request, int(kind))
        for draw in mine:
            if draw.memory_bytes != memory_needed[draw.unit]:
                return f"the memory drawn of {name} is not what was asked for"
            exact = _exact_millis(snapshot, batch, request, int(kind), draw.unit)
            if draw.millis != exact:
                return f"{draw.millis} millis are drawn of a unit of {name}, expected {exact}"
    return ""


def _exact_millis(
    snapshot: Snapshot, batch: RequestBatch, request: int, kind: int, unit: int
) -> int:
    """Return what a request takes from a unit that serves it: rounded up, a gang whole."""
    wanted = int(batch.millis[request, kind])
    if batch.linked[request, kind]:
        return wanted
    step = int(snapshot.unit_step_millis[unit])
    return -(-min(wanted, MILLIS_PER_UNIT) // step) * step
