"""Telemetry, temperature and probes of CPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpu_trees import Tree, adapter
from forebay import DeviceId, DeviceKind, FactState, NotFoundError
from forebay_builtin_plugins.cpu.temperature import read_temperature


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
