"""Fragmentation of a fleet by the definition of the paper, apart from any policy's own sums.

Weng et al., *Beware of Fragmentation*, USENIX ATC 2023, section 4.2, as their program computes it:
the classes are tasks by cores, GPU share, number and model, memory left aside, no cores counting
as a tenth of one; the most frequent that cover 95 % are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from forebay import KIND_INDEX, DeviceKind, FleetArrays, Snapshot
from forebay.drawing import ClassArrays, Draws, take
from forebay_core.scheduling import build_batch

if TYPE_CHECKING:
    from forebay_core.scheduling.classes import Judge
    from forebay_sdk.traces import Trace

CPU = KIND_INDEX[DeviceKind.CPU]
GPU = KIND_INDEX[DeviceKind.GPU]
COVERED = 0.95
CPU_MILLIS_MIN = 100


def typical_tasks(
    trace: Trace, snapshot: Snapshot, judge: Judge
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the kept classes.

    Returns
    -------
    classes : (M, 4) float64
        Frequency, cores in thousandths, thousandths of each GPU, GPUs.
    allowed : (M, N) bool
        Nodes that the class may run on.
    """
    batch = build_batch(trace.requests)
    passed = judge(batch) & (snapshot.unit_kind == GPU)
    counts = np.bincount(trace.task_request, minlength=len(trace.requests))
    found: dict[tuple[int, int, int, str], list[int]] = {}
    for index, request in enumerate(trace.requests):
        asked = int(batch.millis[index, GPU])
        key = (
            max(int(batch.millis[index, CPU]), CPU_MILLIS_MIN),
            min(asked, 1000),
            max(asked // 1000, int(asked > 0)),
            "|".join(str(selector.value) for selector in request.device_selectors),
        )
        found.setdefault(key, []).append(index)
    ranked = sorted(
        ((int(counts[members].sum()), key) for key, members in found.items()), reverse=True
    )
    classes: list[tuple[float, float, float, float]] = []
    allowed = []
    covered = 0
    for count, key in ranked:
        if covered >= COVERED * len(trace):
            break
        covered += count
        classes.append((count, *key[:3]))
        nodes = np.zeros(len(snapshot.node_ids), np.bool_)
        nodes[snapshot.unit_node[passed[found[key][0]]]] = True
        allowed.append(nodes)
    table = np.array(classes, np.float64).reshape(len(classes), 4)
    table[:, 0] /= max(covered, 1)
    return table, np.array(allowed, np.bool_).reshape(len(classes), len(snapshot.node_ids))


def node_fragmentation(
    fleet: FleetArrays, node: int, table: NDArray[np.float64], allowed: NDArray[np.bool_]
) -> float:
    """Return F of one node in thousandths of a GPU; O(M x GPUs)."""
    total = 0.0
    for row in range(table.shape[0]):
        fitting = 0
        short = 0
        left = 0
        for position in range(fleet.first_device[node], fleet.first_device[node + 1]):
            device = fleet.node_devices[position]
            if fleet.device_kind[device] == GPU:
                free = fleet.device_free_millis[device]
                left += free
                if free >= table[row, 2]:
                    fitting += 1
                else:
                    short += free
        fits = (
            table[row, 3] > 0
            and allowed[row, node]
            and fleet.node_free_millis[node, CPU] >= table[row, 1]
            and fitting >= table[row, 3]
        )
        total += table[row, 0] * (short if fits else left)
    return total


def fragmentation_curve(
    fleet: FleetArrays,
    classes: ClassArrays,
    requests: NDArray[np.int32],
    nodes: NDArray[np.int32],
    first_draw: NDArray[np.int64],
    draws: Draws,
    table: NDArray[np.float64],
    allowed: NDArray[np.bool_],
    curve: NDArray[np.float64],
) -> int:
    """Replay placements on an empty fleet, and fill in F of the fleet after each arrival."""
    total = 0.0
    for node in range(len(fleet.first_unit) - 1):
        total += node_fragmentation(fleet, node, table, allowed)
    for index in range(len(requests)):
        node = nodes[index]
        if node >= 0:
            total -= node_fragmentation(fleet, node, table, allowed)
            begin, end = first_draw[index], first_draw[index + 1]
            take(fleet, classes, requests[index], node, draws, begin, end, 1)
            total += node_fragmentation(fleet, node, table, allowed)
        curve[index] = total
    return 0
