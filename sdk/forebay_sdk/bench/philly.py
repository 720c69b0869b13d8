"""``forebay bench philly``: waiting times on a recorded queue of deep-learning jobs.

Unlike openb there is no published table; the baselines are our own, and the benchmark says by how
much they move when ties between equal nodes are broken by lot.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from forebay_sdk.bench.offered import Policies
    from forebay_sdk.simulator import Run
    from forebay_sdk.traces import Trace

QUEUES = (
    "first-come",
    "first-come-skip",
    "shortest-first",
    "shortest-first-skip",
    "smallest-first-skip",
    "easy",
)


@dataclass(frozen=True, slots=True)
class Line:
    """One queue policy on a cluster of one size.

    Parameters
    ----------
    gpus : int
    queue : str
    wait_mean_s, wait_p50_s, wait_p99_s, completion_mean_s, slowdown_mean : float
        Over all jobs.
    jobs_per_s : float
        Simulated, in one thread.
    """

    gpus: int
    queue: str
    wait_mean_s: float
    wait_p50_s: float
    wait_p99_s: float
    completion_mean_s: float
    slowdown_mean: float
    jobs_per_s: float


def command(
    data: Annotated[
        Path, typer.Argument(help="File of jobs, philly_jobs.csv.gz.", exists=True, dir_okay=False)
    ],
    gpus: Annotated[list[int] | None, typer.Option(help="GPUs of the cluster; repeatable.")] = None,
    queue: Annotated[
        list[str] | None, typer.Option(help="Queue policy of any plugin; repeatable.")
    ] = None,
    policy: Annotated[str, typer.Option(help="Score policy.")] = "best-fit",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Replay the Philly trace under queue policies; run times are known to the scheduler."""
    from forebay_sdk.bench.offered import offered_policies
    from forebay_sdk.traces.philly import read_philly

    sizes, names = gpus or [640, 480], queue or list(QUEUES)
    trace = read_philly(data)
    lines = []
    with (
        offered_policies() as policies,
        typer.progressbar(
            length=len(sizes) * len(names), label="Replaying", file=sys.stderr
        ) as progress,
    ):
        for size in sizes:
            for name in names:
                lines.append(_replay(trace, size, name, policy, policies))
                progress.update(1)
    if as_json:
        document = {"trace": trace.name, "jobs": len(trace), "lines": [asdict(x) for x in lines]}
        typer.echo(json.dumps(document, indent=2))
        return
    _print(trace, lines)


def _replay(trace: Trace, gpus: int, queue: str, policy: str, policies: Policies) -> Line:
    from forebay_sdk.simulator import Simulation
    from forebay_sdk.simulator.simulation import Stepper
    from forebay_sdk.traces.philly import philly_fleet

    snapshot = philly_fleet(gpus).snapshot()
    simulation = Simulation(
        snapshot,
        trace,
        policies.score_policy(policy),
        policies.queue_policy(queue),
        policies.judge(snapshot),
        compile=True,
    )
    # The first step loads compiled code.
    Stepper(simulation).step(1)
    began = time.perf_counter()
    run = simulation.run()
    return _line(run, gpus, queue, len(trace) / (time.perf_counter() - began))


def _line(run: Run, gpus: int, queue: str, jobs_per_s: float) -> Line:
    from forebay_sdk.simulate.summary import summarise

    found = summarise(run)
    return Line(
        gpus=gpus,
        queue=queue,
        wait_mean_s=found.wait_mean_s,
        wait_p50_s=found.wait_p50_s,
        wait_p99_s=found.wait_p99_s,
        completion_mean_s=found.completion_mean_s,
        slowdown_mean=found.slowdown_mean,
        jobs_per_s=jobs_per_s,
    )


def _print(trace: Trace, lines: Sequence[Line]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{trace.name}: {len(trace):,} jobs, 8-GPU nodes", title_justify="left")
    for name in ("GPUs", "queue", "wait s", "p50", "p99", "completion s", "slowdown", "jobs/s"):
        table.add_column(name, justify="left" if name == "queue" else "right")
    for line in lines:
        table.add_row(
            str(line.gpus),
            line.queue,
            f"{line.wait_mean_s:,.0f}",
            f"{line.wait_p50_s:,.0f}",
            f"{line.wait_p99_s:,.0f}",
            f"{line.completion_mean_s:,.0f}",
            f"{line.slowdown_mean:,.1f}",
            f"{line.jobs_per_s:,.0f}",
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)
