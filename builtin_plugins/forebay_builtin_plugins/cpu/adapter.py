"""The CPU adapter: one device a socket, of what this process may use."""

from __future__ import annotations

import hmac
import os
import time
from collections.abc import Sequence
from pathlib import Path

from forebay import (
    DeviceAccess,
    DeviceId,
    DeviceReport,
    DiscoveryFailure,
    Evidence,
    HardwareAdapter,
    Lease,
    NotFoundError,
    PluginContext,
    Reading,
)
from forebay_builtin_plugins.cpu.describe import describe
from forebay_builtin_plugins.cpu.files import read_text
from forebay_builtin_plugins.cpu.pins import PinRecord
from forebay_builtin_plugins.cpu.telemetry import Telemetry
from forebay_builtin_plugins.cpu.topology import Socket, read_sockets
from forebay_builtin_plugins.cpu.view import look


class CpuAdapter(HardwareAdapter):
    """Finds the CPUs of this node.

    A device is one socket, with as many cores to lend as control groups and affinity leave.
    A core to lend is a CPU of the operating system: a hardware thread where cores have several.
    Where a quota is smaller than the CPUs that may be used, sockets share it by their CPUs.
    Its id comes of the node's machine id and the socket's number: the same after a reboot.

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
        view = look(self._root)
        sockets = [socket for socket in view.sockets if view.allowed[socket.index]]
        if not sockets:
            fences = " and ".join(view.limited_by)
            return DeviceReport(
                failures=(
                    DiscoveryFailure(
                        "CPUs",
                        f"{fences} leaves this process no CPU that is online.",
                        fix="Widen the cpuset of its control group.",
                    ),
                )
            )
        # Recorded files do not say which machine they were read on.
        architecture = os.uname().machine if self._root == Path("/") else ""
        return DeviceReport(
            devices=tuple(
                describe(view, socket, self._device_id(socket), architecture) for socket in sockets
            )
        )

    def _device_id(self, socket: Socket) -> DeviceId:
        # machine-id(5) asks that the id itself be shown to nobody, nor a part of it.
        machine = read_text(self._root / "etc/machine-id")
        if not machine:
            return DeviceId(f"cpu-{self._context.node}-{socket.index}")
        hashed = hmac.digest(machine.encode(), b"forebay cpu", "sha256").hex()
        # Twelve digits tell machines apart and stay readable.
        return DeviceId(f"cpu-{hashed[:12]}-{socket.index}")

    def prepare(self, lease: Lease) -> DeviceAccess:
        """Keep the lease on CPUs that no other lease is kept on, where there are enough.

        Affinity is advice that a process may change, so nothing is listed as enforced.
        """
        if not self._pin:
            return DeviceAccess()
        view = look(self._root)
        groups = {self._device_id(socket): view.by_numa(socket) for socket in view.sockets}
        draws = [
            (draw.millis, groups[draw.device])
            for draw in lease.draws
            if draw.millis and groups.get(draw.device)
        ]
        return DeviceAccess(cpus=self._pins.pin(str(lease.id), draws)) if draws else DeviceAccess()

    def release(self, lease: Lease) -> None:
        """Forget the lease's CPUs."""
        self._pins.release(str(lease.id))

    def telemetry(self, devices: Sequence[DeviceId]) -> Sequence[Reading]:
        """Read utilisation, frequency and temperature of sockets, each with its state."""
        readings: list[Reading] = []
        sockets = read_sockets(self._root)
        for socket in sockets:
            device = self._device_id(socket)
            if device in devices:
                readings += self._telemetry.read(device, socket, len(sockets), time.time())
        return readings

    def probe(self, device: DeviceId) -> Sequence[Evidence]:
        """Measure one core's arithmetic and the machine's memory copy, in under a second."""
        if device not in {found.id for found in self.discover().devices}:
            raise NotFoundError(f"there is no device {device}.")
        from forebay_builtin_plugins.cpu.measure import measure

        return measure()
