"""Says in plain Python, by trying everything, what a fleet could run: the judge of the engine."""

from __future__ import annotations

import itertools

from fleets import Fleet
from forebay import (
    Device,
    DeviceId,
    DeviceKind,
    LendableUnit,
    Operator,
    Request,
    ResourceItem,
    Selector,
    Snapshot,
)
from forebay_core.scheduling import build_snapshot
from forebay_core.scheduling.engine import Outcome

Usage = dict[DeviceId, tuple[int, int]]


def snapshot_of(fleet: Fleet, usage: Usage, lent: dict[DeviceKind, int] | None = None) -> Snapshot:
    return build_snapshot(
        fleet.built(), nodes=fleet.nodes, usage=usage, pool_used_millis=lent or {}
    )


def matches(device: Device, selector: Selector) -> bool:
    value = device.vendor or None
    return (value == selector.value) == (selector.operator is Operator.EQUAL)


def selected_units(fleet: Fleet, request: Request, item: ResourceItem) -> list[LendableUnit]:
    """Say in plain Python which units may serve an item; the filters' oracle."""
    by_id = {device.id: device for device in fleet.devices}
    zones = {node.id: node.labels["zone"] for node in fleet.nodes}
    judged = item.kind is not DeviceKind.CPU or len(request.items) == 1
    return [
        unit
        for unit in fleet.built().units
        if unit.kind is item.kind
        and unit.is_gang == item.linked
        and all(
            not by_id[member].is_failed
            and (not judged or all(matches(by_id[member], s) for s in request.device_selectors))
            for member in unit.members
        )
        and all(zones[unit.node] != s.value for s in request.node_selectors)
    ]


def free_of(fleet: Fleet, unit: LendableUnit, usage: Usage) -> tuple[int, int]:
    """Return what is free of a unit, in whole steps, and of its poorest member's memory."""
    by_id = {device.id: device for device in fleet.devices}
    used = [usage.get(member, (0, 0)) for member in unit.members]
    memory = min(
        by_id[member].memory_bytes - taken
        for member, (_, taken) in zip(unit.members, used, strict=True)
    )
    if unit.is_gang:
        return (unit.capacity_millis if not any(millis for millis, _ in used) else 0), memory
    free = unit.capacity_millis - used[0][0]
    return free - free % unit.step_millis, memory


def could_run(fleet: Fleet, request: Request, usage: Usage, lent: dict[DeviceKind, int]) -> bool:
    """Say by trying everything whether any node can serve a request; the engine's oracle."""
    return any(
        all(serves(fleet, request, item, node.id, usage, lent) for item in request.items)
        for node in fleet.nodes
    )


def serves(
    fleet: Fleet,
    request: Request,
    item: ResourceItem,
    node: str,
    usage: Usage,
    lent: dict[DeviceKind, int],
) -> bool:
    by_id = {device.id: device for device in fleet.devices}
    units = [unit for unit in selected_units(fleet, request, item) if unit.node == node]
    free = {unit.id: free_of(fleet, unit, usage) for unit in units}
    quota = fleet.pool.quota_millis.get(item.kind)
    left = 10**9 if quota is None else quota - lent.get(item.kind, 0)
    if item.kind is DeviceKind.CPU:
        most: dict[DeviceId, tuple[int, int]] = {}
        for unit in units:
            (cpu,) = unit.members
            most[cpu] = max(most.get(cpu, (0, 0)), free[unit.id])
        return sum(millis for millis, _ in most.values()) >= item.millis and sum(
            memory for _, memory in most.values()
        ) >= (item.memory_bytes or 0)
    count = max(item.millis // 1000, 1) if not item.linked else 1
    for chosen in itertools.combinations(units, count):
        total = 0
        if len({unit.members for unit in chosen}) < count:
            continue
        for unit in chosen:
            share = min(item.millis, 1000)
            need = item.millis if item.linked else -(-share // unit.step_millis) * unit.step_millis
            memory = (
                min(by_id[member].memory_bytes for member in unit.members) * share // 1000
                if item.memory_bytes is None
                else item.memory_bytes
            )
            if item.linked and unit.capacity_millis != item.millis:
                break
            if free[unit.id][0] < need or free[unit.id][1] < memory:
                break
            total += need
        else:
            if total <= left:
                return True
    return False


def take(fleet: Fleet, outcome: Outcome, usage: Usage, lent: dict[DeviceKind, int]) -> None:
    by_id = {device.id: device for device in fleet.devices}
    for draw in outcome.draws:
        millis, memory = usage.get(draw.device, (0, 0))
        usage[draw.device] = (millis + draw.millis, memory + draw.memory_bytes)
        assert usage[draw.device][0] <= by_id[draw.device].capacity_millis
        assert usage[draw.device][1] <= by_id[draw.device].memory_bytes
        kind = by_id[draw.device].kind
        lent[kind] = lent.get(kind, 0) + draw.millis
        quota = fleet.pool.quota_millis.get(kind)
        assert quota is None or lent[kind] <= quota
