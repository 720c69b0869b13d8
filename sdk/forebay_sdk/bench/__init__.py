"""Benchmarks that anyone can run on their own machine: the command group ``forebay bench``."""

from __future__ import annotations

import typer

from forebay_sdk.bench import philly, scale, startup, tuning
from forebay_sdk.bench.openb import command as openb

app = typer.Typer(help="Measure Forebay on this machine.", no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Measure Forebay on this machine."""
    # Without a callback Typer turns an app with a single command into that command.


app.command("openb")(openb.command)
app.command("philly")(philly.command)
app.command("scale")(scale.command)
app.command("startup")(startup.command)
app.command("tuning")(tuning.command)
