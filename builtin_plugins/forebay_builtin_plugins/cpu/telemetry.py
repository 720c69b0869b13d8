"""Utilisation, frequency and temperature of a socket, by OpenTelemetry's names."""

from __future__ import annotations

from pathlib import Path

from forebay import DeviceId, FactState, Reading
from forebay_builtin_plugins.cpu.files import read_int, read_text
from forebay_builtin_plugins.cpu.temperature import read_temperature
from forebay_builtin_plugins.cpu.topology import Socket


class Telemetry:
    """Reads counters and remembers them, since utilisation is a difference.

    Parameters
    ----------
    root : Path
        Where the file system begins.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._before: dict[DeviceId, tuple[int, int]] = {}

    def read(self, device: DeviceId, socket: Socket, sockets: int, time_s: float) -> list[Reading]:
        """Return the readings of one socket of several."""
        return [
            self._utilization(device, socket, time_s),
            self._frequency(device, socket, time_s),
            self._temperature(device, socket, sockets, time_s),
        ]

    def _utilization(self, device: DeviceId, socket: Socket, time_s: float) -> Reading:
        """Return the share of time that was not idle since the last reading (proc(5), stat)."""
        busy = total = 0
        for line in (read_text(self._root / "proc/stat") or "").splitlines():
            name, *fields = line.split()
            if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in socket.cpus:
                ticks = [int(field) for field in fields[:8]]
                total += sum(ticks)
                busy += sum(ticks) - ticks[3] - ticks[4]
        before = self._before.get(device)
        self._before[device] = (busy, total)
        value = None
        # The first reading has nothing to differ from. Idle and iowait may go back,
        # as proc(5) warns, and counters of a CPU that goes offline vanish: then no share is known.
        if before is not None and total > before[1] and 0 <= busy - before[0] <= total - before[1]:
            value = (busy - before[0]) / (total - before[1])
        return Reading(
            device,
            "hw.cpu.utilization",
            FactState.UNKNOWN if value is None else FactState.OK,
            value,
            "1",
            time_s,
            "/proc/stat",
        )

    def _frequency(self, device: DeviceId, socket: Socket, time_s: float) -> Reading:
        base = self._root / "sys/devices/system/cpu"
        khz = [read_int(base / f"cpu{cpu}/cpufreq/scaling_cur_freq") for cpu in socket.cpus]
        known = [value for value in khz if value is not None]
        value, source = socket.frequency_hz, "/proc/cpuinfo"
        if known:
            value, source = 1000 * sum(known) / len(known), "sysfs cpufreq"
        state = FactState.NOT_SUPPORTED if value is None else FactState.OK
        return Reading(device, "hw.cpu.speed", state, value, "Hz", time_s, source)

    def _temperature(
        self, device: DeviceId, socket: Socket, sockets: int, time_s: float
    ) -> Reading:
        value = read_temperature(self._root, socket.index, sockets)
        state = FactState.NOT_SUPPORTED if value is None else FactState.OK
        return Reading(device, "hw.temperature", state, value, "Cel", time_s, "sysfs hwmon")
