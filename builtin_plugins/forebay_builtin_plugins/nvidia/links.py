"""NVLink between GPUs, as NVML tells it from each end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

from forebay import DeviceId, Link, LinkKind
from forebay_builtin_plugins.nvidia.pci import normal_pci_address

_LINKS_MAX = 18
"""``NVML_NVLINK_MAX_LINKS`` of releases of nvidia-ml-py that do not name it."""

_RATES: Mapping[int, float] = {
    1: 20e9,  # 1.0, Pascal: NVIDIA Tesla P100 white paper
    2: 25e9,  # 2.0, Volta: NVIDIA Tesla V100 white paper
    3: 25e9,  # 2.2, Turing: NVIDIA Turing architecture white paper
    4: 25e9,  # 3.0, Ampere: NVIDIA A100 white paper
    5: 25e9,  # 3.1, which an A100 tells
    6: 25e9,  # 4.0, Hopper: NVIDIA H100 white paper
    7: 50e9,  # 5.0, Blackwell: NVIDIA Blackwell architecture brief
}
"""Bytes per second of one link in one direction, by ``nvmlNvlinkVersion_t``.

The enumeration counts 2.2 and 3.1 too, so its numbers are not the generations.
"""


@dataclass(frozen=True, slots=True)
class NvLink:
    """One active NVLink of a GPU.

    Parameters
    ----------
    peer : str
        PCI address at the other end, a GPU's or a switch's; empty when NVML does not tell.
    bandwidth_bytes_per_s : float, optional
        One direction.
    """

    peer: str
    bandwidth_bytes_per_s: float | None


def read_nvlinks(pynvml: ModuleType, handle: object) -> tuple[NvLink, ...]:
    """Return the active NVLinks of a GPU; none where it has no NVLink at all."""
    common = _common_rate(pynvml, handle)
    found = []
    for index in range(getattr(pynvml, "NVML_NVLINK_MAX_LINKS", _LINKS_MAX)):
        try:
            if not pynvml.nvmlDeviceGetNvLinkState(handle, index):
                continue
        except pynvml.NVMLError:
            # Links beyond the GPU's own are an invalid argument.
            break
        rate = common if common is not None else _version_rate(pynvml, handle, index)
        found.append(NvLink(_peer(pynvml, handle, index), rate))
    return tuple(found)


def join(nvlinks: Mapping[DeviceId, tuple[NvLink, ...]], at: Mapping[str, DeviceId]) -> list[Link]:
    """Return the direct connections among devices.

    Links that lead to a switch have no GPU at their other end, and are left out here.

    Parameters
    ----------
    nvlinks : mapping of DeviceId to tuple of NvLink
    at : mapping of str to DeviceId
        Devices by PCI address.
    """
    rates: dict[tuple[DeviceId, DeviceId], list[float | None]] = defaultdict(list)
    for device, links in nvlinks.items():
        for link in links:
            other = at.get(link.peer)
            # Each link is told from both its ends.
            if other is not None and device < other:
                rates[device, other].append(link.bandwidth_bytes_per_s)
    return [
        Link(
            *pair,
            LinkKind.NVLINK,
            bandwidth_bytes_per_s=total(of_pair),
            evidence=f"nvmlDeviceGetNvLinkRemotePciInfo: {len(of_pair)} link(s)",
        )
        for pair, of_pair in sorted(rates.items())
    ]


def total(rates: list[float | None]) -> float | None:
    """Return the sum of rates, None where there is none or one is unknown."""
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known and len(known) == len(rates) else None


def _common_rate(pynvml: ModuleType, handle: object) -> float | None:
    """Return the rate that NVML itself gives; cards of one NVLink version may differ in it."""
    try:
        (field,) = pynvml.nvmlDeviceGetFieldValues(
            handle, [pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON]
        )
    except pynvml.NVMLError:
        return None
    known = field.nvmlReturn == pynvml.NVML_SUCCESS and field.value.uiVal > 0
    return field.value.uiVal * 1e6 if known else None


def _version_rate(pynvml: ModuleType, handle: object, index: int) -> float | None:
    try:
        return _RATES.get(pynvml.nvmlDeviceGetNvLinkVersion(handle, index))
    except pynvml.NVMLError:
        return None


def _peer(pynvml: ModuleType, handle: object, index: int) -> str:
    try:
        return normal_pci_address(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, index).busId)
    except pynvml.NVMLError:
        return ""
