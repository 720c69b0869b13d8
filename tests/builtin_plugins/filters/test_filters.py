"""Each filter against the same rule said in plain Python, unit by unit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fleets import FILTERS, Fleet, fleets, requests
from forebay import (
    Device,
    DeviceId,
    DeviceKind,
    HealthCondition,
    HealthStatus,
    MemoryKind,
    MemoryRegion,
    Node,
    NodeId,
    Operator,
    Pool,
    Request,
    ResourceItem,
    Selector,
    Snapshot,
)
from forebay_builtin_plugins.filters.health import HealthFilter
from forebay_builtin_plugins.filters.resources import ResourceFilter
from forebay_builtin_plugins.filters.selection import AttributeFilter, NodeFilter
from forebay_core.scheduling import build_batch, build_snapshot

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU
NODE = Node(NodeId("n0"), {"zone": "a", "rack": "7"})


def snapshot_of(fleet: Fleet, usage: dict[DeviceId, tuple[int, int]] | None = None) -> Snapshot:
    return build_snapshot(fleet.built(), nodes=fleet.nodes, usage=usage or {}, pool_used_millis={})


def gpu(name: str, **fields: object) -> Device:
    memory = (MemoryRegion(MemoryKind.HBM, 16),)
    return Device(DeviceId(name), GPU, node=NODE.id, memory=memory, **fields)  # type: ignore[arg-type]  # fields of a device


def fleet_of(*devices: Device, strategy: str = "shares") -> Fleet:
    return Fleet((NODE,), devices, (), Pool("default", strategy))


@given(fleets(), st.lists(requests(), max_size=4))
def test_attributes_health_and_nodes_judge_each_unit_by_its_members(
    fleet: Fleet, asked: list[Request]
) -> None:
    snapshot, batch = snapshot_of(fleet), build_batch(asked)
    by_id = {device.id: device for device in fleet.devices}
    labels = {node.id: node.labels for node in fleet.nodes}
    attributes = AttributeFilter().filter(snapshot, batch)[0]
    health = HealthFilter().filter(snapshot, batch)[0]
    nodes = NodeFilter().filter(snapshot, batch)[0]
    for row, request in enumerate(asked):
        only_cpu = [item.kind for item in request.items] == [CPU]
        for column, unit in enumerate(fleet.built().units):
            members = [by_id[member] for member in unit.members]
            judged = only_cpu or unit.kind is not CPU
            assert attributes[row, column] == (
                judged
                and not all(
                    selector.matches(member.vendor or None)
                    for selector in request.device_selectors
                    for member in members
                )
            )
            assert health[row, column] == any(member.is_failed for member in members)
            assert nodes[row, column] == (
                not all(
                    selector.matches(labels[unit.node].get(selector.name))
                    for selector in request.node_selectors
                )
            )


@given(fleets(), st.lists(requests(), max_size=4))
def test_a_batch_is_judged_as_its_requests_one_by_one(fleet: Fleet, asked: list[Request]) -> None:
    snapshot = snapshot_of(fleet)
    for offered in FILTERS:
        together = offered.object.filter(snapshot, build_batch(asked))
        assert together.shape == (len(offered.object.reasons), len(asked), len(snapshot.unit_ids))
        for row, request in enumerate(asked):
            alone = offered.object.filter(snapshot, build_batch([request]))
            assert np.array_equal(alone[:, 0], together[:, row])


def ruled_out(fleet: Fleet, item: ResourceItem, *used: int) -> list[tuple[bool, ...]]:
    """Return for each unit what the resource filter says: too small, not enough free."""
    usage = {device.id: (millis, 0) for device, millis in zip(fleet.devices, used, strict=False)}
    batch = build_batch([Request((item,))])
    found = ResourceFilter().filter(snapshot_of(fleet, usage), batch)[:, 0]
    return [tuple(map(bool, column)) for column in found.T]


def test_too_small_is_what_would_not_do_even_if_nothing_were_lent() -> None:
    fleet = fleet_of(gpu("g0"), gpu("g1"))
    assert ruled_out(fleet, ResourceItem(GPU, 500), 600, 500) == [(False, True), (False, False)]
    assert ruled_out(fleet, ResourceItem(GPU, 500, 20)) == [(True, False)] * 2
    assert ruled_out(fleet, ResourceItem(GPU, 1000), 10) == [(False, True), (False, False)]


def test_an_amount_between_steps_needs_the_step_above() -> None:
    fleet = fleet_of(gpu("g0"))
    assert ruled_out(fleet, ResourceItem(GPU, 333), 660) == [(False, False)]
    assert ruled_out(fleet, ResourceItem(GPU, 333), 670) == [(False, True)]


def test_a_cpu_is_ruled_out_only_when_it_has_nothing_to_contribute() -> None:
    cpu = Device(DeviceId("c0"), CPU, node=NODE.id, capacity_millis=2000)
    assert ruled_out(fleet_of(cpu), ResourceItem(CPU, 64_000), 1900) == [(False, False)]
    assert ruled_out(fleet_of(cpu), ResourceItem(CPU, 100), 2000) == [(False, True)]


def test_degraded_devices_are_lent_and_failed_ones_are_not() -> None:
    def condition(status: HealthStatus) -> tuple[HealthCondition, ...]:
        return (HealthCondition("driver", status),)

    statuses = list(HealthStatus)
    fleet = fleet_of(
        *(gpu(f"g{index}", health=condition(status)) for index, status in enumerate(statuses))
    )
    batch = build_batch([Request((ResourceItem(GPU, 10),))])
    (sick,) = HealthFilter().filter(snapshot_of(fleet), batch)[0]
    assert list(sick) == [status is HealthStatus.FAILED for status in statuses]


def test_selectors_that_are_equal_in_python_and_not_in_meaning_are_told_apart() -> None:
    fleet = fleet_of(gpu("g0", attributes={"mig": True}), gpu("g1", attributes={"mig": 1}))
    asked = [
        Request(
            (ResourceItem(GPU, 10),), device_selectors=(Selector("mig", Operator.EQUAL, value),)
        )
        for value in (True, 1)
    ]
    unselected = AttributeFilter().filter(snapshot_of(fleet), build_batch(asked))[0]
    assert unselected.tolist() == [[False, True], [True, False]]


def test_an_attribute_or_label_that_nothing_has_satisfies_not_equal_alone() -> None:
    fleet = fleet_of(gpu("g0"))
    for operator in Operator:
        selectors = (Selector("absent", operator, 1),)
        item = ResourceItem(GPU, 10)
        by_device = build_batch([Request((item,), device_selectors=selectors)])
        by_node = build_batch([Request((item,), node_selectors=selectors)])
        expected = operator is not Operator.NOT_EQUAL
        assert AttributeFilter().filter(snapshot_of(fleet), by_device).item() == expected
        assert NodeFilter().filter(snapshot_of(fleet), by_node).item() == expected
