"""The NVIDIA adapter."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from forebay import (
    Device,
    DeviceAccess,
    DeviceHealth,
    DeviceId,
    DeviceLostError,
    DeviceReport,
    DiscoveryFailure,
    FactState,
    HardwareAdapter,
    HealthCondition,
    Lease,
    Reading,
)
from forebay_builtin_plugins.nvidia.describe import describe
from forebay_builtin_plugins.nvidia.health import LOST, MEANINGS, judge, judge_unreadable
from forebay_builtin_plugins.nvidia.links import NvLink, join, read_nvlinks
from forebay_builtin_plugins.nvidia.nvml import (
    Facts,
    NvmlUnavailableError,
    module_version,
    session,
    state_by_uuid,
    state_of,
    text,
)
from forebay_builtin_plugins.nvidia.pci import find_cards
from forebay_builtin_plugins.nvidia.telemetry import read, read_nothing

_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""NVML's form; ids of other vendors may begin with ``GPU-`` too."""


class NvidiaAdapter(HardwareAdapter):
    """Finds NVIDIA GPUs.

    A GPU is known by its UUID; its NVML index is an alias, read anew whenever it is needed.

    Parameters
    ----------
    root : Path
        Where the file system begins.
    """

    name = "nvidia"

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def discover(self) -> DeviceReport:
        """Describe every GPU; a lost one is a failure of its own and hides no other."""
        try:
            with session(self._root) as pynvml:
                return self._discover(pynvml)
        except NvmlUnavailableError as error:
            cards = find_cards(self._root)
            # In a container the module may be in sight where PCI is not.
            present = cards or module_version(self._root)
            if error.state is FactState.DRIVER_ABSENT and not present:
                return DeviceReport(absent=f"there is no NVIDIA GPU on PCI, and {error}")
            subject = ", ".join(cards) or "NVIDIA driver"
            return DeviceReport(
                failures=(DiscoveryFailure(subject, str(error), error.state, error.fix),)
            )

    def _discover(self, pynvml: ModuleType) -> DeviceReport:
        driver_version = text(pynvml.nvmlSystemGetDriverVersion())
        devices: dict[DeviceId, Device] = {}
        nvlinks: dict[DeviceId, tuple[NvLink, ...]] = {}
        failures: list[DiscoveryFailure] = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                links = read_nvlinks(pynvml, handle)
                device = describe(pynvml, handle, index, driver_version, links, self._root)
            except pynvml.NVMLError as error:
                failures.append(
                    DiscoveryFailure(
                        f"GPU with NVML index {index}",
                        f"{error}.",
                        state_of(pynvml, error),
                        "Look for its Xid in the kernel's log, then reset it or reboot.",
                    )
                )
                continue
            devices[device.id] = device
            nvlinks[device.id] = links
        at = {device.pci_address: device.id for device in devices.values() if device.pci_address}
        return DeviceReport(
            devices=tuple(devices.values()),
            links=tuple(join(nvlinks, at)),
            failures=tuple(failures),
            absent="" if devices or failures else "the NVIDIA driver manages no GPU.",
        )

    def prepare(self, lease: Lease) -> DeviceAccess:
        """Name the lease's GPUs by UUID, and the device nodes that they have now.

        The variables are advice that a process may ignore, so nothing is listed as enforced.

        Raises
        ------
        DeviceLostError
            One of them is gone.
        NvmlUnavailableError
            The driver cannot be asked.
        """
        drawn = [draw.device for draw in lease.draws if _UUID.fullmatch(draw.device)]
        with session(self._root) as pynvml:
            found = {device.id: device for device in self._discover(pynvml).devices}
        if lost := [device for device in drawn if device not in found]:
            raise DeviceLostError(
                f"{', '.join(lost)}: the driver no longer knows it.", fix=MEANINGS[LOST]
            )
        minors = [found[device].alias("driver_minor") for device in drawn]
        uuids = ",".join(drawn)
        return DeviceAccess(
            environment={"CUDA_VISIBLE_DEVICES": uuids, "NVIDIA_VISIBLE_DEVICES": uuids},
            device_nodes=(
                "/dev/nvidiactl",
                "/dev/nvidia-uvm",
                *(f"/dev/nvidia{minor}" for minor in minors if minor is not None),
            ),
        )

    def telemetry(self, devices: Sequence[DeviceId]) -> Sequence[Reading]:
        """Read utilisation, memory, power and temperature, each with its state."""
        now_s = time.time()
        try:
            with session(self._root) as pynvml:
                return [reading for device in devices for reading in read(pynvml, device, now_s)]
        except NvmlUnavailableError as error:
            return [
                reading
                for device in devices
                for reading in read_nothing(device, error.state, now_s)
            ]

    def health(self, devices: Sequence[DeviceId]) -> Sequence[DeviceHealth]:
        """Judge GPUs by their memory's error counters; one that is lost has failed.

        Raises
        ------
        NvmlUnavailableError
            The driver cannot be asked, which says nothing of the GPUs.
        """
        with session(self._root) as pynvml:
            return [DeviceHealth(device, _judge(pynvml, device)) for device in devices]

    def explain(self, reason: str) -> str:
        """Tell what a reason of :meth:`health` means."""
        return MEANINGS.get(reason, "")


def _judge(pynvml: ModuleType, device: DeviceId) -> tuple[HealthCondition, ...]:
    try:
        return judge(Facts(pynvml, pynvml.nvmlDeviceGetHandleByUUID(device)))
    except pynvml.NVMLError as error:
        return (judge_unreadable(state_by_uuid(pynvml, error), str(error)),)
