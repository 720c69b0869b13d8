"""Fragmentation gradient descent: the node whose fragmentation grows the least.

Weng, Yang, Yu, Wang, Tang, Yang, Zhang: *Beware of Fragmentation: Scheduling GPU-Sharing Workloads
with Fragmentation Gradient Descent*, USENIX ATC 2023.  Fragmentation is that of section 4.2:
with the expected requests ``m`` of frequency ``p_m``, a node with ``r_g`` left on device ``g`` has

    F(m) = sum of r_g                    where m does not fit, or asks for no device,
    F(m) = sum of r_g with r_g < m's     where it does,
    F    = sum over m of p_m F(m).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from forebay import (
    KIND_INDEX,
    MILLIS_PER_UNIT,
    DeviceKind,
    FleetArrays,
    Parameters,
    RequestArrays,
    RequestMix,
    ScorePolicy,
    Snapshot,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CPU = KIND_INDEX[DeviceKind.CPU]
_GPU = KIND_INDEX[DeviceKind.GPU]

COVERED = 0.95
"""Share of the expected requests that the kept ones cover, the most frequent first."""

CPU_MILLIS_MIN = 100
"""What a request for no core counts as."""


class FragmentationGradientDescent(ScorePolicy):
    """Scores ``floor(100 sigmoid(d / 1000))``, where ``d`` is by how much fragmentation falls.

    A part of a device is tried on each device, the first of the best is wished for; whole devices
    are the free ones of lowest index.  Ties go to the lowest node index, which together with the
    whole percent is part of the policy: without either it allocates far less (see the benchmark's
    page).  One score takes O(expected requests x devices of the node).
    """

    name = "fgd"

    @staticmethod
    def score(
        fleet: FleetArrays,
        request: RequestArrays,
        nodes: NDArray[np.int32],
        count: int,
        parameters: Parameters,
        scores: NDArray[np.float64],
        units: NDArray[np.int32],
    ) -> None:
        """Score by the fall of fragmentation; see the class."""
        for index in range(count):
            node = nodes[index]
            fall, unit = fall_of_fragmentation(fleet, request, node, parameters)
            scores[index] = math.floor(100.0 / (1.0 + math.exp(-fall / 1000.0)))
            units[index] = unit

    def prepare(self, snapshot: Snapshot, mix: RequestMix) -> Parameters:
        """Keep the most frequent requests, and on which nodes each may run."""
        return typical_requests(snapshot, mix)

    def terms(
        self,
        fleet: FleetArrays,
        request: RequestArrays,
        node: int,
        unit: int,
        parameters: Parameters,
    ) -> Mapping[str, float]:
        """Return by how much the node's fragmentation falls, in thousandths of a device."""
        del unit
        fall, _ = fall_of_fragmentation(fleet, request, node, parameters)
        return {"fragmentation_fall_millis": float(fall)}


def fall_of_fragmentation(
    fleet: FleetArrays, request: RequestArrays, node: int, parameters: Parameters
) -> tuple[float, int]:
    """Return by how much a placement lowers a node's fragmentation, and the unit it is best on."""
    table = parameters.table
    kind = int(table[0, 0])
    code = parameters.node_values[node, 0]
    cpu_free = fleet.node_free_millis[node, _CPU]
    cpu_after = cpu_free - request.millis[_CPU]
    total = fleet.node_free_millis[node, kind]
    asked = request.millis[kind]
    if request.kind != kind:
        # No device of this kind is asked for: only the cores left change what fits.
        fall = 0.0
        for row in range(1, table.shape[0]):
            before = _fragmented(fleet, node, kind, table, row, code, cpu_free, total)
            after = _fragmented(fleet, node, kind, table, row, code, cpu_after, total)
            fall += table[row, 0] * (before - after)
        return fall, -1
    if request.form != 1:
        return _fall_of_whole(fleet, node, kind, table, code, cpu_free, cpu_after, total, asked), -1
    best = -math.inf
    unit = -1
    seen = -1
    for position in range(fleet.first_unit[node], fleet.first_unit[node + 1]):
        candidate = fleet.node_units[position]
        if fleet.unit_kind[candidate] != kind or not request.candidates[candidate]:
            continue
        free = fleet.device_free_millis[fleet.member_devices[fleet.member_offsets[candidate]]]
        # Devices with the same left fare the same, and the first of them is taken.
        if free < asked or free == seen:
            continue
        seen = free
        fall = 0.0
        for row in range(1, table.shape[0]):
            fall += table[row, 0] * _fall_of_part(
                fleet, node, kind, table, row, code, cpu_free, cpu_after, total, free, asked
            )
        if fall > best:
            best = fall
            unit = candidate
    return best, unit


