"""What a pool takes in, and what a strategy that breaks the contract costs: its own pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from forebay import (
    Device,
    DeviceId,
    DeviceKind,
    LendableUnit,
    Link,
    LinkKind,
    NodeId,
    Operator,
    Pool,
    PoolStrategy,
    Selector,
)
from forebay_builtin_plugins.pool_strategies.slices import Shares, Whole
from forebay_core.plugins import Offered
from forebay_core.pools import BuiltPool, build_pools

N0, N1 = NodeId("n0"), NodeId("n1")
CPU = Device(DeviceId("c0"), DeviceKind.CPU, node=N0, capacity_millis=1500)
AMD = Device(DeviceId("g0"), DeviceKind.GPU, node=N0, vendor="amd")
NVIDIA = Device(DeviceId("g1"), DeviceKind.GPU, node=N0, vendor="nvidia")
FAR = Device(DeviceId("g2"), DeviceKind.GPU, node=N1, vendor="nvidia")
DEVICES = (CPU, AMD, NVIDIA, FAR)
LINKS = (
    Link(AMD.id, NVIDIA.id, LinkKind.PCIE),
    Link(NVIDIA.id, FAR.id, LinkKind.INFINIBAND),
)
SHARES: Offered[PoolStrategy] = Offered("pool-strategies", "shares", Shares())
WHOLE: Offered[PoolStrategy] = Offered("pool-strategies", "whole", Whole())


class Recording(Whole):
    """Notes what it is given."""

    name = "recording"

    def __init__(self) -> None:
        self.links: tuple[Link, ...] = ()

    def units(
        self,
        devices: Sequence[Device],
        links: Sequence[Link],
        options: Any,  # noqa: ANN401
    ) -> Sequence[LendableUnit]:
        self.links = tuple(links)
        return super().units(devices, links, options)


class Stranger(PoolStrategy):
    """Makes of the devices whatever it is told to."""

    name = "stranger"

    def __init__(self, make: Callable[[Sequence[LendableUnit]], Any]) -> None:
        self._make = make

    def units(self, devices: Any, links: Any, options: Any) -> Any:  # noqa: ANN401
        return self._make(Whole().units(devices, links, options))


def built_with(make: Callable[[Sequence[LendableUnit]], Any]) -> tuple[BuiltPool, BuiltPool]:
    offered: Offered[PoolStrategy] = Offered("acme", "stranger", Stranger(make))
    one, other = build_pools(
        [Pool("theirs", "stranger"), Pool("ours", "shares")], DEVICES, LINKS, [offered, SHARES]
    )
    return one, other


def test_a_pool_takes_in_the_devices_of_its_kinds_that_match_all_its_selectors() -> None:
    nvidia = Selector("vendor", Operator.EQUAL, "nvidia")
    strategy = Recording()
    offered: Offered[PoolStrategy] = Offered("test", "recording", strategy)
    for kinds, selectors, expected in [
        ((), (), DEVICES),
        ((DeviceKind.GPU,), (), (AMD, NVIDIA, FAR)),
        ((), (nvidia,), (NVIDIA, FAR)),
        ((DeviceKind.CPU,), (nvidia,), ()),
    ]:
        pool = Pool("default", "recording", kinds=kinds, selectors=selectors)
        (built,) = build_pools([pool], DEVICES, LINKS, [offered])
        assert built.devices == expected
        assert [unit.members for unit in built.units] == [(device.id,) for device in expected]
        ids = {device.id for device in expected}
        assert set(strategy.links) == {
            link for link in LINKS if link.source in ids and link.target in ids
        }


def test_an_unknown_strategy_is_told_with_those_that_are_offered() -> None:
    (built,) = build_pools([Pool("default", "wholly")], DEVICES, LINKS, [SHARES, WHOLE])
    assert not built.units
    assert "'wholly'" in built.error
    assert "shares, whole" in built.error


def test_an_option_that_a_strategy_does_not_know_is_told_with_those_it_knows() -> None:
    pool = Pool("default", "shares", options={"stepmillis": 5})
    (built,) = build_pools([pool], DEVICES, LINKS, [SHARES])
    assert not built.units
    assert "stepmillis" in built.error
    assert "step_millis" in built.error


def boom(units: Sequence[LendableUnit]) -> Sequence[LendableUnit]:
    raise ZeroDivisionError(len(units))


def changed(**changes: Any) -> Callable[[Sequence[LendableUnit]], Any]:  # noqa: ANN401
    """Return what changes the unit of the first GPU."""
    return lambda units: [units[0], replace(units[1], **changes), *units[2:]]


HOSTILE: dict[str, tuple[Callable[[Sequence[LendableUnit]], Any], str]] = {
    "raises": (boom, "ZeroDivisionError"),
    "returns nothing": (lambda _: None, "NoneType"),
    "returns no units": (lambda _: ["g0"], "str"),
    "unknown member": (changed(members=("g9",)), "not in the pool"),
    "no members": (changed(members=()), "no members"),
    "member twice": (changed(members=("g0", "g0"), capacity_millis=2000), "twice"),
    "wrong capacity": (changed(capacity_millis=2000), "capacity 2000, its members 1000"),
    "wrong kind": (changed(kind=DeviceKind.NPU), "mixes kinds"),
    "wrong node": (changed(node=N1), "mixes nodes"),
    "members across nodes": (
        changed(members=("g0", "g2"), capacity_millis=2000, step_millis=2000),
        "mixes nodes",
    ),
    "step of nothing": (changed(step_millis=0), "step below 1"),
    "step that does not divide": (changed(step_millis=300), "step of 300 that does not divide"),
    "gang in parts": (
        changed(members=("g0", "g1"), capacity_millis=2000, step_millis=1000),
        "gang and not lent whole",
    ),
    "id of another": (changed(id="c0"), "id of another"),
}


@pytest.mark.parametrize("case", sorted(HOSTILE))
def test_a_strategy_that_breaks_the_contract_costs_its_own_pool_alone(case: str) -> None:
    make, expected = HOSTILE[case]
    theirs, ours = built_with(make)
    assert not theirs.units
    assert "plugin acme" in theirs.error
    assert expected in theirs.error
    assert len(ours.units) == len(DEVICES)
    assert not ours.error


def test_a_cpu_may_have_a_rest_that_is_not_lent() -> None:
    (built,) = build_pools([Pool("default", "whole")], [CPU], [], [WHOLE])
    assert [unit.step_millis for unit in built.units] == [1000]
    assert not built.error
