"""Selectors as people type them: ``vendor==nvidia``, ``memory_bytes>=80000000000``."""

from __future__ import annotations

import re

from forebay import Fault, Operator, RequestError, Selector

_SELECTOR = re.compile(r"\s*([A-Za-z_][\w./-]*)\s*(==|!=|>=|<=|=in=)\s*(.+?)\s*")


def parse_selector(text: str, *, source: str = "", field: str = "") -> Selector:
    """Read one selector.

    ``true``, ``false`` and whole numbers lose their quotes; everything else is text.

    Raises
    ------
    RequestError
        The text is not NAME OPERATOR VALUE, or an order is asked of something not a number.
    """
    match = _SELECTOR.fullmatch(text)
    if match is None:
        raise RequestError(
            Fault(
                f"found {text!r}, expected NAME OPERATOR VALUE.",
                source=source,
                field=field,
                fix="Write for example vendor==nvidia; operators are ==, !=, >=, <= and =in=.",
            )
        )
    name, operator, value = match[1], Operator(match[2]), _value(match[3])
    ordered = operator in {Operator.AT_LEAST, Operator.AT_MOST}
    if ordered and (isinstance(value, bool) or not isinstance(value, int)):
        raise RequestError(
            Fault(
                f"found {text!r}, expected a whole number after {operator}.",
                source=source,
                field=field,
                fix="Compare text with == or != only.",
            )
        )
    return Selector(name, operator, value)


def _value(text: str) -> bool | int | str:
    if text in {"true", "false"}:
        return text == "true"
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    return text.strip("\"'")
