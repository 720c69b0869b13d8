"""The snapshot: frozen state as a struct of arrays.

Axes, one letter each, the same in every array of the contract:

=====  ==================================================
``N``  nodes, in order of id
``D``  devices, in order of id
``U``  lendable units of one pool, in the strategy's order
``M``  memberships of units in devices, ``M >= U``
``K``  device kinds, in the order of :class:`~forebay.device.DeviceKind`
``R``  requests of a batch, in the order they are to be placed
=====  ==================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forebay.device import DeviceId, DeviceKind, NodeId
from forebay.work import Request

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KIND_ORDER: tuple[DeviceKind, ...] = tuple(DeviceKind)
"""Kinds along axis ``K``."""

KIND_INDEX: Mapping[DeviceKind, int] = {kind: index for index, kind in enumerate(KIND_ORDER)}
"""Position of each kind along axis ``K``."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """State of one pool at one moment; arrays are read-only.

    Parameters
    ----------
    pool : str
    node_ids : tuple of NodeId, length N
    device_ids : tuple of DeviceId, length D
    unit_ids : tuple of str, length U
    node_labels : mapping of str to (N,) object array
        One column a label; None where a node lacks it.
    device_node : (D,) int32
        Index of the node.
    device_free_millis : (D,) int64
    device_capacity_millis : (D,) int64
    device_free_memory_bytes : (D,) int64
    device_memory_bytes : (D,) int64
    device_healthy : (D,) bool
        False where the device failed, is lost, or its adapter is not answering.
    device_attributes : mapping of str to (D,) object array
        One column an attribute, the device's own fields of
        :class:`~forebay.work.Selector` among them; None where a device lacks it.
    unit_node : (U,) int32
        Index of the node.
    unit_kind : (U,) int8
        Index along ``K``.
    unit_capacity_millis : (U,) int64
    unit_step_millis : (U,) int64
    member_offsets : (U + 1,) int32
        Members of unit ``u`` are ``member_devices[member_offsets[u]:member_offsets[u + 1]]``.
    member_devices : (M,) int32
        Index of the device.
    quota_free_millis : (K,) int64
        What the pool's quota still allows; the largest int64 where there is none.
    """

    pool: str
    node_ids: tuple[NodeId, ...]
    device_ids: tuple[DeviceId, ...]
    unit_ids: tuple[str, ...]
    node_labels: Mapping[str, NDArray[np.object_]]
    device_node: NDArray[np.int32]
    device_free_millis: NDArray[np.int64]
    device_capacity_millis: NDArray[np.int64]
    device_free_memory_bytes: NDArray[np.int64]
    device_memory_bytes: NDArray[np.int64]
    device_healthy: NDArray[np.bool_]
    device_attributes: Mapping[str, NDArray[np.object_]]
    unit_node: NDArray[np.int32]
    unit_kind: NDArray[np.int8]
    unit_capacity_millis: NDArray[np.int64]
    unit_step_millis: NDArray[np.int64]
    member_offsets: NDArray[np.int32]
    member_devices: NDArray[np.int32]
    quota_free_millis: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RequestBatch:
    """Requests to place together, in order.

    Parameters
    ----------
    requests : tuple of Request, length R
    millis : (R, K) int64
        Amount of each kind; 0 where not asked for.
    memory_bytes : (R, K) int64
        Memory on each device drawn from; -1 asks for the same share as of the device.
    wanted : (R, K) bool
        Whether the kind is asked for at all, be it for memory alone.
    linked : (R, K) bool
        Whether the kind must come as one gang.
    """

    requests: tuple[Request, ...]
    millis: NDArray[np.int64]
    memory_bytes: NDArray[np.int64]
    wanted: NDArray[np.bool_]
    linked: NDArray[np.bool_]
