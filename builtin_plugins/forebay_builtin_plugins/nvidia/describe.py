"""Describes one GPU from what NVML and the kernel answer."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from forebay import (
    Alias,
    AttributeValue,
    Device,
    DeviceId,
    DeviceKind,
    FactState,
    LinkKind,
    MemoryKind,
    MemoryRegion,
    MissingFact,
)
from forebay_builtin_plugins.nvidia.health import judge
from forebay_builtin_plugins.nvidia.links import NvLink, total
from forebay_builtin_plugins.nvidia.nvml import Facts, text
from forebay_builtin_plugins.nvidia.pci import normal_pci_address, numa_node, pcie_root

_ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
"""``NVML_DEVICE_ARCH_*``."""


def describe(
    pynvml: ModuleType,
    handle: object,
    index: int,
    driver_version: str,
    nvlinks: tuple[NvLink, ...],
    root: Path,
) -> Device:
    """Return the device behind a handle.

    Raises
    ------
    NVMLError
        It has no UUID, or is lost.
    """
    uuid = text(pynvml.nvmlDeviceGetUUID(handle))
    facts = Facts(pynvml, handle)
    name = facts.ask("model", "nvmlDeviceGetName")
    capability = facts.ask("compute_capability", "nvmlDeviceGetCudaComputeCapability")
    architecture = facts.ask("architecture", "nvmlDeviceGetArchitecture")
    minor = facts.ask("driver_minor", "nvmlDeviceGetMinorNumber")
    address = _address(facts)
    aliases = [Alias("nvml_index", str(index))]
    if minor is not None:
        aliases.append(Alias("driver_minor", str(minor)))
    return Device(
        id=DeviceId(uuid),
        kind=DeviceKind.GPU,
        vendor="nvidia",
        model=text(name or ""),
        architecture=_ARCHITECTURES.get(architecture, ""),
        compute_capability=f"cuda:{capability[0]}.{capability[1]}" if capability else "",
        driver_version=driver_version,
        memory=_memory(facts),
        numa_node=_numa_node(facts, root, address),
        pci_address=address,
        pcie_root=pcie_root(root, address) if address else "",
        interconnect=_interconnect(facts),
        interconnect_bandwidth_bytes_per_s=total([link.bandwidth_bytes_per_s for link in nvlinks]),
        aliases=tuple(aliases),
        attributes=_attributes(facts, len(nvlinks)),
        health=judge(facts),
        missing=tuple(facts.missing),
    )


def _memory(facts: Facts) -> tuple[MemoryRegion, ...]:
    memory = facts.ask("memory", "nvmlDeviceGetMemoryInfo")
    if memory is None:
        return ()
    if not memory.total:
        facts.missing.append(
            MissingFact("memory", FactState.UNKNOWN, "nvmlDeviceGetMemoryInfo", "total is 0")
        )
        return ()
    # Only where the GPU's memory is a NUMA node of the host, as on Grace Hopper.
    node = facts.ask(None, "nvmlDeviceGetNumaNodeId")
    # NVML does not tell the technology.
    return (MemoryRegion(MemoryKind.UNKNOWN, int(memory.total), numa_node=node),)


def _address(facts: Facts) -> str:
    pci = facts.ask("pci_address", "nvmlDeviceGetPciInfo")
    return normal_pci_address(pci.busId) if pci else ""


def _numa_node(facts: Facts, root: Path, address: str) -> int | None:
    node = numa_node(root, address) if address else None
    if node is None:
        facts.missing.append(
            MissingFact(
                "numa_node",
                FactState.UNKNOWN,
                "sysfs numa_node",
                "the kernel knows no NUMA node for it.",
            )
        )
    return node


def _attributes(facts: Facts, nvlinks: int) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    for name, function in (
        ("pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration"),
        ("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth"),
        ("power_limit_milliwatts", "nvmlDeviceGetEnforcedPowerLimit"),
    ):
        value = facts.ask(name, function)
        if value is not None:
            found[name] = int(value)
    for name, function in (
        ("mig_enabled", "nvmlDeviceGetMigMode"),
        ("ecc_enabled", "nvmlDeviceGetEccMode"),
    ):
        modes = facts.ask(name, function)
        if modes is not None:
            # The present mode; the second is that after the next reset.
            found[name] = bool(modes[0])
    if nvlinks:
        found["nvlinks_active"] = nvlinks
    return found


def _interconnect(facts: Facts) -> tuple[LinkKind, ...]:
    state = facts.ask("nvlink", "nvmlDeviceGetNvLinkState", 0)
    return (LinkKind.PCIE,) if state is None else (LinkKind.NVLINK, LinkKind.PCIE)
