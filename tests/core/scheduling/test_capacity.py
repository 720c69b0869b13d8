"""What can never be served is refused with the amount that is too much."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation_oracle import could_run, snapshot_of
from fleets import Fleet, fleets, requests
from forebay import (
    CapacityError,
    Device,
    DeviceId,
    DeviceKind,
    MemoryKind,
    MemoryRegion,
    Node,
    NodeId,
    Pool,
    Request,
    ResourceItem,
)
from forebay_core.scheduling import check_ever_fits

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU


def refusal(fleet: Fleet, request: Request) -> str:
    try:
        check_ever_fits(snapshot_of(fleet, {}), request)
    except CapacityError as error:
        return str(error)
    return ""


@given(fleets(), requests())
@settings(max_examples=200, deadline=None)
def test_no_refusal_tells_of_nothing_or_less_than_nothing(fleet: Fleet, request: Request) -> None:
    message = refusal(fleet, request)
    for too_much in re.findall(r"(\S+) too much", message):
        assert re.match(r"[0-9.]*[1-9]", too_much)


@given(fleets(), st.integers(1, 200), st.sampled_from([CPU, GPU]))
@settings(max_examples=200, deadline=None)
def test_less_by_what_is_too_much_fits_and_a_step_more_does_not(
    fleet: Fleet, tenths: int, kind: DeviceKind
) -> None:
    fleet = replace(fleet, devices=tuple(replace(device, health=()) for device in fleet.devices))
    millis = tenths * (100 if kind is CPU else 1000)
    message = refusal(fleet, Request((ResourceItem(kind, millis),)))
    told = re.search(r"([\d.]+) too much", message)
    if told is None:
        return
    fitting = millis - round(float(told[1]) * 1000)
    assert fitting == 0 or could_run(fleet, Request((ResourceItem(kind, fitting),)), {}, {})
    more = fitting + (100 if kind is CPU else 1000)
    assert not could_run(fleet, Request((ResourceItem(kind, more),)), {}, {})


NODES = (Node(NodeId("n0"), {"zone": "a"}), Node(NodeId("n1"), {"zone": "a"}))


def device(
    name: str, kind: DeviceKind, node: int, capacity_millis: int, memory_bytes: int
) -> Device:
    return Device(
        DeviceId(name),
        kind,
        node=NODES[node].id,
        capacity_millis=capacity_millis,
        memory=(MemoryRegion(MemoryKind.UNKNOWN, memory_bytes),),
    )


MANY_CORES = device("c0", CPU, 0, 8000, 8)
MUCH_MEMORY = device("c1", CPU, 1, 2000, 64)
LARGE = device("g0", GPU, 0, 1000, 16)
SMALL = device("g1", GPU, 0, 1000, 8)
SHARES = Pool("default", "shares")


@pytest.mark.parametrize(
    ("devices", "pool", "item", "expected"),
    [
        (
            (LARGE, SMALL),
            SHARES,
            ResourceItem(GPU, 4000),
            "asked for gpu=4, pool default has 2 on its largest node: 2 too much.",
        ),
        (
            (MANY_CORES, MUCH_MEMORY),
            SHARES,
            ResourceItem(CPU, 4000, 16),
            (
                "asked for cpu=4 with 16B, pool default has that much of both, "
                "but on no single node together."
            ),
        ),
        (
            (LARGE, SMALL),
            SHARES,
            ResourceItem(GPU, 2000, 16),
            (
                "asked for gpu=2 with 16B each, pool default has that much of both, "
                "but on no single node together."
            ),
        ),
        (
            (LARGE, SMALL),
            SHARES,
            ResourceItem(GPU, 500, 20),
            "asked for gpu=0.5 with 20B, pool default has 16B at most: 4B too much.",
        ),
        (
            (replace(MANY_CORES, capacity_millis=1500),),
            Pool("default", "whole"),
            ResourceItem(CPU, 1500),
            (
                "asked for cpu=1.5, 2 in whole steps, pool default has 1 on its largest node: "
                "0.5 too much."
            ),
        ),
        (
            (MANY_CORES,),
            replace(SHARES, quota_millis={CPU: 550}),
            ResourceItem(CPU, 550),
            (
                "asked for cpu=0.55, 0.6 in whole steps, the quota of pool default is 0.55: "
                "0.05 too much."
            ),
        ),
        (
            (MANY_CORES, MUCH_MEMORY),
            SHARES,
            ResourceItem(CPU, 0, 100),
            "asked for cpu.memory=100B, pool default has 64B at most: 36B too much.",
        ),
        (
            (MANY_CORES,),
            SHARES,
            ResourceItem(GPU, 1000),
            "asked for gpu=1, pool default has no gpu.",
        ),
        (
            (LARGE, SMALL),
            Pool("default", "gangs"),
            ResourceItem(GPU, 2000, linked=True),
            "asked for gpu=2 linked, pool default has no gang of that size.",
        ),
    ],
)
def test_the_message_says_what_was_asked_for_what_there_is_and_the_difference(
    devices: tuple[Device, ...], pool: Pool, item: ResourceItem, expected: str
) -> None:
    assert refusal(Fleet(NODES, devices, (), pool), Request((item,))) == expected
