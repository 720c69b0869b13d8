"""The temperature of a socket, as the kernel's ``hwmon`` drivers tell it."""

from __future__ import annotations

from pathlib import Path

from forebay_builtin_plugins.cpu.files import read_int, read_text


def read_temperature(root: Path, socket: int, sockets: int) -> float | None:
    """Return degrees Celsius, None where no sensor is known to be this socket's.

    Intel's ``coretemp`` labels a sensor with its package. AMD's ``k10temp`` has no number,
    so ``Tctl`` is taken only where there is one socket.
    ``Documentation/hwmon/coretemp.rst`` and ``k10temp.rst`` of the kernel.

    Parameters
    ----------
    root : Path
        Where the file system begins.
    socket : int
    sockets : int
        How many there are.
    """
    wanted = {f"Package id {socket}"} | ({"Tctl"} if sockets == 1 else set())
    for label in sorted((root / "sys/class/hwmon").glob("hwmon*/temp*_label")):
        if read_text(label) in wanted:
            thousandths = read_int(label.with_name(label.name.replace("_label", "_input")))
            if thousandths is not None:
                return thousandths / 1000
    return None
