"""Scheduling: from a snapshot and requests to decisions that are known to fit."""

from __future__ import annotations

from forebay import Snapshot
from forebay_core.scheduling.arrays import build_batch, build_snapshot
from forebay_core.scheduling.capacity import check_ever_fits
from forebay_core.scheduling.engine import Outcome, SchedulingEngine
from forebay_core.scheduling.explain import Explanation, explain
from forebay_core.scheduling.queue_order import queue_order

__all__ = [
    "Explanation",
    "Outcome",
    "SchedulingEngine",
    "Snapshot",
    "build_batch",
    "build_snapshot",
    "check_ever_fits",
    "explain",
    "queue_order",
]
