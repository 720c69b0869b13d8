"""Reads plain data (TOML tables, JSON) into the contract's frozen dataclasses.

Small and quick on purpose: listing plugins must not wait for a validation library.
Every fault is collected, none is raised half-way.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Union, cast

from forebay.errors import Fault
from forebay.event import JsonValue

T = TypeVar("T")

_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def read_table(
    cls: type[T], table: Mapping[str, object], *, source: str = "", text: str = "", at: str = ""
) -> tuple[T | None, tuple[Fault, ...]]:
    """Make an instance of a dataclass from a table, checking every field.

    Field names are those of the dataclass with ``-`` for ``_`` where the table has it so.

    Parameters
    ----------
    cls : type
        A dataclass whose fields are bool, int, float, str, enums, dataclasses,
        tuples, mappings from str, unions of these, or :data:`typing.Any`.
    table : mapping
    source : str
        File, for the faults.
    text : str
        The TOML text of the file; gives the faults their lines.
    at : str
        Path of the table inside the document.

    Returns
    -------
    instance or None
        None when there are faults.
    tuple of Fault
    """
    faults: list[Fault] = []
    lines = _key_lines(text)

    def fault(path: str, message: str, fix: str = "") -> object:
        faults.append(Fault(message, source=source, line=_line(lines, path), field=path, fix=fix))
        return None

    value = _read_dataclass(cls, table, at, fault)
    return (None if faults else cast("T", value)), tuple(faults)


def read_value(hint: Any, value: object, *, source: str = "") -> tuple[Any, tuple[Fault, ...]]:  # noqa: ANN401 - a type hint has no type
    """Make a value of any annotated type from plain data.

    Parameters
    ----------
    hint : type or annotation
        As for the fields of :func:`read_table`; sequences are read as tuples.
    value : object
        Plain data, as JSON gives it.
    source : str
        Who sent it, for the faults.

    Returns
    -------
    value or None
        None when there are faults, and where None is the value.
    tuple of Fault
    """
    faults: list[Fault] = []

    def fault(path: str, message: str, fix: str = "") -> object:
        faults.append(Fault(message, source=source, field=path, fix=fix))
        return None

    result = _read(hint, value, "", fault)
    return (None if faults else result), tuple(faults)


def key_line(text: str, path: str) -> int | None:
    """Return the line, from 1, of a key's path in a TOML text, or of the nearest part of it."""
    return _line(_key_lines(text), path)


class _FaultSink(typing.Protocol):
    def __call__(self, path: str, message: str, fix: str = "") -> object: ...


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _read_dataclass(cls: type, table: object, path: str, fault: _FaultSink) -> object:
    if not isinstance(table, Mapping):
        return fault(path, f"found {_shown(table)}, expected a table.")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    values: dict[str, object] = {}
    for key, value in table.items():
        name = str(key).replace("-", "_")
        if name not in fields:
            known = ", ".join(sorted(fields))
            fault(_join(path, str(key)), "unknown field.", f"Known fields: {known}.")
            continue
        values[name] = _read(_hints(cls)[name], value, _join(path, str(key)), fault)
    for name, field in fields.items():
        optional = (
            field.default is not dataclasses.MISSING
            or field.default_factory is not dataclasses.MISSING
        )
        if name not in values and not optional:
            fault(_join(path, name), "is missing.")
            return None
    try:
        return cls(**values)
    except ValueError as error:
        return fault(path, str(error))


def _read(hint: Any, value: object, path: str, fault: _FaultSink) -> object:  # noqa: ANN401, PLR0911, PLR0912 - a type hint has no type; one return a case
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint == JsonValue:
        return value
    if isinstance(hint, typing.NewType):
        return _read(hint.__supertype__, value, path, fault)
    if origin in {Union, types.UnionType}:
        return _read_union(arguments, value, path, fault)
    if hint is None or hint is type(None):
        return None if value is None else fault(path, f"found {_shown(value)}, expected nothing.")
    if origin in {tuple, Sequence}:
        if isinstance(value, str) or not isinstance(value, Sequence):
            return fault(path, f"found {_shown(value)}, expected a list.")
        return tuple(
            _read(arguments[0], item, f"{path}[{index}]", fault) for index, item in enumerate(value)
        )
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            return fault(path, f"found {_shown(value)}, expected a table.")
        return {
            _read(arguments[0], key, path, fault): _read(
                arguments[1], item, _join(path, str(key)), fault
            )
            for key, item in value.items()
        }
    if dataclasses.is_dataclass(hint):
        return _read_dataclass(cast("type", hint), value, path, fault)
    if issubclass(hint, enum.Enum):
        try:
            return hint(value)
        except ValueError:
            expected = ", ".join(str(member.value) for member in hint)
            return fault(path, f"found {_shown(value)}, expected one of: {expected}.")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        return fault(path, f"found {_shown(value)}, expected {_NAMES.get(hint, hint.__name__)}.")
    return value


def _read_union(arguments: tuple[Any, ...], value: object, path: str, fault: _FaultSink) -> object:
    if value is None and type(None) in arguments:
        return None
    choices = [choice for choice in arguments if choice is not type(None)]
    messages: list[str] = []
    for choice in choices:
        before = len(messages)
        result = _read(choice, value, path, lambda _p, m, _f="": messages.append(m))
        if len(messages) == before:
            return result
    if len(choices) == 1:
        return _read(choices[0], value, path, fault)
    expected = " or ".join(_NAMES.get(choice, str(choice)) for choice in choices)
    return fault(path, f"found {_shown(value)}, expected {expected}.")


def _shown(value: object) -> str:
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, Sequence):
        return "a list"
    return "nothing" if value is None else repr(value)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*=""")


def _key_lines(text: str) -> dict[str, int]:
    """Map the path of every key and table of a TOML text to its line, from 1."""
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    prefix = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            prefix = ".".join(part.strip().strip("\"'") for part in header[2].split("."))
            if header[1] == "[[":
                index = counts.get(prefix, 0)
                counts[prefix] = index + 1
                prefix = f"{prefix}[{index}]"
            lines.setdefault(prefix, number)
        elif key := _KEY.match(line):
            name = ".".join(part.strip().strip("\"'") for part in key[1].split("."))
            lines.setdefault(_join(prefix, name), number)
    return lines


def _line(lines: Mapping[str, int], path: str) -> int | None:
    """Return the line of a path, or of the nearest part of it that has one."""
    while path:
        if path in lines:
            return lines[path]
        cut = max(path.rfind("."), path.rfind("["))
        path = path[:cut] if cut > 0 else ""
    return None
