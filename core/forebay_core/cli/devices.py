"""``forebay devices``: what the adapters find on this machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from forebay_core.cli.output import print_json, print_table
from forebay_core.cli.settings import settings_of

if TYPE_CHECKING:
    from forebay import Device, Evidence
    from forebay_core.inventory import Inventory
    from forebay_core.runtime import Host
    from forebay_core.runtime.readings import Readings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("devices")(devices)


def devices(
    context: typer.Context,
    device: Annotated[
        str | None, typer.Argument(help="Show everything known of this device.")
    ] = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="Measure what the devices really do.")
    ] = False,
    readings: Annotated[
        bool, typer.Option("--readings", help="Read what devices and network do now.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the devices that the adapters find, and what they could not read."""
    with settings_of(context).host() as host:
        inventory = host.refresh(record=False)
        chosen = [_find(inventory, device)] if device else list(inventory.devices)
        evidence = {found.id: _probe(host, found) for found in chosen} if probe else {}
        now = _read(host) if readings else None
    if json:
        print_json(
            {
                "nodes": inventory.nodes,
                "devices": chosen,
                "links": inventory.links,
                "failures": [
                    {"plugin": plugin, "failure": failure} for plugin, failure in inventory.failures
                ],
                "absent": [
                    {"plugin": plugin, "reason": reason} for plugin, reason in inventory.absent
                ],
                "evidence": evidence,
                "readings": now,
            }
        )
        return
    if device:
        _print_one(chosen[0])
    else:
        _print_all(inventory)
    for id_, measured in evidence.items():
        for item in measured:
            print(f"{id_}: {item.what} {item.value:.4g} {item.unit} ({item.method})")
    if now is not None:
        _print_readings(now)


def _read(host: Host) -> Readings:
    from forebay_core.runtime.readings import read

    return read(host)


def _print_readings(now: Readings) -> None:
    print_table(
        ["device", "reading", "value", "unit", "source"],
        [
            (
                reading.device,
                reading.name,
                reading.state if reading.value is None else f"{reading.value:.4g}",
                reading.unit,
                reading.source,
            )
            for reading in now.devices
        ],
    )
    print_table(
        ["interface", "up", "rate", "received", "sent"],
        [
            (
                state.interface,
                "yes" if state.is_up else "no",
                state.state if state.rate_bits_per_s is None else f"{state.rate_bits_per_s:.4g}bps",
                state.received_bytes,
                state.sent_bytes,
            )
            for state in now.interfaces
        ],
    )
    for plugin, reason in now.failures:
        print(f"failed  {plugin}: {reason}", file=sys.stderr)


def _find(inventory: Inventory, device: str) -> Device:
    from forebay import NotFoundError

    matches = [found for found in inventory.devices if found.id == device]
    matches = matches or [found for found in inventory.devices if found.id.startswith(device)]
    if len(matches) != 1:
        raise NotFoundError(
            f"{'no device has' if not matches else f'{len(matches)} devices have'} "
            f"an id that begins with {device!r}.",
            fix="List devices with: forebay devices",
        )
    return matches[0]


def _probe(host: Host, device: Device) -> list[Evidence]:
    from forebay import ForebayError, UnsupportedError
    from forebay_core.cli.output import note

    owner = host.inventory.adapters[device.id]
    for offered in host.plugins.hardware_adapters():
        if offered.name == owner:
            try:
                return list(offered.object.probe(device.id))
            except UnsupportedError:
                note(f"{owner} offers no measurement of {device.id}.")
            except ForebayError as error:
                note(str(error))
    return []


def _print_all(inventory: Inventory) -> None:
    from forebay.units import Dimension, format_quantity
    from forebay_core.requests import format_amount

    print_table(
        ["device", "kind", "model", "capacity", "memory", "health", "adapter"],
        [
            (
                found.id,
                found.kind,
                found.model or found.vendor,
                format_amount(found.capacity_millis)
                + (" cores" if found.kind.divides_freely else ""),
                format_quantity(found.memory_bytes, Dimension.BYTES, binary=True)
                if found.memory
                else "unknown",
                _health(found),
                inventory.adapters[found.id],
            )
            for found in inventory.devices
        ],
    )
    for plugin, failure in inventory.failures:
        fix = f" {failure.fix}" if failure.fix else ""
        print(f"failed  {plugin}: {failure.subject}: {failure.reason}{fix}", file=sys.stderr)
    for plugin, reason in inventory.absent:
        print(f"absent  {plugin}: {reason}", file=sys.stderr)


def _health(device: Device) -> str:
    if not device.health:
        return "not judged"
    worst = {str(condition.status): condition for condition in device.health}
    for status in ("failed", "degraded", "unknown"):
        if status in worst:
            return f"{status}: {worst[status].reason or worst[status].type}"
    return "ok"


def _print_one(device: Device) -> None:
    from forebay_core.plain import plain

    for name, value in plain(device).items():
        if value not in ("", None, (), {}) and name not in {"attributes", "missing"}:
            print(f"{name:<20}{value}")
    for name, value in sorted(device.attributes.items()):
        print(f"  {name:<28}{value}")
    for fact in device.missing:
        print(f"  {fact.name:<28}{fact.state}: {fact.detail or fact.source}")
