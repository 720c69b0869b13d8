"""``forebay simulate``: replay a trace under several policies, and compare."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.errors import CapacityError

if TYPE_CHECKING:
    from forebay_sdk.bench.offered import Policies
    from forebay_sdk.simulate.inputs import Inputs
    from forebay_sdk.simulator import NodeEvents, Run


def simulate(
    trace: Annotated[
        Path | None, typer.Argument(help="File of the trace.", exists=True, dir_okay=False)
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="dlrm, openb, philly, swf or synthetic.")
    ] = "synthetic",
    policy: Annotated[list[str] | None, typer.Option(help="Score policy; repeatable.")] = None,
    queue: Annotated[list[str] | None, typer.Option(help="Queue policy; repeatable.")] = None,
    fleet: Annotated[
        Path | None,
        typer.Option(help="File of nodes, in openb's format.", exists=True, dir_okay=False),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes, where there is no file.")] = 1000,
    jobs: Annotated[int, typer.Option(min=1, help="Jobs of a synthetic trace.")] = 10_000,
    load: Annotated[float, typer.Option(min=0.01, help="Load of a synthetic trace.")] = 0.8,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    mtbf: Annotated[
        float, typer.Option(min=0.0, help="Hours between failures of a node; 0 for none.")
    ] = 0.0,
    mttr: Annotated[float, typer.Option(min=0.0, help="Hours to repair a node.")] = 1.0,
    checkpoint: Annotated[
        float, typer.Option(min=0.0, help="Seconds between checkpoints of a job; 0 for none.")
    ] = 0.0,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report.")] = None,
    parquet: Annotated[
        Path | None, typer.Option(help="Write the jobs of every run, as Parquet.")
    ] = None,
    events: Annotated[
        Path | None, typer.Option(help="Write the event logs, as JSON lines.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Replay a trace under policies of any plugin, by the engine that also runs live."""
    from forebay_sdk.bench.offered import offered_policies
    from forebay_sdk.simulate import export
    from forebay_sdk.simulate.inputs import read_inputs
    from forebay_sdk.simulate.summary import summarise

    inputs = read_inputs(trace, form, fleet=fleet, nodes=nodes, jobs=jobs, load=load, seed=seed)
    for fault in inputs.trace.refused[:10]:
        typer.echo(f"left out: {fault}", err=True)
    if len(inputs.trace.refused) > 10:
        typer.echo(f"left out: {len(inputs.trace.refused) - 10} more.", err=True)
    failing = _failures(inputs, seed, mtbf, mttr)
    with offered_policies() as policies:
        pairs = product(policy or ["best-fit"], queue or ["first-come-skip"])
        runs = [
            _run(inputs, one, order, policies, failing, seed, checkpoint) for one, order in pairs
        ]
    if report is not None:
        from forebay_sdk.simulate.report import write_report

        write_report(report, runs, f"{inputs.trace.name} on {inputs.fleet.name}")
    if parquet is not None:
        export.write_parquet(parquet, runs)
    if events is not None:
        export.write_events(events, runs)
    if as_json:
        document = [asdict(summarise(run)) for run in runs]
        typer.echo(json.dumps({"runs": export.without_nan(document)}, indent=2))
    else:
        _print(inputs, runs)


def _failures(inputs: Inputs, seed: int, mtbf_h: float, mttr_h: float) -> NodeEvents:
    import numpy as np

    from forebay_sdk.simulator import NodeEvents
    from forebay_sdk.simulator.events import NODE_DOWN, NODE_UP
    from forebay_sdk.traces.synthetic import failures

    if not mtbf_h or not len(inputs.trace):
        return NodeEvents.none()
    node, down_s, up_s = failures(
        len(inputs.fleet),
        float(inputs.trace.submit_s[-1]),
        seed,
        mtbf_s=3600 * mtbf_h,
        mttr_s=3600 * mttr_h,
    )
    time_s = np.concatenate([down_s, up_s])
    order = np.argsort(time_s, kind="stable")
    kind = np.repeat(np.array([NODE_DOWN, NODE_UP], np.int8), len(node))
    return NodeEvents(time_s[order], np.concatenate([node, node])[order], kind[order])


def _run(
    inputs: Inputs,
    policy: str,
    queue: str,
    policies: Policies,
    failing: NodeEvents,
    seed: int,
    checkpoint_s: float,
) -> Run:
    from forebay_sdk.simulate.summary import summarise
    from forebay_sdk.simulator import Simulation

    snapshot = inputs.fleet.snapshot()
    simulation = Simulation(
        snapshot,
        inputs.trace,
        policies.score_policy(policy),
        policies.queue_policy(queue),
        policies.judge(snapshot),
        seed=seed,
        node_events=failing,
        checkpoint_s=checkpoint_s,
        plugin=policies.score[policy].plugin,
    )
    done = 0
    with typer.progressbar(
        length=len(inputs.trace), label=f"{policy}, {queue}", file=sys.stderr
    ) as bar:

        def progress(submitted: int) -> None:
            nonlocal done
            bar.update(submitted - done)
            done = submitted

        run = simulation.run(progress)
        bar.update(len(inputs.trace) - done)
    for fault in run.faults:
        typer.echo(f"warning: {fault}", err=True)
    if len(inputs.trace) and not summarise(run).started:
        raise CapacityError(
            f"no job of {inputs.trace.name} fits on {inputs.fleet.name}.",
            fix="Give a larger fleet.",
        )
    return run


def _print(inputs: Inputs, runs: Sequence[Run]) -> None:
    from rich.console import Console
    from rich.table import Table

    from forebay_sdk.simulate.summary import summarise

    table = Table(
        title=f"{inputs.trace.name} on {inputs.fleet.name} (simulated)", title_justify="left"
    )
    found = [summarise(run) for run in runs]
    kinds = sorted({kind for one in found for kind in one.utilisation})
    heads = ("started", "ended", "killed", "wait s", "p50", "p99", "slowdown")
    for name in ("policy", "queue"):
        table.add_column(name)
    for name in (*heads, *(f"{kind} lent" for kind in kinds)):
        table.add_column(name, justify="right")
    for one in found:
        table.add_row(
            one.policy,
            one.queue,
            f"{one.started:,}",
            f"{one.ended:,}",
            f"{one.killed:,}",
            f"{one.wait_mean_s:,.0f}",
            f"{one.wait_p50_s:,.0f}",
            f"{one.wait_p99_s:,.0f}",
            f"{one.slowdown_mean:,.2f}",
            *(f"{100 * one.utilisation.get(kind, 0):.1f} %" for kind in kinds),
        )
    Console(width=None if sys.stdout.isatty() else 140).print(table)
