"""Small file systems that show CPUs, and the adapter and leases that go with them."""

from __future__ import annotations

from pathlib import Path

from forebay import Device, DeviceId, Draw, JobId, Lease, LeaseId, NodeId, PluginContext
from forebay_builtin_plugins.cpu.adapter import CpuAdapter
from forebay_builtin_plugins.cpu.cpulist import format_cpu_list


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


def adapter(tree: Tree | None, tmp_path: Path, **options: bool) -> CpuAdapter:
    state = tmp_path / "state"
    state.mkdir(exist_ok=True)
    context = PluginContext("cpu", NodeId("here"), options, str(state))
    return CpuAdapter(context) if tree is None else CpuAdapter(context, tree.root)


def discover(tree: Tree, tmp_path: Path) -> tuple[Device, ...]:
    return adapter(tree, tmp_path).discover().devices


def lease(number: int, *draws: tuple[str, int]) -> Lease:
    return Lease(
        LeaseId(number),
        JobId(number),
        "default",
        NodeId("here"),
        tuple(Draw(DeviceId(device), millis) for device, millis in draws),
        created_s=0.0,
    )
