"""Devices to a document and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forebay.descriptor.model import API_VERSION, KIND, Descriptor, DevicePart, load_descriptor
from forebay.device import (
    Alias,
    AttributeValue,
    Device,
    DeviceId,
    DeviceReport,
    HealthCondition,
    Link,
    MemoryRegion,
    MissingFact,
    NodeId,
    OffloadEngine,
    Port,
)
from forebay.units import Dimension, format_quantity


def to_device_report(descriptor: Descriptor) -> DeviceReport:
    """Return the devices and links of a document."""
    return DeviceReport(
        devices=tuple(_to_device(part, descriptor.node) for part in descriptor.devices),
        links=tuple(
            Link(
                DeviceId(part.source),
                DeviceId(part.target),
                part.kind,
                part.bandwidth,
                part.latency,
                part.hops,
                part.evidence,
            )
            for part in descriptor.links
        ),
    )


def _to_device(part: DevicePart, node: str) -> Device:
    return Device(
        id=DeviceId(part.id),
        kind=part.type,
        node=NodeId(part.node or node),
        vendor=part.vendor,
        model=part.model,
        capacity_millis=part.capacity_millis,
        architecture=part.architecture,
        compute_capability=part.compute_capability,
        driver_version=part.driver_version,
        memory=tuple(
            MemoryRegion(
                region.kind,
                region.capacity,
                region.bandwidth,
                region.latency,
                region.numa_node,
                tuple(DeviceId(other) for other in region.shared_with),
            )
            for region in part.memory
        ),
        numa_node=part.numa_node,
        pci_address=part.pci_address,
        pcie_root=part.pcie_root,
        interconnect=tuple(part.interconnect.kinds),
        interconnect_bandwidth_bytes_per_s=part.interconnect.bandwidth,
        offload_engines=tuple(OffloadEngine(e.name, e.evidence) for e in part.offload_engines),
        ports=tuple(
            Port(port.name, port.link_layer, port.rate, tuple(port.rdma), port.state)
            for port in part.ports
        ),
        aliases=tuple(Alias(alias.kind, alias.value) for alias in part.aliases),
        attributes=dict(part.attributes),
        health=tuple(HealthCondition(h.type, h.status, h.reason, h.message) for h in part.health),
        missing=tuple(MissingFact(m.name, m.state, m.source, m.detail) for m in part.missing),
    )


def to_document(devices: Sequence[Device], links: Sequence[Link] = ()) -> dict[str, Any]:
    """Return the document of devices and links as plain data; fields at their default are left out.

    Raises
    ------
    DescriptorError
        A device holds what the document cannot say, such as an attribute's name out of the rules.
    """
    nodes = {device.node for device in devices}
    node = nodes.pop() if len(nodes) == 1 else ""
    document: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    if node:
        document["node"] = node
    document["devices"] = [_pruned(_from_device(device, node)) for device in devices]
    if links:
        document["links"] = [
            _pruned(
                {
                    "source": link.source,
                    "target": link.target,
                    "kind": link.kind.value,
                    "bandwidth": _rate(link.bandwidth_bytes_per_s),
                    "latency": _duration(link.latency_s),
                    "hops": link.hops,
                    "evidence": link.evidence,
                }
            )
            for link in links
        ]
    load_descriptor(document)
    return document


def _from_device(device: Device, node: str) -> dict[str, Any]:
    attributes: dict[str, AttributeValue] = dict(device.attributes)
    return {
        "id": device.id,
        "type": device.kind.value,
        "node": "" if device.node == node else device.node,
        "vendor": device.vendor,
        "model": device.model,
        "capacityMillis": device.capacity_millis,
        "architecture": device.architecture,
        "computeCapability": device.compute_capability,
        "driverVersion": device.driver_version,
        "memory": [
            _pruned(
                {
                    "kind": region.kind.value,
                    "capacity": format_quantity(
                        region.capacity_bytes, Dimension.BYTES, binary=True, exact=True
                    ),
                    "bandwidth": _rate(region.bandwidth_bytes_per_s),
                    "latency": _duration(region.latency_s),
                    "numaNode": region.numa_node,
                    "sharedWith": list(region.shared_with),
                }
            )
            for region in device.memory
        ],
        "numaNode": device.numa_node,
        "pciAddress": device.pci_address,
        "pcieRoot": device.pcie_root,
        "interconnect": _pruned(
            {
                "kinds": [kind.value for kind in device.interconnect],
                "bandwidth": _rate(device.interconnect_bandwidth_bytes_per_s),
            }
        ),
        "offloadEngines": [
            _pruned({"name": engine.name, "evidence": engine.evidence})
            for engine in device.offload_engines
        ],
        "ports": [
            _pruned(
                {
                    "name": port.name,
                    "linkLayer": port.link_layer.value,
                    "rate": None
                    if port.rate_bits_per_s is None
                    else format_quantity(port.rate_bits_per_s, Dimension.BITS_PER_S, exact=True),
                    "rdma": [kind.value for kind in port.rdma],
                    "state": port.state,
                }
            )
            for port in device.ports
        ],
        "aliases": [{"kind": alias.kind, "value": alias.value} for alias in device.aliases],
        "attributes": attributes,
        "health": [
            _pruned(
                {"type": h.type, "status": h.status.value, "reason": h.reason, "message": h.message}
            )
            for h in device.health
        ],
        "missing": [
            _pruned(
                {"name": m.name, "state": m.state.value, "source": m.source, "detail": m.detail}
            )
            for m in device.missing
        ],
    }


def _rate(value: float | None) -> str | None:
    return None if value is None else format_quantity(value, Dimension.BYTES_PER_S, exact=True)


def _duration(value: float | None) -> str | None:
    return None if value is None else format_quantity(value, Dimension.SECONDS, exact=True)


_ALWAYS = {"name", "kind", "value", "type", "state", "status", "capacity", "source", "target", "id"}


def _pruned(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is empty, save the fields that every part must have."""
    return {
        name: value
        for name, value in fields.items()
        if (name in _ALWAYS and value is not None) or value not in (None, "", [], {})
    }
