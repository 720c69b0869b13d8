"""The logical level: lendable units, made from devices by each pool's strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forebay import (
    AttributeValue,
    ConfigError,
    Device,
    DeviceId,
    Fault,
    InputError,
    LendableUnit,
    Link,
    PluginError,
    Pool,
    PoolStrategy,
)
from forebay_core.plugins import Offered


@dataclass(frozen=True, slots=True)
class BuiltPool:
    """A pool with what it lends.

    Parameters
    ----------
    pool : Pool
    devices : tuple of Device
        In order of id.
    units : tuple of LendableUnit
        In the strategy's order.
    error : str
        Why it lends nothing; empty when all is well.
    """

    pool: Pool
    devices: tuple[Device, ...] = ()
    units: tuple[LendableUnit, ...] = ()
    error: str = ""


def build_pools(
    pools: Sequence[Pool],
    devices: Sequence[Device],
    links: Sequence[Link],
    strategies: Sequence[Offered[PoolStrategy]],
) -> tuple[BuiltPool, ...]:
    """Let each pool's strategy make its units; what one does wrong costs that pool alone.

    Parameters
    ----------
    pools : sequence of Pool
    devices : sequence of Device
        In order of id.
    links : sequence of Link
    strategies : sequence of Offered
    """
    return tuple(_build(pool, devices, links, strategies) for pool in pools)


def _build(
    pool: Pool,
    devices: Sequence[Device],
    links: Sequence[Link],
    strategies: Sequence[Offered[PoolStrategy]],
) -> BuiltPool:
    members = tuple(device for device in devices if _belongs(device, pool))
    ids = {device.id for device in members}
    inner = [link for link in links if link.source in ids and link.target in ids]
    try:
        strategy = _strategy(pool, strategies)
    except ConfigError as error:
        return BuiltPool(pool, members, error=str(error))
    try:
        units = tuple(strategy.object.units(members, inner, pool.options))
        check_units(strategy.plugin, units, members)
    except (PluginError, InputError) as error:
        return BuiltPool(pool, members, error=str(error))
    except Exception as error:  # noqa: BLE001 - a strategy is a stranger's code
        fault = PluginError(strategy.plugin, f"strategy {pool.strategy} raised {error!r}.")
        return BuiltPool(pool, members, error=str(fault))
    return BuiltPool(pool, members, units)


def _strategy(pool: Pool, strategies: Sequence[Offered[PoolStrategy]]) -> Offered[PoolStrategy]:
    for offered in strategies:
        if offered.name == pool.strategy:
            return offered
    known = ", ".join(offered.name for offered in strategies) or "none"
    raise ConfigError(
        Fault(
            f"no enabled plugin offers the strategy {pool.strategy!r}.",
            field=f"pool {pool.name}",
            fix=f"Offered: {known}.",
        )
    )


def check_units(plugin: str, units: Sequence[LendableUnit], members: Sequence[Device]) -> None:
    """Check what a strategy made.

    Raises
    ------
    PluginError
        A unit has an unknown member, mixes kinds or nodes, has a capacity that is not
        its members', a step that cannot be, or the id of another.
        A CPU's step need not divide it: what is left over is not lent.
    """
    by_id = {device.id: device for device in members}
    seen: set[str] = set()
    for unit in units:
        fault = _unit_fault(unit, by_id, seen)
        if fault:
            raise PluginError(plugin, f"made a unit {unit.id!r} that {fault}.")
        seen.add(unit.id)


def _unit_fault(unit: LendableUnit, by_id: dict[DeviceId, Device], seen: set[str]) -> str:
    devices = [by_id[member] for member in unit.members if member in by_id]
    capacity = sum(device.capacity_millis for device in devices)
    faults = {
        "has the id of another": unit.id in seen,
        "has no members": not unit.members,
        "has a member that is not in the pool": len(devices) < len(unit.members),
        "has a member twice": len(set(unit.members)) < len(unit.members),
        "mixes kinds": any(device.kind is not unit.kind for device in devices),
        "mixes nodes": any(device.node != unit.node for device in devices),
        f"has capacity {unit.capacity_millis}, its members {capacity}": (
            unit.capacity_millis != capacity
        ),
        "has a step below 1": unit.step_millis < 1,
        f"has a step of {unit.step_millis} that does not divide its {unit.capacity_millis}": (
            not unit.kind.divides_freely and unit.capacity_millis % max(unit.step_millis, 1) != 0
        ),
        "is a gang and not lent whole": unit.is_gang and unit.step_millis != unit.capacity_millis,
    }
    return next((text for text, wrong in faults.items() if wrong), "")


def _belongs(device: Device, pool: Pool) -> bool:
    return (not pool.kinds or device.kind in pool.kinds) and all(
        selector.matches(attributes_of(device).get(selector.name)) for selector in pool.selectors
    )


def attributes_of(device: Device) -> dict[str, AttributeValue]:
    """Return everything that a selector can name of a device."""
    own: dict[str, AttributeValue] = {
        "kind": device.kind.value,
        "vendor": device.vendor,
        "model": device.model,
        "architecture": device.architecture,
        "compute_capability": device.compute_capability,
        "driver_version": device.driver_version,
        "memory_bytes": device.memory_bytes,
    }
    return {**device.attributes, **{name: value for name, value in own.items() if value != ""}}
