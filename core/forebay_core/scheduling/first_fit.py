"""First fit: the engine's own policy, for where the one in force fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay import FleetArrays, Parameters, RequestArrays, ScorePolicy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FirstFit(ScorePolicy):
    """Takes the lowest node index that can serve; one score takes O(1)."""

    name = "first-fit"

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
