"""Best fit leaves the least, keeps devices whole, and breaks ties as it says."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings

from allocation_oracle import could_run, snapshot_of
from fleets import BEST_FIT, FILTERS, Fleet, fleets, requests, scheduling
from forebay import (
    Device,
    DeviceId,
    DeviceKind,
    Link,
    LinkKind,
    MemoryKind,
    MemoryRegion,
    Node,
    NodeId,
    Pool,
    Request,
    ResourceItem,
)
from forebay_core.scheduling import SchedulingEngine

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU


def capacity_of(fleet: Fleet, node: NodeId, kind: DeviceKind) -> int:
    return sum(
        device.capacity_millis
        for device in fleet.devices
        if device.node == node and device.kind is kind
    )


def left_on(fleet: Fleet, request: Request, node: NodeId) -> dict[DeviceKind, float]:
    """Return what a request would leave of each kind on an empty node, as shares of the largest."""
    asked = {item.kind: item.millis for item in request.items}
    left = {}
    for kind in {device.kind for device in fleet.devices}:
        largest = max(capacity_of(fleet, other.id, kind) for other in fleet.nodes)
        if largest:
            left[kind] = (capacity_of(fleet, node, kind) - asked.get(kind, 0)) / largest
    return left


@given(fleets(), requests())
@settings(max_examples=100, deadline=None)
def test_the_node_chosen_is_the_first_of_those_left_with_the_least(
    fleet: Fleet, request: Request
) -> None:
    (outcome,) = scheduling().decide(snapshot_of(fleet, {}), [request])
    possible = [
        node.id
        for node in fleet.nodes
        if could_run(
            Fleet(
                (node,),
                tuple(device for device in fleet.devices if device.node == node.id),
                fleet.links,
                fleet.pool,
            ),
            request,
            {},
            {},
        )
    ]
    if not possible:
        assert outcome.node is None
        return
    left = {node: sum(left_on(fleet, request, node).values()) for node in possible}
    least = min(left.values())
    assert outcome.node in {node for node in possible if math.isclose(left[node], least)}
    expected = left_on(fleet, request, outcome.node)
    assert outcome.terms == pytest.approx(
        {f"left_{item.kind}": expected[item.kind] for item in request.items if item.millis}
        or outcome.terms
    )


def node_of(name: str, *capacities: tuple[DeviceKind, int]) -> tuple[Node, list[Device]]:
    node = Node(NodeId(name), {"zone": "a"})
    return node, [
        Device(DeviceId(f"{name}-{index}"), kind, node=node.id, capacity_millis=millis)
        for index, (kind, millis) in enumerate(capacities)
    ]


def fleet_of(
    strategy: str, *nodes: tuple[Node, list[Device]], links: tuple[Link, ...] = ()
) -> Fleet:
    return Fleet(
        tuple(node for node, _ in nodes),
        tuple(device for _, devices in nodes for device in devices),
        links,
        Pool("default", strategy),
    )


def test_parts_fill_a_begun_device_before_they_break_another() -> None:
    fleet = fleet_of("shares", node_of("n0", (GPU, 1000), (GPU, 1000)))
    half = Request((ResourceItem(GPU, 400),))
    outcomes = scheduling().decide(snapshot_of(fleet, {}), [half] * 4)
    assert [draw.device for outcome in outcomes for draw in outcome.draws] == [
        "n0-0",
        "n0-0",
        "n0-1",
        "n0-1",
    ]


def test_cores_and_memory_come_from_one_cpu_where_one_has_both() -> None:
    node, (first, second) = node_of("n0", (CPU, 2000), (CPU, 4000))
    second = replace(second, memory=(MemoryRegion(MemoryKind.DDR, 8),))
    fleet = fleet_of("shares", (node, [first, second]))
    asked = [Request((ResourceItem(CPU, 2000, memory),)) for memory in (4, None)]
    for request, expected in zip(asked, (second.id, first.id), strict=True):
        (outcome,) = scheduling().decide(snapshot_of(fleet, {}), [request])
        assert [draw.device for draw in outcome.draws] == [expected]


def test_a_gang_is_scored_by_devices_of_its_own_kind() -> None:
    nodes = [node_of("n0", (CPU, 64_000), (GPU, 1000), (GPU, 1000))]
    links = (Link(DeviceId("n0-1"), DeviceId("n0-2"), LinkKind.NVLINK),)
    fleet = fleet_of("gangs", *nodes, links=links)
    request = Request((ResourceItem(GPU, 2000, linked=True),))
    (outcome,) = scheduling().decide(snapshot_of(fleet, {}), [request])
    assert outcome.node == "n0"
    assert outcome.terms == {"left_gpu": 0.0}


def test_the_random_source_has_no_say() -> None:
    fleet = fleet_of("shares", *(node_of(f"n{index}", (CPU, 4000)) for index in range(4)))
    snapshot = snapshot_of(fleet, {})
    asked = [Request((ResourceItem(CPU, 1000),))] * 6
    chosen = {
        tuple(
            outcome.node
            for outcome in SchedulingEngine(FILTERS, BEST_FIT, seed=seed).decide(snapshot, asked)
        )
        for seed in range(5)
    }
    assert chosen == {("n0", "n0", "n0", "n0", "n1", "n1")}
