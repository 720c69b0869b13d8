"""Asks a queue policy for the order of jobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forebay import Job, QueuedJobs, QueuePolicy
from forebay_core.scheduling.arrays import build_batch


def queue_order(policy: QueuePolicy, jobs: Sequence[Job]) -> list[int]:
    """Return the positions of jobs in the order in which they are to be tried; O(J log J).

    Raises
    ------
    ValueError
        The policy returned no number for each job.
    Exception
        Whatever the policy raises.
    """
    limits = [job.spec.time_limit_s for job in jobs]
    queued = QueuedJobs(
        submit_s=np.array([job.submitted_s for job in jobs]),
        estimate_s=np.array([np.nan if limit is None else limit for limit in limits]),
        priority=np.array([job.spec.priority for job in jobs], np.int32),
        millis=build_batch([job.spec.request for job in jobs]).millis,
    )
    keys = np.asarray(policy.keys(queued), np.float64)
    if keys.shape != (len(jobs),):
        raise ValueError(f"keys has shape {keys.shape}, expected ({len(jobs)},).")
    ids = np.array([job.id for job in jobs])
    return [int(index) for index in np.lexsort((ids, keys))]
