"""What a run comes to, in a few numbers with their units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forebay import KIND_ORDER, DeviceKind
from forebay_sdk.simulator import Run

BOUNDED_S = 10.0
"""Run times shorter than this count as this in the bounded slowdown (Feitelson et al., 1997)."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of one run.

    Parameters
    ----------
    trace, policy, queue : str
    seed : int
    jobs, started, ended, killed : int
    wait_mean_s, wait_p50_s, wait_p99_s : float
        Of jobs that started, until their first start.
    completion_mean_s, slowdown_mean : float
        Of jobs that ended.
    utilisation : mapping of str to float
        Mean share lent over the samples, by kind of device.
    makespan_s : float
        From the first submission to the last event.
    digest : str
        SHA-256 of the event log.
    """

    trace: str
    policy: str
    queue: str
    seed: int
    jobs: int
    started: int
    ended: int
    killed: int
    wait_mean_s: float
    wait_p50_s: float
    wait_p99_s: float
    completion_mean_s: float
    slowdown_mean: float
    utilisation: dict[str, float]
    makespan_s: float
    digest: str


def summarise(run: Run) -> Summary:
    """Return the figures of a run; NaN where there is nothing to take a mean of."""
    started = ~np.isnan(run.first_start_s)
    ended = ~np.isnan(run.end_s)
    wait_s = (run.first_start_s - run.submit_s)[started]
    completion_s = (run.end_s - run.submit_s)[ended]
    slowdown = np.maximum(completion_s / np.maximum(run.duration_s[ended], BOUNDED_S), 1.0)
    return Summary(
        trace=run.trace,
        policy=run.policy,
        queue=run.queue,
        seed=run.seed,
        jobs=len(run.submit_s),
        started=int(started.sum()),
        ended=int(ended.sum()),
        killed=run.killed,
        wait_mean_s=_mean(wait_s),
        wait_p50_s=float(np.median(wait_s)) if len(wait_s) else float("nan"),
        wait_p99_s=float(np.percentile(wait_s, 99)) if len(wait_s) else float("nan"),
        completion_mean_s=_mean(completion_s),
        slowdown_mean=_mean(slowdown),
        utilisation=utilisation(run),
        makespan_s=float(run.log.time_s[-1] - run.log.time_s[0]) if len(run.log.time_s) else 0.0,
        digest=run.digest,
    )


def utilisation(run: Run) -> dict[str, float]:
    """Return the mean share lent over the samples, by kind of device that the fleet has."""
    shares = shares_lent(run)
    return {str(kind): float(share.mean()) for kind, share in shares.items() if len(share)}


def shares_lent(run: Run) -> dict[DeviceKind, np.ndarray]:
    """Return the share lent at each sample, by kind of device that the fleet has."""
    return {
        kind: 1.0 - run.samples.sample_free[:, index] / run.capacity_millis[index]
        for index, kind in enumerate(KIND_ORDER)
        if run.capacity_millis[index]
    }


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
