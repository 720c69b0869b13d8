"""Quantities as people and datasheets write them, read into base units, and written again.

Inside Forebay there is one base unit for each dimension; the strings are for the edge.
Decimal and binary prefixes are told apart: ``GB`` is 10**9 bytes, ``GiB`` is 2**30.
What could mean two things is refused: ``80G``, ``200gbps``, ``1kb``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction
from typing import Protocol

from forebay.errors import Fault, UnitError

EXPONENT_MIN, EXPONENT_MAX = -400, 40
"""Numbers beyond ten to these powers are refused; nothing that exists is so small or large."""


class _Refuse(Protocol):
    def __call__(self, message: str, fix: str = "") -> UnitError: ...


class Dimension(StrEnum):
    """What a quantity measures; the value is its base unit."""

    BYTES = "B"
    BYTES_PER_S = "B/s"
    BITS_PER_S = "bit/s"
    WATTS = "W"
    JOULES = "J"
    SECONDS = "s"
    HERTZ = "Hz"
    CELSIUS = "Cel"
    RATIO = "1"

    @property
    def is_whole(self) -> bool:
        """Whether quantities are whole numbers of the base unit."""
        return self in {Dimension.BYTES, Dimension.BITS_PER_S}


_DECIMAL = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SMALL = {"n": -9, "u": -6, "µ": -6, "m": -3}


def _scaled(
    units: tuple[str, ...], *, binary: bool = False, small: bool = False, scale: Fraction | int = 1
) -> dict[str, Fraction]:
    """Return every spelling of some units with its prefixes, in base units."""
    prefixes = {prefix: Fraction(10) ** power for prefix, power in _DECIMAL.items()}
    if binary:
        prefixes |= {prefix: Fraction(2) ** power for prefix, power in _BINARY.items()}
    if small:
        prefixes |= {prefix: Fraction(10) ** power for prefix, power in _SMALL.items()}
    return {prefix + unit: factor * scale for prefix, factor in prefixes.items() for unit in units}


_BIT_RATES = ("bit/s", "bps", "b/s", "bit/sec", "b/sec")
_UNITS: Mapping[Dimension, Mapping[str, Fraction]] = {
    Dimension.BYTES: _scaled(("B",), binary=True),
    Dimension.BYTES_PER_S: _scaled(("B/s", "B/sec"), binary=True)
    | _scaled(_BIT_RATES, scale=Fraction(1, 8)),
    Dimension.BITS_PER_S: _scaled(_BIT_RATES) | _scaled(("B/s", "B/sec"), binary=True, scale=8),
    Dimension.WATTS: _scaled(("W",), small=True),
    Dimension.JOULES: _scaled(("J",), small=True) | _scaled(("Wh",), scale=3600),
    Dimension.SECONDS: {
        "ns": Fraction(1, 10**9),
        "us": Fraction(1, 10**6),
        "µs": Fraction(1, 10**6),
        "ms": Fraction(1, 1000),
        "s": Fraction(1),
        "sec": Fraction(1),
        "min": Fraction(60),
        "h": Fraction(3600),
        "d": Fraction(86400),
    },
    Dimension.HERTZ: _scaled(("Hz",)),
    Dimension.CELSIUS: {"Cel": Fraction(1), "°C": Fraction(1)},
    Dimension.RATIO: {"": Fraction(1), "1": Fraction(1), "%": Fraction(1, 100)},
}

_QUANTITY = re.compile(
    r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s.][^\s]*)?\s*(\(.*\))?\s*"
)
_PCIE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*GT/s(?:\s+PCIe)?\s*(?:x(\d+))?\s*", re.IGNORECASE)

_PCIE_EFFICIENCY: Mapping[str, Fraction] = {
    "2.5": Fraction(8, 10),
    "5": Fraction(8, 10),
    "8": Fraction(128, 130),
    "16": Fraction(128, 130),
    "32": Fraction(128, 130),
    "64": Fraction(242, 256),
}
"""Bits of data in a bit on the wire, by transfer rate in GT/s.