def _fall_of_part(
    fleet: FleetArrays,
    node: int,
    kind: int,
    table: NDArray[np.float64],
    row: int,
    code: int,
    cpu_free: int,
    cpu_after: int,
    total: int,
    free: int,
    asked: int,
) -> float:
    """Return F(m) before less F(m) after a part is taken of a device that has ``free``."""
    millis = table[row, 2]
    needed = table[row, 3]
    if needed == 0 or table[row, 4 + code] == 0:
        return float(asked)
    fitting = 0
    short = 0
    for position in range(fleet.first_device[node], fleet.first_device[node + 1]):
        device = fleet.node_devices[position]
        if fleet.device_kind[device] == kind:
            left = fleet.device_free_millis[device]
            if left >= millis:
                fitting += 1
            else:
                short += left
    before = short if cpu_free >= table[row, 1] and fitting >= needed else total
    if free >= millis and free - asked < millis:
        fitting -= 1
        short += free - asked
    elif free < millis:
        short -= asked
    after = short if cpu_after >= table[row, 1] and fitting >= needed else total - asked
    return float(before - after)


def _fragmented(
    fleet: FleetArrays,
    node: int,
    kind: int,
    table: NDArray[np.float64],
    row: int,
    code: int,
    cpu_free: int,
    total: int,
) -> float:
    """Return F(m) of a node as it is, with so many cores left."""
    if table[row, 3] == 0 or table[row, 4 + code] == 0 or cpu_free < table[row, 1]:
        return float(total)
    fitting = 0
    short = 0
    for position in range(fleet.first_device[node], fleet.first_device[node + 1]):
        device = fleet.node_devices[position]
        if fleet.device_kind[device] == kind:
            left = fleet.device_free_millis[device]
            if left >= table[row, 2]:
                fitting += 1
            else:
                short += left
    return float(short if fitting >= table[row, 3] else total)


def _fall_of_whole(
    fleet: FleetArrays,
    node: int,
    kind: int,
    table: NDArray[np.float64],
    code: int,
    cpu_free: int,
    cpu_after: int,
    total: int,
    asked: int,
) -> float:
    """Return the fall where whole devices are taken: they were free and are then used up."""
    taken = asked // MILLIS_PER_UNIT
    fall = 0.0
    for row in range(1, table.shape[0]):
        millis = table[row, 2]
        needed = table[row, 3]
        if needed == 0 or table[row, 4 + code] == 0:
            fall += table[row, 0] * asked
            continue
        fitting = 0
        short = 0
        for position in range(fleet.first_device[node], fleet.first_device[node + 1]):
            device = fleet.node_devices[position]
            if fleet.device_kind[device] == kind:
                left = fleet.device_free_millis[device]
                if left >= millis:
                    fitting += 1
                else:
                    short += left
        before = short if cpu_free >= table[row, 1] and fitting >= needed else total
        fitting -= taken
        after = short if cpu_after >= table[row, 1] and fitting >= needed else total - asked
        fall += table[row, 0] * (before - after)
    return fall


def typical_requests(snapshot: Snapshot, mix: RequestMix) -> Parameters:
    """Return the requests that fragmentation is measured by; O(R * U).

    They differ by cores, amount and number of devices and nodes allowed, never by memory.

    Row 0 of the table holds the kind; then a row each with frequency, cores in thousandths,
    thousandths of each device, devices, and a flag for each code of node.  The column of
    node values is the code: nodes of one code are allowed to the same requests.
    """
    import numpy as np

    batch = mix.batch
    kind = _kind_in_demand(batch.millis, mix.weight)
    node_count = len(snapshot.node_ids)
    of_kind = snapshot.unit_kind == kind
    merged: dict[tuple[int, int, int, bytes], float] = {}
    for row in range(len(batch.requests)):
        asked = int(batch.millis[row, kind])
        whole = asked >= MILLIS_PER_UNIT
        nodes = np.zeros(node_count, np.bool_)
        if asked:
            nodes[snapshot.unit_node[mix.allowed[row] & of_kind]] = True
        key = (
            max(int(batch.millis[row, _CPU]), CPU_MILLIS_MIN),
            MILLIS_PER_UNIT if whole else asked,
            asked // MILLIS_PER_UNIT if whole else int(asked > 0),
            np.packbits(nodes).tobytes(),
        )
        merged[key] = merged.get(key, 0.0) + float(mix.weight[row])
    kept = []
    covered = 0.0
    for key, weight in sorted(merged.items(), key=lambda item: (item[1], item[0]), reverse=True):
        if covered >= COVERED - 1e-9:
            break
        kept.append((key, weight))
        covered += weight
    allowed = np.zeros((len(kept), node_count), np.bool_)
    for index, ((_, _, _, packed), _) in enumerate(kept):
        allowed[index] = np.unpackbits(np.frombuffer(packed, np.uint8), count=node_count)
    patterns, codes = np.unique(allowed, axis=1, return_inverse=True)
    table = np.zeros((1 + len(kept), 4 + max(patterns.shape[1], 1)))
    table[0, 0] = kind
    for index, ((cpu, millis, needed, _), weight) in enumerate(kept):
        table[1 + index, :4] = weight / covered, cpu, millis, needed
        table[1 + index, 4 : 4 + patterns.shape[1]] = patterns[index]
    return Parameters(table, codes.reshape(node_count, 1).astype(np.int64))


def _kind_in_demand(millis: NDArray[np.int64], weight: NDArray[np.float64]) -> int:
    """Return the kind, other than CPUs, that the expected requests ask for most."""
    demand = weight @ millis if len(weight) else millis.sum(axis=0)
    demand = demand.astype(float)
    demand[_CPU] = 0.0
    return int(demand.argmax()) if demand.any() else _GPU
