"""NVLink between GPUs, as NVML tells it from each end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import ModuleType

from forebay import Device, Link, LinkKind
from forebay_builtin_plugins.nvidia.describe import NVLINK_LINKS_MAX, normal_pci_address

BANDWIDTH_BYTES_PER_S: Mapping[int, float] = {
    1: 20e9,  # Pascal: NVIDIA Tesla P100 white paper, 20 GB/s a link and direction
    2: 25e9,  # Volta: NVIDIA Tesla V100 white paper
    3: 25e9,  # Ampere: NVIDIA A100 white paper
    4: 25e9,  # Hopper: NVIDIA H100 white paper
    5: 50e9,  # Blackwell: NVIDIA Blackwell architecture brief
}
"""One direction of one link, by NVLink version."""


def read_links(
    pynvml: ModuleType, handles: Mapping[str, object], devices: Mapping[str, Device]
) -> tuple[Link, ...]:
    """Return the direct NVLink connections among the devices.

    Links that lead to a switch have no GPU at their other end, and are left out here.

    Parameters
    ----------
    pynvml : module
    handles : mapping of str to object
        NVML's handles by UUID.
    devices : mapping of str to Device
    """
    by_address = {device.pci_address: uuid for uuid, device in devices.items()}
    counts: Counter[tuple[str, str]] = Counter()
    versions: dict[tuple[str, str], int] = {}
    for uuid, handle in handles.items():
        for index in range(NVLINK_LINKS_MAX):
            peer = _peer(pynvml, handle, index)
            other = None if peer is None else by_address.get(peer)
            if other is not None and uuid < other:
                pair = (uuid, other)
                counts[pair] += 1
                versions[pair] = _version(pynvml, handle, index)
    return tuple(
        Link(
            devices[one].id,
            devices[other].id,
            LinkKind.NVLINK,
            bandwidth_bytes_per_s=(
                None
                if (rate := BANDWIDTH_BYTES_PER_S.get(versions[one, other])) is None
                else rate * count
            ),
            evidence=f"nvmlDeviceGetNvLinkRemotePciInfo: {count} link(s)",
        )
        for (one, other), count in sorted(counts.items())
    )


def _peer(pynvml: ModuleType, handle: object, index: int) -> str | None:
    """Return the PCI address at the other end of an active link, None if there is none."""
    try:
        if not pynvml.nvmlDeviceGetNvLinkState(handle, index):
            return None
        return normal_pci_address(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, index).busId)
    except pynvml.NVMLError:
        return None


def _version(pynvml: ModuleType, handle: object, index: int) -> int:
    try:
        return int(pynvml.nvmlDeviceGetNvLinkVersion(handle, index))
    except pynvml.NVMLError:
        return 0
