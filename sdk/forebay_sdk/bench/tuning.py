"""What accelerators gain for work that Forebay really runs.

Two processes that do nothing but multiply matrices run side by side, each on half of the cores,
through the same host and engine as any job: as they come, and with accelerators applied.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.errors import ForebayError

if TYPE_CHECKING:
    from forebay import Evidence, Job, Trial
    from forebay_core.runtime import Host

WORKLOAD = """
import numpy
a = numpy.random.default_rng(0).random((256, 256))
for _ in range(150):
    a @ a
"""


def measure(rounds: Sequence[int], tell: Callable[[str], None]) -> list[Evidence]:
    """Run the workload both ways and let each accelerator that applies judge the trials.

    Parameters
    ----------
    rounds : sequence of int
        Each runs the pair of processes once plain and once accelerated, in turn.
    tell : callable
        Told of each round.

    Raises
    ------
    ForebayError
        There is one core only, or a job failed.
    """
    from forebay import Subject, SubjectKind
    from forebay_core.config import Config
    from forebay_core.runtime import Host

    with tempfile.TemporaryDirectory() as home:
        # Untuned work is not pinned either, as it would not be without Forebay.
        plain_config = Config(plugin={"cpu": {"pin": False}})
        with (
            Host(plain_config, Path(home) / "plain") as plain,
            Host(Config(), Path(home) / "tuned") as tuned,
        ):
            for host in (plain, tuned):
                host.refresh()
            for offered in tuned.plugins.accelerators():
                offered.object.probe()
            cores = sum(device.capacity_millis for device in tuned.inventory.devices) // 1000
            if cores < 2:
                raise ForebayError("two processes side by side need two cores, there is one.")
            trials: list[Trial] = []
            for number in rounds:
                pairs = (_pair(plain, cores // 2, ()), _pair(tuned, cores // 2, ("*",)))
                trials += pairs
                tell(f"round {number}: {pairs[0].duration_s:.2f} s, {pairs[1].duration_s:.2f} s")
            (lease,) = tuned.ledger.leases(tuned.ledger.jobs()[-1].id)
            subject = Subject(SubjectKind.PROCESS, (sys.executable, "-c", WORKLOAD))
            found = []
            for offered in tuned.plugins.accelerators():
                accelerator = offered.object
                estimate = accelerator.estimate(subject, lease.lease, tuned.inventory.devices)
                if estimate is not None:
                    plan = accelerator.plan(subject, lease.lease, tuned.inventory.devices, estimate)
                    found.append(accelerator.verify(plan, trials))
            return found


def _pair(host: Host, cores: int, accelerators: tuple[str, ...]) -> Trial:
    """Run two copies at once; the trial is the slower one."""
    import time

    from forebay import JobSpec, JobState, Trial
    from forebay_core.requests import parse_request

    spec = JobSpec(
        (sys.executable, "-c", WORKLOAD),
        parse_request([f"cpu={cores}"]),
        accelerators=accelerators,
    )
    jobs = [host.submit(spec) for _ in range(2)]
    host.cycle()

    def now() -> list[Job]:
        host.settle()
        return [host.ledger.job(job.id) for job in jobs]

    while not all(job.state.is_final for job in now()):
        time.sleep(0.01)
    ended = now()
    if any(job.state is not JobState.COMPLETED for job in ended):
        raise ForebayError(f"the workload {ended[0].state}: {ended[0].reason}")
    return Trial(
        bool(accelerators), max((job.ended_s or 0) - (job.started_s or 0) for job in ended)
    )


def command(
    rounds: Annotated[int, typer.Option(min=1, help="Pairs of runs, plain and accelerated.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure what accelerators gain for two processes that share this machine."""
    evidence = measure(range(1, rounds + 1), lambda message: typer.echo(message, err=True))
    if as_json:
        typer.echo(json.dumps([{**asdict(item), "gain": item.gain} for item in evidence], indent=2))
        return
    for item in evidence:
        typer.echo(
            f"{item.what}: {item.value:.3f} {item.unit} against {item.baseline:.3f} {item.unit}, "
            f"{item.gain:.1f} times faster\n  {item.method}\n  on {item.machine}"
        )
    if not evidence:
        typer.echo("no accelerator applies to this work on this machine")
