"""A trace: jobs in order of submission, as a struct of arrays.

Axes: ``J`` jobs, ``T`` tasks of all jobs one after another, ``C`` distinct requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from forebay import Fault, Request

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Jobs to be placed; a job is one task or a gang of them that starts all or nothing.

    Parameters
    ----------
    name : str
        As results name it, for example ``openb default``.
    requests : tuple of Request, length C
        The distinct requests, each once.
    submit_s : (J,) float64
        Seconds from the start of the trace, never falling.
    duration_s : (J,) float64
        How long the job runs once started; infinite where it never ends.
    estimate_s : (J,) float64
        How long the scheduler is told that it runs; NaN where it is told nothing.
    priority : (J,) int32
        Higher goes first, where the queue's policy looks at it.
    task_offsets : (J + 1,) int32
        Tasks of job ``j`` are ``task_request[task_offsets[j]:task_offsets[j + 1]]``.
    task_request : (T,) int32
        Index of the task's request.
    refused : tuple of Fault
        Rows of the source that were left out, each with its line, field and reason.
    """

    name: str
    requests: tuple[Request, ...]
    submit_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    estimate_s: NDArray[np.float64]
    priority: NDArray[np.int32]
    task_offsets: NDArray[np.int32]
    task_request: NDArray[np.int32]
    refused: tuple[Fault, ...] = ()

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.submit_s)
