"""Runs as files: jobs as Parquet, event logs as JSON lines."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from forebay.errors import UnsupportedError
from forebay_sdk.simulator import Run

KINDS = ("submitted", "started", "ended", "killed", "node_down", "node_drained", "node_up")
"""Kinds of events, in the order of their numbers."""


def write_parquet(path: Path, runs: Sequence[Run]) -> None:
    """Write a row for each job of each run.

    Raises
    ------
    UnsupportedError
        PyArrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise UnsupportedError(
            "Parquet needs PyArrow, which is not installed.",
            fix="Install it with: pip install 'forebay[bench]'",
        ) from error
    tables = [
        pa.table(
            {
                "policy": pa.array([run.policy] * len(run.submit_s)).dictionary_encode(),
                "queue": pa.array([run.queue] * len(run.submit_s)).dictionary_encode(),
                "job": np.arange(len(run.submit_s)),
                "submit_s": run.submit_s,
                "first_start_s": run.first_start_s,
                "end_s": run.end_s,
                "duration_s": run.duration_s,
            }
        )
        for run in runs
    ]
    pq.write_table(pa.concat_tables(tables), path)


def write_events(path: Path, runs: Sequence[Run]) -> None:
    """Write a line for each event of each run, in order; equal runs give equal bytes."""
    with path.open("w", encoding="ascii") as file:
        for run in runs:
            head = json.dumps({"policy": run.policy, "queue": run.queue, "seed": run.seed})
            file.write(f"{head}\n")
            log = run.log
            for time_s, kind, job, node in zip(
                log.time_s.tolist(),
                log.kind.tolist(),
                log.job.tolist(),
                log.node.tolist(),
                strict=True,
            ):
                file.write(
                    f'{{"time_s": {time_s!r}, "kind": "{KINDS[kind]}", "job": {job}, '
                    f'"node": {node}}}\n'
                )


def without_nan(value: object) -> object:
    """Return a document in which what is not known is null: JSON has no NaN."""
    if isinstance(value, dict):
        return {key: without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
