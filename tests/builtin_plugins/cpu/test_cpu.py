"""The CPU adapter: what it reads, on trees written for it, recorded machines and this one."""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
import threading
from collections import Counter
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay import (
    Device,
    DeviceError,
    DeviceId,
    DeviceKind,
    Draw,
    FactState,
    JobId,
    Lease,
    LeaseId,
    NodeId,
    NotFoundError,
    PluginContext,
)
from forebay_builtin_plugins.cpu.adapter import CpuAdapter
from forebay_builtin_plugins.cpu.cgroup import Limits, read_limits
from forebay_builtin_plugins.cpu.cpulist import format_cpu_list, parse_cpu_list
from forebay_builtin_plugins.cpu.pins import PinRecord, choose_cpus
from forebay_builtin_plugins.cpu.temperature import read_temperature

cpu_sets = st.sets(st.integers(0, 300))


class Tree:
    """A file system in miniature."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: object) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def cpus(self, packages: dict[int, int], cores: dict[int, int] | None = None) -> None:
        """Write CPUs by number, each with its package and core."""
        base = "sys/devices/system/cpu"
        self.write(f"{base}/online", format_cpu_list(packages))
        for cpu, package in packages.items():
            self.write(f"{base}/cpu{cpu}/topology/physical_package_id", package)
            self.write(f"{base}/cpu{cpu}/topology/core_id", (cores or {}).get(cpu, cpu))
        self.write("proc/meminfo", "MemTotal:  8192 kB")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "root")


def adapter(tree: Tree | None, tmp_path: Path, **options: bool) -> CpuAdapter:
    state = tmp_path / "state"
    state.mkdir(exist_ok=True)
    context = PluginContext("cpu", NodeId("here"), options, str(state))
    return CpuAdapter(context) if tree is None else CpuAdapter(context, tree.root)


def discover(tree: Tree, tmp_path: Path) -> tuple[Device, ...]:
    return adapter(tree, tmp_path).discover().devices


class TestCpuLists:
    @given(cpu_sets)
    def test_what_is_written_is_read_again(self, cpus: set[int]) -> None:
        assert parse_cpu_list(format_cpu_list(cpus)) == tuple(sorted(cpus))

    @pytest.mark.parametrize(
        ("text", "cpus"),
        [("", ()), ("0", (0,)), ("0-2,7\n", (0, 1, 2, 7)), ("3,1", (1, 3))],
    )
    def test_the_kernels_form_is_read(self, text: str, cpus: tuple[int, ...]) -> None:
        assert parse_cpu_list(text) == cpus


class TestControlGroups:
    def test_without_any_there_is_no_limit(self, tree: Tree) -> None:
        assert read_limits(tree.root) == Limits()

    def test_version_2_takes_the_least_of_all_levels(self, tree: Tree) -> None:
        tree.write("proc/self/cgroup", "0::/a/b")
        tree.write("sys/fs/cgroup/a/b/cpu.max", "400000 100000")
        tree.write("sys/fs/cgroup/a/cpu.max", "150000 100000")
        tree.write("sys/fs/cgroup/a/b/memory.max", "max")
        tree.write("sys/fs/cgroup/a/memory.max", 4096)
        tree.write("sys/fs/cgroup/a/b/cpuset.cpus.effective", "0-1")
        assert read_limits(tree.root) == Limits(1500, "cpu.max", (0, 1), 4096)

    def test_version_1_is_read_by_controller(self, tree: Tree) -> None:
        tree.write("proc/self/cgroup", "4:memory:/x\n3:cpuset:/\n1:cpu,cpuacct:/x")
        tree.write("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", 250000)
        tree.write("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", 100000)
        tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", -1)
        tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", 100000)
        tree.write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", 1 << 20)
        tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", 9223372036854771712)
        tree.write("sys/fs/cgroup/cpuset/cpuset.cpus", "2-3")
        assert read_limits(tree.root) == Limits(2500, "cpu.cfs_quota_us", (2, 3), 1 << 20)

    def test_in_a_container_the_mount_is_the_group(self, tree: Tree) -> None:
        tree.write("proc/self/cgroup", "0::/host/path/that/is/not/here")
        tree.write("sys/fs/cgroup/cpu.max", "50000 100000")
        assert read_limits(tree.root).cpu_millis == 500


class TestDevices:
    def test_a_device_is_a_socket_with_its_memory(self, tree: Tree, tmp_path: Path) -> None:
        tree.cpus({0: 0, 1: 0, 2: 1, 3: 1, 4: 0}, cores={0: 0, 4: 0})
        for node, cpus in ((0, "0-1,4"), (1, "2-3")):
            tree.write(f"sys/devices/system/node/node{node}/cpulist", cpus)
            tree.write(
                f"sys/devices/system/node/node{node}/meminfo",
                f"Node {node} MemTotal:  {(node + 1) * 1024} kB",
            )
        tree.write("etc/machine-id", "0123456789abcdef")
        first, second = discover(tree, tmp_path)
        assert [first.alias("socket"), second.alias("socket")] == ["0", "1"]
        assert [first.capacity_millis, second.capacity_millis] == [3000, 2000]
        assert (first.attributes["cores"], first.attributes["threads"]) == (2, 3)
        assert first.alias("os_cpus") == "0-1,4"
        assert [first.numa_node, second.numa_node] == [0, 1]
        # The machine has 8192 kB, whatever its nodes say, shared out as the nodes are.
        assert [first.memory_bytes, second.memory_bytes] == [8192 * 1024 // 3, 8192 * 1024 * 2 // 3]

    def test_limits_shrink_what_can_be_lent(self, tree: Tree, tmp_path: Path) -> None:
        tree.cpus(dict.fromkeys(range(4), 0))
        tree.write("proc/self/cgroup", "0::/")
        tree.write("sys/fs/cgroup/cpuset.cpus.effective", "1-3")
        tree.write("sys/fs/cgroup/cpu.max", "250000 100000")
        tree.write("sys/fs/cgroup/memory.max", 4096 * 1024)
        (device,) = discover(tree, tmp_path)
        assert device.capacity_millis == 2500
        assert device.alias("os_cpus") == "1-3"
        assert device.memory_bytes == 4096 * 1024
        assert device.attributes["capacity_limited_by"] == "cpuset cpu.max"

    def test_what_no_limit_shrinks_names_none(self, tree: Tree, tmp_path: Path) -> None:
        tree.cpus({0: 0})
        tree.write("proc/self/cgroup", "0::/")
        tree.write("sys/fs/cgroup/cpu.max", "400000 100000")
        (device,) = discover(tree, tmp_path)
        assert device.capacity_millis == 1000
        assert "capacity_limited_by" not in device.attributes

    def test_a_cpuset_without_a_cpu_that_is_online_is_a_failure(
        self, tree: Tree, tmp_path: Path
    ) -> None:
        tree.cpus({0: 0})
        tree.write("proc/self/cgroup", "0::/")
        tree.write("sys/fs/cgroup/cpuset.cpus.effective", "1")
        report = adapter(tree, tmp_path).discover()
        assert not report.devices
        assert not report.absent
        assert "cpuset leaves this process no CPU" in report.failures[0].reason

    def test_a_limit_that_cannot_be_read_is_an_error_that_says_so(
        self, tree: Tree, tmp_path: Path
    ) -> None:
        tree.cpus({0: 0})
        tree.write("proc/self/cgroup", "0::/")
        tree.write("sys/fs/cgroup/cpu.max", "plenty")
        with pytest.raises(DeviceError, match="plenty"):
            discover(tree, tmp_path)

    def test_caches_are_counted_once_each(self, tree: Tree, tmp_path: Path) -> None:
        tree.cpus(dict.fromkeys(range(4), 0))
        for cpu in range(4):
            base = f"sys/devices/system/cpu/cpu{cpu}/cache"
            for index, level, kind, size, shared in (
                (0, 1, "Data", 32, str(cpu)),
                (1, 1, "Instruction", 32, str(cpu)),
                (2, 2, "Unified", 1024, "0-1" if cpu < 2 else "2-3"),
                (3, 3, "Unified", 8192, "0-3"),
            ):
                for name, text in (
                    ("level", level),
                    ("type", kind),
                    ("size", f"{size}K"),
                    ("shared_cpu_list", shared),
                ):
                    tree.write(f"{base}/index{index}/{name}", text)
        (device,) = discover(tree, tmp_path)
        found = {
            name: (
                device.attributes[f"cache_{name}_bytes"],
                device.attributes[f"cache_{name}_count"],
            )
            for name in ("l1d", "l1i", "l2", "l3")
        }
        assert found == {
            "l1d": (4 * 32 * 1024, 4),
            "l1i": (4 * 32 * 1024, 4),
            "l2": (2 * 1024 * 1024, 2),
            "l3": (8 * 1024 * 1024, 1),
        }

    def test_vendors_have_one_name_whoever_tells_it(self, tree: Tree, tmp_path: Path) -> None:
        tree.cpus({0: 0})
        tree.write("proc/cpuinfo", "processor: 0\nCPU implementer: 0x41\nFeatures: asimd sve2 fp")
        (device,) = discover(tree, tmp_path)
        assert device.vendor == "arm"
        assert device.attributes["isa"] == "asimd sve2"

    def test_the_machine_id_names_a_device_and_is_not_shown(
        self, tree: Tree, tmp_path: Path
    ) -> None:
        tree.cpus({0: 0})
        (without,) = discover(tree, tmp_path)
        assert without.id == "cpu-here-0"
        ids = set()
        for machine in ("0123456789abcdef0123456789abcdef", "1123456789abcdef0123456789abcdef"):
            tree.write("etc/machine-id", machine)
            (device,), (again,) = discover(tree, tmp_path), discover(tree, tmp_path)
            assert device.id == again.id
            assert machine[:6] not in device.id
            ids.add(device.id)
        assert len(ids) == 2

    def test_cpus_that_are_offline_are_not_there(self, tree: Tree, tmp_path: Path) -> None:
        tree.cpus(dict.fromkeys(range(4), 0))
        tree.write("sys/devices/system/cpu/online", "0,2")
        (device,) = discover(tree, tmp_path)
        assert (device.capacity_millis, device.alias("os_cpus")) == (2000, "0,2")

    def test_a_package_of_minus_one_is_one_package(self, tree: Tree, tmp_path: Path) -> None:
        tree.cpus({0: -1, 1: -1})
        (device,) = discover(tree, tmp_path)
        assert device.capacity_millis == 2000

    def test_what_is_not_told_is_missing_and_not_zero(self, tree: Tree, tmp_path: Path) -> None:
        tree.cpus({0: 0})
        (device,) = discover(tree, tmp_path)
        assert "frequency_hz_max" not in device.attributes
        assert device.missing[0].state is FactState.NOT_SUPPORTED

    def test_without_any_cpu_it_is_an_error(self, tree: Tree, tmp_path: Path) -> None:
        with pytest.raises(DeviceError, match="cannot be read"):
            discover(tree, tmp_path)

    def test_this_machine_is_as_psutil_and_the_kernel_see_it(self, tmp_path: Path) -> None:
        devices = adapter(None, tmp_path).discover().devices
        cpus = {cpu for device in devices for cpu in parse_cpu_list(device.alias("os_cpus") or "")}
        assert cpus == os.sched_getaffinity(0)
        assert sum(device.capacity_millis for device in devices) <= len(cpus) * 1000
        assert sum(int(device.attributes["threads"]) for device in devices) == psutil.cpu_count()
        total = sum(device.memory_bytes for device in devices)
        assert 0 < total <= psutil.virtual_memory().total

    def test_ids_stay_the_same(self, tmp_path: Path) -> None:
        first, again = (adapter(None, tmp_path).discover() for _ in range(2))
        assert [device.id for device in first.devices] == [device.id for device in again.devices]


RECORDED = {
    # Two sockets of six cores with two threads; their CPUs alternate.
    "linux-amd64-8581cf3a529e5d8b97ea876eade2f60d.tar.xz": (
        "Intel(R) Xeon(R) CPU           L5640  @ 2.27GHz",
        [
            (12000, 6, "1,3,5,7,9,11,13,15,17,19,21,23", 1),
            (12000, 6, "0,2,4,6,8,10,12,14,16,18,20,22", 0),
        ],
        12 * 2**20,
    ),
    # A laptop: four cores with two threads, eight with one.
    "linux-amd64-415ee03b8c4d1c4f07ae2e9d8b3d3d6d.tar.xz": (
        "12th Gen Intel(R) Core(TM) i7-1270P",
        [(16000, 12, "0-15", 0)],
        18 * 2**20,
    ),
    # A virtual machine with a graphics card.
    "linux-amd64-accel-nvidia.tar.xz": (
        "Intel(R) Xeon(R) CPU E5-2695 v4 @ 2.10GHz",
        [(8000, 8, "0-7", 0)],
        16 * 2**20,
    ),
}


@pytest.mark.shared_data
@pytest.mark.parametrize("name", sorted(RECORDED))
def test_recorded_machines_are_described(name: str, shared_data: Path, tmp_path: Path) -> None:
    recorded = tmp_path / "recorded"
    with tarfile.open(shared_data / "hardware-fixtures/ghw-sysfs" / name) as archive:
        # Links of a recorded /sys lead everywhere; only what the adapter reads is needed.
        wanted = [
            member
            for member in archive.getmembers()
            if member.isfile()
            and member.name.startswith(
                ("proc/", "sys/devices/system/cpu", "sys/devices/system/node")
            )
        ]
        archive.extractall(recorded, wanted, filter="data")
    model, sockets, l3_bytes = RECORDED[name]
    devices = discover(Tree(recorded), tmp_path)
    assert [
        (
            device.capacity_millis,
            device.attributes["cores"],
            device.alias("os_cpus"),
            device.numa_node,
        )
        for device in devices
    ] == sockets
    assert {device.model for device in devices} == {model}
    assert {device.vendor for device in devices} == {"intel"}
    assert {device.attributes["cache_l3_bytes"] for device in devices} == {l3_bytes}
    total = next(
        int(line.split()[1]) * 1024
        for line in (recorded / "proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal:")
    )
    # Shared out among nodes, the machine's memory loses less than a byte a node.
    assert 0 <= total - sum(device.memory_bytes for device in devices) < 2


def lease(number: int, *draws: tuple[str, int]) -> Lease:
    return Lease(
        LeaseId(number),
        JobId(number),
        "default",
        NodeId("here"),
        tuple(Draw(DeviceId(device), millis) for device, millis in draws),
        created_s=0.0,
    )


def load_of(pinned: dict[str, dict[int, int]]) -> Counter[int]:
    load: Counter[int] = Counter()
    for kept in pinned.values():
        load.update(kept)
    return load


class TestPinning:
    @given(
        st.lists(st.integers(1, 4), min_size=1, max_size=3),
        st.lists(st.tuples(st.integers(1, 3500), st.booleans()), max_size=12),
    )
    def test_cpus_in_use_are_shared_only_when_too_few_are_free(
        self, sizes: list[int], steps: list[tuple[int, bool]]
    ) -> None:
        numbers = iter(range(sum(sizes)))
        groups = [tuple(next(numbers) for _ in range(size)) for size in sizes]
        pinned: dict[str, dict[int, int]] = {}
        for number, (millis, ends) in enumerate(steps):
            load = load_of(pinned)
            chosen = choose_cpus(millis, groups, load)
            assert set(chosen) <= set(range(sum(sizes)))
            assert len(chosen) == min(-(-millis // 1000), sum(sizes))
            assert sum(chosen.values()) == min(millis, 1000 * sum(sizes))
            if sum(sizes) - len(load) >= len(chosen):
                assert not set(load) & set(chosen)
            if ends:
                continue
            pinned[str(number)] = chosen

    @given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 2500), st.booleans()), max_size=10))
    def test_releasing_every_lease_leaves_nothing_pinned(
        self, steps: list[tuple[int, int, bool]]
    ) -> None:
        with tempfile.TemporaryDirectory() as directory:
            record = PinRecord(Path(directory))
            held: dict[str, tuple[int, ...]] = {}
            for number, millis, ends in steps:
                name = str(number)
                cpus = record.pin(name, [(millis, [(0, 1), (2, 3)])])
                assert held.setdefault(name, cpus) == cpus
                if ends:
                    record.release(name)
                    del held[name]
            for name in held:
                record.release(name)
            assert json.loads((Path(directory) / "pins.json").read_text() if steps else "{}") == {}

    def test_parts_of_a_cpu_go_where_least_is_kept(self) -> None:
        # Two leases of a tenth are less than one of a half.
        assert choose_cpus(300, [(0, 1)], {0: 500, 1: 200}) == {1: 300}
        assert choose_cpus(1500, [(0, 1, 2)], {0: 300}) == {1: 1000, 2: 500}

    def test_a_lease_stays_in_one_numa_node_where_that_costs_nothing(self) -> None:
        nodes = [(0, 1), (2, 3, 4)]
        assert set(choose_cpus(2000, nodes, {0: 1000})) == {2, 3}
        # Free CPUs of two nodes are better than used ones of the same.
        assert set(choose_cpus(2000, [(0, 1), (2, 3)], {0: 1000, 2: 1000})) == {1, 3}

    def test_a_lease_stays_where_it_is_and_is_forgotten_when_released(self, tmp_path: Path) -> None:
        cpu = adapter(None, tmp_path)
        (device,) = cpu.discover().devices[:1]
        first = cpu.prepare(lease(1, (device.id, 1000), ("other", 1000)))
        assert len(first.cpus) == 1
        assert cpu.prepare(lease(1, (device.id, 1000))) == first
        assert first.enforced == ()
        cpu.release(lease(1))
        cpu.release(lease(1))
        assert cpu.prepare(lease(2, (device.id, 1000))) == first

    def test_without_pinning_work_goes_where_it_likes(self, tmp_path: Path) -> None:
        cpu = adapter(None, tmp_path, pin=False)
        (device,) = cpu.discover().devices[:1]
        assert cpu.prepare(lease(1, (device.id, 1000))).cpus == ()

    def test_pins_made_at_the_same_time_are_all_kept(self, tmp_path: Path) -> None:
        threads = [
            threading.Thread(
                target=lambda n=number: PinRecord(tmp_path).pin(str(n), [(1000, [range(16)])])
            )
            for number in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        pinned = {PinRecord(tmp_path).pin(str(number), []) for number in range(16)}
        assert pinned == {(cpu,) for cpu in range(16)}

    @pytest.mark.parametrize("text", ['{"1": [0', '{"1": [0]}', "[]", ""])
    def test_a_record_that_cannot_be_read_is_begun_anew(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "pins.json").write_text(text)
        assert PinRecord(tmp_path).pin("2", [(1000, [(0, 1)])]) == (0,)


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
