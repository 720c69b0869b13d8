"""``forebay run``, ``submit``, ``jobs``, ``logs``, ``cancel`` and ``explain``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from forebay_core.cli.output import note, print_json, print_table
from forebay_core.cli.settings import settings_of

if TYPE_CHECKING:
    from forebay import Job, JobSpec, JobState
    from forebay_core.runtime import Host

Command = Annotated[
    list[str], typer.Argument(metavar="-- COMMAND...", help="Program and arguments.")
]
Amounts = Annotated[
    list[str] | None,
    typer.Option(
        "--request",
        "-r",
        help="Amounts, for example cpu=2,gpu=0.5,gpu.memory=20GiB; one core if left out.",
    ),
]
DeviceSelectors = Annotated[
    list[str] | None,
    typer.Option("--device", help="Condition on devices, for example vendor==nvidia."),
]
NodeSelectors = Annotated[
    list[str] | None, typer.Option("--node", help="Condition on the node's labels.")
]
Linked = Annotated[bool, typer.Option("--linked", help="Devices must be joined by links.")]
PoolName = Annotated[str, typer.Option("--pool", help="Pool to draw from.")]
Name = Annotated[str, typer.Option("--name", help="Name of the job.")]
Variables = Annotated[
    list[str] | None, typer.Option("--env", "-e", help="Variable NAME=VALUE for the command.")
]
Directory = Annotated[
    str | None,
    typer.Option("--directory", "-C", help="Working directory; the present one if left out."),
]
TimeLimit = Annotated[
    str | None,
    typer.Option("--time-limit", help="End the work after this long, for example 10min."),
]
Priority = Annotated[int, typer.Option("--priority", help="Higher is placed first.")]
NoAccelerate = Annotated[
    bool, typer.Option("--no-accelerate", help="Apply no accelerator, such as process-tuning.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JobNumber = Annotated[int, typer.Argument(metavar="JOB", help="Number of the job.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    # Options of the command itself must not be taken for ours.
    own_options = {"allow_interspersed_args": False}
    app.command("run", context_settings=own_options)(run)
    app.command("submit", context_settings=own_options)(submit)
    app.command("jobs")(jobs)
    app.command("logs")(logs)
    app.command("cancel")(cancel)
    app.command("explain")(explain)


def run(
    context: typer.Context,
    command: Command,
    request: Amounts = None,
    device: DeviceSelectors = None,
    node: NodeSelectors = None,
    linked: Linked = False,
    pool: PoolName = "default",
    name: Name = "",
    env: Variables = None,
    directory: Directory = None,
    time_limit: TimeLimit = None,
    priority: Priority = 0,
    no_accelerate: NoAccelerate = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Tell each step on the way.")
    ] = False,
    json: Json = False,
) -> None:
    """Run a command on leased devices, show its output, return its exit status."""
    from forebay import ForebayError, InputError
    from forebay_core.cli.errors import print_error
    from forebay_core.runtime.foreground import Foreground, exit_status

    spec = _spec(
        command,
        request,
        device,
        node,
        linked,
        pool,
        name,
        env,
        directory,
        time_limit,
        priority,
        no_accelerate,
    )
    try:
        with settings_of(context).host() as host:
            foreground = Foreground(
                host, spec, echo=not json, tell=note if verbose else lambda _message: None
            )
            job = foreground.run()
            if json:
                print_json({**_job_document(host, job), **foreground.output()})
    except InputError:
        raise
    except ForebayError as error:
        print_error(error)
        raise typer.Exit(125) from error
    if job.reason and not json:
        note(f"job {job.id} {job.state}: {job.reason}")
    raise typer.Exit(exit_status(job))


def submit(
    context: typer.Context,
    command: Command,
    request: Amounts = None,
    device: DeviceSelectors = None,
    node: NodeSelectors = None,
    linked: Linked = False,
    pool: PoolName = "default",
    name: Name = "",
    env: Variables = None,
    directory: Directory = None,
    time_limit: TimeLimit = None,
    priority: Priority = 0,
    no_accelerate: NoAccelerate = False,
    json: Json = False,
) -> None:
    """Put a command into the queue and return; 'forebay up' runs what is queued."""
    from forebay_core.runtime.service import service_is_running

    spec = _spec(
        command,
        request,
        device,
        node,
        linked,
        pool,
        name,
        env,
        directory,
        time_limit,
        priority,
        no_accelerate,
    )
    with settings_of(context).host() as host:
        host.refresh(record=False)
        job = host.submit(spec)
        running = service_is_running(host.home)
    if json:
        print_json(job)
    else:
        print(job.id)
    if not running:
        note("no service is running: the job waits until you start one with 'forebay up'.")


def jobs(
    context: typer.Context,
    all_: Annotated[
        bool, typer.Option("--all", "-a", help="Ended jobs too, however many there are.")
    ] = False,
    json: Json = False,
) -> None:
    """List jobs: those that wait or run, and the last few that ended."""
    from forebay_core.requests import format_request

    with settings_of(context).host() as host:
        host.settle()
        found = host.ledger.jobs(limit=None if all_ else 20)
        if not all_:
            known = {job.id for job in found}
            alive = [job for job in host.ledger.jobs(_alive_states()) if job.id not in known]
            found = (*alive, *found)
    if json:
        print_json(found)
        return
    print_table(
        ["job", "state", "request", "waited", "ran", "exit", "command", "reason"],
        [
            (
                job.id,
                job.state,
                format_request(job.spec.request),
                _span(job.submitted_s, job.started_s or job.ended_s),
                _span(job.started_s, job.ended_s) if job.started_s else "",
                job.exit_status,
                job.spec.name or " ".join(job.spec.command)[:40],
                job.reason,
            )
            for job in found
        ],
    )


def logs(
    context: typer.Context,
    job: JobNumber,
    stderr: Annotated[bool, typer.Option("--stderr", help="Standard error alone.")] = False,
    stdout: Annotated[bool, typer.Option("--stdout", help="Standard output alone.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job ends.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what a job has written."""
    from forebay import JobId, LogStream
    from forebay_core.runtime.tail import Tail

    only = {LogStream.STDOUT: stdout, LogStream.STDERR: stderr}
    wanted = [stream for stream, asked in only.items() if asked]
    with settings_of(context).host() as host:
        found = host.ledger.job(JobId(job))
        while not host.ledger.leases(found.id):
            if not follow or found.state.is_final:
                break
            time.sleep(0.1)
            found = host.ledger.job(found.id)
        leases = host.ledger.leases(found.id)
        if not leases:
            note(f"job {job} is {found.state} and has not started, so it has written nothing.")
            return
        tail = Tail(host.engine(leases[-1].engine), leases[-1].lease.id, wanted or list(LogStream))
        if json:
            print_json({"job": job, **tail.text()})
            return
        tail.copy()
        while follow and not host.ledger.job(found.id).state.is_final:
            host.settle()
            tail.copy()
            time.sleep(0.1)
        tail.copy()


