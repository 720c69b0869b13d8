"""Rules out units whose devices or node a request does not select."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from forebay import KIND_INDEX, DeviceKind, Filter, FilterScope, RequestBatch, Selector, Snapshot

_CPU = KIND_INDEX[DeviceKind.CPU]


class AttributeFilter(Filter):
    """Rules out units with a member that does not match the request's device selectors.

    CPUs are judged only where a request asks for nothing else.
    """

    name = "attributes"
    reasons = ("device not selected",)
    scope = FilterScope.FLEET

    def filter(self, snapshot: Snapshot, batch: RequestBatch) -> NDArray[np.bool_]:
        """Judge by columns; O(distinct selectors * D + R * M)."""
        ruled_out = np.zeros((1, len(batch.requests), len(snapshot.unit_ids)), dtype=bool)
        unselected = Unselected(snapshot.device_attributes, len(snapshot.device_ids))
        for index, request in enumerate(batch.requests):
            if not request.device_selectors or not snapshot.unit_ids:
                continue
            of_units = np.logical_or.reduceat(
                unselected.by(request.device_selectors)[snapshot.member_devices],
                snapshot.member_offsets[:-1],
            )
            only_cpu = batch.wanted[index].sum() == 1 and batch.wanted[index, _CPU]
            ruled_out[0, index] = of_units & (only_cpu | (snapshot.unit_kind != _CPU))
        return ruled_out


class NodeFilter(Filter):
    """Rules out units on nodes that do not match the request's node selectors."""

    name = "nodes"
    reasons = ("node not selected",)
    scope = FilterScope.FLEET

    def filter(self, snapshot: Snapshot, batch: RequestBatch) -> NDArray[np.bool_]:
        """Judge by columns; O(distinct selectors * N + R * U)."""
        ruled_out = np.zeros((1, len(batch.requests), len(snapshot.unit_ids)), dtype=bool)
        unselected = Unselected(snapshot.node_labels, len(snapshot.node_ids))
        for index, request in enumerate(batch.requests):
            if request.node_selectors:
                ruled_out[0, index] = unselected.by(request.node_selectors)[snapshot.unit_node]
        return ruled_out


class Unselected:
    """Which rows of a table miss some selector; judges each selector once."""

    def __init__(self, columns: Mapping[str, NDArray[np.object_]], count: int) -> None:
        self._columns = columns
        self._count = count
        self._missed: dict[tuple[Selector, type], NDArray[np.bool_]] = {}

    def by(self, selectors: Sequence[Selector]) -> NDArray[np.bool_]:
        """Return the rows that at least one of the selectors does not match: (count,) bool."""
        missed = np.zeros(self._count, dtype=np.bool_)
        for selector in selectors:
            missed |= self._by_one(selector)
        return missed

    def _by_one(self, selector: Selector) -> NDArray[np.bool_]:
        # True equals 1 as a key, and is another value to a selector.
        key = (selector, type(selector.value))
        if key not in self._missed:
            column = self._columns.get(selector.name)
            # A column that is not there has no value in any row.
            values = [None] * self._count if column is None else column
            self._missed[key] = np.array(
                [not selector.matches(value) for value in values], dtype=np.bool_
            )
        return self._missed[key]
