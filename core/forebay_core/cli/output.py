"""What every command prints with: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from forebay_core.plain import plain


def print_json(value: object) -> None:
    """Print a value as indented JSON; domain values become objects by field name."""
    print(json.dumps(value, indent=2, default=plain))


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
