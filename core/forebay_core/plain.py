"""Plain data of domain values, for whatever writes JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


def plain(value: object) -> Any:  # noqa: ANN401 - what json.dumps takes
    """Return what JSON can say of a value that :mod:`json` does not know; its ``default``.

    A dataclass becomes an object by field name, one level at a time, as :mod:`json` asks again.

    Raises
    ------
    TypeError
        The value is no value of the contract.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is not a value of the contract")
