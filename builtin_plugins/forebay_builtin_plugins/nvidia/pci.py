"""What the kernel tells of GPUs on PCI, whether or not NVIDIA's driver is there.

``Documentation/ABI/testing/sysfs-bus-pci`` of the kernel says what the files mean.
"""

from __future__ import annotations

from pathlib import Path

VENDOR = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA-compatible and 3D controllers (PCI Code and ID Assignment Specification)."""


def normal_pci_address(bus_id: str | bytes) -> str:
    """Return ``dddd:bb:dd.f``; NVML writes eight digits of domain, in capitals."""
    # Older releases of nvidia-ml-py return bytes.
    text = bus_id.decode() if isinstance(bus_id, bytes) else bus_id
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def find_cards(root: Path) -> list[str]:
    """Return the PCI addresses of NVIDIA's display controllers, in order.

    Parameters
    ----------
    root : Path
        Where the file system begins.
    """
    found = []
    for function in sorted((root / "sys/bus/pci/devices").glob("*")):
        vendor, class_ = (_read(function / name) for name in ("vendor", "class"))
        if vendor == VENDOR and class_.startswith(DISPLAY_CLASSES):
            found.append(function.name)
    return found


def numa_node(root: Path, address: str) -> int | None:
    """Return the NUMA node of the host that a PCI function is nearest to.

    None where the kernel does not know, which it writes as -1.
    """
    text = _read(root / "sys/bus/pci/devices" / address / "numa_node")
    return int(text) if text.isdigit() else None


def pcie_root(root: Path, address: str) -> str:
    """Return ``pci<domain>:<bus>`` of a PCI function's root complex, empty if unknown."""
    function = (root / "sys/bus/pci/devices" / address).resolve()
    return next((part for part in function.parts if part.startswith("pci0")), "")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