def cancel(
    context: typer.Context,
    job: Annotated[list[int], typer.Argument(metavar="JOB...", help="Numbers of jobs.")],
    wait_s: Annotated[
        float, typer.Option("--wait", help="Longest to wait for the end, in seconds.")
    ] = 15.0,
    json: Json = False,
) -> None:
    """End jobs, with everything they started."""
    from forebay import JobId, StateError

    with settings_of(context).host() as host:
        ended = []
        for number in job:
            before = host.ledger.job(JobId(number))
            if before.state.is_final:
                raise StateError(f"job {number} has ended already: {before.state}.")
            host.ledger.cancel(before.id, "cancelled by forebay cancel.")
        deadline = time.monotonic() + wait_s
        for number in job:
            while not host.ledger.job(JobId(number)).state.is_final:
                host.settle()
                if time.monotonic() > deadline:
                    raise StateError(
                        f"job {number} has not ended within {wait_s:g} s.",
                        fix="It will be ended all the same; look again with: forebay jobs",
                    )
                time.sleep(0.05)
            ended.append(host.ledger.job(JobId(number)))
    if json:
        print_json(ended)
        return
    for found in ended:
        print(f"job {found.id} {found.state}")


def explain(context: typer.Context, job: JobNumber, json: Json = False) -> None:
    """Tell why a job waits and what would let it run, or where and why there it ran."""
    from forebay import JobId, JobState
    from forebay_core.cli.explaining import print_explanation, print_placement

    with settings_of(context).host() as host:
        host.settle()
        found = host.ledger.job(JobId(job))
        if found.state is JobState.PENDING:
            host.refresh(record=False)
            explanation = host.explain(found)
            if json:
                print_json({**_job_document(host, found), "explanation": explanation})
            else:
                print_explanation(found, explanation)
        elif json:
            print_json(_job_document(host, found))
        else:
            print_placement(host, found)


def _spec(
    command: list[str],
    request: list[str] | None,
    device: list[str] | None,
    node: list[str] | None,
    linked: bool,
    pool: str,
    name: str,
    env: list[str] | None,
    directory: str | None,
    time_limit: str | None,
    priority: int,
    no_accelerate: bool,
) -> JobSpec:
    """Turn options into a job's description, or raise with what is wrong with them."""
    from pathlib import Path

    from forebay import Fault, JobSpec, RequestError
    from forebay.units import parse_duration_s
    from forebay_core.requests import parse_request

    variables: dict[str, str] = {}
    for text in env or ():
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise RequestError(
                Fault(f"found {text!r}, expected NAME=VALUE.", source="--env", fix="")
            )
        variables[key] = value
    where = Path(directory or ".").absolute()
    if not where.is_dir():
        raise RequestError(Fault(f"{where} is not a directory.", source="--directory"))
    limit_s = None
    if time_limit is not None:
        limit_s = float(parse_duration_s(time_limit, source="--time-limit"))
        if limit_s <= 0:
            raise RequestError(
                Fault(f"found {time_limit}, expected more than 0.", source="--time-limit")
            )
    return JobSpec(
        command=tuple(command),
        request=parse_request(
            request or (),
            device_selectors=device or (),
            node_selectors=node or (),
            linked=linked,
            pool=pool,
        ),
        name=name,
        environment=variables,
        directory=str(where),
        time_limit_s=limit_s,
        priority=priority,
        accelerators=() if no_accelerate else ("*",),
    )


def _job_document(host: Host, job: Job) -> dict[str, object]:
    return {
        "job": job,
        "leases": host.ledger.leases(job.id),
    }


def _alive_states() -> list[JobState]:
    from forebay import JobState

    return [state for state in JobState if not state.is_final]


def _span(begin_s: float | None, end_s: float | None) -> str:
    if begin_s is None:
        return ""
    seconds = (end_s or time.time()) - begin_s
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"
