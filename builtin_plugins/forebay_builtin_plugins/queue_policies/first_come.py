"""First come, first served, by priority.

With backfill it is the order of Lifka, *The ANL/IBM SP Scheduling System*, JSSPP 1995 (EASY), and
of Mu'alem, Feitelson, *Utilization, Predictability, Workloads, and User Runtime Estimates in
Scheduling the IBM SP2 with Backfilling*, IEEE TPDS 12(6), 2001 (conservative).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay import Backfill, QueuedJobs, QueuePolicy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FirstCome(QueuePolicy):
    """Jobs of higher priority first, then in order of submission.

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
        """Return minus the priority."""
        return -jobs.priority.astype(float)
