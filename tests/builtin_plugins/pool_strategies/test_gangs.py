"""Gangs of recorded machines, of a size asked for, and in any order of input."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay import ConfigError, Device, DeviceId, DeviceKind, LendableUnit, Link, LinkKind, NodeId
from forebay_builtin_plugins.pool_strategies.gangs import Gangs

NODE = NodeId("n0")


def gpus(count: int) -> list[Device]:
    return [Device(DeviceId(f"GPU{index}"), DeviceKind.GPU, node=NODE) for index in range(count)]


def sizes(units: list[LendableUnit]) -> list[int]:
    return sorted(len(unit.members) for unit in units)


def matrix_links(text: str) -> list[Link]:
    """Return the links of a matrix as ``nvidia-smi topo -m`` draws it; NV18 is 18 NVLinks."""
    rows = [re.split(r"[\s|]+", line.strip(" |")) for line in text.splitlines()]
    names = next(row for row in rows if row[:2] != ["GPU0", "X"] and "GPU0" in row)
    names = [name for name in names if re.fullmatch(r"(GPU|NIC)\d+", name)]
    links = []
    for row in rows:
        if row[0] not in names or "X" not in row:
            continue
        for other, code in zip(names, row[1:], strict=False):
            if found := re.fullmatch(r"NV(\d+)", code):
                rate = int(found[1]) * 25e9
                links.append(Link(DeviceId(row[0]), DeviceId(other), LinkKind.NVLINK, rate))
            elif code in ("PIX", "PXB"):
                links.append(Link(DeviceId(row[0]), DeviceId(other), LinkKind.PCIE))
    return links


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "count", "gangs"),
    [
        ("gke-a3ultra-h200-8gpu-8nic.txt", 8, [2, 2, 2, 2, 4, 4, 8]),
        ("azure-gb300-4gpu-4nic.md", 4, [2, 2, 4]),
        ("oci-gb200-4gpu-8nic.md", 4, [2, 2, 4]),
    ],
)
def test_recorded_machines_with_a_switch_give_every_size(
    name: str, count: int, gangs: list[int], shared_data: Path
) -> None:
    links = matrix_links((shared_data / "hardware-fixtures/topo-matrices" / name).read_text())
    assert sum(link.kind is LinkKind.NVLINK for link in links) == count * (count - 1)
    # The network cards at the other end of some links are not lent, so they join nothing.
    units = list(Gangs().units(gpus(count), links, {}))
    assert sizes(units) == [1] * count + gangs
    assert sizes(list(Gangs().units(gpus(count), links, {"link_kinds": "pcie"}))) == [1] * count


graphs = st.integers(2, 9).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.lists(
            st.tuples(
                st.integers(0, count - 1),
                st.integers(0, count - 1),
                st.none() | st.sampled_from([0.0, 25e9, 50e9]),
            ),
            max_size=16,
        ),
    )
)
"""How many devices there are, and their links: loops and several between two among them."""


@given(graphs, st.integers(2, 9), st.randoms())
def test_gangs_of_a_size_are_those_whatever_order_devices_and_links_come_in(
    graph: tuple[int, list[tuple[int, int, float | None]]], size: int, order: random.Random
) -> None:
    count, edges = graph
    devices = gpus(count)
    links = [
        Link(devices[one].id, devices[other].id, LinkKind.NVLINK, rate)
        for one, other, rate in edges
    ]
    units = Gangs().units(devices, links, {"size": size})
    gangs = [unit for unit in units if unit.is_gang]
    assert {len(gang.members) for gang in gangs} <= {size}
    members = [member for gang in gangs for member in gang.members]
    assert len(set(members)) == len(members)
    shuffled = Gangs().units(
        order.sample(devices, count), order.sample(links, len(links)), {"size": size}
    )
    assert [unit for unit in shuffled if unit.is_gang] == gangs
    # Whatever is left over has too few devices for another gang, or none that are joined to enough.
    left = {device.id for device in devices} - set(members)
    for start in left:
        reached = {start}
        for _ in left:
            for link in links:
                ends = {link.source, link.target}
                if ends & reached and ends <= left:
                    reached |= ends
        assert len(reached) < size


def test_an_unknown_kind_of_link_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match="'wire'") as refused:
        Gangs().units(gpus(2), [], {"link_kinds": "nvlink, wire"})
    (fault,) = refused.value.faults
    assert all(kind.value in fault.fix for kind in LinkKind)


def test_every_unknown_option_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        Gangs().units(gpus(2), [], {"sizes": 2, "link": "nvlink", "size": 2})
    assert [fault.field for fault in refused.value.faults] == ["link", "sizes"]
