"""Network interfaces, on a tree written for it and on this machine."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from forebay import DeviceError, FactState, NodeId, PluginContext
from forebay_builtin_plugins.netdev.interfaces import Netdev

CONTEXT = PluginContext("netdev", NodeId("here"))


def write(root: Path, interface: str, **files: object) -> None:
    for name, text in files.items():
        path = root / "sys/class/net" / interface / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def test_rate_state_and_counters_are_read(tmp_path: Path) -> None:
    write(tmp_path, "eth0", speed=100000, operstate="up", statistics__rx_bytes=7)
    write(tmp_path, "eth1", speed=-1, operstate="down", statistics__tx_bytes=9)
    write(tmp_path, "lo", operstate="unknown")
    first, second = Netdev(CONTEXT, tmp_path).interfaces()
    assert (first.interface, first.is_up, first.rate_bits_per_s) == ("eth0", True, 100 * 10**9)
    assert (first.state, first.received_bytes, first.sent_bytes) == (FactState.OK, 7, None)
    assert (second.is_up, second.rate_bits_per_s) == (False, None)
    assert (second.state, second.sent_bytes) == (FactState.NOT_SUPPORTED, 9)


def test_where_nothing_can_be_read_it_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="cannot be read"):
        Netdev(CONTEXT, tmp_path).interfaces()


def test_this_machine_has_the_interfaces_that_psutil_sees() -> None:
    found = {state.interface for state in Netdev(CONTEXT).interfaces()}
    assert found >= set(psutil.net_if_stats()) - {"lo"}
