"""GPU packing: devices in use first, then free devices of nodes in use, idle nodes last.

The rule of Kubernetes device plugins' binpack, as the baseline *GpuPacking* of Weng et al.,
*Beware of Fragmentation*, USENIX ATC 2023, section 6, which takes it from Weng et al.,
*MLaaS in the Wild*, NSDI 2022.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay import FleetArrays, Parameters, RequestArrays, ScorePolicy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class GpuPacking(ScorePolicy):
    """Scores in three tiers of whole numbers, each with the fuller first.

    On devices in use 50 to 100, less a tenth of the percentage free on them; on free devices of a
    node in use 33 to 50, less the free devices taken; on an idle node up to 33, less its devices.
    A request for no accelerator scores 0 everywhere.  Ties go to the lowest node index.
    One score takes O(devices of the node).
    """

    name = "gpu-packing"

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
        """Score by tier; see the class."""
        for index in range(count):
            scores[index] = 0.0
            if request.kind < 0:
                continue
            node = nodes[index]
            devices = 0
            idle = 0
            least = 1001
            for position in range(fleet.first_device[node], fleet.first_device[node + 1]):
                device = fleet.node_devices[position]
                if fleet.device_kind[device] != request.kind:
                    continue
                devices += 1
                free = fleet.device_free_millis[device]
                if free == fleet.device_capacity_millis[device]:
                    idle += 1
                elif request.form == 1 and request.millis[request.kind] <= free < least:
                    least = free
            if idle == devices:
                scores[index] = max(33 - idle, idle)
            elif least < 1001:
                scores[index] = max(100 - (least * 100 // 1000) // 10, 50)
            else:
                taken = max(request.millis[request.kind] // 1000, 1)
                scores[index] = max(50 - taken, 33)
