"""Turns a snapshot into the arrays that kernels work on, gathered by node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay import FORM_COUNT, KIND_ORDER, FleetArrays, Snapshot
from forebay.allocation import kind_of_devices

CHANGING = (
    "device_free_millis",
    "device_free_memory_bytes",
    "node_free_millis",
    "node_hosted",
    "quota_free_millis",
    "spread_used",
    "node_open",
)
"""Fields that placements change; the others belong to the fleet itself."""


def build_fleet(
    snapshot: Snapshot, *, groups: int = 0, hosted: NDArray[np.int32] | None = None
) -> FleetArrays:
    """Return the arrays of a snapshot, which stays as it is; O(N + M + D).

    Parameters
    ----------
    snapshot : Snapshot
    groups : int
        How many groups of requests keep apart.
    hosted : (N, F) int32, optional
        How many requests of each form run on each node.
    """
    nodes = len(snapshot.node_ids)
    kinds = len(KIND_ORDER)
    device_kind = kind_of_devices(snapshot)
    # A device whose capacity has shrunk below what is lent has nothing free, not less.
    free = np.maximum(snapshot.device_free_millis, 0)
    unit_order, first_unit = _by_node(snapshot.unit_node, nodes)
    unit_order, first_of_kind = _by_kind(snapshot, unit_order, first_unit, kinds)
    device_order, first_device = _by_node(snapshot.device_node, nodes)
    return FleetArrays(
        first_unit=first_unit,
        node_units=unit_order,
        first_of_kind=first_of_kind,
        unit_kind=_own(snapshot.unit_kind, np.int8),
        unit_step_millis=_own(snapshot.unit_step_millis, np.int64),
        unit_capacity_millis=_own(snapshot.unit_capacity_millis, np.int64),
        member_offsets=_own(snapshot.member_offsets, np.int32),
        member_devices=_own(snapshot.member_devices, np.int32),
        first_device=first_device,
        node_devices=device_order,
        device_kind=device_kind,
        device_capacity_millis=_own(snapshot.device_capacity_millis, np.int64),
        device_memory_bytes=_own(snapshot.device_memory_bytes, np.int64),
        node_capacity_millis=_sums(snapshot, device_kind, snapshot.device_capacity_millis, kinds),
        device_free_millis=_own(free, np.int64),
        device_free_memory_bytes=_own(snapshot.device_free_memory_bytes, np.int64),
        node_free_millis=_sums(snapshot, device_kind, free, kinds),
        node_hosted=np.zeros((nodes, FORM_COUNT), np.int32)
        if hosted is None
        else _own(hosted, np.int32),
        quota_free_millis=_own(snapshot.quota_free_millis, np.int64),
        spread_used=np.zeros((max(groups, 1), nodes), np.int32),
        node_open=np.ones(nodes, np.bool_),
    )


def copy_fleet(fleet: FleetArrays) -> FleetArrays:
    """Return a fleet to try things on; what never changes is shared. O(D + N)."""
    return fleet._replace(**{name: getattr(fleet, name).copy() for name in CHANGING})


def as_snapshot(snapshot: Snapshot, fleet: FleetArrays) -> Snapshot:
    """Return the snapshot of a fleet's present state; shares its arrays, O(1)."""

    def frozen(array: NDArray[np.int64]) -> NDArray[np.int64]:
        view = array.view()
        view.setflags(write=False)
        return view

    return replace(
        snapshot,
        device_free_millis=frozen(fleet.device_free_millis),
        device_free_memory_bytes=frozen(fleet.device_free_memory_bytes),
        quota_free_millis=frozen(fleet.quota_free_millis),
    )


def _own(array: NDArray[Any], kind: type) -> NDArray[Any]:
    """Return a writable copy: kernels are compiled for arrays of one sort."""
    return np.array(array, dtype=kind, order="C")


def _by_node(node: NDArray[np.int32], count: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    order = np.argsort(node, kind="stable").astype(np.int32)
    first = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(node, minlength=count), out=first[1:])
    return order, first


def _by_kind(
    snapshot: Snapshot, order: NDArray[np.int32], first: NDArray[np.int32], kinds: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Put the units of each node in order of kind, and tell where each kind begins."""
    cell = snapshot.unit_node.astype(np.int64) * kinds + snapshot.unit_kind
    sorted_order = order[np.argsort(cell[order], kind="stable")]
    counts = np.bincount(cell, minlength=(len(first) - 1) * kinds).reshape(-1, kinds)
    begins = np.zeros((len(first) - 1, kinds + 1), np.int32)
    begins[:, 1:] = np.cumsum(counts, axis=1)
    begins += first[:-1, None]
    return sorted_order, begins


def _sums(
    snapshot: Snapshot, kind: NDArray[np.int8], amounts: NDArray[np.int64], kinds: int
) -> NDArray[np.int64]:
    """Return the sum of an amount over each node's devices of each kind: (N, K) int64."""
    known = kind >= 0
    cells = snapshot.device_node[known].astype(np.int64) * kinds + kind[known]
    # Sums stay far below 2**53, where float64 counts exactly.
    sums = np.bincount(cells, weights=amounts[known], minlength=len(snapshot.node_ids) * kinds)
    return sums.astype(np.int64).reshape(len(snapshot.node_ids), kinds)
