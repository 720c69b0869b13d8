"""How long Forebay takes to start, beside a Python that does nothing.

Seconds depend on the machine and on what else it does, so the figure to compare is the ratio
to ``python -c pass``, taken in the same rounds.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from forebay.errors import ForebayError

BASELINE = "python -c pass"


@dataclass(frozen=True, slots=True)
class Startup:
    """The quickest start of one command.

    Parameters
    ----------
    subject : str
        The command as a person would type it.
    duration_s_min : float
        Shortest duration of a whole process, seconds of wall time.
    ratio : float
        That duration over the baseline's, dimensionless; the baseline's own is 1.
    """

    subject: str
    duration_s_min: float
    ratio: float


def subjects() -> dict[str, list[str]]:
    """Return the commands to measure, baseline first, by what a person would type."""
    forebay = str(Path(sysconfig.get_path("scripts")) / "forebay")
    return {
        BASELINE: [sys.executable, "-c", "pass"],
        "import forebay": [sys.executable, "-c", "import forebay"],
        "from forebay import HardwareAdapter": [
            sys.executable,
            "-c",
            "from forebay import HardwareAdapter",
        ],
        "forebay --help": [forebay, "--help"],
        "forebay plugins list": [forebay, "plugins", "list"],
    }


def measure(commands: Mapping[str, Sequence[str]], rounds: Iterable[int]) -> tuple[Startup, ...]:
    """Start each command in fresh processes and keep its quickest.

    Parameters
    ----------
    commands : mapping of str to sequence of str
        Command lines by subject; the first is the baseline.
    rounds : iterable of int
        At least one; each starts every command once.

    Returns
    -------
    tuple of Startup
        In the order of `commands`.

    Raises
    ------
    ForebayError
        A command is missing or failed: the duration of a failure says nothing.

    Notes
    -----
    Other work on a machine only ever adds time, so the minimum is the steadiest figure.
    Commands take turns, so that a slow spell meets all of them alike,
    and a first turn that is not counted fills the disk cache and writes bytecode.
    """
    for line in commands.values():
        _duration_s(line)
    quickest = dict.fromkeys(commands, float("inf"))
    for _ in rounds:
        for subject, line in commands.items():
            quickest[subject] = min(quickest[subject], _duration_s(line))
    baseline = next(iter(quickest.values()))
    return tuple(Startup(subject, best, best / baseline) for subject, best in quickest.items())


def command(
    rounds: Annotated[
        int, typer.Option(min=1, help="Processes started for each command; the quickest counts.")
    ] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure how long Forebay takes to start, as a ratio to a Python that does nothing."""
    # Drawn between rounds only: a thread that draws would be measured too.
    with typer.progressbar(range(rounds), label="Starting processes", file=sys.stderr) as counted:
        results = measure(subjects(), counted)
    if as_json:
        document = {
            "python": platform.python_version(),
            "rounds": rounds,
            "baseline": BASELINE,
            "startups": [asdict(result) for result in results],
        }
        typer.echo(json.dumps(document, indent=2))
        return
    _print_table(results, rounds)


def _duration_s(line: Sequence[str]) -> float:
    """Return how long one process took, seconds of wall time."""
    # An ordinary install has its bytecode; compiling anew in each process measures the compiler.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    try:
        done = subprocess.run(
            line, capture_output=True, check=False, env=environment, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise ForebayError(
            f"bench startup: cannot start {line[0]}: {error.strerror}.",
            fix="Install Forebay into the Python that runs this benchmark.",
        ) from error
    duration_s = time.perf_counter() - began
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ForebayError(
            f"bench startup: `{' '.join(line)}` ended with status {done.returncode}, "
            f"expected 0. Its last words: {said or 'none'}",
            fix="Run that command by itself to see what is wrong.",
        )
    return duration_s


def _print_table(results: Sequence[Startup], rounds: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Startup, quickest of {rounds}", title_justify="left")
    table.add_column("command")
    table.add_column("ms", justify="right")
    table.add_column("ratio", justify="right")
    for result in results:
        table.add_row(result.subject, f"{result.duration_s_min * 1000:.0f}", f"{result.ratio:.1f}")
    Console().print(table)
