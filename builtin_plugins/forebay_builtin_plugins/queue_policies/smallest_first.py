"""Smallest job first: the least device time, run time times devices.

The order that did best on the Philly trace (Jeon et al., USENIX ATC 2019) among the plain ones;
two-dimensional scheduling as in Gu et al., *Tiresias: A GPU Cluster Manager for Distributed Deep
Learning*, NSDI 2019, section 3, with run times known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay import Backfill, QueuedJobs, QueuePolicy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class SmallestFirst(QueuePolicy):
    """Jobs that ask for the least device time first; those that say no run time last.

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
        """Return run time times accelerators, or times cores where a job asks for none."""
        accelerators = jobs.millis[:, 1:].sum(axis=1)
        amount = accelerators + (accelerators == 0) * jobs.millis[:, 0]
        keys: NDArray[np.float64] = jobs.estimate_s * amount
        return keys
