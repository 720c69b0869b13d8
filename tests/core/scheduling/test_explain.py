"""Each change that an explanation offers is enough, and nothing smaller of its sort is."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation_oracle import Usage, could_run, snapshot_of, take
from fleets import Fleet, fleets, scheduling
from forebay import (
    Device,
    DeviceId,
    DeviceKind,
    Draw,
    JobId,
    Lease,
    LeaseId,
    Link,
    LinkKind,
    MemoryKind,
    MemoryRegion,
    Node,
    NodeId,
    Operator,
    Pool,
    Request,
    ResourceItem,
    Selector,
)
from forebay_core.scheduling import Explanation, explain
from forebay_core.scheduling.explain import QUOTA, TOGETHER

GRID = {DeviceKind.CPU: 500, DeviceKind.GPU: 250}
"""Amounts of these sizes only, so that every way to give something back can be tried."""


@st.composite
def coarse_requests(draw: st.DrawFn) -> Request:
    items = []
    if draw(st.booleans()):
        items.append(ResourceItem(DeviceKind.CPU, draw(st.integers(1, 10)) * 500))
    if not items or draw(st.booleans()):
        linked = draw(st.integers(0, 3)) == 0
        millis = 2000 if linked else draw(st.sampled_from([250, 500, 1000, 2000]))
        items.append(
            ResourceItem(
                DeviceKind.GPU, millis, draw(st.none() | st.integers(1, 16)), linked=linked
            )
        )
    vendor = Selector("vendor", Operator.EQUAL, "nvidia")
    return Request(tuple(items), device_selectors=(vendor,) if draw(st.booleans()) else ())


@st.composite
def usages(draw: st.DrawFn, fleet: Fleet) -> Usage:
    return {
        device.id: (
            draw(st.integers(0, device.capacity_millis // GRID[device.kind])) * GRID[device.kind],
            draw(st.integers(0, device.memory_bytes)),
        )
        for device in fleet.devices
    }


def least_given_back(fleet: Fleet, request: Request, usage: Usage, kind: DeviceKind) -> int | None:
    """Try every way to give back some of a kind on one node, with all its memory."""
    least: int | None = None
    for node in fleet.nodes:
        here = [d for d in fleet.devices if d.node == node.id and d.kind is kind]
        elsewhere = {d.id: (d.capacity_millis, d.memory_bytes) for d in fleet.devices}
        now = {d.id: usage[d.id] for d in fleet.devices if d.node == node.id}
        grids = [range(0, usage[device.id][0] + 1, GRID[kind]) for device in here]
        for amounts in itertools.product(*grids):
            total = sum(amounts)
            if least is not None and total >= least:
                continue
            back = {
                device.id: (usage[device.id][0] - amount, 0)
                for device, amount in zip(here, amounts, strict=True)
            }
            if could_run(fleet, request, {**elsewhere, **now, **back}, {}):
                least = total
    return least


def change(explanation: Explanation, pattern: str) -> re.Match[str] | None:
    found = [re.fullmatch(pattern, change.text) for change in explanation.changes]
    matches = [match for match in found if match]
    assert len(matches) <= 1
    return matches[0] if matches else None


@given(fleets(max_nodes=2, max_gpus=2), coarse_requests(), st.data())
@settings(max_examples=150, deadline=None)
def test_the_least_that_must_be_given_back_is_told_exactly(
    fleet: Fleet, request: Request, data: st.DataObject
) -> None:
    fleet = replace(fleet, pool=replace(fleet.pool, quota_millis={}))
    usage = data.draw(usages(fleet))
    explanation = explain(snapshot_of(fleet, usage), request, scheduling())
    if could_run(fleet, request, usage, {}):
        assert not explanation.changes
        return
    for item in request.items:
        told = change(
            explanation,
            rf"wait until (?:([\d.]+) of {item.kind})?(?: and )?"
            rf"(?:\S+ of memory of {item.kind})? is given back on node \S+",
        )
        least = least_given_back(fleet, request, usage, item.kind)
        assert (told is not None) == (least is not None)
        if told is not None:
            assert round(float(told[1] or 0) * 1000) == least


@given(fleets(), coarse_requests(), st.integers(0, 4000))
@settings(max_examples=150, deadline=None)
def test_a_quota_that_is_used_up_is_told_and_how_much_of_it_is_missing(
    fleet: Fleet, request: Request, lent_millis: int
) -> None:
    lent = {DeviceKind.GPU: lent_millis}
    explanation = explain(snapshot_of(fleet, {}, lent), request, scheduling())
    unlimited = replace(fleet, pool=replace(fleet.pool, quota_millis={}))
    blamed = sum(reason.nodes for reason in explanation.reasons if reason.reason == QUOTA)
    assert (blamed > 0) == (
        could_run(unlimited, request, {}, {}) and not could_run(fleet, request, {}, lent)
    )
    told = change(explanation, r"wait until ([\d.]+) of gpu is given back to the quota .*")
    if told is not None:
        millis = round(float(told[1]) * 1000)
        assert could_run(fleet, request, {}, {DeviceKind.GPU: lent_millis - millis})
        assert not could_run(fleet, request, {}, {DeviceKind.GPU: lent_millis - millis + 1})
    else:
        more = {DeviceKind.GPU: lent_millis - 10_000}
        assert could_run(fleet, request, {}, lent) or not could_run(fleet, request, {}, more)


@given(fleets(), st.lists(coarse_requests(), max_size=6), coarse_requests())
@settings(max_examples=150, deadline=None)
def test_the_jobs_to_wait_for_are_those_whose_end_alone_would_do(
    fleet: Fleet, before: list[Request], request: Request
) -> None:
    engine = scheduling()
    usage: Usage = {}
    lent: dict[DeviceKind, int] = {}
    leases = []
    for number, earlier in enumerate(before):
        (outcome,) = engine.decide(snapshot_of(fleet, usage, lent), [earlier])
        take(fleet, outcome, usage, lent)
        if outcome.node is not None:
            leases.append(
                Lease(LeaseId(number), JobId(number), "default", outcome.node, outcome.draws, 0.0)
            )
    explanation = explain(snapshot_of(fleet, usage, lent), request, engine, leases)
    told = change(explanation, r"wait for job ([\d, ]+) to end(?:: any one of them)?")
    named = {int(number) for number in told[1].split(", ")} if told else set()
    if could_run(fleet, request, usage, lent):
        assert not named
        return
    kinds = {device.id: device.kind for device in fleet.devices}
    enough = set()
    for lease in leases:
        after = dict(usage)
        lent_after = dict(lent)
        for draw in lease.draws:
            millis, memory = after[draw.device]
            after[draw.device] = (millis - draw.millis, memory - draw.memory_bytes)
            lent_after[kinds[draw.device]] -= draw.millis
        if could_run(fleet, request, after, lent_after):
            enough.add(int(lease.job))
    assert named == enough


NODE = Node(NodeId("n0"), {"zone": "a"})


def gpus(count: int) -> tuple[Device, ...]:
    return tuple(
        Device(
            DeviceId(f"g{index}"),
            DeviceKind.GPU,
            node=NODE.id,
            memory=(MemoryRegion(MemoryKind.HBM, 16),),
        )
        for index in range(count)
    )


def fleet_of(devices: tuple[Device, ...], strategy: str, *links: Link) -> Fleet:
    return Fleet((NODE,), devices, links, Pool("default", strategy))


def texts(explanation: Explanation) -> list[str]:
    return [change.text for change in explanation.changes]


def test_a_part_of_a_device_is_offered_where_no_whole_one_is_free() -> None:
    fleet = fleet_of(gpus(2), "shares")
    usage = {device.id: (500, 8) for device in fleet.devices}
    request = Request((ResourceItem(DeviceKind.GPU, 2000),))
    assert "ask for gpu=0.5 instead of 2" in texts(
        explain(snapshot_of(fleet, usage), request, scheduling())
    )


def test_a_gang_of_another_size_is_offered_though_sizes_between_do_not_exist() -> None:
    devices = gpus(4)
    links = [Link(one.id, other.id, LinkKind.NVLINK) for one, other in itertools.pairwise(devices)]
    request = Request((ResourceItem(DeviceKind.GPU, 7000, linked=True),))
    explanation = explain(
        snapshot_of(fleet_of(devices, "gangs", *links), {}), request, scheduling()
    )
    assert "ask for gpu=4 instead of 7" in texts(explanation)
    assert "has no gang of that size: there are gangs of 2, 4" in explanation.never_fits


def test_a_node_with_enough_of_each_but_not_of_all_is_blamed_on_no_filter() -> None:
    cpu = Device(DeviceId("c0"), DeviceKind.CPU, node=NODE.id, capacity_millis=4000)
    fleet = fleet_of((cpu,), "shares")
    request = Request((ResourceItem(DeviceKind.CPU, 3000),))
    explanation = explain(snapshot_of(fleet, {cpu.id: (2000, 0)}), request, scheduling())
    assert [(reason.reason, reason.nodes) for reason in explanation.reasons] == [(TOGETHER, 1)]
    assert texts(explanation) == [
        "ask for cpu=2 instead of 3",
        "wait until 1 of cpu is given back on node n0",
    ]
    assert explanation.never_fits == ""


@pytest.mark.parametrize(
    ("used_millis", "asked_millis", "told"),
    [(4000, 1500, "2"), (3500, 1500, "1.5"), (3500, 500, "0.5"), (2500, 2500, "1.5")],
)
def test_cores_lent_whole_are_given_back_whole_and_begun_ones_first(
    used_millis: int, asked_millis: int, told: str
) -> None:
    cpu = Device(DeviceId("c0"), DeviceKind.CPU, node=NODE.id, capacity_millis=4000)
    snapshot = snapshot_of(fleet_of((cpu,), "whole"), {cpu.id: (used_millis, 0)})
    request = Request((ResourceItem(DeviceKind.CPU, asked_millis),))
    assert f"wait until {told} of cpu is given back on node n0" in texts(
        explain(snapshot, request, scheduling())
    )


def test_of_many_jobs_to_wait_for_some_are_named_and_the_rest_counted() -> None:
    devices = gpus(12)
    usage = {device.id: (1000, 16) for device in devices}
    leases = [
        Lease(LeaseId(number), JobId(number), "default", NODE.id, (Draw(device.id, 1000, 16),), 0.0)
        for number, device in enumerate(devices)
    ]
    request = Request((ResourceItem(DeviceKind.GPU, 1000),))
    snapshot = snapshot_of(fleet_of(devices, "whole"), usage)
    assert (
        "wait for job 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 or one of 2 more to end: any one of them"
        in texts(explain(snapshot, request, scheduling(), leases))
    )
