"""A strategy that joins link-connected devices into gangs, lent together or not at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from forebay import (
    ConfigError,
    Device,
    DeviceId,
    Fault,
    LendableUnit,
    Link,
    LinkKind,
    PoolStrategy,
)
from forebay_builtin_plugins.pool_strategies.slices import CORE_STEP_MILLIS, check_options, unit

Graph = Mapping[DeviceId, Mapping[DeviceId, float]]
"""Bandwidth of the links between devices, both ways."""


class Gangs(PoolStrategy):
    """Lends devices whole, alone or as gangs of 2, 4, 8, ... that are joined by links.

    A gang's members are connected through links among themselves, of one kind and on one node.
    Each size cuts the devices into gangs that do not overlap; gangs of different sizes do.
    Members are gathered greedily along the links of the highest bandwidth,
    beginning with the lowest device id, so the same devices always give the same gangs.

    Option ``size`` makes gangs of that size only, ``link_kinds`` (names joined by commas)
    counts those links only.
    """

    name = "gangs"

    def units(
        self,
        devices: Sequence[Device],
        links: Sequence[Link],
        options: Mapping[str, bool | int | str],
    ) -> Sequence[LendableUnit]:
        """Make a unit of each device and of each gang; O(devices * links) for each size."""
        check_options(self.name, options, known=("link_kinds", "size"))
        size = _size(options.get("size"))
        graph = _graph(devices, links, _link_kinds(options.get("link_kinds")))
        by_id = {device.id: device for device in devices}
        singles = [
            unit(device, CORE_STEP_MILLIS if device.kind.divides_freely else device.capacity_millis)
            for device in devices
        ]
        sizes = [size] if size else _powers_of_two(_largest_component(graph))
        gangs = [
            _gang_unit([by_id[member] for member in members])
            for wanted in sizes
            for members in _cut(graph, wanted)
        ]
        return [*singles, *gangs]


def _cut(graph: Graph, size: int) -> list[list[DeviceId]]:
    """Gather connected sets of that size that do not overlap, as many as the greedy way finds."""
    left = set(graph)
    found: list[list[DeviceId]] = []
    for start in sorted(graph):
        if start not in left:
            continue
        members = [start]
        while len(members) < size:
            reach = {
                other: max(graph[member].get(other, 0.0) for member in members)
                for member in members
                for other in graph[member]
                if other in left and other not in members
            }
            if not reach:
                break
            members.append(min(reach, key=lambda other: (-reach[other], other)))
        if len(members) == size:
            found.append(sorted(members))
            left.difference_update(members)
    return found


def _largest_component(graph: Graph) -> int:
    """Return how many devices the largest set that links connect has; O(links)."""
    left = set(graph)
    largest = 0
    while left:
        reached = [left.pop()]
        for device in reached:
            new = left.intersection(graph[device])
            left -= new
            reached += new
        largest = max(largest, len(reached))
    return largest


def _graph(devices: Sequence[Device], links: Sequence[Link], kinds: frozenset[LinkKind]) -> Graph:
    by_id = {device.id: device for device in devices if not device.kind.divides_freely}
    graph: dict[DeviceId, dict[DeviceId, float]] = defaultdict(dict)
    for link in links:
        one, other = by_id.get(link.source), by_id.get(link.target)
        if one is None or other is None or one.id == other.id:
            continue
        if (one.kind, one.node) != (other.kind, other.node) or (kinds and link.kind not in kinds):
            continue
        bandwidth = link.bandwidth_bytes_per_s or 0.0
        for source, target in ((one.id, other.id), (other.id, one.id)):
            graph[source][target] = max(graph[source].get(target, 0.0), bandwidth)
    return graph


def _gang_unit(members: Sequence[Device]) -> LendableUnit:
    capacity = sum(device.capacity_millis for device in members)
    return LendableUnit(
        id="+".join(device.id for device in members),
        kind=members[0].kind,
        node=members[0].node,
        members=tuple(device.id for device in members),
        capacity_millis=capacity,
        step_millis=capacity,
    )


def _powers_of_two(most: int) -> list[int]:
    sizes = []
    size = 2
    while size <= most:
        sizes.append(size)
        size *= 2
    return sizes


def _size(option: bool | int | str | None) -> int | None:
    if option is None:
        return None
    if isinstance(option, bool) or not isinstance(option, int) or option < 2:
        raise ConfigError(
            Fault(
                f"found {option!r}, expected a whole number of 2 or more.",
                source="pool strategy gangs",
                field="size",
            )
        )
    return option


def _link_kinds(option: bool | int | str | None) -> frozenset[LinkKind]:
    if option is None:
        return frozenset()
    try:
        return frozenset(LinkKind(name.strip()) for name in str(option).split(","))
    except ValueError as error:
        known = ", ".join(kind.value for kind in LinkKind)
        raise ConfigError(
            Fault(
                f"{error}.",
                source="pool strategy gangs",
                field="link_kinds",
                fix=f"Known kinds: {known}.",
            )
        ) from error
