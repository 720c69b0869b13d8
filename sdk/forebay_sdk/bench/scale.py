"""``forebay bench scale``: what a decision costs as the fleet grows.

Every figure is of one thread, with a quota in force and every placement written to an event log,
on a fleet and requests that are drawn (simulated), 53 distinct ones.  Ratios are to references
measured in the same run: a copy of the state by memcpy, and a plain loop over all nodes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from forebay import FleetArrays
from forebay.drawing import ClassArrays, fits

if TYPE_CHECKING:
    from forebay_core.scheduling.phase1 import Phase1
    from forebay_sdk.bench.offered import Policies

PLACEMENTS = 200_000
SINGLE = 4_000
"""Decisions that are timed one by one."""


ROWS = (
    ("devices", "devices", 0),
    ("placements a second", "placements_per_s", 0),
    ("a placement, us", "decision_us", 2),
    ("a single decision, p50 us", "p50_us", 0),
    ("a single decision, p99 us", "p99_us", 0),
    ("first decision of all 53, s", "first_s", 2),
    ("reference: one look at every node, us", "rescan_us", 0),
    ("copy of the state, us", "copy_us", 0),
    ("what-if: try and take back, us", "what_if_us", 0),
    ("explain: counts by reason, us", "explain_us", 0),
    ("when would it start, us", "forecast_us", 0),
    ("simulated jobs a second, 53 distinct", "simulated_jobs_per_s", 0),
    ("simulated jobs a second, 4 distinct", "simulated_whole_jobs_per_s", 0),
)
"""What is printed: name, attribute and digits."""


@dataclass(frozen=True, slots=True)
class Line:
    """What was measured on a fleet of one size.

    Parameters
    ----------
    nodes, devices : int
    placements_per_s : float
        Placements and returns in steady state count as one each; of requests, half of which end.
    decision_us : float
        Mean time of a placement.
    p50_us, p99_us : float
        Of single decisions, each a call of its own from Python.
    first_s : float
        From a snapshot to the first decision of every distinct request.
    rescan_us : float
        Reference: a compiled loop that looks at every node once, for fitting alone.
    copy_us : float
        A copy of all that placements change.
    what_if_us : float
        Try one request and take it back.
    explain_us : float
        Exact counts of why a request does not fit, for one that fits nowhere.
    forecast_us : float
        When a request would start that needs a whole node of the largest, on a full fleet.
    simulated_jobs_per_s : float
        First come, first served, through the simulator, as many distinct requests.
    simulated_whole_jobs_per_s : float
        The same with four distinct requests: 1, 2, 4 and 8 whole devices.
    """

    nodes: int
    devices: int
    placements_per_s: float
    decision_us: float
    p50_us: float
    p99_us: float
    first_s: float
    rescan_us: float
    copy_us: float
    what_if_us: float
    explain_us: float
    forecast_us: float
    simulated_jobs_per_s: float
    simulated_whole_jobs_per_s: float


def command(
    nodes: Annotated[
        list[int] | None, typer.Option(min=64, help="Nodes of the fleet; may be repeated.")
    ] = None,
    policy: Annotated[str, typer.Option(help="Score policy of any plugin.")] = "best-fit",
    jobs: Annotated[int, typer.Option(min=1000, help="Jobs simulated at each size.")] = 200_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure placements a second, tail latency and what-if as the fleet grows."""
    from forebay_sdk.bench.offered import offered_policies

    sizes = nodes or [1_000, 10_000, 100_000]
    lines = []
    with (
        offered_policies() as policies,
        typer.progressbar(sizes, label="Measuring", file=sys.stderr) as counted,
    ):
        for size in counted:
            lines.append(measure(size, policy, jobs, policies))  # noqa: PERF401 - shows progress
    if as_json:
        typer.echo(json.dumps({"policy": policy, "lines": [asdict(x) for x in lines]}, indent=2))
        return
    _print(policy, lines)


