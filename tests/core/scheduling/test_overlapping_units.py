"""Units of one pool may stand on the same device; nothing is lent twice all the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from allocation_oracle import Usage, could_run, snapshot_of, take
from fleets import FILTERS, Fleet, fleets, requests, scheduling
from forebay import (
    Decisions,
    Device,
    DeviceId,
    DeviceKind,
    LendableUnit,
    Link,
    Node,
    NodeId,
    Policy,
    Pool,
    PoolStrategy,
    Request,
    ResourceItem,
)
from forebay_builtin_plugins.pool_strategies.gangs import Gangs
from forebay_core.plugins import Offered
from forebay_core.pools import BuiltPool, build_pools
from forebay_core.scheduling import SchedulingEngine, explain
from forebay_core.scheduling.engine import FALLBACK


class Overlapping(PoolStrategy):
    """Lends every device whole, in tenths, and in gangs."""

    name = "overlapping"

    def units(
        self,
        devices: Sequence[Device],
        links: Sequence[Link],
        options: Mapping[str, bool | int | str],
    ) -> Sequence[LendableUnit]:
        units = Gangs().units(devices, links, options)
        tenths = [
            replace(unit, id=f"{unit.id}/tenths", step_millis=100)
            for unit in units
            if not unit.is_gang
        ]
        whole = [replace(unit, step_millis=1000) if not unit.is_gang else unit for unit in units]
        return [*whole, *tenths]


@dataclass(frozen=True)
class OverlappingFleet(Fleet):
    """A fleet whose pool lends each device in several ways."""

    def built(self) -> BuiltPool:
        offered: Offered[PoolStrategy] = Offered("test", "overlapping", Overlapping())
        (built,) = build_pools([self.pool], self.devices, self.links, [offered])
        assert not built.error
        return built


@st.composite
def overlapping_fleets(draw: st.DrawFn) -> OverlappingFleet:
    fleet = draw(fleets(max_nodes=2, max_gpus=3))
    pool = replace(fleet.pool, strategy="overlapping")
    return OverlappingFleet(fleet.nodes, fleet.devices, fleet.links, pool)


class Refusing(Policy):
    """Never answers, so that the engine places by itself."""

    name = "refusing"

    def place(self, *_: object) -> Decisions:
        raise ArithmeticError("no")


@given(overlapping_fleets(), st.lists(requests(), max_size=8), st.booleans())
@settings(max_examples=200, deadline=None)
def test_devices_lent_in_several_ways_are_never_lent_twice(
    fleet: OverlappingFleet, asked: list[Request], own: bool
) -> None:
    engine = scheduling()
    if own:
        refusing: Offered[Policy] = Offered("test", "refusing", Refusing())
        engine = SchedulingEngine(FILTERS, refusing)
    usage: Usage = {}
    lent: dict[DeviceKind, int] = {}
    for request in asked:
        expected = could_run(fleet, request, usage, lent)
        (outcome,) = engine.decide(snapshot_of(fleet, usage, lent), [request])
        assert (outcome.node is not None) == expected
        assert outcome.policy in ("", FALLBACK if own else "best-fit")
        take(fleet, outcome, usage, lent)


@given(st.integers(1, 40), st.integers(0, 40))
@settings(max_examples=100, deadline=None)
def test_an_amount_that_rounding_takes_past_the_quota_waits(tenths: int, quota: int) -> None:
    """Whether a part comes as tenths or as a whole core decides whether it keeps the quota."""
    node = Node(NodeId("n0"), {"zone": "a"})
    cpus = tuple(
        Device(DeviceId(f"c{index}"), DeviceKind.CPU, node=node.id, capacity_millis=2000)
        for index in range(2)
    )
    pool = Pool("default", "overlapping", quota_millis={DeviceKind.CPU: quota * 100})
    fleet = OverlappingFleet((node,), cpus, (), pool)
    engine = scheduling()
    request = Request((ResourceItem(DeviceKind.CPU, tenths * 100),))
    (outcome,) = engine.decide(snapshot_of(fleet, {}), [request])
    assert sum(draw.millis for draw in outcome.draws) == (tenths * 100 if tenths <= quota else 0)


def test_what_must_be_given_back_counts_a_device_once() -> None:
    node = Node(NodeId("n0"), {"zone": "a"})
    gpus = tuple(Device(DeviceId(f"g{i}"), DeviceKind.GPU, node=node.id) for i in range(2))
    fleet = OverlappingFleet((node,), gpus, (), Pool("default", "overlapping"))
    snapshot = snapshot_of(fleet, {gpus[0].id: (500, 0), gpus[1].id: (1000, 0)})
    request = Request((ResourceItem(DeviceKind.GPU, 2000),))
    assert "wait until 1.5 of gpu is given back on node n0" in {
        change.text for change in explain(snapshot, request, scheduling()).changes
    }
