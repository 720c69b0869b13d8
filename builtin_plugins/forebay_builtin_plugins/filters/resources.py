"""Rules out units that are too small or too full."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forebay import Filter, FilterScope, RequestBatch, Snapshot
from forebay.allocation import Free, relevant_units, unit_fits


class ResourceFilter(Filter):
    """Rules out units that cannot serve their kind's part of a request.

    ``too small`` would not do even if nothing were lent; ``not enough free`` would then.
    A CPU is ruled out only when it has nothing to contribute.
    """

    name = "resources"
    reasons = ("too small", "not enough free")
    scope = FilterScope.CAPACITY

    def filter(self, snapshot: Snapshot, batch: RequestBatch) -> NDArray[np.bool_]:
        """Judge unit by unit; O(R * M)."""
        ruled_out = np.zeros((2, len(batch.requests), len(snapshot.unit_ids)), dtype=bool)
        now = Free.of(snapshot)
        empty = Free(
            snapshot.device_capacity_millis, snapshot.device_memory_bytes, now.quota_millis
        )
        relevant = relevant_units(snapshot, batch)
        for request in range(len(batch.requests)):
            for kind in np.flatnonzero(batch.wanted[request]):
                units = relevant[request] & (snapshot.unit_kind == kind)
                ever = unit_fits(snapshot, empty, batch, request, int(kind))
                fits = unit_fits(snapshot, now, batch, request, int(kind))
                ruled_out[0, request] |= units & ~ever
                ruled_out[1, request] |= units & ever & ~fits
        return ruled_out
