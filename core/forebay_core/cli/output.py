"""What every command prints with: tables for people, JSON for programs."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def print_json(value: object) -> None:
    """Print a value as indented JSON; domain values become objects by field name."""
    print(json.dumps(value, indent=2, default=plain))


def plain(value: object) -> Any:  # noqa: ANN401 - what json.dumps takes
    """Return what JSON can say of a value that :mod:`json` does not know."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    item = getattr(value, "item", None)
    if callable(item):  # numpy scalars
        return item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = ""
) -> None:
    """Print rows: framed on a terminal, aligned columns of plain text otherwise."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in cells:
            # Text, since names of devices and commands may look like markup.
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    if title:
        print(title)
    lines = [[column.upper() for column in columns], *cells]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(padded).rstrip())


def note(message: str) -> None:
    """Print a remark for the person at the terminal, apart from the command's output."""
    print(f"forebay: {message}", file=sys.stderr)
