"""The NVIDIA adapter."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from forebay import (
    Device,
    DeviceAccess,
    DeviceId,
    DeviceLostError,
    DeviceReport,
    DiscoveryFailure,
    FactState,
    HardwareAdapter,
    Lease,
    Reading,
)
from forebay_builtin_plugins.nvidia.describe import describe
from forebay_builtin_plugins.nvidia.links import read_links
from forebay_builtin_plugins.nvidia.nvml import NvmlUnavailableError, session, state_of

VENDOR = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA-compatible and 3D controllers (PCI Code and ID Assignment Specification)."""


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
            with session() as pynvml:
                return self._discover(pynvml)
        except NvmlUnavailableError as error:
            cards = self._pci_cards()
            if error.state is FactState.DRIVER_ABSENT and not cards:
                return DeviceReport(absent=f"there is no NVIDIA GPU on PCI, and {error}")
            subject = ", ".join(cards) or "NVIDIA driver"
            return DeviceReport(
                failures=(DiscoveryFailure(subject, str(error), error.state, error.fix),)
            )

    def _discover(self, pynvml: ModuleType) -> DeviceReport:
        driver_version = pynvml.nvmlSystemGetDriverVersion()
        if isinstance(driver_version, bytes):
            driver_version = driver_version.decode()
        devices: dict[str, Device] = {}
        handles: dict[str, object] = {}
        failures: list[DiscoveryFailure] = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                device = describe(pynvml, handle, index, driver_version)
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
            handles[device.id] = handle
        return DeviceReport(
            devices=tuple(devices.values()),
            links=read_links(pynvml, handles, devices),
            failures=tuple(failures),
            absent="" if devices or failures else "the NVIDIA driver manages no GPU.",
        )

    def _pci_cards(self) -> list[str]:
        """Return the PCI addresses of NVIDIA's display controllers."""
        found = []
        for function in sorted((self._root / "sys/bus/pci/devices").glob("*")):
            try:
                vendor = (function / "vendor").read_text().strip()
                class_ = (function / "class").read_text().strip()
            except OSError:
                continue
            if vendor == VENDOR and class_.startswith(DISPLAY_CLASSES):
                found.append(function.name)
        return found

    def prepare(self, lease: Lease) -> DeviceAccess:
        """Name the lease's GPUs by UUID, and the device nodes that they have now.

        The variables are advice that a process may ignore, so nothing is listed as enforced.

        Raises
        ------
        DeviceLostError
            One of them is gone.
        """
        with session() as pynvml:
            mine = {
                device.id: device
                for device in self._discover(pynvml).devices
                if any(draw.device == device.id for draw in lease.draws)
            }
        drawn = [draw.device for draw in lease.draws if draw.device.startswith("GPU-")]
        if lost := [device for device in drawn if device not in mine]:
            raise DeviceLostError(f"{', '.join(lost)}: the driver no longer knows it.")
        minors = [device.alias("driver_minor") for device in mine.values()]
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
        with session() as pynvml:
            return [reading for device in devices for reading in self._readings(pynvml, device)]

    def _readings(self, pynvml: ModuleType, device: DeviceId) -> list[Reading]:
        now_s = time.time()
        readings = []
        for name, unit, function, arguments, scale in (
            ("hw.gpu.utilization", "1", "nvmlDeviceGetUtilizationRates", (), 0.01),
            ("hw.gpu.memory.usage", "By", "nvmlDeviceGetMemoryInfo", (), 1.0),
            ("hw.power", "W", "nvmlDeviceGetPowerUsage", (), 0.001),
            ("hw.temperature", "Cel", "nvmlDeviceGetTemperature", (0,), 1.0),
        ):
            try:
                handle = pynvml.nvmlDeviceGetHandleByUUID(device)
                answer = getattr(pynvml, function)(handle, *arguments)
            except pynvml.NVMLError as error:
                state = state_of(pynvml, error)
                readings.append(Reading(device, name, state, None, unit, now_s, function))
                continue
            value = getattr(answer, {"1": "gpu", "By": "used"}.get(unit, ""), answer)
            readings.append(
                Reading(device, name, FactState.OK, float(value) * scale, unit, now_s, function)
            )
        return readings
