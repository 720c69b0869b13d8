"""Network interfaces as the kernel shows them.

``Documentation/ABI/testing/sysfs-class-net`` and ``sysfs-class-net-statistics`` of the kernel.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from forebay import DeviceError, FactState, InterfaceState, NetworkState, PluginContext

MEGABIT = 1_000_000
"""``speed`` counts millions of bits per second."""


class Netdev(NetworkState):
    """Reads the interfaces of this node, the loopback left out: it leads nowhere.

    Parameters
    ----------
    context : PluginContext
    root : Path
        Where the file system begins.
    """

    name = "netdev"

    def __init__(self, context: PluginContext, root: Path = Path("/")) -> None:
        self._node = context.node
        self._directory = root / "sys/class/net"

    def interfaces(self) -> Sequence[InterfaceState]:
        """Read every interface, in order of name."""
        try:
            found = sorted(self._directory.iterdir())
        except OSError as error:
            raise DeviceError(f"{self._directory} cannot be read: {error}.") from error
        now_s = time.time()
        return [
            self._read(entry, now_s) for entry in found if entry.is_dir() and entry.name != "lo"
        ]

    def _read(self, entry: Path, now_s: float) -> InterfaceState:
        rate, state = _rate(entry / "speed")
        return InterfaceState(
            node=self._node,
            interface=entry.name,
            state=state,
            is_up=_is_up(entry),
            rate_bits_per_s=rate,
            received_bytes=_int(entry / "statistics/rx_bytes"),
            sent_bytes=_int(entry / "statistics/tx_bytes"),
            time_s=now_s,
        )


def _rate(path: Path) -> tuple[int | None, FactState]:
    """Return bits per second, or why there are none."""
    try:
        speed = int(path.read_text())
    except PermissionError:
        return None, FactState.NOT_PERMITTED
    except (OSError, ValueError):
        speed = -1
    # The kernel writes -1, or refuses to be read, where a rate has no meaning.
    return (speed * MEGABIT, FactState.OK) if speed > 0 else (None, FactState.NOT_SUPPORTED)


def _is_up(entry: Path) -> bool:
    """Tell whether an interface carries traffic.

    Drivers without operational states, of tunnels for example, stay ``unknown`` for ever:
    then the carrier decides (``Documentation/networking/operstates.rst`` of the kernel).
    """
    state = _text(entry / "operstate")
    return state == "up" or (state == "unknown" and _text(entry / "carrier") == "1")


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _int(path: Path) -> int | None:
    text = _text(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
