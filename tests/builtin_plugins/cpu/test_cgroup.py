"""What control groups leave of a machine."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpu_trees import Tree
from forebay_builtin_plugins.cpu.cgroup import Limits, read_limits

V1_NO_LIMIT = 9223372036854771712
"""What version 1 writes where memory has no limit, on machines with pages of 4 KiB."""

levels = st.lists(
    st.tuples(
        st.none() | st.integers(1_000, 10_000_000),  # microseconds in 100 ms
        st.none() | st.integers(0, 1 << 44),  # bytes
    ),
    min_size=1,
    max_size=4,
)
"""Limits of nested groups, the outermost first; None is no limit."""


@given(levels, st.booleans())
def test_the_least_of_all_levels_holds_in_either_version(
    nested: list[tuple[int | None, int | None]], version_1: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        tree = Tree(Path(name))
        group = "".join(f"/g{depth}" for depth in range(1, len(nested)))
        if version_1:
            tree.write("proc/self/cgroup", f"2:memory:{group or '/'}\n1:cpu:{group or '/'}")
        else:
            tree.write("proc/self/cgroup", f"0::{group or '/'}")
        path = ""
        for depth, (quota, memory) in enumerate(nested):
            path += f"/g{depth}" if depth else ""
            if version_1:
                tree.write(f"sys/fs/cgroup/cpu{path}/cpu.cfs_quota_us", quota or -1)
                tree.write(f"sys/fs/cgroup/cpu{path}/cpu.cfs_period_us", 100_000)
                limit = V1_NO_LIMIT if memory is None else memory
                tree.write(f"sys/fs/cgroup/memory{path}/memory.limit_in_bytes", limit)
            else:
                tree.write(f"sys/fs/cgroup{path}/cpu.max", f"{quota or 'max'} 100000")
                limit_text = "max" if memory is None else memory
                tree.write(f"sys/fs/cgroup{path}/memory.max", limit_text)
        found = read_limits(tree.root)
    quotas = [quota // 100 for quota, _ in nested if quota is not None]
    assert found.cpu_millis == min(quotas, default=None)
    assert bool(found.cpu_file) == bool(quotas)
    memories = [memory for _, memory in nested if memory is not None]
    assert found.memory_bytes == min(memories, default=None)
    assert found.cpus is None


def test_without_any_there_is_no_limit(tree: Tree) -> None:
    assert read_limits(tree.root) == Limits()


def test_version_2_takes_the_least_of_all_levels(tree: Tree) -> None:
    tree.write("proc/self/cgroup", "0::/a/b")
    tree.write("sys/fs/cgroup/a/b/cpu.max", "400000 100000")
    tree.write("sys/fs/cgroup/a/cpu.max", "150000 100000")
    tree.write("sys/fs/cgroup/a/b/memory.max", "max")
    tree.write("sys/fs/cgroup/a/memory.max", 4096)
    tree.write("sys/fs/cgroup/a/b/cpuset.cpus.effective", "0-1")
    assert read_limits(tree.root) == Limits(1500, "cpu.max", (0, 1), 4096)


def test_version_1_is_read_by_controller(tree: Tree) -> None:
    tree.write("proc/self/cgroup", "4:memory:/x\n3:cpuset:/\n1:cpu,cpuacct:/x")
    tree.write("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", 250000)
    tree.write("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", 100000)
    tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", -1)
    tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", 100000)
    tree.write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", 1 << 20)
    tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", V1_NO_LIMIT)
    tree.write("sys/fs/cgroup/cpuset/cpuset.cpus", "2-3")
    assert read_limits(tree.root) == Limits(2500, "cpu.cfs_quota_us", (2, 3), 1 << 20)


@pytest.mark.parametrize("group", ["/host/path/that/is/not/here", "/../../outside", "/.."])
def test_in_a_container_the_mount_is_the_group(group: str, tree: Tree) -> None:
    tree.write("proc/self/cgroup", f"0::{group}")
    tree.write("sys/fs/cgroup/cpu.max", "50000 100000")
    assert read_limits(tree.root).cpu_millis == 500


def test_in_a_container_of_version_1_each_mount_is_the_group(tree: Tree) -> None:
    docker = "/docker/0123456789ab"
    tree.write("proc/self/cgroup", f"3:cpuset:{docker}\n2:memory:{docker}\n1:cpu:{docker}\n0::/x")
    tree.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", 50000)
    tree.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", 25000)
    tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", 1 << 30)
    tree.write("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "1,3")
    assert read_limits(tree.root) == Limits(2000, "cpu.cfs_quota_us", (1, 3), 1 << 30)


def test_of_cpusets_the_nearest_holds_and_an_empty_one_inherits(tree: Tree) -> None:
    tree.write("proc/self/cgroup", "0::/a/b")
    tree.write("sys/fs/cgroup/cpuset.cpus.effective", "0-7")
    tree.write("sys/fs/cgroup/a/cpuset.cpus.effective", "2-3")
    tree.write("sys/fs/cgroup/a/b/cpuset.cpus", "")
    assert read_limits(tree.root).cpus == (2, 3)


@pytest.mark.parametrize(
    ("file", "text"),
    [("cpu.max", "plenty 100000"), ("memory.max", "8G"), ("cpuset.cpus.effective", "0-x")],
)
def test_what_the_kernel_never_writes_is_an_error_and_not_no_limit(
    file: str, text: str, tree: Tree
) -> None:
    tree.write("proc/self/cgroup", "0::/")
    tree.write(f"sys/fs/cgroup/{file}", text)
    with pytest.raises(ValueError, match="invalid literal"):
        read_limits(tree.root)
