"""Reads tables of a trace: every row is either taken or accounted for."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forebay import Fault, InputError

GZIP_MAGIC = b"\x1f\x8b"


class TraceError(InputError):
    """A trace cannot be read at all."""


def open_text(path: Path) -> io.TextIOBase:
    """Open a text file, compressed by gzip or not, as its first bytes tell.

    Raises
    ------
    TraceError
        There is no such file, or it cannot be read.
    """
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == GZIP_MAGIC
        if zipped:
            return gzip.open(path, "rt", encoding="utf-8", newline="")
        return path.open(encoding="utf-8", newline="")
    except OSError as error:
        raise TraceError(
            Fault(f"cannot be read: {error.strerror or error}.", source=str(path))
        ) from error


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
        value = (self.values.get(name) or "").strip()
        if not value:
            self.fault(name, "found nothing, expected text.")
        return value

    def number(
        self,
        name: str,
        *,
        least: float = 0.0,
        most: float = float("inf"),
        default: float | None = None,
    ) -> float:
        """Return a number within bounds; the default where the field is empty and has one."""
        value = (self.values.get(name) or "").strip()
        if not value and default is not None:
            return default
        try:
            number = float(value)
        except ValueError:
            self.fault(name, f"found {value!r}, expected a number.")
            return 0.0
        if not least <= number <= most:
            self.fault(name, f"found {value}, expected {_range(least, most)}.")
            return 0.0
        return number

    def whole(self, name: str, *, least: int = 0, most: float = 2.0**53) -> int:
        """Return a whole number within bounds."""
        number = self.number(name, least=least, most=most)
        if number != int(number):
            self.fault(name, f"found {number:g}, expected a whole number.")
        return int(number)

    def fault(self, name: str, message: str) -> None:
        """Note what is wrong with a field."""
        self.faults.append(Fault(message, source=self.source, line=self.line, field=name))


def _range(least: float, most: float) -> str:
    return f"at least {least:g}" if most == float("inf") else f"{least:g} to {most:g}"


def rows_of(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Read the rows of a CSV file with a header.

    Raises
    ------
    TraceError
        A column is missing, the file is empty, or it is no text.
    """
    source = str(path)
    with open_text(path) as file:
        try:
            reader = csv.DictReader(file, strict=True)
            found = reader.fieldnames or []
            missing = [name for name in columns if name not in found]
            if missing:
                raise TraceError(
                    Fault(
                        f"has no column {', '.join(missing)}; found {', '.join(found) or 'none'}.",
                        source=source,
                        line=1,
                        fix="The first line must name the columns.",
                    )
                )
            for values in reader:
                row = Row(values, source, reader.line_num)
                if None in values or None in values.values():
                    row.fault("", f"has not {len(found)} fields as the header has.")
                yield row
        except (csv.Error, UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
            raise TraceError(Fault(f"is no CSV: {error}.", source=source)) from error
