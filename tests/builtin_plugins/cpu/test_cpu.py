"""The CPU adapter: what it reads, on trees written for it, recorded machines and this one."""

from __future__ import annotations

import os
import tarfile
import threading
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
from forebay_builtin_plugins.cpu.topology import read_numa, read_sockets

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
        assert read_limits(tree.root) == Limits(1500, (0, 1), 4096)

    def test_version_1_is_read_by_controller(self, tree: Tree) -> None:
        tree.write("proc/self/cgroup", "4:memory:/x\n3:cpuset:/\n1:cpu,cpuacct:/x")
        tree.write("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", 250000)
        tree.write("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", 100000)
        tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", -1)
        tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", 100000)
        tree.write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", 1 << 20)
        tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", 9223372036854771712)
        tree.write("sys/fs/cgroup/cpuset/cpuset.cpus", "2-3")
        assert read_limits(tree.root) == Limits(2500, (2, 3), 1 << 20)

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
        assert [first.id, second.id] == ["cpu-0123456789ab-0", "cpu-0123456789ab-1"]
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
    # Two Intel Xeon L5640 of six cores each; a laptop's Core i7-1270P of twelve.
    "linux-amd64-8581cf3a529e5d8b97ea876eade2f60d.tar.xz": (2, 12, 2),
    "linux-amd64-415ee03b8c4d1c4f07ae2e9d8b3d3d6d.tar.xz": (1, 12, 1),
}


@pytest.mark.shared_data
@pytest.mark.parametrize("name", sorted(RECORDED))
def test_recorded_machines_are_read(name: str, shared_data: Path, tmp_path: Path) -> None:
    with tarfile.open(shared_data / "hardware-fixtures/ghw-sysfs" / name) as archive:
        # Links of a recorded /sys lead everywhere; only what the adapter reads is needed.
        wanted = [
            member
            for member in archive.getmembers()
            if member.isfile() and ("system/cpu" in member.name or "system/node" in member.name)
        ]
        archive.extractall(tmp_path, wanted, filter="data")
    (top,) = {path.parents[2] for path in tmp_path.rglob("system/cpu")}
    root = top.parent
    sockets, cores, nodes = RECORDED[name]
    found = read_sockets(root)
    assert len(found) == sockets
    assert sum(socket.cores for socket in found) == cores
    assert all(socket.caches for socket in found)
    assert len(read_numa(root)) == nodes


def lease(number: int, *draws: tuple[str, int]) -> Lease:
    return Lease(
        LeaseId(number),
        JobId(number),
        "default",
        NodeId("here"),
        tuple(Draw(DeviceId(device), millis) for device, millis in draws),
        created_s=0.0,
    )


class TestPinning:
    @given(
        st.integers(1, 8),
        st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=12),
    )
    def test_whole_cores_are_shared_only_when_none_is_free(
        self, count: int, steps: list[tuple[int, bool]]
    ) -> None:
        pinned: dict[str, tuple[int, ...]] = {}
        for number, (cores, ends) in enumerate(steps):
            used = {cpu for cpus in pinned.values() for cpu in cpus}
            chosen = choose_cpus(cores * 1000, range(count), pinned)
            assert len(chosen) == min(cores, count)
            if count - len(used) >= len(chosen):
                assert not used & set(chosen)
            pinned[str(number)] = chosen
            if ends:
                del pinned[str(number)]

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
                target=lambda n=number: PinRecord(tmp_path).pin(str(n), {tuple(range(16)): 1000})
            )
            for number in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        pinned = {PinRecord(tmp_path).pin(str(number), {}) for number in range(16)}
        assert pinned == {(cpu,) for cpu in range(16)}

    def test_a_torn_record_is_begun_anew(self, tmp_path: Path) -> None:
        (tmp_path / "pins.json").write_text('{"1": [0')
        assert PinRecord(tmp_path).pin("2", {(0, 1): 1000}) == (0,)


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

    def test_a_probe_measures_and_knows_its_devices(self, tmp_path: Path) -> None:
        cpu = adapter(None, tmp_path)
        (device,) = cpu.discover().devices[:1]
        assert device.kind is DeviceKind.CPU
        evidence = cpu.probe(device.id)
        assert {item.what for item in evidence} == {"sha256_rate", "memory_copy_rate"}
        assert all(item.value > 1e6 and item.method and item.machine for item in evidence)
        with pytest.raises(NotFoundError):
            cpu.probe(DeviceId("other"))