8b/10b for PCI Express 1 and 2, 128b/130b for 3 to 5, 242 of 256 bytes of a flit for 6;
PCI Express Base Specification 6.0, sections 4.2.1 and 4.2.3.
"""

_EXAMPLES: Mapping[Dimension, str] = {
    Dimension.BYTES: "80GiB or 80GB",
    Dimension.BYTES_PER_S: "600GB/s or 200Gbps",
    Dimension.BITS_PER_S: "200Gbps",
    Dimension.WATTS: "250W",
    Dimension.JOULES: "5kJ",
    Dimension.SECONDS: "90s or 10min",
    Dimension.HERTZ: "2.4GHz",
    Dimension.CELSIUS: "45Cel",
    Dimension.RATIO: "0.75 or 75%",
}


def parse_quantity(
    text: str, dimension: Dimension, *, source: str = "", line: int | None = None, field: str = ""
) -> int | float:
    """Read a quantity into the base unit of its dimension.

    Parameters
    ----------
    text : str
        A number and a unit, with or without a blank between: ``600GB/s``, ``80 GiB``,
        ``400 Gb/sec (4X NDR)``; for rates also ``32.0 GT/s PCIe x16``.
    dimension : Dimension
    source, line, field : optional
        Where the text stands, for the error.

    Returns
    -------
    int or float
        A whole number for bytes and bits per second, a float otherwise.

    Raises
    ------
    UnitError
        No number, an unknown or ambiguous unit, one of another dimension,
        or a part of a byte; the message says what to write instead.
    """

    def refuse(message: str, fix: str = "") -> UnitError:
        fix = fix or f"Write for example {_EXAMPLES[dimension]}."
        return UnitError(Fault(message, source=source, line=line, field=field, fix=fix))

    if dimension in {Dimension.BYTES_PER_S, Dimension.BITS_PER_S} and (
        pcie := _PCIE.fullmatch(text)
    ):
        return _read_pcie(pcie, dimension, refuse)
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise refuse(f"found {text!r}, expected a number with a unit.")
    unit = match[2] or ""
    factor = _UNITS[dimension].get(unit)
    if factor is None:
        raise refuse(*_why_not(text, match[1], unit, dimension))
    number = Decimal(match[1])
    if not EXPONENT_MIN <= number.adjusted() <= EXPONENT_MAX:
        raise refuse(f"found {text[:20]!r}..., a number out of all proportion.")
    return _in_base_units(Fraction(number) * factor, text, dimension, refuse)


def parse_bytes(text: str, *, source: str = "", line: int | None = None, field: str = "") -> int:
    """Read an amount of memory into bytes; see :func:`parse_quantity`."""
    return int(parse_quantity(text, Dimension.BYTES, source=source, line=line, field=field))


def parse_duration_s(
    text: str, *, source: str = "", line: int | None = None, field: str = ""
) -> float:
    """Read a duration into seconds; see :func:`parse_quantity`."""
    return float(parse_quantity(text, Dimension.SECONDS, source=source, line=line, field=field))


def format_quantity(
    value: float, dimension: Dimension, *, binary: bool = False, exact: bool = False
) -> str:
    """Write a quantity with the unit that suits its size.

    Parameters
    ----------
    value : int or float
        In base units.
    dimension : Dimension
    binary : bool
        Use ``KiB``, ``MiB``, ... for bytes.
    exact : bool
        Write so that :func:`parse_quantity` returns the very same number;
        otherwise three significant digits.
    """
    if dimension is Dimension.RATIO:
        return repr(value) if exact else f"{value:.3g}"
    wanted = _display_units(dimension, binary)
    exact_value = Fraction(value)
    for unit, factor in wanted:
        scaled = exact_value / factor
        if abs(scaled) < 1 and factor != wanted[-1][1]:
            continue
        if not exact:
            return f"{_short(float(scaled))}{unit}"
        if scaled.denominator == 1:
            return f"{scaled.numerator}{unit}"
    return f"{value!r}{dimension.value}"


def _display_units(dimension: Dimension, binary: bool) -> list[tuple[str, Fraction]]:
    """Return the units to write with, largest first."""
    if dimension is Dimension.SECONDS:
        names = ["h", "min", "s", "ms", "us", "ns"]
    elif dimension is Dimension.CELSIUS:
        names = ["Cel"]
    else:
        base = "bps" if dimension is Dimension.BITS_PER_S else dimension.value
        prefixes = list(_BINARY) if binary else [prefix for prefix in _DECIMAL if prefix]
        names = [prefix + base for prefix in reversed(prefixes)] + [base]
    return [(name, _UNITS[dimension][name]) for name in names]


def _short(value: float) -> str:
    text = f"{value:.3g}"
    # Three digits of a number above 1000 come in scientific form, which reads badly.
    return f"{value:.0f}" if "e+" in text else text


def _in_base_units(
    value: Fraction, text: str, dimension: Dimension, refuse: _Refuse
) -> int | float:
    if not dimension.is_whole:
        return float(value)
    if value.denominator != 1:
        raise refuse(f"found {text!r}, which is not a whole number of {dimension.value}.")
    return value.numerator


def _read_pcie(match: re.Match[str], dimension: Dimension, refuse: _Refuse) -> int | float:
    rate = match[1].rstrip("0").rstrip(".") if "." in match[1] else match[1]
    efficiency = _PCIE_EFFICIENCY.get(rate)
    if efficiency is None:
        known = ", ".join(_PCIE_EFFICIENCY)
        raise refuse(
            f"found {match[0]!r}, no rate of PCI Express.", f"Known rates in GT/s: {known}."
        )
    bits = Fraction(rate) * 10**9 * efficiency * int(match[2] or 1)
    # Encodings do not divide evenly; a part of a bit is no information.
    return float(bits / 8) if dimension is Dimension.BYTES_PER_S else int(bits)


def _why_not(text: str, number: str, unit: str, dimension: Dimension) -> tuple[str, str]:
    """Say what is wrong with a unit, and what was probably meant."""
    if not unit:
        return f"found {text!r}, a number without a unit.", ""
    known = _UNITS[dimension]
    for other, units in _UNITS.items():
        if other is not dimension and unit in units:
            return f"found {text!r}, a quantity in {other.value}; expected {dimension.value}.", ""
    same = [name for name in known if name.lower() == unit.lower()]
    same += [
        name for name in known if name in {f"{unit}B", f"{unit}iB", f"{unit}b/s", f"{unit}B/s"}
    ]
    if same:
        choice = " or ".join(f"{number}{name}" for name in dict.fromkeys(same))
        return f"found {text!r}, a unit that could mean several things.", f"Write {choice}."
    close = get_close_matches(unit, known, n=1)
    fix = f"Write {number}{close[0]}?" if close else ""
    return f"found {text!r}, an unknown unit {unit!r}.", fix
