"""Reads tables of a trace: every row is either taken or accounted for."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from pathlib import Path
from typing import TextIO, cast

from forebay import Fault, InputError

GZIP_MAGIC = b"\x1f\x8b"


class TraceError(InputError):
    """A trace cannot be read at all."""


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Read a text file line by line, compressed by gzip or not, as its first bytes tell.

    Bytes that are no UTF-8 become lone surrogates, so that they spoil their own line alone;
    see :func:`is_text`.

    Returns
    -------
    iterator of (int, str)
        Number of the line, from 1, and the line without its end.

    Raises
    ------
    TraceError
        There is no such file, or it cannot be read to its end.
    """
    try:
        with _open(path) as file:
            for line, text in enumerate(file, start=1):
                yield line, text.removesuffix("\n")
    except (OSError, EOFError, zlib.error) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise TraceError(Fault(f"cannot be read: {reason}.", source=str(path))) from error


def _open(path: Path) -> TextIO:
    with path.open("rb") as raw:
        zipped = raw.read(2) == GZIP_MAGIC
    # A file saved by a spreadsheet begins with a byte-order mark.
    encoding, errors = "utf-8-sig", "surrogateescape"
    if zipped:
        return cast("TextIO", gzip.open(path, "rt", encoding=encoding, errors=errors))
    return path.open(encoding=encoding, errors=errors)


def is_text(line: str) -> bool:
    """Tell whether a line of :func:`lines_of` was UTF-8, and holds no NUL."""
    return "\0" not in line and (
        line.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in line)
    )


def to_number(text: str) -> float:
    """Return a decimal number; NaN where the text is none.

    Python's own reading would take ``1_000`` as well.
    """
    try:
        return nan if "_" in text else float(text)
    except ValueError:
        return nan


@dataclass(slots=True)
class Row:
    """One row, whose fields are read with a check; what is wrong is collected.

    Parameters
    ----------
    values : mapping of str to str
    source : str
    line : int
    faults : list of Fault
    """

    values: Mapping[str, str]
    source: str
    line: int
    faults: list[Fault] = field(default_factory=list)

    def text(self, name: str) -> str:
        """Return a field that must not be empty."""
        value = self.values[name].strip()
        if not value:
            self.fault(name, "found nothing, expected text.")
        return value

    def number(
        self, name: str, *, least: float = 0.0, most: float = inf, default: float | None = None
    ) -> float:
        """Return a finite number within bounds, or the default where the field is empty."""
        value = self.values[name].strip()
        if not value and default is not None:
            return default
        number = to_number(value)
        if not isfinite(number):
            self.fault(name, f"found {value!r}, expected a number.")
        elif number < least:
            self.fault(name, f"found {value}, expected at least {least:g}.")
        elif number > most:
            self.fault(name, f"found {value}, expected at most {most:g}.")
        else:
            return number
        return 0.0

    def whole(self, name: str, *, least: int = 0, most: float = 2.0**53) -> int:
        """Return a whole number within bounds."""
        number = self.number(name, least=least, most=most)
        if number != int(number):
            self.fault(name, f"found {number:g}, expected a whole number.")
        return int(number)

    def fault(self, name: str, message: str) -> None:
        """Note what is wrong with a field."""
        self.faults.append(Fault(message, source=self.source, line=self.line, field=name))


def rows_of(path: Path, columns: Sequence[str], refused: list[Fault]) -> Iterator[Row]:
    """Read the rows of a CSV file with a header.

    A quoted field cannot hold the end of a line, so that a stray quote spoils one row, not the
    rest of the file.

    Parameters
    ----------
    path : Path
    columns : sequence of str
        Names that the header must have; it may have more.
    refused : list of Fault
        Gains what is wrong with each line that is no row; such a line is not returned.

    Raises
    ------
    TraceError
        A column is missing or there twice, or there is no row.
    """
    source = str(path)
    lines = lines_of(path)
    head_line, head = next(lines, (1, ""))
    header = _header(head, columns, source, head_line)
    empty = True
    for line, text in lines:
        if not text.strip():
            continue
        empty = False
        fields = _fields(text) if is_text(text) else "is no UTF-8."
        if isinstance(fields, list) and len(fields) != len(header):
            fields = f"found {len(fields)} fields, expected {len(header)} as the header has."
        if isinstance(fields, str):
            refused.append(Fault(fields, source=source, line=line))
        else:
            yield Row(dict(zip(header, fields, strict=True)), source, line)
    if empty:
        raise TraceError(Fault("holds no row.", source=source))


def _header(text: str, columns: Sequence[str], source: str, line: int) -> list[str]:
    fields = _fields(text) if is_text(text) else ""
    found = [name.strip() for name in fields] if isinstance(fields, list) else []
    for problem, names in (
        ("has no column", [name for name in columns if name not in found]),
        ("has twice the column", sorted({name for name in found if found.count(name) > 1})),
    ):
        if names:
            raise TraceError(
                Fault(
                    f"{problem} {', '.join(names)}; found {text[:200]!r}.",
                    source=source,
                    line=line,
                    fix="The first line must name each column once.",
                )
            )
    return found


def _fields(text: str) -> list[str] | str:
    """Return the fields of a line, or what is wrong with it."""
    if '"' not in text:
        return text.split(",")
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        return f"is no CSV: {error}."
