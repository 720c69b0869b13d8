"""Rules out units whose devices or node a request does not select."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forebay import KIND_INDEX, DeviceKind, Filter, Operator, RequestBatch, Selector, Snapshot

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
    """Return which rows of a column satisfy a selector: (count,) bool.

    A row that has no value satisfies NOT_EQUAL alone; an order holds among numbers alone.
    """
    if column is None:
        return np.full(count, selector.operator is Operator.NOT_EQUAL)
    equal = np.array([_equals(value, selector.value) for value in column], dtype=np.bool_)
    if selector.operator is Operator.EQUAL:
        return equal
    if selector.operator is Operator.NOT_EQUAL:
        return ~equal
    at_least = selector.operator is Operator.AT_LEAST
    limit = selector.value
    if isinstance(limit, str):
        return np.zeros(count, dtype=np.bool_)
    return np.array(
        [
            isinstance(value, int)
            and not isinstance(value, bool)
            and (value >= limit if at_least else value <= limit)
            for value in column
        ],
        dtype=np.bool_,
    )


def _equals(value: object, wanted: bool | int | str) -> bool:
    # True equals 1 in Python, and "9" is how a person types a version that is text.
    if isinstance(value, str):
        return value == str(wanted)
    return type(value) is type(wanted) and value == wanted
