"""What cannot be read has a state and no value, whatever a tree shows."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay import FactState, NodeId, PluginContext
from forebay_builtin_plugins.netdev.interfaces import Netdev

CONTEXT = PluginContext("netdev", NodeId("here"))
FILES = ("speed", "operstate", "carrier", "statistics/rx_bytes", "statistics/tx_bytes")

contents = st.integers(-(2**31), 2**63).map(str) | st.sampled_from(["up", "down", "unknown", ""])


@given(
    st.dictionaries(
        st.from_regex(r"[a-km-z][a-z0-9.@-]{0,8}", fullmatch=True),
        st.dictionaries(st.sampled_from(FILES), contents),
        max_size=4,
    )
)
def test_each_interface_is_told_once_and_what_is_missing_is_never_zero(
    interfaces: dict[str, dict[str, str]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "sys/class/net"
        directory.mkdir(parents=True)
        for interface, files in interfaces.items():
            (directory / interface / "statistics").mkdir(parents=True)
            for file, text in files.items():
                (directory / interface / file).write_text(f"{text}\n")
        found = Netdev(CONTEXT, Path(name)).interfaces()
    assert [state.interface for state in found] == sorted(interfaces)
    for state in found:
        files = interfaces[state.interface]
        numbers = {file: int(text) for file, text in files.items() if text.lstrip("-").isdecimal()}
        speed = numbers.get("speed", -1)
        assert state.rate_bits_per_s == (speed * 10**6 if speed > 0 else None)
        assert state.state is (FactState.OK if speed > 0 else FactState.NOT_SUPPORTED)
        assert state.received_bytes == numbers.get("statistics/rx_bytes")
        assert state.sent_bytes == numbers.get("statistics/tx_bytes")
        up = ("up", None), ("unknown", "1")
        assert state.is_up == (
            (files.get("operstate"), None) in up
            or (files.get("operstate"), files.get("carrier")) in up
        )


def test_a_rate_that_may_not_be_read_is_told_so(tmp_path: Path) -> None:
    interface = tmp_path / "sys/class/net/eth0"
    interface.mkdir(parents=True)
    (interface / "speed").write_text("1000\n")
    (interface / "speed").chmod(0)
    if os.access(interface / "speed", os.R_OK):
        pytest.skip("this user may read every file.")
    (state,) = Netdev(CONTEXT, tmp_path).interfaces()
    assert (state.rate_bits_per_s, state.state) == (None, FactState.NOT_PERMITTED)


def test_a_rate_that_the_driver_refuses_to_tell_is_not_supported(tmp_path: Path) -> None:
    # The kernel answers EINVAL; a folder cannot be read as a file either.
    (tmp_path / "sys/class/net/wlan0/speed").mkdir(parents=True)
    (state,) = Netdev(CONTEXT, tmp_path).interfaces()
    assert (state.rate_bits_per_s, state.state) == (None, FactState.NOT_SUPPORTED)
    assert (state.received_bytes, state.sent_bytes, state.is_up) == (None, None, False)


def test_the_counters_of_this_machine_lie_between_two_looks_of_psutil() -> None:
    before = psutil.net_io_counters(pernic=True, nowrap=False)
    found = {state.interface: state for state in Netdev(CONTEXT).interfaces()}
    after = psutil.net_io_counters(pernic=True, nowrap=False)
    for name in (before.keys() & after.keys()) - {"lo"}:
        received, sent = found[name].received_bytes, found[name].sent_bytes
        assert received is not None
        assert sent is not None
        assert before[name].bytes_recv <= received <= after[name].bytes_recv
        assert before[name].bytes_sent <= sent <= after[name].bytes_sent
