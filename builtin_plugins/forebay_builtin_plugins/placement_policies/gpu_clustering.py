"""GPU clustering: requests of the same form together.

The affinity rule of Xiao et al., *Gandiva: Introspective Cluster Scheduling for Deep Learning*,
OSDI 2018, section 3.3, as the baseline *GpuClustering* of Weng et al., *Beware of Fragmentation*,
USENIX ATC 2023, section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay import (
    FORM_COUNT,
    KIND_INDEX,
    DeviceKind,
    FleetArrays,
    Parameters,
    RequestArrays,
    RequestMix,
    ScorePolicy,
    Snapshot,
)
from forebay.scoring import largest_node_millis, no_parameters

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CPU = KIND_INDEX[DeviceKind.CPU]


class GpuClustering(ScorePolicy):
    """Scores in four tiers of 25 points, each with the fuller first.

    Above 75 a node that hosts the same form alone, above 50 one that hosts it among others, above
    25 an idle one, and last those that host other forms.  Requests for no accelerator score 0
    everywhere and do not count as hosted.  Ties go to the lowest node index.
    One score takes O(F).
    """

    name = "gpu-clustering"

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
        largest = max(int(parameters.table[0, 0]), 1)
        for index in range(count):
            scores[index] = 0.0
            if request.kind < 0:
                continue
            node = nodes[index]
            forms = 0
            for form in range(1, FORM_COUNT):
                if fleet.node_hosted[node, form] > 0:
                    forms += 1
            same = fleet.node_hosted[node, request.form] > 0
            tier = (75 if forms == 1 else 50) if same else (25 if forms == 0 else 0)
            used = largest - fleet.node_free_millis[node, request.kind]
            scores[index] = tier + 25 * used // largest

    def prepare(self, snapshot: Snapshot, mix: RequestMix) -> Parameters:
        """Find what the node with the most accelerators has."""
        del mix
        largest = largest_node_millis(snapshot)
        largest[_CPU] = 0.0
        parameters = no_parameters(len(snapshot.node_ids))
        return parameters._replace(table=largest.max(keepdims=True).reshape(1, 1))
