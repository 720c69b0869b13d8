"""What each pool has and has lent, by kind."""

from __future__ import annotations

from dataclasses import dataclass

from forebay import DeviceKind
from forebay_core.runtime.host import Host


@dataclass(frozen=True, slots=True)
class PoolAmounts:
    """One kind of device in one pool.

    Parameters
    ----------
    pool, strategy : str
    kind : DeviceKind
    units : int
        Number of lendable units.
    capacity_millis : int
    used_millis : int
        Lent of the pool's devices, by whichever pool.
    used_by_pool_millis : int
        Lent by this pool.
    quota_millis : int, optional
        Most that the pool may lend at once; None means no limit.
    """

    pool: str
    strategy: str
    kind: DeviceKind
    units: int
    capacity_millis: int
    used_millis: int
    used_by_pool_millis: int
    quota_millis: int | None


def pool_amounts(host: Host) -> list[PoolAmounts]:
    """Return the amounts of every pool, in the order of the configuration, then of kinds."""
    usage = host.ledger.usage()
    lent = host.ledger.pool_usage()
    return [
        PoolAmounts(
            pool=built.pool.name,
            strategy=built.pool.strategy,
            kind=kind,
            units=sum(unit.kind is kind for unit in built.units),
            capacity_millis=sum(device.capacity_millis for device in members),
            used_millis=sum(usage.get(device.id, (0, 0))[0] for device in members),
            used_by_pool_millis=lent.get((built.pool.name, kind), 0),
            quota_millis=built.pool.quota_millis.get(kind),
        )
        for built in host.pools
        for kind in DeviceKind
        if (members := [device for device in built.devices if device.kind is kind])
    ]
