"""The CPU adapter: one device a socket, of what this process may use."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from forebay import (
    MILLIS_PER_UNIT,
    Alias,
    AttributeValue,
    Device,
    DeviceAccess,
    DeviceError,
    DeviceId,
    DeviceKind,
    DeviceReport,
    Evidence,
    FactState,
    HardwareAdapter,
    Lease,
    MemoryKind,
    MemoryRegion,
    MissingFact,
    NotFoundError,
    PluginContext,
    Reading,
)
from forebay_builtin_plugins.cpu.cgroup import Limits, read_limits
from forebay_builtin_plugins.cpu.cpulist import format_cpu_list, parse_cpu_list
from forebay_builtin_plugins.cpu.files import read_text
from forebay_builtin_plugins.cpu.pins import PinRecord
from forebay_builtin_plugins.cpu.telemetry import Telemetry
from forebay_builtin_plugins.cpu.topology import (
    NumaNode,
    Socket,
    read_memory_bytes,
    read_numa,
    read_sockets,
)

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


class CpuAdapter(HardwareAdapter):
    """Finds the CPUs of this node.

    A device is one socket, with as many cores to lend as control groups and affinity leave.
    Where a quota is smaller than the CPUs that may be used, sockets share it by their CPUs.
    Its id is the node's machine id and the socket's number: the same after a reboot.

    Parameters
    ----------
    context : PluginContext
    root : Path
        Where the file system begins.
    """

    name = "cpu"

    def __init__(self, context: PluginContext, root: Path = Path("/")) -> None:
        self._context = context
        self._root = root
        self._pin = bool(context.config.get("pin", True))
        self._pins = PinRecord(Path(context.state_directory))
        self._telemetry = Telemetry(root)

    def discover(self) -> DeviceReport:
        """Describe every socket that has a CPU this process may use."""
        try:
            sockets = read_sockets(self._root)
        except (OSError, ValueError) as error:
            raise DeviceError(
                f"the kernel's description of the CPUs cannot be read: {error}.",
                fix="Check that /proc and /sys are mounted.",
            ) from error
        limits = read_limits(self._root)
        allowed = self._allowed(sockets, limits)
        count = sum(len(cpus) for cpus in allowed.values())
        lendable = count * MILLIS_PER_UNIT
        if limits.cpu_millis is not None:
            lendable = min(lendable, limits.cpu_millis)
        numa = read_numa(self._root)
        return DeviceReport(
            devices=tuple(
                self._describe(
                    socket,
                    allowed[socket.index],
                    lendable * len(allowed[socket.index]) // count,
                    self._memory(socket, sockets, numa, limits),
                    limits,
                )
                for socket in sockets
                if allowed[socket.index]
            )
        )

    def _allowed(self, sockets: Sequence[Socket], limits: Limits) -> Mapping[int, tuple[int, ...]]:
        """Return the CPUs of each socket that this process may use."""
        may_use = {cpu for socket in sockets for cpu in socket.cpus}
        if limits.cpus is not None:
            may_use &= set(limits.cpus)
        if self._root == Path("/"):
            may_use &= os.sched_getaffinity(0)
        return {
            socket.index: tuple(cpu for cpu in socket.cpus if cpu in may_use) for socket in sockets
        }

    def _memory(
        self,
        socket: Socket,
        sockets: Sequence[Socket],
        numa: Sequence[NumaNode],
        limits: Limits,
    ) -> tuple[MemoryRegion, ...]:
        """Return a region for each NUMA node of the socket; a limit shrinks all in proportion."""
        nodes = [node for node in numa if node.memory_bytes and node.index in socket.numa_nodes]
        total = sum(node.memory_bytes or 0 for node in numa)
        # Memory plugged in later may be missing from the nodes, never from the machine.
        machine = read_memory_bytes(self._root) or total
        usable = min(limits.memory_bytes or machine, machine)
        if not nodes:
            # Without NUMA files the machine's memory is shared out by sockets.
            share = usable // len(sockets)
            return (MemoryRegion(MemoryKind.DDR, share),) if share else ()
        return tuple(
            MemoryRegion(
                MemoryKind.DDR, (node.memory_bytes or 0) * usable // total, numa_node=node.index
            )
            for node in nodes
        )

    def _describe(
        self,
        socket: Socket,
        cpus: tuple[int, ...],
        capacity_millis: int,
        memory: tuple[MemoryRegion, ...],
        limits: Limits,
    ) -> Device:
        facts = socket.facts
        flags = (facts.get("flags") or facts.get("Features") or "").split()
        vendor = facts.get("vendor_id") or facts.get("CPU implementer", "")
        attributes: dict[str, AttributeValue] = {
            "cores": socket.cores,
            "threads": len(socket.cpus),
            "isa": " ".join(feature for feature in _ISA if feature in flags),
            **{f"cache_{name.lower()}_bytes": size for name, size in socket.caches.items()},
        }
        missing = []
        if socket.frequency_hz_max is not None:
            attributes["frequency_hz_max"] = socket.frequency_hz_max
        else:
            missing.append(
                MissingFact(
                    "frequency_hz_max",
                    FactState.NOT_SUPPORTED,
                    "sysfs cpufreq",
                    "the kernel offers no frequency scaling here.",
                )
            )
        if limits.cpu_millis is not None:
            attributes["cgroup_cpu_millis"] = limits.cpu_millis
        if limits.memory_bytes is not None:
            attributes["cgroup_memory_bytes"] = limits.memory_bytes
        if not memory:
            missing.append(MissingFact("memory", FactState.UNKNOWN, "/proc/meminfo"))
        return Device(
            id=self._device_id(socket),
            kind=DeviceKind.CPU,
            vendor=_VENDORS.get(vendor, vendor.lower()),
            model=facts.get("model name", ""),
            capacity_millis=capacity_millis,
            architecture=os.uname().machine if self._root == Path("/") else "",
            memory=memory,
            numa_node=socket.numa_nodes[0] if len(socket.numa_nodes) == 1 else None,
            aliases=(Alias("os_cpus", format_cpu_list(cpus)), Alias("socket", str(socket.index))),
            attributes=attributes,
            missing=tuple(missing),
        )

    def _device_id(self, socket: Socket) -> DeviceId:
        # The first twelve digits tell machines apart and stay readable.
        machine = read_text(self._root / "etc/machine-id")
        return DeviceId(f"cpu-{machine[:12] if machine else self._context.node}-{socket.index}")

    def prepare(self, lease: Lease) -> DeviceAccess:
        """Keep the lease on CPUs of its own, where there are enough.

        Affinity is advice that a process may change, so nothing is listed as enforced.
        """
        cpus_of = {device.id: device.alias("os_cpus") for device in self.discover().devices}
        draws = {
            parse_cpu_list(cpus_of[draw.device] or ""): draw.millis
            for draw in lease.draws
            if draw.device in cpus_of and draw.millis
        }
        if not self._pin or not draws:
            return DeviceAccess()
        return DeviceAccess(cpus=self._pins.pin(str(lease.id), draws))

    def release(self, lease: Lease) -> None:
        """Forget the lease's CPUs."""
        self._pins.release(str(lease.id))

    def telemetry(self, devices: Sequence[DeviceId]) -> Sequence[Reading]:
        """Read utilisation and frequency of sockets."""
        readings: list[Reading] = []
        for socket in read_sockets(self._root):
            device = self._device_id(socket)
            if device in devices:
                readings += self._telemetry.read(device, socket, time.time())
        return readings

    def probe(self, device: DeviceId) -> Sequence[Evidence]:
        """Measure one core's arithmetic and the machine's memory copy, in under a second."""
        if device not in {found.id for found in self.discover().devices}:
            raise NotFoundError(f"there is no device {device}.")
        from forebay_builtin_plugins.cpu.measure import measure

        return measure()
