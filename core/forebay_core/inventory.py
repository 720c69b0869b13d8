"""The inventory: what all adapters together found, in one look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from forebay import (
    Device,
    DeviceId,
    DiscoveryFailure,
    Engine,
    ForebayError,
    HardwareAdapter,
    HealthCondition,
    HealthStatus,
    Link,
    Node,
    NodeId,
)
from forebay_core.plugins import Offered


@dataclass(frozen=True, slots=True)
class Inventory:
    """The physical level of the pool.

    Parameters
    ----------
    nodes : tuple of Node
        In order of id.
    devices : tuple of Device
        In order of id.
    links : tuple of Link
        Both ends are among ``devices``.
    adapters : mapping of DeviceId to str
        Name of the adapter that reported each device.
    failures : tuple of (str, DiscoveryFailure)
        What is there and could not be read, by plugin.
    absent : tuple of (str, str)
        Plugins that found nothing of theirs, with the reason.
    """

    nodes: tuple[Node, ...] = ()
    devices: tuple[Device, ...] = ()
    links: tuple[Link, ...] = ()
    adapters: Mapping[DeviceId, str] = field(default_factory=dict)
    failures: tuple[tuple[str, DiscoveryFailure], ...] = ()
    absent: tuple[tuple[str, str], ...] = ()


def discover(
    adapters: Sequence[Offered[HardwareAdapter]],
    engines: Sequence[Offered[Engine]],
    node: NodeId,
    known: Mapping[str, Sequence[Device]] = MappingProxyType({}),
) -> Inventory:
    """Ask every adapter for its devices and every engine for its nodes.

    What one of them does wrong costs what it offers and no more.
    An adapter that does not answer says nothing of its devices: those known stay in the
    inventory, as failed, so that nothing new is placed on them and nothing on them is forgotten.

    Parameters
    ----------
    adapters : sequence of Offered
    engines : sequence of Offered
    node : NodeId
        This node; devices whose adapter names none are here.
    known : mapping of str to sequence of Device
        Devices that each adapter reported before.
    """
    nodes = {node: Node(node, {"hostname": node})}
    failures: list[tuple[str, DiscoveryFailure]] = []
    for engine in engines:
        try:
            nodes.update({found.id: found for found in engine.object.nodes()})
        except ForebayError as error:
            failures.append((engine.plugin, _failure(engine.name, error)))
    devices: dict[DeviceId, Device] = {}
    links: list[Link] = []
    owners: dict[DeviceId, str] = {}
    absent: list[tuple[str, str]] = []
    for offered in adapters:
        try:
            report = offered.object.discover()
        except ForebayError as error:
            failures.append((offered.plugin, _failure(offered.name, error)))
            for device in known.get(offered.name, ()):
                devices[device.id] = replace(device, health=(_silence(error),))
                owners[device.id] = offered.name
            continue
        failures += [(offered.plugin, failure) for failure in report.failures]
        if report.absent:
            absent.append((offered.plugin, report.absent))
        for device in report.devices:
            fault = _fault(device, nodes, owners.get(device.id))
            if fault:
                failures.append((offered.plugin, DiscoveryFailure(str(device.id), fault)))
                continue
            devices[device.id] = device if device.node else replace(device, node=node)
            owners[device.id] = offered.name
        links += report.links
    return Inventory(
        nodes=tuple(nodes[id_] for id_ in sorted(nodes)),
        devices=tuple(devices[id_] for id_ in sorted(devices)),
        links=tuple(link for link in links if link.source in devices and link.target in devices),
        adapters=owners,
        failures=tuple(failures),
        absent=tuple(absent),
    )


def _fault(device: Device, nodes: Mapping[NodeId, Node], owner: str | None) -> str:
    """Return what makes a reported device unusable, empty when nothing does."""
    if not device.id:
        return "the device has no id."
    if owner is not None:
        return f"the same device was already reported by adapter {owner}."
    if device.node and device.node not in nodes:
        return f"the device is on node {device.node}, which no engine can reach."
    if device.capacity_millis < 0 or device.memory_bytes < 0:
        return "the device has a negative capacity."
    return ""


def _silence(error: ForebayError) -> HealthCondition:
    return HealthCondition(
        "adapter", HealthStatus.FAILED, "forebay:adapter-silent", str(error)[:200]
    )


def _failure(subject: str, error: ForebayError) -> DiscoveryFailure:
    return DiscoveryFailure(subject, str(error), fix=error.fix)
