"""Rules out devices that are not healthy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forebay import Filter, FilterScope, RequestBatch, Snapshot


class HealthFilter(Filter):
    """Rules out units with a member that failed, is lost, or whose adapter does not answer."""

    name = "health"
    reasons = ("device unhealthy",)
    scope = FilterScope.FLEET

    def filter(self, snapshot: Snapshot, batch: RequestBatch) -> NDArray[np.bool_]:
        """Judge all units at once; O(M)."""
        ruled_out = np.zeros((1, len(batch.requests), len(snapshot.unit_ids)), dtype=bool)
        if snapshot.unit_ids:
            sick = ~snapshot.device_healthy[snapshot.member_devices]
            ruled_out[0] = np.logical_or.reduceat(sick, snapshot.member_offsets[:-1])
        return ruled_out
