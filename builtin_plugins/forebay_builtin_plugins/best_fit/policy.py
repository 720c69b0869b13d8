"""Best fit: the node that a request leaves the least free.

The rule is that of best-fit bin packing, taken over several resources by averaging what is left
of each as a share of the largest node's capacity (Johnson, Demers, Ullman, Garey, Graham:
*Worst-Case Performance Bounds for Simple One-Dimensional Packing Algorithms*,
SIAM J. Comput. 3(4), 1974; the shares as in the baseline of Weng et al., *Beware of Fragmentation*,
USENIX ATC 2023).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from forebay import (
    KIND_ORDER,
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


class BestFit(ScorePolicy):
    """Places each request where it leaves the least.

    Ties go to the lowest node index, and within the node to the unit with the least free,
    then the lowest unit index.  One score takes O(K).
    """

    name = "best-fit"

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
        """Score by what is left; see the class for the rule."""
        largest = parameters.table[0]
        for index in range(count):
            left = 0.0
            for kind in range(len(largest)):
                if largest[kind] > 0:
                    free = fleet.node_free_millis[nodes[index], kind] - request.millis[kind]
                    left += free / largest[kind]
            scores[index] = -left

    def prepare(self, snapshot: Snapshot, mix: RequestMix) -> Parameters:
        """Find the largest node's capacity of each kind."""
        del mix
        parameters = no_parameters(len(snapshot.node_ids))
        return parameters._replace(table=largest_node_millis(snapshot).reshape(1, -1))

    def terms(
        self,
        fleet: FleetArrays,
        request: RequestArrays,
        node: int,
        unit: int,
        parameters: Parameters,
    ) -> Mapping[str, float]:
        """Return what is left of each kind asked for, as a share of the largest node."""
        del unit
        return {
            f"left_{KIND_ORDER[kind]}": float(
                (fleet.node_free_millis[node, kind] - request.millis[kind])
                / parameters.table[0, kind]
            )
            for kind in range(len(KIND_ORDER))
            if request.millis[kind] and parameters.table[0, kind]
        }
