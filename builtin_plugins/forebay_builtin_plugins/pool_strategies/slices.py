"""Strategies that lend a device by itself: whole, or in shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forebay import (
    MILLIS_PER_UNIT,
    ConfigError,
    Device,
    Fault,
    LendableUnit,
    Link,
    PoolStrategy,
)

Options = Mapping[str, bool | int | str]

CORE_STEP_MILLIS = 100
"""Smallest share of a CPU: a tenth of a core."""

DEVICE_STEP_MILLIS = 10
"""Smallest share of any other device: a hundredth."""


class Whole(PoolStrategy):
    """Lends whole devices, and of a CPU whole cores."""

    name = "whole"

    def units(
        self, devices: Sequence[Device], links: Sequence[Link], options: Options
    ) -> Sequence[LendableUnit]:
        """Make one unit of each device; takes no options."""
        del links
        check_options(self.name, options, known=())
        return [
            unit(device, MILLIS_PER_UNIT if device.kind.divides_freely else device.capacity_millis)
            for device in devices
        ]


class Shares(PoolStrategy):
    """Lends parts of devices, in steps.

    Option ``step_millis`` sets the step for every kind; devices other than CPUs must be
    whole multiples of it.
    """

    name = "shares"

    def units(
        self, devices: Sequence[Device], links: Sequence[Link], options: Options
    ) -> Sequence[LendableUnit]:
        """Make one unit of each device."""
        del links
        check_options(self.name, options, known=("step_millis",))
        step = _step(options.get("step_millis"), devices)
        return [
            unit(
                device,
                step or (CORE_STEP_MILLIS if device.kind.divides_freely else DEVICE_STEP_MILLIS),
            )
            for device in devices
        ]


def _step(option: bool | int | str | None, devices: Sequence[Device]) -> int | None:
    if option is None:
        return None
    if isinstance(option, bool) or not isinstance(option, int) or option < 1:
        raise _step_error(f"found {option!r}, expected a whole number of 1 or more.")
    for device in devices:
        if not device.kind.divides_freely and device.capacity_millis % option:
            # Its rest could never be lent, nor the device as a whole.
            raise _step_error(
                f"found {option}, which does not divide the {device.capacity_millis} millis "
                f"of {device.kind} {device.id}.",
                fix="Take a step that does, for example 10, 100 or 250.",
            )
    return option


def _step_error(message: str, fix: str = "") -> ConfigError:
    return ConfigError(Fault(message, source="pool strategy shares", field="step_millis", fix=fix))


def unit(device: Device, step_millis: int) -> LendableUnit:
    """Return the unit that is one device."""
    return LendableUnit(
        id=device.id,
        kind=device.kind,
        node=device.node,
        members=(device.id,),
        capacity_millis=device.capacity_millis,
        step_millis=max(step_millis, 1),
    )


def check_options(strategy: str, options: Options, known: tuple[str, ...]) -> None:
    """Refuse options that a strategy does not know.

    Raises
    ------
    ConfigError
        Names each of them, and those that are known.
    """
    faults = tuple(
        Fault(
            "unknown option.",
            source=f"pool strategy {strategy}",
            field=name,
            fix=f"Known options: {', '.join(known) or 'none'}.",
        )
        for name in sorted(options)
        if name not in known
    )
    if faults:
        raise ConfigError(faults)
