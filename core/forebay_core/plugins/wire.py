"""How calls travel between the host and a plugin's own process: a line of JSON each way.

Types are those of the interface's own annotations, so the contract is the protocol.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

import forebay
from forebay import ForebayError, InputError, PluginError
from forebay.documents import read_value
from forebay_core.plain import plain


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """Annotations of one method.

    Parameters
    ----------
    parameters : mapping of str to annotation
        Without ``self``, in order.
    result : annotation
    """

    parameters: Mapping[str, Any]
    result: Any


@cache
def methods_of(interface: type) -> Mapping[str, Signature]:
    """Return the signature of every public method of an interface."""
    return {
        name: _signature(method)
        for name, method in vars(interface).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }


@cache
def attributes_of(interface: type) -> Mapping[str, Any]:
    """Return the annotation of every data attribute that an interface asks for."""
    return typing.get_type_hints(interface)


def _signature(method: Any) -> Signature:  # noqa: ANN401 - any function
    hints = typing.get_type_hints(method)
    names = [name for name in inspect.signature(method).parameters if name != "self"]
    return Signature({name: hints[name] for name in names}, hints.get("return"))


def encode(message: object) -> bytes:
    """Return a message as one line."""
    return json.dumps(message, default=plain, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Return the message of a line.

    Raises
    ------
    ValueError
        The line is not a JSON object.
    """
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("expected a JSON object")
    return message


def read(annotation: Any, value: object, sender: str) -> Any:  # noqa: ANN401 - as annotated
    """Turn plain data into the annotated type.

    Raises
    ------
    PluginError
        The data does not fit; the message says which part.
    """
    result, faults = read_value(annotation, value)
    if faults:
        more = f" and {len(faults) - 1} more faults" if len(faults) > 1 else ""
        raise PluginError(sender, f"sent a value that breaks the contract: {faults[0]}{more}")
    return result


def encode_error(error: BaseException) -> dict[str, object]:
    """Describe an exception; the contract's own keep their type on the other side."""
    known = isinstance(error, ForebayError) and not isinstance(error, PluginError)
    # A plugin's own error derives from one of the contract's, which is what the host knows.
    kinds = (kind.__name__ for kind in type(error).__mro__ if _is_public(kind))
    return {
        "type": next(kinds) if known else None,
        "message": str(error) if known else f"{type(error).__name__}: {error}",
        "fix": error.fix if isinstance(error, ForebayError) else "",
    }


def _is_public(kind: type) -> bool:
    return getattr(forebay, kind.__name__, None) is kind


def decode_error(plugin: str, description: Mapping[str, Any]) -> ForebayError:
    """Return the exception that was described."""
    name, message = description.get("type"), str(description.get("message", ""))
    fix = str(description.get("fix", ""))
    kind = getattr(forebay, str(name), None)
    if not (isinstance(kind, type) and issubclass(kind, ForebayError)):
        return PluginError(plugin, f"raised {message}", fix=fix)
    if issubclass(kind, InputError):
        return kind(message)
    return kind(message, fix=fix)
