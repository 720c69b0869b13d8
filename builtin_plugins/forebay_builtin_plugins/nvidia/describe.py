"""Describes one GPU from what NVML answers."""

from __future__ import annotations

from types import ModuleType

from forebay import (
    Alias,
    AttributeValue,
    Device,
    DeviceId,
    DeviceKind,
    LinkKind,
    MemoryKind,
    MemoryRegion,
)
from forebay_builtin_plugins.nvidia.nvml import Facts

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
}
"""``NVML_DEVICE_ARCH_*``."""

NVLINK_LINKS_MAX = 18
"""``NVML_NVLINK_MAX_LINKS``."""


def describe(pynvml: ModuleType, handle: object, index: int, driver_version: str) -> Device:
    """Return the device behind a handle.

    Raises
    ------
    NVMLError
        It has no UUID, or is lost.
    """
    uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
    facts = Facts(pynvml, handle)
    name = facts.ask("model", "nvmlDeviceGetName")
    capability = facts.ask("compute_capability", "nvmlDeviceGetCudaComputeCapability")
    architecture = facts.ask("architecture", "nvmlDeviceGetArchitecture")
    memory = facts.ask("memory", "nvmlDeviceGetMemoryInfo")
    pci = facts.ask("pci_address", "nvmlDeviceGetPciInfo")
    minor = facts.ask("minor_number", "nvmlDeviceGetMinorNumber")
    numa = facts.ask("numa_node", "nvmlDeviceGetNumaNodeId")
    aliases = [Alias("nvml_index", str(index))]
    if minor is not None:
        aliases.append(Alias("driver_minor", str(minor)))
    return Device(
        id=DeviceId(uuid),
        kind=DeviceKind.GPU,
        vendor="nvidia",
        model=_text(name or ""),
        architecture=_ARCHITECTURES.get(architecture, ""),
        compute_capability=f"cuda:{capability[0]}.{capability[1]}" if capability else "",
        driver_version=driver_version,
        memory=(
            # NVML does not tell the technology.
            (MemoryRegion(MemoryKind.UNKNOWN, int(memory.total)),) if memory else ()
        ),
        numa_node=numa if isinstance(numa, int) and 0 <= numa < 1 << 16 else None,
        pci_address=normal_pci_address(pci.busId) if pci else "",
        interconnect=_interconnect(facts),
        aliases=tuple(aliases),
        attributes=_attributes(facts),
        missing=tuple(facts.missing),
    )


def _attributes(facts: Facts) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    for name, function in (
        ("pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration"),
        ("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth"),
    ):
        value = facts.ask(name, function)
        if value is not None:
            found[name] = int(value)
    limit_milliwatts = facts.ask("power_limit_milliwatts", "nvmlDeviceGetEnforcedPowerLimit")
    if limit_milliwatts is not None:
        found["power_limit_milliwatts"] = int(limit_milliwatts)
    mig = facts.ask("mig_enabled", "nvmlDeviceGetMigMode")
    if mig is not None:
        found["mig_enabled"] = bool(mig[0])
    ecc = facts.ask("ecc_enabled", "nvmlDeviceGetEccMode")
    if ecc is not None:
        found["ecc_enabled"] = bool(ecc[0])
    return found


def _interconnect(facts: Facts) -> tuple[LinkKind, ...]:
    state = facts.ask("nvlink", "nvmlDeviceGetNvLinkState", 0)
    return (LinkKind.PCIE,) if state is None else (LinkKind.NVLINK, LinkKind.PCIE)


def _text(value: str | bytes) -> str:
    # Older releases of nvidia-ml-py return bytes.
    return value.decode() if isinstance(value, bytes) else value


def normal_pci_address(bus_id: str | bytes) -> str:
    """Return ``dddd:bb:dd.f``; NVML writes eight digits of domain, in capitals."""
    domain, _, rest = _text(bus_id).lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"
