"""Dot product: the node whose free resources are least aligned with what is asked for.

The alignment is that of Grandl, Ananthanarayanan, Kandula, Rao, Akella: *Multi-resource Packing
for Cluster Schedulers* (Tetris), SIGCOMM 2014, section 3.2; the sign, the shares of the largest
node and the whole percent are those of the baseline *DotProd* in Weng et al., *Beware of
Fragmentation*, USENIX ATC 2023.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay import (
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


class DotProduct(ScorePolicy):
    """Scores ``floor(100 (1 - sum over kinds of free x asked / kinds))``, both as shares.

    Ties go to the lowest node index.  One score takes O(K).
    """

    name = "dot-product"

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
        """Score by how little free resources and request point the same way."""
        largest = parameters.table[0]
        kinds = 0
        for kind in range(len(largest)):
            if largest[kind] > 0:
                kinds += 1
        for index in range(count):
            product = 0.0
            for kind in range(len(largest)):
                if largest[kind] > 0:
                    free = fleet.node_free_millis[nodes[index], kind] / largest[kind]
                    product += free * request.millis[kind] / largest[kind]
            scores[index] = int(100.0 * (1.0 - product / kinds))

    def prepare(self, snapshot: Snapshot, mix: RequestMix) -> Parameters:
        """Find the largest node's capacity of each kind."""
        del mix
        parameters = no_parameters(len(snapshot.node_ids))
        return parameters._replace(table=largest_node_millis(snapshot).reshape(1, -1))
