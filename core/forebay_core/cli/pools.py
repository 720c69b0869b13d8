"""``forebay pools``: what may be lent, and what is."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay_core.cli.output import print_json, print_table
from forebay_core.cli.settings import settings_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("pools")(pools)


def pools(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the pools: capacity, what is lent, and the leases in force."""
    from forebay import DeviceKind
    from forebay_core.requests import format_amount

    with settings_of(context).host() as host:
        host.refresh()
        host.settle()
        usage = host.ledger.usage()
        lent = host.ledger.pool_usage()
        active = host.ledger.active_leases()
        built = host.pools
    entries = []
    for pool in built:
        for kind in DeviceKind:
            members = [device for device in pool.devices if device.kind is kind]
            if not members:
                continue
            entries.append(
                {
                    "pool": pool.pool.name,
                    "strategy": pool.pool.strategy,
                    "kind": kind,
                    "units": sum(unit.kind is kind for unit in pool.units),
                    "capacity_millis": sum(device.capacity_millis for device in members),
                    "used_millis": sum(usage.get(device.id, (0, 0))[0] for device in members),
                    "used_by_pool_millis": lent.get((pool.pool.name, kind), 0),
                    "quota_millis": pool.pool.quota_millis.get(kind),
                }
            )
    if json:
        print_json({"pools": entries, "leases": [entry.lease for entry in active]})
        return
    print_table(
        ["pool", "strategy", "kind", "units", "capacity", "lent", "quota"],
        [
            (
                entry["pool"],
                entry["strategy"],
                entry["kind"],
                entry["units"],
                format_amount(entry["capacity_millis"]),
                format_amount(entry["used_millis"]),
                "none" if entry["quota_millis"] is None else format_amount(entry["quota_millis"]),
            )
            for entry in entries
        ],
    )
    if active:
        print_table(
            ["lease", "job", "pool", "node", "draws"],
            [
                (
                    entry.lease.id,
                    entry.lease.job,
                    entry.lease.pool,
                    entry.lease.node,
                    ", ".join(
                        f"{draw.device}: {format_amount(draw.millis)}" for draw in entry.lease.draws
                    ),
                )
                for entry in active
            ],
        )
