"""Telemetry, temperature and probes of CPUs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpu_trees import Tree, adapter
from forebay import DeviceId, DeviceKind, FactState, NotFoundError
from forebay_builtin_plugins.cpu.temperature import read_temperature

ticks = st.lists(st.integers(0, 10**9), min_size=8, max_size=8)
"""Fields of a line of ``/proc/stat``: user, nice, system, idle, iowait, irq, softirq, steal."""


@given(ticks, st.booleans(), ticks)
def test_utilization_is_a_share_or_unknown_whatever_the_counters_do(
    first: list[int], forward: bool, second: list[int]
) -> None:
    """Idle and iowait may go back, as proc(5) warns."""
    if forward:
        second = [before + more for before, more in zip(first, second, strict=True)]
    with tempfile.TemporaryDirectory() as name:
        tree = Tree(Path(name) / "root")
        tree.cpus({0: 0})
        cpu = adapter(tree, Path(name))
        ids = [device.id for device in cpu.discover().devices]
        readings = []
        for fields in (first, second):
            tree.write("proc/stat", "cpu0 " + " ".join(map(str, fields)))
            readings += [r for r in cpu.telemetry(ids) if r.name == "hw.cpu.utilization"]
    assert len(readings) == 2
    assert readings[0].state is FactState.UNKNOWN
    if forward and first != second:
        assert readings[1].state is FactState.OK
    for reading in readings:
        assert (reading.value is not None) == (reading.state is FactState.OK)
        assert reading.value is None or 0 <= reading.value <= 1


def test_each_socket_has_the_utilization_of_its_own_cpus(tree: Tree, tmp_path: Path) -> None:
    tree.cpus({0: 0, 1: 0, 2: 1, 11: 1})
    cpu = adapter(tree, tmp_path)
    ids = [device.id for device in cpu.discover().devices]
    # The first line is the sum, and CPU 1 is not CPU 11.
    before = "cpu 9 9 9 9 9\n" + "".join(f"cpu{n} 0 0 0 0 0 0 0 0 0 0\n" for n in (0, 1, 2, 11))
    after = (
        "cpu0 50 0 0 50 0 0 0 0 0 0\n"
        "cpu1 0 0 0 60 40 0 0 0 0 0\n"
        "cpu2 10 20 30 0 0 15 15 10 0 0\n"
        "cpu11 100 0 0 0 0 0 0 0 90 0\n"
    )
    tree.write("proc/stat", before)
    cpu.telemetry(ids)
    tree.write("proc/stat", after)
    assert [
        (reading.device, reading.value)
        for reading in cpu.telemetry(ids)
        if reading.name == "hw.cpu.utilization"
    ] == [(ids[0], 0.25), (ids[1], 1.0)]


class TestMeasuring:
    def test_utilization_needs_two_readings_and_lies_between_0_and_1(self, tmp_path: Path) -> None:
        cpu = adapter(None, tmp_path)
        (device,) = cpu.discover().devices[:1]
        first = {reading.name: reading for reading in cpu.telemetry([device.id])}
        assert first["hw.cpu.utilization"].state is FactState.UNKNOWN
        assert first["hw.cpu.utilization"].value is None
        sum(range(2_000_000))
        second = {reading.name: reading for reading in cpu.telemetry([device.id])}
        assert second["hw.cpu.utilization"].state is FactState.OK
        assert 0 <= (second["hw.cpu.utilization"].value or 0) <= 1

    def test_the_kernels_own_sensors_are_read(self, tree: Tree, tmp_path: Path) -> None:
        tree.cpus({0: 0, 1: 1})
        for package, celsius in ((0, 41), (1, 57)):
            base = f"sys/class/hwmon/hwmon{package}/temp1"
            tree.write(f"{base}_label", f"Package id {package}")
            tree.write(f"{base}_input", celsius * 1000)
            tree.write(f"sys/devices/system/cpu/cpu{package}/cpufreq/scaling_cur_freq", 2_400_000)
        cpu = adapter(tree, tmp_path)
        ids = [device.id for device in cpu.discover().devices]
        readings = [
            (reading.device, reading.name, reading.value)
            for reading in cpu.telemetry(ids)
            if reading.state is FactState.OK
        ]
        assert readings == [
            (ids[0], "hw.cpu.speed", 2.4e9),
            (ids[0], "hw.temperature", 41.0),
            (ids[1], "hw.cpu.speed", 2.4e9),
            (ids[1], "hw.temperature", 57.0),
        ]

    def test_a_sensor_without_a_number_is_the_only_sockets(self, tree: Tree) -> None:
        tree.write("sys/class/hwmon/hwmon0/temp1_label", "Tctl")
        tree.write("sys/class/hwmon/hwmon0/temp1_input", 61500)
        assert read_temperature(tree.root, 0, sockets=1) == 61.5
        assert read_temperature(tree.root, 0, sockets=2) is None

    def test_what_cannot_be_read_has_a_state_and_no_value(self, tree: Tree, tmp_path: Path) -> None:
        tree.cpus({0: 0})
        cpu = adapter(tree, tmp_path)
        readings = cpu.telemetry([device.id for device in cpu.discover().devices])
        assert {(reading.name, reading.state, reading.value) for reading in readings} == {
            ("hw.cpu.utilization", FactState.UNKNOWN, None),
            ("hw.cpu.speed", FactState.NOT_SUPPORTED, None),
            ("hw.temperature", FactState.NOT_SUPPORTED, None),
        }

    def test_a_probe_measures_and_knows_its_devices(self, tmp_path: Path) -> None:
        cpu = adapter(None, tmp_path)
        (device,) = cpu.discover().devices[:1]
        assert device.kind is DeviceKind.CPU
        evidence = cpu.probe(device.id)
        assert {item.what for item in evidence} == {"sha256_rate", "memory_copy_rate"}
        assert all(item.value > 1e6 and item.method and item.machine for item in evidence)
        with pytest.raises(NotFoundError):
            cpu.probe(DeviceId("other"))
