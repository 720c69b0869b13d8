"""Queue policies: in which order waiting jobs are tried, and what happens when one does not fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Backfill(StrEnum):
    """What later jobs may do while an earlier one does not fit."""

    NONE = "none"
    """Wait behind it."""
    SKIP = "skip"
    """Start wherever they fit, whatever becomes of the earlier one."""
    EASY = "easy"
    """Start where they do not delay the first that waits, by what jobs say of their run time.

    Lifka: *The ANL/IBM SP Scheduling System*, JSSPP 1995.
    """
    CONSERVATIVE = "conservative"
    """Start where they delay none of those that wait before them.

    Mu'alem, Feitelson: *Utilization, Predictability, Workloads, and User Runtime Estimates in
    Scheduling the IBM SP2 with Backfilling*, IEEE TPDS 12(6), 2001.
    """


@dataclass(frozen=True, slots=True, eq=False)
class QueuedJobs:
    """Jobs to be put in order, as a struct of arrays; ``J`` jobs.

    Parameters
    ----------
    submit_s : (J,) float64
    estimate_s : (J,) float64
        How long each says that it runs; NaN where it does not say.
    priority : (J,) int32
    millis : (J, K) int64
        What all tasks of the job ask for together.
    """

    submit_s: NDArray[np.float64]
    estimate_s: NDArray[np.float64]
    priority: NDArray[np.int32]
    millis: NDArray[np.int64]


class QueuePolicy(ABC):
    """Puts waiting jobs in order."""

    name: str
    """Unique name by which a configuration chooses the policy."""

    backfill: Backfill = Backfill.NONE

    @abstractmethod
    def keys(self, jobs: QueuedJobs) -> NDArray[np.float64]:
        """Return a key for each job; lower goes first, equal ones in order of submission.

        Called for jobs as they are submitted, many at once.
        A pure function, job by job: a job's key never depends on the others or on the time.

        Parameters
        ----------
        jobs : QueuedJobs

        Returns
        -------
        (J,) float64
            NaN counts as last.

        Raises
        ------
        Exception
            Anything raised, and an array of another shape, is charged to the plugin, and jobs go
            in order of submission.
        """


__all__ = ["Backfill", "QueuePolicy", "QueuedJobs"]
