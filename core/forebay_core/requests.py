"""Requests as people type them: ``cpu=2,gpu=0.5,gpu.memory=20GiB``."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from forebay import (
    MILLIS_PER_UNIT,
    DeviceKind,
    Fault,
    InputError,
    Request,
    RequestError,
    ResourceItem,
    Selector,
)
from forebay.units import parse_bytes
from forebay_core.selectors import parse_selector

AMOUNT_MAX = 1_000_000
"""Largest amount of one kind in a request; more is surely a slip of the keyboard."""

_SOURCE = "request"


def parse_request(
    amounts: Sequence[str],
    *,
    device_selectors: Sequence[str] = (),
    node_selectors: Sequence[str] = (),
    linked: bool = False,
    pool: str = "default",
) -> Request:
    """Read a request.

    Parameters
    ----------
    amounts : sequence of str
        Each ``KIND=AMOUNT`` or ``KIND.memory=BYTES``, several joined by commas;
        ``memory=BYTES`` means memory of the host. Empty asks for one core.
    device_selectors, node_selectors : sequence of str
        As :func:`~forebay_core.selectors.parse_selector` reads them.
    linked : bool
        Devices other than CPUs must come as one gang.
    pool : str

    Raises
    ------
    RequestError
        With every fault found.
    """
    faults: list[Fault] = []
    millis: dict[DeviceKind, int] = {}
    memory: dict[DeviceKind, int] = {}
    parts = [part.strip() for text in amounts for part in text.split(",") if part.strip()]
    for part in parts or ["cpu=1"]:
        try:
            _read_part(part, millis, memory)
        except InputError as error:
            faults += error.faults
    selectors: dict[str, list[Selector]] = {}
    for field, texts in (("device", device_selectors), ("node", node_selectors)):
        selectors[field] = []
        for text in texts:
            try:
                selectors[field].append(parse_selector(text, source=_SOURCE, field=field))
            except InputError as error:
                faults += error.faults
    if faults:
        raise RequestError(tuple(faults))
    return Request(
        items=tuple(
            ResourceItem(
                kind,
                millis.get(kind, 0),
                memory.get(kind),
                linked=linked and not kind.divides_freely,
            )
            for kind in DeviceKind
            if kind in millis or kind in memory
        ),
        device_selectors=tuple(selectors["device"]),
        node_selectors=tuple(selectors["node"]),
        pool=pool,
    )


def _read_part(part: str, millis: dict[DeviceKind, int], memory: dict[DeviceKind, int]) -> None:
    name, equals, value = (text.strip() for text in part.partition("="))
    if not equals or not value:
        raise RequestError(
            Fault(
                f"found {part!r}, expected KIND=AMOUNT.",
                source=_SOURCE,
                fix="Write for example cpu=2 or gpu=0.5.",
            )
        )
    kind_name, dot, suffix = name.partition(".")
    if name == "memory":
        kind_name, dot, suffix = "cpu", ".", "memory"
    if dot and suffix != "memory":
        raise RequestError(
            Fault(
                f"unknown field {suffix!r}.",
                source=_SOURCE,
                field=name,
                fix=f"Write {kind_name}.memory=20GiB to ask for memory.",
            )
        )
    try:
        kind = DeviceKind(kind_name)
    except ValueError:
        known = ", ".join(kind.value for kind in DeviceKind)
        raise RequestError(
            Fault(
                f"unknown kind of device {kind_name!r}.",
                source=_SOURCE,
                field=name,
                fix=f"Known kinds: {known}.",
            )
        ) from None
    amounts = memory if dot else millis
    if kind in amounts:
        raise RequestError(Fault("is given twice.", source=_SOURCE, field=name))
    if dot:
        amounts[kind] = parse_bytes(value, source=_SOURCE, field=name)
        if amounts[kind] <= 0:
            raise RequestError(
                Fault(f"found {value}, expected more than 0.", source=_SOURCE, field=name)
            )
    else:
        amounts[kind] = _amount_millis(kind, name, value)


def _amount_millis(kind: DeviceKind, field: str, value: str) -> int:
    try:
        amount = Decimal(value)
        millis = amount * MILLIS_PER_UNIT
        if not amount.is_finite() or not 0 < amount <= AMOUNT_MAX:
            raise RequestError(
                Fault(
                    f"found {value}, expected more than 0 and at most {AMOUNT_MAX}.",
                    source=_SOURCE,
                    field=field,
                )
            )
    except InvalidOperation:
        raise RequestError(
            Fault(
                f"found {value!r}, expected a number.",
                source=_SOURCE,
                field=field,
                fix=f"Write for example {field}=2 or {field}=0.5.",
            )
        ) from None
    if millis != int(millis):
        raise RequestError(
            Fault(
                f"found {value}, expected at most three decimals.",
                source=_SOURCE,
                field=field,
                fix="Amounts are lent in thousandths.",
            )
        )
    if not kind.divides_freely and amount > 1 and amount != int(amount):
        raise RequestError(
            Fault(
                f"found {value}, expected a part of one device or whole devices.",
                source=_SOURCE,
                field=field,
                fix=f"Write {field}={int(amount)} or {field}={int(amount) + 1}.",
            )
        )
    return int(millis)


def format_amount(millis: int) -> str:
    """Return an amount as a person would type it: ``2``, ``0.5``."""
    whole, rest = divmod(millis, MILLIS_PER_UNIT)
    return f"{whole}.{rest:03d}".rstrip("0").rstrip(".") if rest else str(whole)


def format_request(request: Request) -> str:
    """Return a request's amounts as a person would type them."""
    parts = []
    for item in request.items:
        if item.millis:
            parts.append(f"{item.kind}={format_amount(item.millis)}")
        if item.memory_bytes is not None:
            parts.append(f"{item.kind}.memory={item.memory_bytes}B")
    return ",".join(parts)
