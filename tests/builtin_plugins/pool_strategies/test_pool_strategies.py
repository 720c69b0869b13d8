"""Devices lent whole, in shares, and as gangs along their links."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay import (
    ConfigError,
    Device,
    DeviceId,
    DeviceKind,
    LendableUnit,
    Link,
    LinkKind,
    NodeId,
    PoolStrategy,
)
from forebay_builtin_plugins.pool_strategies.gangs import Gangs
from forebay_builtin_plugins.pool_strategies.slices import Shares, Whole

CPU = Device(DeviceId("c0"), DeviceKind.CPU, node=NodeId("n0"), capacity_millis=1500)


def gpus(count: int, node: str = "n0") -> list[Device]:
    return [
        Device(DeviceId(f"{node}-g{index:02}"), DeviceKind.GPU, node=NodeId(node))
        for index in range(count)
    ]


@st.composite
def linked_devices(draw: st.DrawFn) -> tuple[list[Device], list[Link]]:
    devices = [
        Device(
            DeviceId(f"d{index:02}"),
            draw(st.sampled_from([DeviceKind.GPU, DeviceKind.GPU, DeviceKind.NPU])),
            node=NodeId(draw(st.sampled_from(["n0", "n0", "n1"]))),
        )
        for index in range(draw(st.integers(0, 9)))
    ]
    links = [
        Link(
            one.id,
            other.id,
            draw(st.sampled_from([LinkKind.NVLINK, LinkKind.PCIE])),
            draw(st.none() | st.sampled_from([50e9, 100e9])),
        )
        for index, one in enumerate(devices)
        for other in devices[index + 1 :]
        if draw(st.integers(0, 2)) == 0
    ]
    return devices, links


def is_connected(unit: LendableUnit, links: Sequence[Link]) -> bool:
    reached = {unit.members[0]}
    for _ in unit.members:
        for link in links:
            ends = {link.source, link.target}
            if ends & reached and ends <= set(unit.members):
                reached |= ends
    return reached == set(unit.members)


@given(linked_devices(), st.sampled_from([None, LinkKind.NVLINK]), st.randoms())
def test_gangs_are_connected_of_one_kind_and_node_and_do_not_overlap_within_a_size(
    fleet: tuple[list[Device], list[Link]], link_kind: LinkKind | None, order: random.Random
) -> None:
    devices, links = fleet
    options = {} if link_kind is None else {"link_kinds": str(link_kind)}
    counted = [link for link in links if link_kind in (None, link.kind)]
    units = Gangs().units(devices, links, options)
    by_id = {device.id: device for device in devices}
    assert [unit.members for unit in units if not unit.is_gang] == [(d.id,) for d in devices]
    by_size: dict[int, list[DeviceId]] = {}
    for unit in units:
        if unit.is_gang:
            members = [by_id[member] for member in unit.members]
            assert {(member.kind, member.node) for member in members} == {(unit.kind, unit.node)}
            assert list(unit.members) == sorted(unit.members)
            assert is_connected(unit, counted)
            assert unit.step_millis == unit.capacity_millis == 1000 * len(members)
            by_size.setdefault(len(members), []).extend(unit.members)
    assert set(by_size) <= {2, 4, 8}
    for members_of_size in by_size.values():
        assert len(set(members_of_size)) == len(members_of_size)
    local = [link for link in counted if by_id[link.source].node == by_id[link.target].node]
    joined = any(by_id[link.source].kind is by_id[link.target].kind for link in local)
    assert (2 in by_size) == joined
    shuffled = [
        link
        if order.random() < 0.5
        else Link(link.target, link.source, link.kind, link.bandwidth_bytes_per_s)
        for link in order.sample(links, len(links))
    ]
    assert Gangs().units(devices, shuffled, options) == units


def gangs_of(size: int, units: Sequence[LendableUnit]) -> list[tuple[str, ...]]:
    return [unit.members for unit in units if len(unit.members) == size]


def test_gangs_follow_the_fastest_links() -> None:
    devices = gpus(4)
    a, b, c, d = (device.id for device in devices)
    links = [Link(x, y, LinkKind.PCIE, 32e9) for x, y in ((a, b), (b, c), (c, d), (a, d))]
    links += [Link(x, y, LinkKind.NVLINK, 450e9) for x, y in ((a, c), (b, d))]
    units = Gangs().units(devices, links, {})
    assert gangs_of(2, units) == [(a, c), (b, d)]
    assert gangs_of(4, units) == [(a, b, c, d)]


def test_gangs_of_a_node_with_two_islands_do_not_cross_them() -> None:
    devices = gpus(8)
    islands = (devices[:4], devices[4:])
    links = [
        Link(one.id, other.id, LinkKind.NVLINK, 200e9)
        for island in islands
        for index, one in enumerate(island)
        for other in island[index + 1 :]
    ]
    units = Gangs().units(devices, links, {})
    assert gangs_of(4, units) == [tuple(d.id for d in island) for island in islands]
    assert len(gangs_of(2, units)) == 4
    assert not gangs_of(8, units)


def test_a_size_that_is_asked_for_is_the_only_one() -> None:
    devices = gpus(7)
    links = [Link(devices[0].id, other.id, LinkKind.NVLINK) for other in devices[1:]]
    units = Gangs().units(devices, links, {"size": 3})
    assert [len(unit.members) for unit in units] == [1] * 7 + [3]


def test_on_a_site_of_many_nodes_gangs_end_at_what_links_join() -> None:
    devices, links = [], []
    for node in range(400):
        here = gpus(8, f"n{node:03}")
        devices += here
        links += [
            Link(one.id, other.id, LinkKind.NVLINK)
            for index, one in enumerate(here)
            for other in here[index + 1 :]
        ]
    units = Gangs().units(devices, links, {})
    assert {len(unit.members) for unit in units} == {1, 2, 4, 8}
    assert len(gangs_of(8, units)) == 400


def test_whole_devices_and_whole_cores() -> None:
    (gpu,) = gpus(1)
    cpu_unit, gpu_unit = Whole().units([CPU, gpu], [], {})
    assert (cpu_unit.capacity_millis, cpu_unit.step_millis) == (1500, 1000)
    assert (gpu_unit.capacity_millis, gpu_unit.step_millis) == (1000, 1000)


def test_shares_of_a_tenth_of_a_core_and_a_hundredth_of_any_other_device() -> None:
    devices = [CPU, *gpus(1)]
    assert [unit.step_millis for unit in Shares().units(devices, [], {})] == [100, 10]
    steps = [unit.step_millis for unit in Shares().units(devices, [], {"step_millis": 250})]
    assert steps == [250, 250]


@pytest.mark.parametrize(
    ("strategy", "options", "expected"),
    [
        (Whole(), {"step_millis": 10}, "Known options: none"),
        (Shares(), {"size": 2}, "Known options: step_millis"),
        (Shares(), {"step_millis": 0}, "1 or more"),
        (Shares(), {"step_millis": True}, "1 or more"),
        (Shares(), {"step_millis": "ten"}, "1 or more"),
        (Shares(), {"step_millis": 300}, "does not divide the 1000 millis of gpu n0-g00"),
        (Gangs(), {"sizes": 2}, "Known options: link_kinds, size"),
        (Gangs(), {"size": 1}, "2 or more"),
        (Gangs(), {"size": "2"}, "2 or more"),
        (Gangs(), {"link_kinds": "nvlink, wire"}, "'wire'"),
    ],
)
def test_a_wrong_option_is_refused_with_what_would_be_right(
    strategy: PoolStrategy, options: dict[str, bool | int | str], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected) as refused:
        strategy.units([CPU, *gpus(2)], [], options)
    assert f"pool strategy {strategy.name}" in str(refused.value)
