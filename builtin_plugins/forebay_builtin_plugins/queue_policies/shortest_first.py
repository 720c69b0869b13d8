"""Shortest job first: the least mean wait where run times are known.

Smith, *Various optimizers for single-stage production*, Naval Research Logistics Quarterly 3,
1956, for one server; a heuristic for more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay import Backfill, QueuedJobs, QueuePolicy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ShortestFirst(QueuePolicy):
    """Jobs that say the shortest run time first; those that say none last.

    Parameters
    ----------
    name : str
    backfill : Backfill
        What later jobs may do while an earlier one does not fit.
    """

    def __init__(self, name: str, backfill: Backfill) -> None:
        self.name = name
        self.backfill = backfill

    def keys(self, jobs: QueuedJobs) -> NDArray[np.float64]:
        """Return what each job says."""
        return jobs.estimate_s
