"""Turns pools and requests into arrays, at the one edge where that happens."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from forebay import (
    KIND_INDEX,
    KIND_ORDER,
    DeviceId,
    DeviceKind,
    Node,
    Request,
    RequestBatch,
    Snapshot,
)
from forebay_core.pools import BuiltPool, attributes_of

NO_QUOTA = int(np.iinfo(np.int64).max)


def build_snapshot(
    built: BuiltPool,
    *,
    nodes: Sequence[Node],
    usage: Mapping[DeviceId, tuple[int, int]],
    pool_used_millis: Mapping[DeviceKind, int],
    unhealthy: Collection[DeviceId] = (),
) -> Snapshot:
    """Return the state of one pool as read-only arrays; O(nodes + devices * attributes + members).

    Parameters
    ----------
    built : BuiltPool
    nodes : sequence of Node
        In order of id.
    usage : mapping of DeviceId to (int, int)
        Millis and bytes of memory lent of each device; nothing where it has no entry.
    pool_used_millis : mapping of DeviceKind to int
        What the pool itself has lent.
    unhealthy : collection of DeviceId
        Devices not to be used, besides those whose own health says so.
    """
    devices = built.devices
    node_index = {node.id: index for index, node in enumerate(nodes)}
    device_index = {device.id: index for index, device in enumerate(devices)}
    used = [usage.get(device.id, (0, 0)) for device in devices]
    capacity = _int64(device.capacity_millis for device in devices)
    memory = _int64(device.memory_bytes for device in devices)
    offsets = np.zeros(len(built.units) + 1, dtype=np.int32)
    np.cumsum([len(unit.members) for unit in built.units], out=offsets[1:])
    snapshot = Snapshot(
        pool=built.pool.name,
        node_ids=tuple(node.id for node in nodes),
        device_ids=tuple(device.id for device in devices),
        unit_ids=tuple(unit.id for unit in built.units),
        node_labels=_columns([node.labels for node in nodes]),
        device_node=np.array([node_index[device.node] for device in devices], dtype=np.int32),
        device_free_millis=capacity - _int64(millis for millis, _ in used),
        device_capacity_millis=capacity,
        device_free_memory_bytes=memory - _int64(memory for _, memory in used),
        device_memory_bytes=memory,
        device_healthy=np.array(
            [not device.is_failed and device.id not in unhealthy for device in devices], dtype=bool
        ),
        device_attributes=_columns([attributes_of(device) for device in devices]),
        unit_node=np.array([node_index[unit.node] for unit in built.units], dtype=np.int32),
        unit_kind=np.array([KIND_INDEX[unit.kind] for unit in built.units], dtype=np.int8),
        unit_capacity_millis=_int64(unit.capacity_millis for unit in built.units),
        unit_step_millis=_int64(unit.step_millis for unit in built.units),
        member_offsets=offsets,
        member_devices=np.array(
            [device_index[member] for unit in built.units for member in unit.members],
            dtype=np.int32,
        ),
        quota_free_millis=_int64(
            NO_QUOTA
            if (quota := built.pool.quota_millis.get(kind)) is None
            else quota - pool_used_millis.get(kind, 0)
            for kind in KIND_ORDER
        ),
    )
    _freeze(snapshot)
    return snapshot


def build_batch(requests: Sequence[Request]) -> RequestBatch:
    """Return requests as read-only arrays; O(requests)."""
    shape = (len(requests), len(KIND_ORDER))
    millis = np.zeros(shape, dtype=np.int64)
    memory = np.full(shape, -1, dtype=np.int64)
    wanted = np.zeros(shape, dtype=bool)
    linked = np.zeros(shape, dtype=bool)
    for index, request in enumerate(requests):
        for item in request.items:
            kind = KIND_INDEX[item.kind]
            millis[index, kind] = item.millis
            memory[index, kind] = -1 if item.memory_bytes is None else item.memory_bytes
            wanted[index, kind] = True
            linked[index, kind] = item.linked
    batch = RequestBatch(tuple(requests), millis, memory, wanted, linked)
    _freeze(batch)
    return batch


def _freeze(arrays: Snapshot | RequestBatch) -> None:
    """Make every array read-only: a plugin that writes to its argument finds out at once."""
    for field in fields(arrays):
        value = getattr(arrays, field.name)
        for array in value.values() if isinstance(value, dict) else (value,):
            if isinstance(array, np.ndarray):
                array.setflags(write=False)


def _int64(values: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(values, dtype=np.int64)


def _columns(rows: Sequence[Mapping[str, object]]) -> dict[str, NDArray[np.object_]]:
    names = sorted({name for row in rows for name in row})
    columns = {}
    for name in names:
        column = np.empty(len(rows), dtype=object)
        column[:] = [row.get(name) for row in rows]
        columns[name] = column
    return columns
