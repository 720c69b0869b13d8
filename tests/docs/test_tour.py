"""The tour is walked: its commands are run in one shell, their output compared."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOUR = Path(__file__).parents[2] / "docs/tour.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DONE = "--done--"


@dataclass(frozen=True)
class Step:
    """A command and what it is to print."""

    line: int
    command: str
    expected: str


def steps() -> Iterator[Step]:
    text = TOUR.read_text()
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1)) + 1
        command, expected, began = "", "", line
        for number, row in enumerate(block[1].splitlines(keepends=True), start=line):
            if row.startswith("$ "):
                if command:
                    yield Step(began, command, expected)
                command, expected, began = row[2:], "", number
            elif row.startswith("> "):
                command += row[2:]
            else:
                expected += row
        yield Step(began, command, expected)


def test_every_command_prints_what_the_tour_says(tmp_path: Path) -> None:
    bin_directory = Path(sys.executable).parent
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")},
        "PATH": f"{bin_directory}:{os.environ['PATH']}",
    }
    shell = subprocess.Popen(
        ["bash", "--norc"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert shell.stdin is not None
    assert shell.stdout is not None
    checker = doctest.OutputChecker()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failures: list[str] = []
    count = 0
    with shell:
        for step in steps():
            count += 1
            shell.stdin.write(f"{step.command}\necho {DONE}\n")
            shell.stdin.flush()
            printed = ""
            while not (row := shell.stdout.readline()).endswith(f"{DONE}\n"):
                assert row, f"the shell ended at line {step.line}"
                printed += row
            printed += row.removesuffix(f"{DONE}\n")
            if not checker.check_output(step.expected, printed, flags):
                failures.append(
                    f"tour.md:{step.line}: $ {step.command}expected:\n{step.expected}"
                    f"found:\n{printed}"
                )
        shell.stdin.close()
    assert count > 20
    assert not failures, "\n".join(failures)
