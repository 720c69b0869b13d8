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

    Option ``step_millis`` sets the step for every kind.
    """

    name = "shares"

    def units(
        self, devices: Sequence[Device], links: Sequence[Link], options: Options
    ) -> Sequence[LendableUnit]:
        """Make one unit of each device."""
        del links
        check_options(self.name, options, known=("step_millis",))
        step = options.get("step_millis")
        if step is not None and (isinstance(step, bool) or not isinstance(step, int) or step < 1):
            raise ConfigError(
                Fault(
                    f"found {step!r}, expected a whole number of 1 or more.",
                    source=f"pool strategy {self.name}",
                    field="step_millis",
                )
            )
        return [
            unit(
                device,
                int(step)
                if step is not None
                else CORE_STEP_MILLIS
                if device.kind.divides_freely
                else DEVICE_STEP_MILLIS,
            )
            for device in devices
        ]


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