def measure(nodes: int, policy: str, jobs: int, policies: Policies) -> Line:
    """Measure everything on a fleet of one size."""
    from forebay import DeviceKind
    from forebay_core.scheduling.fleet import copy_fleet
    from forebay_core.scheduling.phase1 import Phase1
    from forebay_core.scheduling.shortfall import explain_shortfall
    from forebay_sdk.traces.synthetic import synthetic_fleet, synthetic_requests

    fleet = synthetic_fleet(nodes)
    snapshot = fleet.snapshot(quota_millis={DeviceKind.GPU: 10**12, DeviceKind.NPU: 10**12})
    requests, weight = synthetic_requests(fleet)
    judge = policies.judge(snapshot)
    score = policies.score_policy(policy)
    rng = np.random.default_rng(0)
    # Compiled code is loaded before anything is measured.
    Phase1(snapshot, score, judge, compile=True).place(requests[:1])
    began = time.perf_counter()
    engine = Phase1(snapshot, score, judge, compile=True)
    numbers = engine.number(requests)
    engine.place_numbered(numbers)
    first_s = time.perf_counter() - began
    drawn = numbers[rng.choice(len(numbers), PLACEMENTS, p=weight)]
    _fill(engine, numbers, weight, rng)
    began = time.perf_counter()
    placed, log = _steady(engine, drawn, min(5_000, nodes // 4))
    duration_s = time.perf_counter() - began
    del log
    spans = _singles(engine, drawn)
    nowhere = replace(requests[0], items=(replace(requests[0].items[0], millis=10**7),))
    return Line(
        nodes=nodes,
        devices=len(snapshot.device_ids),
        placements_per_s=placed / duration_s,
        decision_us=1e6 * duration_s / placed,
        p50_us=1e6 * float(np.percentile(spans, 50)),
        p99_us=1e6 * float(np.percentile(spans, 99)),
        first_s=first_s,
        rescan_us=1e6 * _least(lambda: _rescan(engine)),
        copy_us=1e6 * _least(lambda: copy_fleet(engine.fleet)),
        what_if_us=1e6 * _least(lambda: _try(engine, requests[0])),
        explain_us=1e6 * _least(lambda: explain_shortfall(engine, nowhere)),
        forecast_us=1e6 * _forecast(engine, numbers, weight, rng),
        simulated_jobs_per_s=_simulate(nodes, policy, jobs, policies, whole=False),
        simulated_whole_jobs_per_s=_simulate(nodes, policy, jobs, policies, whole=True),
    )


def _fill(
    engine: Phase1,
    numbers: NDArray[np.int32],
    weight: NDArray[np.float64],
    rng: np.random.Generator,
) -> None:
    """Bring the fleet to about half of its load, so that a decision is not that of an empty one."""
    count = 2 * len(engine.snapshot.node_ids)
    engine.place_numbered(numbers[rng.choice(len(numbers), count, p=weight)])


def _steady(
    engine: Phase1, drawn: NDArray[np.int32], size: int
) -> tuple[int, list[NDArray[np.int32]]]:
    """Place batches, each written to a columnar log; give the batch before the last one back."""
    from forebay_core.scheduling.phase1 import Placed

    log: list[NDArray[np.int32]] = []
    held: list[Placed] = []
    placed = 0
    for batch in np.array_split(drawn, max(len(drawn) // size, 1)):
        done = engine.place_numbered(batch)
        held.append(done)
        log += [done.requests, done.nodes.copy()]
        placed += int((done.nodes >= 0).sum())
        if len(held) > 2:
            engine.give_back(held.pop(0))
    return placed, log


def _singles(engine: Phase1, drawn: NDArray[np.int32]) -> list[float]:
    spans = []
    for index in range(SINGLE):
        began = time.perf_counter()
        engine.place_numbered(drawn[index : index + 1])
        spans.append(time.perf_counter() - began)
    return spans


def count_fitting(
    fleet: FleetArrays, classes: ClassArrays, request: int, quota: NDArray[np.int64]
) -> int:
    """Count the nodes that fit, as a scheduler without memory does for each decision; O(N)."""
    fitting = 0
    for node in range(len(fleet.node_open)):
        if fits(fleet, classes, request, node, quota):
            fitting += 1
    return fitting


def _rescan(engine: Phase1) -> int:
    kernel = engine.kernel(count_fitting)
    return int(kernel(engine.fleet, engine.classes.arrays, 0, engine.cache.no_quota))


def _try(engine: Phase1, request: object) -> None:
    with engine.what_if() as trial:
        trial.place([request])  # type: ignore[list-item]  # a Request


def _least(what: Callable[[], object], rounds: int = 30) -> float:
    """Return the quickest of some rounds; other work on a machine only ever adds time."""
    spans = []
    for _ in range(rounds):
        began = time.perf_counter()
        what()
        spans.append(time.perf_counter() - began)
    return min(spans)


def _forecast(
    engine: Phase1,
    numbers: NDArray[np.int32],
    weight: NDArray[np.float64],
    rng: np.random.Generator,
) -> float:
    """Fill the fleet, and return how long it takes to say when another request would start."""
    from forebay_core.scheduling.forecast import Running, forecast_start

    count = 6 * len(engine.snapshot.node_ids)
    placed = engine.place_numbered(numbers[rng.choice(len(numbers), count, p=weight)])
    running = Running(placed, rng.uniform(0.0, 1e5, count))
    whole = max(engine.classes.requests[:50], key=lambda one: one.items[-1].millis)
    return _least(lambda: forecast_start(engine, running, whole), rounds=3)


def _simulate(nodes: int, policy: str, jobs: int, policies: Policies, *, whole: bool) -> float:
    from forebay import DeviceKind
    from forebay_sdk.simulator import Simulation
    from forebay_sdk.simulator.simulation import Stepper
    from forebay_sdk.traces.synthetic import synthetic_fleet, synthetic_trace

    fleet = synthetic_fleet(nodes)
    snapshot = fleet.snapshot()
    trace = synthetic_trace(fleet, jobs)
    if whole:
        kept = [
            index
            for index, one in enumerate(trace.requests)
            if one.items[-1].kind is DeviceKind.GPU
            and one.items[-1].millis >= 1000
            and not one.device_selectors
            and one.items[0].millis == 4 * one.items[-1].millis
        ]
        chosen = np.array(kept, np.int32)[trace.task_request % len(kept)]
        trace = replace(trace, task_request=chosen)
    simulation = Simulation(
        snapshot,
        trace,
        policies.score_policy(policy),
        policies.queue_policy("first-come"),
        policies.judge(snapshot),
        compile=True,
    )
    Stepper(simulation).step(1)
    stepper = Stepper(simulation)
    began = time.perf_counter()
    stepper.run()
    return jobs / (time.perf_counter() - began)


def _print(policy: str, lines: Sequence[Line]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{policy}: one thread, quota and event log on", title_justify="left")
    table.add_column("")
    for line in lines:
        table.add_column(f"{line.nodes:,} nodes", justify="right")
    for name, attribute, digits in ROWS:
        values = (float(getattr(line, attribute)) for line in lines)
        table.add_row(name, *(f"{value:,.{digits}f}" for value in values))
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    if len(lines) > 1:
        growth = lines[-1].decision_us / lines[0].decision_us
        console.print(
            f"A placement costs {growth:.1f} times as much on {lines[-1].nodes:,} nodes "
            f"as on {lines[0].nodes:,}."
        )
