"""Power-aware placement: the node whose power grows the least, alone or together with FGD.

Lettich et al., *Power- and Fragmentation-aware Online Scheduling for GPU Datacenters*, CCGrid 2025.
A device draws its full power as soon as any part of it is lent; of the CPU, sockets of 16 cores do.
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
from forebay_builtin_plugins.placement_policies.fgd import (
    fall_of_fragmentation,
    typical_requests,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CPU = KIND_INDEX[DeviceKind.CPU]

SOCKET_MILLIS = 16_000
SOCKET_IDLE_WATTS = 15
SOCKET_FULL_WATTS = 120
"""A socket of 16 cores, each two hardware threads, as in the authors' model."""

WATTS: Mapping[str, tuple[int, int]] = {
    "A10": (30, 150),
    "G2": (30, 150),
    "G3": (50, 400),
    "P100": (25, 250),
    "T4": (10, 70),
    "V100M16": (30, 300),
    "V100M32": (30, 300),
}
"""Idle and full power by model, as in the authors' model; G2 and G3 stand for A10 and A100."""

WATTS_UNKNOWN = (30, 300)
"""What a model that the table does not know is taken for."""

SHARE_OF_POWER = 0.1
"""Weight of power beside fragmentation: 100 of 1000, one of the authors' combinations."""


class Pwr(ScorePolicy):
    """Scores minus the watts that a placement adds; whole watts.

    A part of a device goes to one in use where it fits.  Ties go to the lowest node index.
    One score takes O(devices of the node).
    """

    name = "pwr"

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
        """Score by the watts added; see the class."""
        for index in range(count):
            scores[index] = -float(watts_added(fleet, request, nodes[index], parameters))

    def prepare(self, snapshot: Snapshot, mix: RequestMix) -> Parameters:
        """Find each node's watts."""
        return _with_watts(snapshot, typical_requests(snapshot, mix))

    def terms(
        self,
        fleet: FleetArrays,
        request: RequestArrays,
        node: int,
        unit: int,
        parameters: Parameters,
    ) -> Mapping[str, float]:
        """Return the watts added."""
        del unit
        return {"power_added_watts": float(watts_added(fleet, request, node, parameters))}


class PwrFgd(ScorePolicy):
    """Scores a weighted sum of power and of FGD's score, both from 0 to 100.

    The authors scale the watts added by the least and the most among the nodes that fit, anew for
    each decision; here the scale is the most that the request could add on any node, so that a
    score depends on its node alone.  Ties go to the lowest node index.
    One score takes O(expected requests x devices of the node).
    """

    name = "pwr-fgd"

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
        """Score by both; see the class."""
        step = parameters.table[0, 1]
        sockets = math.ceil(request.millis[_CPU] / SOCKET_MILLIS)
        kind = int(parameters.table[0, 0])
        devices = math.ceil(request.millis[kind] / MILLIS_PER_UNIT)
        most = sockets * (SOCKET_FULL_WATTS - SOCKET_IDLE_WATTS) + devices * step
        for index in range(count):
            node = nodes[index]
            added = watts_added(fleet, request, node, parameters)
            power = 100.0 if most == 0 else math.floor(100.0 * (1.0 - added / most))
            fall, unit = fall_of_fragmentation(fleet, request, node, parameters)
            fragmentation = math.floor(100.0 / (1.0 + math.exp(-fall / 1000.0)))
            scores[index] = SHARE_OF_POWER * power + (1.0 - SHARE_OF_POWER) * fragmentation
            units[index] = unit

    def prepare(self, snapshot: Snapshot, mix: RequestMix) -> Parameters:
        """Keep the most frequent requests, and find each node's watts."""
        return _with_watts(snapshot, typical_requests(snapshot, mix))

    def terms(
        self,
        fleet: FleetArrays,
        request: RequestArrays,
        node: int,
        unit: int,
        parameters: Parameters,
    ) -> Mapping[str, float]:
        """Return the watts added, and by how much fragmentation falls."""
        del unit
        fall, _ = fall_of_fragmentation(fleet, request, node, parameters)
        return {
            "power_added_watts": float(watts_added(fleet, request, node, parameters)),
            "fragmentation_fall_millis": float(fall),
        }


def watts_added(
    fleet: FleetArrays, request: RequestArrays, node: int, parameters: Parameters
) -> int:
    """Return by how many watts a placement raises a node's power; O(devices of the node)."""
    capacity = fleet.node_capacity_millis[node, _CPU]
    used = capacity - fleet.node_free_millis[node, _CPU]
    before = (used + SOCKET_MILLIS - 1) // SOCKET_MILLIS
    after = (used + request.millis[_CPU] + SOCKET_MILLIS - 1) // SOCKET_MILLIS
    watts = (after - before) * (SOCKET_FULL_WATTS - SOCKET_IDLE_WATTS)
    if request.kind < 0:
        return watts
    step = parameters.node_values[node, 1]
    if request.form > 1:
        return watts + step * (request.millis[request.kind] // MILLIS_PER_UNIT)
    # The device with the least left that fits is taken: one in use, if there is one.
    for position in range(fleet.first_device[node], fleet.first_device[node + 1]):
        device = fleet.node_devices[position]
        free = fleet.device_free_millis[device]
        if (
            fleet.device_kind[device] == request.kind
            and request.millis[request.kind] <= free < fleet.device_capacity_millis[device]
        ):
            return watts
    return watts + step


def _with_watts(snapshot: Snapshot, parameters: Parameters) -> Parameters:
    """Add to each node what one of its devices draws more when in use, in whole watts."""
    import numpy as np

    from forebay.allocation import kind_of_devices

    added = np.zeros(len(snapshot.node_ids), np.int64)
    models = snapshot.device_attributes.get("model")
    for device in np.flatnonzero(kind_of_devices(snapshot) > _CPU):
        model = "" if models is None else str(models[device] or "")
        idle, full = WATTS.get(model, WATTS_UNKNOWN)
        node = snapshot.device_node[device]
        added[node] = max(added[node], full - idle)
    table = parameters.table.copy()
    table[0, 1] = added.max(initial=0)
    return Parameters(table, np.column_stack([parameters.node_values[:, 0], added]))
