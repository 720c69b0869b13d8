"""Devices and how they are linked: the physical level of the pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NewType, TypeAlias

DeviceId = NewType("DeviceId", str)
"""Stable, vendor-given identity (UUID, serial, else PCI address); never an index."""

NodeId = NewType("NodeId", str)
"""Name of a node, unique within the site."""

AttributeValue: TypeAlias = bool | int | str
"""Value of an attribute; the types that Kubernetes DRA knows, versions being strings."""

MILLIS_PER_UNIT: Final = 1000
"""Amounts are counted in thousandths of a core or device, as Kubernetes does."""


class DeviceKind(StrEnum):
    """What sort of xPU a device is."""

    CPU = "cpu"
    GPU = "gpu"
    NPU = "npu"
    DPU = "dpu"
    RDMA_NIC = "rdma_nic"
    CXL_MEMORY = "cxl_memory"
    QPU = "qpu"
    FPGA = "fpga"
    ACCELERATOR = "accelerator"
    """Any other accelerator, until it has a kind of its own."""

    @property
    def divides_freely(self) -> bool:
        """Whether one request may draw this kind from several devices in any amounts.

        True for CPUs, where the amount counts cores.
        For every other kind the amount counts devices: a part of one, or whole ones.
        """
        return self is DeviceKind.CPU


class MemoryKind(StrEnum):
    """Technology of a memory region."""

    DDR = "ddr"
    HBM = "hbm"
    GDDR = "gddr"
    UNIFIED = "unified"
    CXL = "cxl"
    SRAM = "sram"
    UNKNOWN = "unknown"


class LinkKind(StrEnum):
    """Technology of a link between two devices."""

    PCIE = "pcie"
    NVLINK = "nvlink"
    C2C = "c2c"
    XGMI = "xgmi"
    HCCS = "hccs"
    MLULINK = "mlulink"
    METAXLINK = "metaxlink"
    XELINK = "xelink"
    UALINK = "ualink"
    UPI = "upi"
    CXL = "cxl"
    INFINIBAND = "infiniband"
    ROCE = "roce"
    IWARP = "iwarp"
    ETHERNET = "ethernet"
    OTHER = "other"


class FactState(StrEnum):
    """Why a value is or is not there; missing is never zero."""

    OK = "ok"
    NOT_SUPPORTED = "not_supported"
    NOT_PERMITTED = "not_permitted"
    DRIVER_ABSENT = "driver_absent"
    LOST = "lost"
    TIMEOUT = "timeout"
    STALE = "stale"
    UNKNOWN = "unknown"


class HealthStatus(StrEnum):
    """Outcome of a health condition, after OpenTelemetry's ``hw.state``."""

    OK = "ok"
    DEGRADED = "degraded"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    """One memory of a device.

    Parameters
    ----------
    kind : MemoryKind
    capacity_bytes : int
    bandwidth_bytes_per_s : float, optional
        None when the source does not tell.
    latency_s : float, optional
    numa_node : int, optional
        NUMA node of the host that holds the region.
    shared_with : tuple of DeviceId
        Devices that use the same bytes, as in unified memory.
    """

    kind: MemoryKind
    capacity_bytes: int
    bandwidth_bytes_per_s: float | None = None
    latency_s: float | None = None
    numa_node: int | None = None
    shared_with: tuple[DeviceId, ...] = ()


@dataclass(frozen=True, slots=True)
class Port:
    """One network port of a DPU or NIC.

    Parameters
    ----------
    name : str
    link_layer : LinkKind
        INFINIBAND or ETHERNET.
    rate_bits_per_s : int, optional
    rdma : tuple of LinkKind
        RDMA protocols the port speaks: INFINIBAND, ROCE, IWARP; empty when none.
    state : str
        As the source words it, for example ``active``.
    """

    name: str
    link_layer: LinkKind
    rate_bits_per_s: int | None = None
    rdma: tuple[LinkKind, ...] = ()
    state: str = ""


