"""Random: any node that can serve, the weakest baseline there is.

The baseline *Random* of Weng, Yang, Yu, Wang, Tang, Yang, Zhang: *Beware of Fragmentation:
Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent*, USENIX ATC 2023, section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay import FleetArrays, Parameters, RequestArrays, ScorePolicy, Ties, UnitChoice

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class RandomNode(ScorePolicy):
    """Chooses uniformly among the nodes, then among the units that serve a part of a device.

    One decision takes O(N), since ties are counted.
    """

    name = "random"
    ties = Ties.UNIFORM
    unit_choice = UnitChoice.UNIFORM

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
        """Score all the same."""
        for index in range(count):
            scores[index] = 0.0
