"""Network interfaces, on a tree written for it and on this machine."""

from __future__ import annotations

import tarfile
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


@pytest.mark.parametrize(
    ("carrier", "is_up"), [("1", True), ("0", False)], ids=["with carrier", "without"]
)
def test_where_the_driver_has_no_states_the_carrier_decides(
    carrier: str, is_up: bool, tmp_path: Path
) -> None:
    write(tmp_path, "tun0", operstate="unknown", carrier=carrier)
    (tunnel,) = Netdev(CONTEXT, tmp_path).interfaces()
    assert (tunnel.is_up, tunnel.state) == (is_up, FactState.NOT_SUPPORTED)


def test_files_beside_the_interfaces_are_none(tmp_path: Path) -> None:
    write(tmp_path, "bond0", speed=25000, operstate="up")
    (tmp_path / "sys/class/net/bonding_masters").write_text("bond0\n")
    assert [state.interface for state in Netdev(CONTEXT, tmp_path).interfaces()] == ["bond0"]


GIGABIT = 10**9
RECORDED = [
    (
        "hwloc/32em64t-2n8c+dax+nvme+mic+dimms.tar.xz",
        "32em64t-2n8c+1mic",
        {"eth0": (True, GIGABIT), "eth1": (False, None), "ib0": (True, None)},
    ),
    (
        "hwloc/32intel64-2p8co2t+8ve.tar.xz",
        "32intel64-2p8co2t+8ve",
        {"enp96s0f0": (True, GIGABIT), "enp96s0f1": (False, None)},
    ),
    ("virtual-lab-qemu/sysfs.tar.xz", "", {"eth0": (True, None)}),
]
"""What was recorded of each interface: whether it is up, and its rate."""


@pytest.mark.shared_data
@pytest.mark.parametrize(("archive", "root", "expected"), RECORDED)
def test_recorded_machines_are_read(
    archive: str,
    root: str,
    expected: dict[str, tuple[bool, int | None]],
    shared_data: Path,
    tmp_path: Path,
) -> None:
    with tarfile.open(shared_data / "hardware-fixtures" / archive) as recording:
        interfaces = [entry for entry in recording if "/net/" in entry.name]
        recording.extractall(tmp_path, interfaces, filter="tar")
    found = {state.interface: state for state in Netdev(CONTEXT, tmp_path / root).interfaces()}
    for interface, (is_up, rate) in expected.items():
        state = found[interface]
        assert (state.is_up, state.rate_bits_per_s) == (is_up, rate)
        assert (state.state is FactState.OK) == (rate is not None)
        assert state.received_bytes is not None
