"""``forebay pools``: what may be lent, and what is."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay_core.cli.output import note, print_json, print_table
from forebay_core.cli.settings import settings_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("pools")(pools)


def pools(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the pools: capacity, what is lent, and the leases in force."""
    from forebay_core.requests import format_amount
    from forebay_core.runtime.amounts import pool_amounts

    with settings_of(context).host() as host:
        host.refresh(record=False)
        host.settle()
        amounts = pool_amounts(host)
        active = host.ledger.active_leases()
        errors = [(built.pool.name, built.error) for built in host.pools if built.error]
    if json:
        print_json(
            {
                "pools": amounts,
                "errors": dict(errors),
                "leases": [entry.lease for entry in active],
            }
        )
        return
    print_table(
        ["pool", "strategy", "kind", "units", "capacity", "lent", "quota"],
        [
            (
                amount.pool,
                amount.strategy,
                amount.kind,
                amount.units,
                format_amount(amount.capacity_millis),
                format_amount(amount.used_millis),
                "none" if amount.quota_millis is None else format_amount(amount.quota_millis),
            )
            for amount in amounts
        ],
    )
    for name, error in errors:
        note(f"pool {name} lends nothing: {error}")
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
