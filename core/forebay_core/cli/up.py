"""``forebay up``: the service that places and settles work, with its control API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from forebay_core.cli.output import note
from forebay_core.cli.settings import settings_of
from forebay_core.plain import plain

if TYPE_CHECKING:
    from pathlib import Path

    from forebay import Event
    from forebay_core.runtime import Host
    from forebay_core.runtime.service import Service


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("up")(up)


def up(
    context: typer.Context,
    host: Annotated[
        str,
        typer.Option(help="Address of the control API; others than loopback let others in."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the control API; 0 takes a free one.")
    ] = 8470,
    refresh_every: Annotated[
        str, typer.Option("--refresh", help="Time between two looks at the devices.")
    ] = "5s",
    json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON with what was found.")
    ] = False,
) -> None:
    """Place, start and settle work until SIGINT or SIGTERM; running work goes on after that."""
    import signal

    from forebay_core.api import create_app
    from forebay_core.api.security import TOKEN_NAME, is_loopback, read_or_make_token
    from forebay_core.api.server import ApiServer, bind, url_of
    from forebay_core.runtime.service import Service

    refresh_every_s = _refresh_every_s(refresh_every)
    _log_to_stderr()
    settings = settings_of(context)
    with settings.host() as opened:
        service = Service(opened, refresh_every_s=refresh_every_s, on_event=None if json else _tell)
        with service:
            bound = bind(host, port)
            token = read_or_make_token(opened.home)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda _number, _frame: _stop(service))
            service.start()
            app = create_app(opened, token, address=host, silent_s=lambda: service.silent_s)
            with ApiServer(app, bound):
                if not is_loopback(host):
                    note(
                        f"{host} can be reached from elsewhere: whoever has the token can run "
                        "commands as you, and nothing is encrypted on the way."
                    )
                facts = _facts(opened, url_of(bound), opened.home / TOKEN_NAME)
                if json:
                    _print_line(facts)
                else:
                    _print_found(opened, facts)
                service.run()
    if not json:
        note("ended; running work goes on, and the next 'forebay up' finds it again.")


def _stop(service: Service) -> None:
    """End the service after its present step; asked again, at once."""
    if service.is_stopping:
        raise KeyboardInterrupt
    service.stop()


def _refresh_every_s(text: str) -> float:
    from forebay import Fault, RequestError
    from forebay.units import parse_duration_s

    duration_s = float(parse_duration_s(text, source="--refresh"))
    if duration_s <= 0:
        raise RequestError(Fault(f"found {text}, expected more than 0.", source="--refresh"))
    return duration_s


def _log_to_stderr() -> None:
    import logging

    logging.basicConfig(level=logging.WARNING, format="forebay: %(levelname)s: %(message)s")
    logging.getLogger("forebay_core").setLevel(logging.INFO)


def _facts(host: Host, url: str, token_file: Path) -> dict[str, object]:
    import os

    found = host.inventory
    return {
        "url": url,
        "metrics_url": f"{url}/metrics",
        "openapi_url": f"{url}/openapi.json",
        "token_file": str(token_file),
        "home": str(host.home),
        "process": os.getpid(),
        "nodes": found.nodes,
        "devices": found.devices,
        "adapters": found.adapters,
        "failures": [{"plugin": plugin, "failure": failure} for plugin, failure in found.failures],
        "absent": [{"plugin": plugin, "reason": reason} for plugin, reason in found.absent],
        "pools": [
            {"pool": built.pool.name, "strategy": built.pool.strategy, "units": len(built.units)}
            for built in host.pools
        ],
        "running": len(host.ledger.active_leases()),
    }


def _print_line(facts: dict[str, object]) -> None:
    import json

    print(json.dumps(facts, default=plain), flush=True)


def _print_found(host: Host, facts: dict[str, object]) -> None:
    from forebay_core.requests import format_amount

    found = host.inventory
    for device in found.devices:
        cores = " cores" if device.kind.divides_freely else ""
        print(
            f"device   {device.kind} {device.id}: {device.model or device.vendor}, "
            f"{format_amount(device.capacity_millis)}{cores}, by {found.adapters[device.id]}"
        )
    for plugin, failure in found.failures:
        print(f"failed   {plugin}: {failure.subject}: {failure.reason} {failure.fix}".rstrip())
    for plugin, reason in found.absent:
        print(f"absent   {plugin}: {reason}")
    for record in host.plugins.problems():
        print(f"plugin   {record.id} is {record.state}: {record.reason}")
    for built in host.pools:
        print(
            f"pool     {built.pool.name}: {len(built.units)} unit(s) "
            f"by strategy {built.pool.strategy}"
        )
    if running := facts["running"]:
        print(f"running  {running} job(s), started earlier")
    print(f"API      {facts['url']}  (description: {facts['openapi_url']})")
    print(f"metrics  {facts['metrics_url']}")
    print(f"token    {facts['token_file']}")
    print(
        f'try      curl -H "Authorization: Bearer $(cat {facts["token_file"]})" '
        f"{facts['url']}/v1/jobs",
        flush=True,
    )


def _tell(event: Event) -> None:
    """Print a change of state as a line, where a person would care."""
    import time

    from forebay import EventKind

    facts = event.facts
    match event.kind:
        case EventKind.JOB_SUBMITTED:
            text = f"job {event.subject} submitted"
        case EventKind.LEASE_CREATED:
            text = f"job {facts['job']} placed on {facts['node']} by {facts['policy']}"
        case EventKind.JOB_STARTED:
            text = f"job {event.subject} running"
        case EventKind.JOB_CANCELLING:
            text = f"job {event.subject} cancelling: {facts['reason']}"
        case EventKind.JOB_ENDED:
            ended = f"job {event.subject} {facts['state']}"
            text = f"{ended}: {facts['reason']}" if facts["reason"] else ended
        case EventKind.DEVICE_ADDED | EventKind.DEVICE_CHANGED | EventKind.DEVICE_REMOVED:
            text = f"device {event.subject} {event.kind.removeprefix('device_')}"
        case _:
            return
    print(f"{time.strftime('%H:%M:%S', time.localtime(event.time_s))} {text}", flush=True)
