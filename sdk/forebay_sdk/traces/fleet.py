"""A fleet: nodes by shape, and the empty snapshot that an engine schedules on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from forebay import KIND_INDEX, MILLIS_PER_UNIT, DeviceId, DeviceKind, NodeId, Snapshot
from forebay_core.scheduling.arrays import NO_QUOTA


@dataclass(frozen=True, slots=True)
class DeviceShape:
    """Some equal devices of a node.

    Parameters
    ----------
    kind : DeviceKind
    count : int
    model : str
    memory_bytes : int
        Of each; 0 where the trace does not tell.
    """

    kind: DeviceKind
    count: int
    model: str = ""
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What one sort of node has.

    Parameters
    ----------
    cpu_millis : int
        Thousandths of a core; all cores are one device.
    memory_bytes : int
        Of the host.
    devices : tuple of DeviceShape
        Besides the CPU.
    labels : mapping of str to str
    """

    cpu_millis: int
    memory_bytes: int
    devices: tuple[DeviceShape, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """Nodes, each of one of a few shapes.

    Parameters
    ----------
    name : str
    node_ids : tuple of str, length N
    shapes : tuple of NodeShape
    node_shape : (N,) int32
        Index of each node's shape.
    """

    name: str
    node_ids: tuple[str, ...]
    shapes: tuple[NodeShape, ...]
    node_shape: NDArray[np.int32]

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.node_ids)

    def snapshot(
        self,
        order: NDArray[np.integer] | None = None,
        quota_millis: Mapping[DeviceKind, int] | None = None,
    ) -> Snapshot:
        """Return the fleet as one pool with nothing lent; O(nodes + devices).

        Every device is a unit of its own that lends any part of it.

        Parameters
        ----------
        order : (N,) int, optional
            The nodes in the order in which ties are broken; as they are where not given.
        quota_millis : mapping of DeviceKind to int, optional
        """
        nodes = np.arange(len(self)) if order is None else np.asarray(order)
        shape_of = self.node_shape[nodes]
        rows = [_devices_of(shape) for shape in self.shapes]
        counts = np.array([len(shape) for shape in rows], dtype=np.int64)[shape_of]
        first = np.concatenate(([0], np.cumsum(counts)))
        count = int(first[-1])
        device_node = np.repeat(np.arange(len(nodes), dtype=np.int32), counts)
        flat_first = np.concatenate(([0], np.cumsum([len(shape) for shape in rows])))
        source = flat_first[shape_of[device_node]] + np.arange(count) - first[device_node]
        flat = [row for shape in rows for row in shape]
        kinds = np.array([KIND_INDEX[kind] for kind, _, _, _ in flat], dtype=np.int8)[source]
        capacity = np.array([millis for _, _, millis, _ in flat], dtype=np.int64)[source]
        memory = np.array([memory for _, _, _, memory in flat], dtype=np.int64)[source]
        models = np.empty(len(flat), dtype=object)
        models[:] = [model or None for _, model, _, _ in flat]
        ids = tuple(NodeId(self.node_ids[node]) for node in nodes)
        device_ids = tuple(
            DeviceId(f"{ids[node]}/{number}")
            for node, number in zip(
                device_node.tolist(), (np.arange(count) - first[device_node]).tolist(), strict=True
            )
        )
        quota = np.full(len(KIND_INDEX), NO_QUOTA, dtype=np.int64)
        for kind, millis in (quota_millis or {}).items():
            quota[KIND_INDEX[kind]] = millis
        return Snapshot(
            pool="default",
            node_ids=ids,
            device_ids=device_ids,
            unit_ids=device_ids,
            node_labels=self._labels(shape_of),
            device_node=device_node,
            device_free_millis=capacity.copy(),
            device_capacity_millis=capacity,
            device_free_memory_bytes=memory.copy(),
            device_memory_bytes=memory,
            device_healthy=np.ones(count, dtype=bool),
            device_attributes={"model": models[source]},
            unit_node=device_node,
            unit_kind=kinds,
            unit_capacity_millis=capacity,
            unit_step_millis=np.ones(count, dtype=np.int64),
            member_offsets=np.arange(count + 1, dtype=np.int32),
            member_devices=np.arange(count, dtype=np.int32),
            quota_free_millis=quota,
        )

    def _labels(self, shape_of: NDArray[np.integer]) -> dict[str, NDArray[np.object_]]:
        columns = {}
        for name in sorted({name for shape in self.shapes for name in shape.labels}):
            values = np.empty(len(self.shapes), dtype=object)
            values[:] = [shape.labels.get(name) for shape in self.shapes]
            columns[name] = values[shape_of]
        return columns


def _devices_of(shape: NodeShape) -> list[tuple[DeviceKind, str, int, int]]:
    """Return kind, model, capacity and memory of each device, the CPU first."""
    devices = [(DeviceKind.CPU, "", shape.cpu_millis, shape.memory_bytes)]
    for found in shape.devices:
        devices += [(found.kind, found.model, MILLIS_PER_UNIT, found.memory_bytes)] * found.count
    return devices
