"""``forebay bench openb``: one table, beside what is published and what no scheduler can pass."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.errors import Fault, InputError, NotFoundError

if TYPE_CHECKING:
    from forebay_sdk.bench.openb.data import Openb
    from forebay_sdk.bench.openb.published import Published
    from forebay_sdk.bench.openb.trial import Trial

POLICIES = ("random", "dot-product", "gpu-clustering", "gpu-packing", "best-fit", "fgd")
"""Those with published results."""

SEEDS = tuple(range(42, 52))
LOADS = (95, 100, 130)
FRAG_LOADS = (60, 100)
RULES = (
    "Simulation without departures, as the paper's is: tasks arrive once, one by one; what does "
    "not fit is dropped and still counts as arrived; nothing is refused, kept waiting or moved. "
    "A policy knows what the trace asks for and how often, never the order. Equal scores go to "
    "the first node in the one random order of the seed."
)


@dataclass(frozen=True, slots=True)
class Line:
    """One policy on one trace.

    Parameters
    ----------
    trace, policy : str
    seeds : int
    unallocated_percent, unallocated_sd : mapping of int to float
        By arrived load.
    published_percent : mapping of int to float
        The same, from the authors' files; empty where nothing is published.
    frag_percent : mapping of int to float
        Fragmented GPU as a share of all, by arrived load.
    decisions_per_s : float
    p99_ms : float
    times_plain_loop : float or None
        How many times as fast as a plain loop over all nodes; None where not asked for.
    """

    trace: str
    policy: str
    seeds: int
    unallocated_percent: dict[int, float]
    unallocated_sd: dict[int, float]
    published_percent: dict[int, float]
    frag_percent: dict[int, float]
    decisions_per_s: float
    p99_ms: float
    times_plain_loop: float | None


def command(
    data: Annotated[
        Path,
        typer.Argument(
            help="Directory of the trace: csv, arrival_orders.npz and published.",
            exists=True,
            file_okay=False,
        ),
    ],
    trace: Annotated[
        list[str] | None,
        typer.Option(help="Published trace, 'all', or a file of tasks; may be repeated."),
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="Score policy of any plugin; may be repeated.")
    ] = None,
    seed: Annotated[
        list[int] | None, typer.Option(help="Seed of the orders; may be repeated.")
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option(help="Another file of nodes.", exists=True, dir_okay=False)
    ] = None,
    reference: Annotated[
        bool, typer.Option(help="Time a plain loop over all nodes as well, and compare.")
    ] = False,
    bound: Annotated[bool, typer.Option(help="Work out the bound no scheduler can pass.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    markdown: Annotated[bool, typer.Option(help="Print the table as Markdown.")] = False,
) -> None:
    """Pack a recorded GPU cluster (openb, FGD paper, ATC 2023) with policies of any plugin."""
    from forebay_sdk.bench.offered import offered_policies
    from forebay_sdk.bench.openb.data import TRACES, read_openb
    from forebay_sdk.bench.openb.trial import run_trial

    traces = list(TRACES) if trace == ["all"] else trace or ["default", "gpuspec33"]
    names, seeds = policy or list(POLICIES), seed or list(SEEDS)
    published = _published(data)
    lines: list[Line] = []
    bounds: dict[str, float] = {}
    total = len(traces) * len(names) * len(seeds)
    with (
        offered_policies() as policies,
        typer.progressbar(length=total, label="Packing", file=sys.stderr) as progress,
    ):
        chosen = [policies.score_policy(name) for name in names]
        for name in traces:
            openb = read_openb(data, name, nodes)
            for one in chosen:
                trials = []
                for number in seeds:
                    trials.append(run_trial(openb, one, number, policies, reference=reference))
                    progress.update(1)
                lines.append(_line(name, trials, published))
            if bound:
                bounds[name] = _bound(openb, seeds)
    if as_json:
        document = {
            "benchmark": "openb-pack/1",
            "rules": RULES,
            "seeds": seeds,
            "bound_percent": bounds,
            "lines": [asdict(line) for line in lines],
        }
        typer.echo(json.dumps(document, indent=2))
    elif markdown:
        typer.echo(_markdown(lines, bounds))
    else:
        _print(lines, bounds, seeds)


def _published(data: Path) -> Published | None:
    from forebay_sdk.bench.openb.published import Published

    return Published.read(data) if (data / "published").is_dir() else None


def _line(trace: str, trials: Sequence[Trial], published: Published | None) -> Line:
    import numpy as np

    unallocated = np.array([trial.unallocated_percent for trial in trials])
    frag = np.array([trial.frag_percent for trial in trials])
    policy = trials[0].policy
    known: dict[int, float] = {}
    if published is not None:
        for load in LOADS:
            try:
                known[load] = published.unallocated(trace, policy, load)[0]
            except NotFoundError:
                break
    missing = [load for load in LOADS if np.isnan(unallocated[:, load]).any()]
    if missing:
        raise InputError(
            Fault(
                f"no task of trace {trace} arrives at a load of {missing[0]} %.",
                source=trace,
                fix="Give tasks that ask for GPUs, or a smaller fleet.",
            )
        )
    spread = unallocated.std(axis=0, ddof=1) if len(trials) > 1 else np.zeros(unallocated.shape[1])
    times = sum(trial.rescan_s for trial in trials) / sum(trial.duration_s for trial in trials)
    return Line(
        trace=trace,
        policy=policy,
        seeds=len(trials),
        unallocated_percent={load: float(unallocated[:, load].mean()) for load in LOADS},
        unallocated_sd={load: float(spread[load]) for load in LOADS},
        published_percent=known,
        frag_percent={load: float(np.nanmean(frag[:, load])) for load in FRAG_LOADS},
        decisions_per_s=sum(trial.decisions for trial in trials)
        / sum(trial.duration_s for trial in trials),
        p99_ms=1000 * float(np.median([trial.p99_s for trial in trials])),
        times_plain_loop=None if np.isnan(times) else times,
    )


def _bound(openb: Openb, seeds: Sequence[int]) -> float:
    """Return the mean over the seeds of the least GPU that must stay unallocated at load 100."""
    import numpy as np

    from forebay_sdk.bench.openb.bound import allocation_bound_percent, arrived_in_bin
    from forebay_sdk.bench.openb.instance import instance_of

    nodes, tasks = instance_of(openb)
    values = []
    for seed in seeds:
        order, _ = openb.orders(seed)
        arrived = arrived_in_bin(order, tasks, openb.capacity_millis, 100)
        values.append(100 - allocation_bound_percent(nodes, tasks, arrived))
    return float(np.mean(values))


_HEAD = (
    "trace",
    "policy",
    "@95",
    "@100 (sd)",
    "@130",
    "published @95",
    "@100",
    "@130",
    "bound @100",
    "frag @60",
    "@100",
    "decisions/s",
    "p99 ms",
    "x loop",
)


def _cells(line: Line, bounds: dict[str, float]) -> list[str]:
    mean, known = line.unallocated_percent, line.published_percent
    return [
        line.trace,
        line.policy,
        f"{mean[95]:.2f}",
        f"{mean[100]:.2f} ({line.unallocated_sd[100]:.2f})",
        f"{mean[130]:.2f}",
        *(f"{known[load]:.2f}" if load in known else "" for load in LOADS),
        f"{bounds[line.trace]:.2f}" if line.trace in bounds else "",
        f"{line.frag_percent[60]:.2f}",
        f"{line.frag_percent[100]:.2f}",
        f"{line.decisions_per_s:,.0f}",
        f"{line.p99_ms:.2f}",
        "" if line.times_plain_loop is None else f"{line.times_plain_loop:.1f}",
    ]


def _markdown(lines: Sequence[Line], bounds: dict[str, float]) -> str:
    rows = [list(_HEAD), ["---"] * len(_HEAD), *(_cells(line, bounds) for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _print(lines: Sequence[Line], bounds: dict[str, float], seeds: Sequence[int]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=f"openb-pack/1: unallocated GPU %, mean of {len(seeds)} seed(s), by arrived load",
        caption=RULES,
        title_justify="left",
        caption_justify="left",
    )
    for name in _HEAD:
        table.add_column(name, justify="left" if name in {"trace", "policy"} else "right")
    for line in lines:
        table.add_row(*_cells(line, bounds))
    Console(width=None if sys.stdout.isatty() else 170).print(table)
