"""What control groups leave of a machine."""

from __future__ import annotations

from cpu_trees import Tree
from forebay_builtin_plugins.cpu.cgroup import Limits, read_limits


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
