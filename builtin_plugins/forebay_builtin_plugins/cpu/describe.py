"""Describes one socket from what the kernel shows."""

from __future__ import annotations

from forebay import (
    Alias,
    AttributeValue,
    Device,
    DeviceId,
    DeviceKind,
    FactState,
    MemoryKind,
    MemoryRegion,
    MissingFact,
)
from forebay_builtin_plugins.cpu.cpulist import format_cpu_list
from forebay_builtin_plugins.cpu.topology import Socket
from forebay_builtin_plugins.cpu.view import View

_VENDORS = {
    "GenuineIntel": "intel",
    "AuthenticAMD": "amd",
    "HygonGenuine": "hygon",
    "CentaurHauls": "zhaoxin",
    "0x41": "arm",
    "0x48": "hisilicon",
    "0x4e": "nvidia",
    "0xc0": "ampere",
}
"""Vendor ids of CPUID leaf 0, and implementer codes of Arm's MIDR_EL1."""

_ISA = (
    "sse4_2", "avx", "avx2", "fma", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni",
    "avx_vnni", "amx_tile", "amx_int8", "amx_bf16", "asimd", "sve", "sve2", "bf16", "i8mm",
)  # fmt: skip
"""Features, by the kernel's names, that decide which code runs."""


def describe(view: View, socket: Socket, device_id: DeviceId, architecture: str) -> Device:
    """Return the device that a socket is."""
    facts = socket.facts
    vendor = facts.get("vendor_id") or facts.get("CPU implementer", "")
    cpus = view.allowed[socket.index]
    count = sum(len(allowed) for allowed in view.allowed.values())
    memory = _memory(view, socket)
    missing = []
    if not memory:
        missing.append(MissingFact("memory", FactState.UNKNOWN, "/proc/meminfo"))
    if socket.frequency_hz_max is None:
        missing.append(
            MissingFact(
                "frequency_hz_max",
                FactState.NOT_SUPPORTED,
                "sysfs cpufreq",
                "the kernel offers no frequency scaling here.",
            )
        )
    return Device(
        id=device_id,
        kind=DeviceKind.CPU,
        vendor=_VENDORS.get(vendor, vendor.lower()),
        model=facts.get("model name", ""),
        # Where a quota is smaller than the CPUs, sockets share it by their CPUs.
        capacity_millis=view.usable_millis * len(cpus) // count,
        architecture=architecture,
        memory=memory,
        numa_node=socket.numa_nodes[0] if len(socket.numa_nodes) == 1 else None,
        aliases=(Alias("os_cpus", format_cpu_list(cpus)), Alias("socket", str(socket.index))),
        attributes=_attributes(view, socket),
        missing=tuple(missing),
    )


def _memory(view: View, socket: Socket) -> tuple[MemoryRegion, ...]:
    """Return a region for each NUMA node of the socket; a limit shrinks all in proportion.

    The kernel does not tell the technology, nor how fast it is.
    """
    nodes = [node for node in view.numa if node.memory_bytes and node.index in socket.numa_nodes]
    if not nodes:
        # Without NUMA files the machine's memory is shared out by sockets.
        share = view.usable_memory_bytes // len(view.sockets)
        return (MemoryRegion(MemoryKind.UNKNOWN, share),) if share else ()
    total = sum(node.memory_bytes or 0 for node in view.numa)
    return tuple(
        MemoryRegion(
            MemoryKind.UNKNOWN,
            (node.memory_bytes or 0) * view.usable_memory_bytes // total,
            numa_node=node.index,
        )
        for node in nodes
    )


def _attributes(view: View, socket: Socket) -> dict[str, AttributeValue]:
    flags = (socket.facts.get("flags") or socket.facts.get("Features") or "").split()
    found: dict[str, AttributeValue] = {
        "cores": socket.cores,
        "threads": len(socket.cpus),
        "isa": " ".join(feature for feature in _ISA if feature in flags),
    }
    for cache in socket.caches:
        found[f"cache_{cache.name.lower()}_bytes"] = cache.size_bytes
        found[f"cache_{cache.name.lower()}_count"] = cache.count
    if socket.frequency_hz_max is not None:
        found["frequency_hz_max"] = socket.frequency_hz_max
    if view.limits.cpu_millis is not None:
        found["cgroup_cpu_millis"] = view.limits.cpu_millis
    if view.limits.memory_bytes is not None:
        found["cgroup_memory_bytes"] = view.limits.memory_bytes
    if view.limited_by:
        found["capacity_limited_by"] = " ".join(view.limited_by)
    return found
