"""The devices that are found: on trees written for it, recorded machines and this one."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpu_trees import Tree, adapter, discover
from forebay import DeviceError, FactState
from forebay_builtin_plugins.cpu.cpulist import format_cpu_list, parse_cpu_list


@st.composite
def machines(draw: st.DrawFn) -> tuple[dict[int, int], set[int], set[int] | None, int | None]:
    """Return packages by CPU, CPUs online, a cpuset or None, a quota in millis or None."""
    count = draw(st.integers(1, 12))
    packages = {cpu: draw(st.sampled_from([-1, 0, 1, 3])) for cpu in range(count)}
    online = draw(st.sets(st.sampled_from(range(count)), min_size=1))
    cpuset = draw(st.none() | st.sets(st.sampled_from(range(count)), min_size=1))
    return packages, online, cpuset, draw(st.none() | st.integers(1, 20_000))


@given(machines())
def test_no_more_is_lent_than_control_groups_leave_of_what_is_online(
    machine: tuple[dict[int, int], set[int], set[int] | None, int | None],
) -> None:
    packages, online, cpuset, quota = machine
    with tempfile.TemporaryDirectory() as name:
        tree = Tree(Path(name) / "root")
        tree.cpus(packages)
        tree.write("sys/devices/system/cpu/online", format_cpu_list(online))
        tree.write("proc/self/cgroup", "0::/")
        if cpuset is not None:
            tree.write("sys/fs/cgroup/cpuset.cpus.effective", format_cpu_list(cpuset))
        if quota is not None:
            tree.write("sys/fs/cgroup/cpu.max", f"{quota * 100} 100000")
        report = adapter(tree, Path(name)).discover()
    usable = online if cpuset is None else online & cpuset
    assert bool(report.devices) == bool(usable)
    assert bool(report.failures) == (not usable)
    millis = len(usable) * 1000
    most = millis if quota is None else min(millis, quota)
    lent = sum(device.capacity_millis for device in report.devices)
    # Shared out among sockets, a quota loses less than a milli for each.
    assert most - len(report.devices) < lent <= most or not usable
    cpus: list[int] = []
    for device in report.devices:
        of_device = parse_cpu_list(device.alias("os_cpus") or "")
        assert device.capacity_millis <= len(of_device) * 1000
        assert {max(packages[cpu], 0) for cpu in of_device} == {int(device.alias("socket") or -1)}
        cpus += of_device
    assert sorted(cpus) == sorted(usable)


@pytest.fixture
def one_cpu() -> Iterator[int]:
    """Keep this thread on one CPU while the test runs."""
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("there is one CPU, so affinity cannot leave less.")
    os.sched_setaffinity(0, {max(before)})
    yield max(before)
    os.sched_setaffinity(0, before)


def test_affinity_leaves_this_machine_less_to_lend(one_cpu: int, tmp_path: Path) -> None:
    (device,) = adapter(None, tmp_path).discover().devices
    assert device.alias("os_cpus") == str(one_cpu)
    assert device.capacity_millis <= 1000
    assert "affinity" in str(device.attributes["capacity_limited_by"])


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
