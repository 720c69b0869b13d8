"""Rules out units whose devices or node a request does not select."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forebay import KIND_INDEX, DeviceKind, Filter, RequestBatch, Selector, Snapshot

_CPU = KIND_INDEX[DeviceKind.CPU]


class AttributeFilter(Filter):
    """Rules out units with a member that does not match the request's device selectors.

    CPUs are judged only where a request asks for nothing else.
    """

    name = "attributes"
    reasons = ("device not selected",)

    def filter(self, snapshot: Snapshot, batch: RequestBatch) -> NDArray[np.bool_]:
        """Judge by columns; O(selectors * D + R * M)."""
        ruled_out = np.zeros((1, len(batch.requests), len(snapshot.unit_ids)), dtype=bool)
        for index, request in enumerate(batch.requests):
            if not request.device_selectors or not snapshot.unit_ids:
                continue
            unselected = np.zeros(len(snapshot.device_ids), dtype=bool)
            for selector in request.device_selectors:
                column = snapshot.device_attributes.get(selector.name)
                unselected |= ~selected(column, selector, len(unselected))
            of_units = np.logical_or.reduceat(
                unselected[snapshot.member_devices], snapshot.member_offsets[:-1]
            )
            only_cpu = batch.wanted[index].sum() == 1 and batch.wanted[index, _CPU]
            ruled_out[0, index] = of_units & (only_cpu | (snapshot.unit_kind != _CPU))
        return ruled_out


class NodeFilter(Filter):
    """Rules out units on nodes that do not match the request's node selectors."""

    name = "nodes"
    reasons = ("node not selected",)

    def filter(self, snapshot: Snapshot, batch: RequestBatch) -> NDArray[np.bool_]:
        """Judge by columns; O(selectors * N + R * U)."""
        ruled_out = np.zeros((1, len(batch.requests), len(snapshot.unit_ids)), dtype=bool)
        for index, request in enumerate(batch.requests):
            unselected = np.zeros(len(snapshot.node_ids), dtype=bool)
            for selector in request.node_selectors:
                column = snapshot.node_labels.get(selector.name)
                unselected |= ~selected(column, selector, len(unselected))
            ruled_out[0, index] = unselected[snapshot.unit_node]
        return ruled_out


def selected(
    column: NDArray[np.object_] | None, selector: Selector, count: int
) -> NDArray[np.bool_]:
    """Return which rows of a column satisfy a selector: (count,) bool; no column has no values."""
    values = [None] * count if column is None else column
    return np.array([selector.matches(value) for value in values], dtype=np.bool_)