@dataclass(frozen=True, slots=True)
class OffloadEngine:
    """One fixed-function engine of a DPU, for example storage or security.

    Parameters
    ----------
    name : str
        ``storage``, ``network``, ``security``, ``compression``, ``erasure``, ``regex`` or another.
    evidence : str
        The file or tool that proves it; empty when only declared.
    """

    name: str
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Alias:
    """An index or name that some tool uses for the device; it may change at any boot.

    Parameters
    ----------
    kind : str
        ``nvml_index``, ``drm_card``, ``render_node``, ``pci_address``, ``os_cpus``, ...
    value : str
    """

    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class MissingFact:
    """A fact that was asked for and not obtained, with the reason.

    Parameters
    ----------
    name : str
        Field of :class:`Device`, or attribute.
    state : FactState
        Any but OK.
    source : str
        The call, file or tool that was asked.
    detail : str
        The source's own words.
    """

    name: str
    state: FactState
    source: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class HealthCondition:
    """One statement on a device's health.

    Parameters
    ----------
    type : str
        What is judged, for example ``ecc`` or ``driver``.
    status : HealthStatus
    reason : str
        Vendor-qualified code, for example ``nvidia:xid:79``.
    message : str
    """

    type: str
    status: HealthStatus
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """One xPU as an adapter found it.

    Parameters
    ----------
    id : DeviceId
        Stable across reboots and re-enumeration.
    kind : DeviceKind
    node : NodeId
        Node the device is in; the host fills it in where the adapter leaves it empty.
    vendor : str
        Lower-case vendor name, for example ``nvidia``.
    model : str
        Product name as the vendor words it.
    capacity_millis : int
        What can be lent, in thousandths: cores for a CPU, otherwise 1000 for one device.
    architecture : str
    compute_capability : str
        Vendor-scoped, for example ``cuda:9.0`` or ``gfx942``; never compared across vendors.
    driver_version : str
    memory : tuple of MemoryRegion
    numa_node : int, optional
    pci_address : str
        ``domain:bus:device.function``; empty when not on PCI.
    pcie_root : str
        ``pci<domain>:<bus>`` as in Kubernetes DRA; empty when not on PCI.
    interconnect : tuple of LinkKind
        Link technologies the device speaks, whether or not a peer was found.
    interconnect_bandwidth_bytes_per_s : float, optional
        Sum over the device's links, one direction.
    offload_engines : tuple of OffloadEngine
    ports : tuple of Port
    aliases : tuple of Alias
    attributes : mapping of str to bool, int or str
        Further facts; a vendor's own are qualified, ``vendor.example.com/name``.
    health : tuple of HealthCondition
        Empty means that nobody looked.
    missing : tuple of MissingFact
        Facts that were asked for in vain.
    """

    id: DeviceId
    kind: DeviceKind
    node: NodeId = NodeId("")
    vendor: str = ""
    model: str = ""
    capacity_millis: int = MILLIS_PER_UNIT
    architecture: str = ""
    compute_capability: str = ""
    driver_version: str = ""
    memory: tuple[MemoryRegion, ...] = ()
    numa_node: int | None = None
    pci_address: str = ""
    pcie_root: str = ""
    interconnect: tuple[LinkKind, ...] = ()
    interconnect_bandwidth_bytes_per_s: float | None = None
    offload_engines: tuple[OffloadEngine, ...] = ()
    ports: tuple[Port, ...] = ()
    aliases: tuple[Alias, ...] = ()
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    health: tuple[HealthCondition, ...] = ()
    missing: tuple[MissingFact, ...] = ()

    @property
    def memory_bytes(self) -> int:
        """Capacity of all regions together, in bytes."""
        return sum(region.capacity_bytes for region in self.memory)

    @property
    def is_failed(self) -> bool:
        """Whether any health condition says that the device must not be used."""
        return any(condition.status is HealthStatus.FAILED for condition in self.health)

    def alias(self, kind: str) -> str | None:
        """Return the value of the first alias of that kind, or None."""
        return next((alias.value for alias in self.aliases if alias.kind == kind), None)


@dataclass(frozen=True, slots=True)
class Link:
    """A connection between two devices, in both directions.

    Parameters
    ----------
    source, target : DeviceId
    kind : LinkKind
    bandwidth_bytes_per_s : float, optional
        One direction.
    latency_s : float, optional
    hops : int
        Switches passed plus one.
    evidence : str
        Where the link was read.
    """

    source: DeviceId
    target: DeviceId
    kind: LinkKind
    bandwidth_bytes_per_s: float | None = None
    latency_s: float | None = None
    hops: int = 1
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class DiscoveryFailure:
    """A device or driver that is there and could not be read.

    Parameters
    ----------
    subject : str
        Device or library that failed, as well as it can be named.
    reason : str
        The source's own words.
    state : FactState
    fix : str
        What the operator can do.
    """

    subject: str
    reason: str
    state: FactState = FactState.UNKNOWN
    fix: str = ""


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """What one adapter found in one look.

    Absent is not broken: ``absent`` says that there is nothing of this vendor here,
    ``failures`` that something is here and could not be read.

    Parameters
    ----------
    devices : tuple of Device
    links : tuple of Link
    failures : tuple of DiscoveryFailure
        A failed device never hides the others.
    absent : str
        Why there is nothing to find; empty when there is something.
    """

    devices: tuple[Device, ...] = ()
    links: tuple[Link, ...] = ()
    failures: tuple[DiscoveryFailure, ...] = ()
    absent: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """One telemetry value with its state.

    Parameters
    ----------
    device : DeviceId
    name : str
        OpenTelemetry name, for example ``hw.power``; ``forebay.hw.*`` where none exists.
    state : FactState
    value : float, optional
        None unless the state is OK or STALE.
    unit : str
        UCUM, for example ``W``, ``By``, ``1``.
    time_s : float
        When it was read, seconds since the epoch.
    source : str
    """

    device: DeviceId
    name: str
    state: FactState
    value: float | None = None
    unit: str = ""
    time_s: float = 0.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine that an engine can run work on.

    Parameters
    ----------
    id : NodeId
    labels : mapping of str to str
        What node selection matches; includes ``hostname``.
    """

    id: NodeId
    labels: Mapping[str, str] = field(default_factory=dict)
