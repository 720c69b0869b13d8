"""The command line: parses, calls, chooses an exit status.

Modules imported here are light; each command imports what it needs when it runs.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from forebay.errors import (
    CapacityError,
    ForebayError,
    InputError,
    NotFoundError,
    PluginError,
    StateError,
)
from forebay_core.cli import descriptor, devices, plugins, pools, up, work
from forebay_core.cli.errors import print_error
from forebay_core.cli.settings import Settings

COMMAND_GROUP = "forebay.commands"
"""Entry points of commands that other packages add: a function, or a Typer app of several."""

EXIT_STATUS: tuple[tuple[type[ForebayError], int], ...] = (
    (InputError, 2),
    (NotFoundError, 3),
    (CapacityError, 4),
    (StateError, 5),
    (PluginError, 6),
    (ForebayError, 1),
)
"""Exit status of each error; the first that fits."""

EPILOG = (
    "Exit status: 0 done, 1 failed, 2 wrong input, 3 not found, 4 more than exists, "
    "5 not possible now, 6 a plugin failed, 130 interrupted. "
    "'forebay run' returns that of its command, 124 when the time limit was reached, "
    "125 when Forebay could not run it."
)

app = typer.Typer(
    name="forebay",
    help="One pool of all accelerators, from which work is drawn.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(plugins.app, name="plugins", help="See, check and bisect plugins.")
app.add_typer(descriptor.app, name="descriptor", help="Check Resource Descriptors.")
devices.register(app)
pools.register(app)
work.register(app)
up.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"forebay {metadata.version('forebay')}")
        raise typer.Exit


@app.callback()
def _shared(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", help="Configuration file.", dir_okay=False)
    ] = None,
    no_plugin: Annotated[
        list[str] | None,
        typer.Option(help="Do without this plugin or distribution; may be repeated."),
    ] = None,
    safe_mode: Annotated[bool, typer.Option("--safe-mode", help="Load no plugin at all.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    del version
    context.obj = Settings(config, tuple(no_plugin or ()), safe_mode)


def main() -> None:
    """Run the command line and leave with its exit status."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : list of str
        Without the program's name.

    Returns
    -------
    int
        The exit status.
    """
    _add_foreign_commands(arguments)
    command = typer.main.get_command(app)
    try:
        status = command.main(arguments, prog_name="forebay", standalone_mode=False)
    except ForebayError as error:
        print_error(error)
        return next(status for kind, status in EXIT_STATUS if isinstance(error, kind))
    except typer.Abort:
        return 130
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader, for example head, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        # Errors of usage belong to the parser, which prints and numbers them itself.
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()
        return int(getattr(error, "exit_code", 2))
    return status if isinstance(status, int) else 0


def _add_foreign_commands(arguments: list[str]) -> None:
    """Add the commands of other packages, where one of them may be meant.

    A package that cannot be imported costs its own command only.
    """
    words = [word for word in arguments if not word.startswith("-")]
    own = {group.name for group in app.registered_groups}
    own |= {command.name for command in app.registered_commands}
    if words and words[0] in own:
        return
    for entry in metadata.entry_points(group=COMMAND_GROUP):
        if entry.name in own:
            continue
        try:
            added = entry.load()
            if isinstance(added, typer.Typer):
                app.add_typer(added, name=entry.name)
            else:
                app.command(entry.name)(added)
        except Exception as error:  # noqa: BLE001 - a stranger's import may raise anything
            print(f"forebay: the command {entry.name} cannot be loaded: {error}", file=sys.stderr)
