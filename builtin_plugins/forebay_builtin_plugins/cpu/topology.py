"""Sockets, cores, caches and NUMA nodes, read from ``/proc`` and ``/sys``.

``Documentation/admin-guide/cputopology.rst`` and ``Documentation/ABI/stable/sysfs-devices-node``
of the kernel say what the files mean.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from forebay_builtin_plugins.cpu.cpulist import parse_cpu_list
from forebay_builtin_plugins.cpu.files import read_int, read_text


@dataclass(frozen=True, slots=True)
class Cache:
    """The caches of one level and type in a socket.

    Parameters
    ----------
    name : str
        ``L1d``, ``L1i``, ``L2``, ...
    size_bytes : int
        All of them together.
    count : int
        How many there are: the CPUs of a socket share each among so many groups.
    """

    name: str
    size_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class Socket:
    """One CPU package.

    Parameters
    ----------
    index : int
        The kernel's ``physical_package_id``.
    cpus : tuple of int
        CPUs of the operating system that are online.
    cores : int
        Physical cores among them.
    numa_nodes : tuple of int
    caches : tuple of Cache
        By name.
    facts : dict of str to str
        Fields of ``/proc/cpuinfo`` of its first CPU.
    frequency_hz_max : int, optional
    frequency_hz : float, optional
        Mean of its CPUs now, by ``/proc/cpuinfo``.
    """

    index: int
    cpus: tuple[int, ...]
    cores: int
    numa_nodes: tuple[int, ...]
    caches: tuple[Cache, ...]
    facts: dict[str, str]
    frequency_hz_max: int | None
    frequency_hz: float | None


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node.

    Parameters
    ----------
    index : int
    cpus : tuple of int
        Empty for memory without CPUs, such as CXL memory.
    memory_bytes : int, optional
    """

    index: int
    cpus: tuple[int, ...]
    memory_bytes: int | None


def read_sockets(root: Path) -> tuple[Socket, ...]:
    """Return the sockets, in order of index.

    Raises
    ------
    OSError
        The kernel shows no CPU at all.
    """
    base = root / "sys/devices/system/cpu"
    facts = _cpuinfo(root)
    numa = read_numa(root)
    packages: dict[int, list[int]] = defaultdict(list)
    for cpu in _online(base):
        package = read_int(base / f"cpu{cpu}/topology/physical_package_id")
        # Virtual machines may show -1, where there is one package.
        packages[max(package or 0, 0)].append(cpu)
    if not packages:
        raise FileNotFoundError(f"{base} shows no CPU")
    return tuple(
        Socket(
            index=index,
            cpus=tuple(cpus),
            cores=len({_core(base, cpu) for cpu in cpus}),
            numa_nodes=tuple(node.index for node in numa if set(node.cpus) & set(cpus)),
            caches=_caches(base, cpus),
            facts=facts.get(cpus[0], {}),
            frequency_hz_max=_frequency_hz_max(base, cpus[0]),
            frequency_hz=_frequency_hz([facts[cpu] for cpu in cpus if cpu in facts]),
        )
        for index, cpus in sorted(packages.items())
    )


def read_numa(root: Path) -> tuple[NumaNode, ...]:
    """Return the NUMA nodes, in order of index."""
    found = []
    for directory in (root / "sys/devices/system/node").glob("node[0-9]*"):
        total = None
        for line in (read_text(directory / "meminfo") or "").splitlines():
            if "MemTotal:" in line:
                total = int(line.split()[-2]) * 1024
        found.append(
            NumaNode(
                int(directory.name.removeprefix("node")),
                parse_cpu_list(read_text(directory / "cpulist") or ""),
                total,
            )
        )
    return tuple(sorted(found, key=lambda node: node.index))


def read_memory_bytes(root: Path) -> int | None:
    """Return the memory of the whole machine."""
    for line in (read_text(root / "proc/meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def _online(base: Path) -> tuple[int, ...]:
    text = read_text(base / "online")
    if text:
        return parse_cpu_list(text)
    names = (directory.name for directory in base.glob("cpu[0-9]*"))
    return tuple(sorted(int(name.removeprefix("cpu")) for name in names))


def _core(base: Path, cpu: int) -> tuple[int | None, int]:
    core = read_int(base / f"cpu{cpu}/topology/core_id")
    die = read_int(base / f"cpu{cpu}/topology/die_id")
    return die, cpu if core is None else core


def _caches(base: Path, cpus: list[int]) -> tuple[Cache, ...]:
    # CPUs that share a cache all list it.
    sizes: dict[str, dict[str, int]] = defaultdict(dict)
    for cpu in cpus:
        for directory in (base / f"cpu{cpu}/cache").glob("index[0-9]*"):
            level, kind, size, shared = (
                read_text(directory / name) or ""
                for name in ("level", "type", "size", "shared_cpu_list")
            )
            if size.endswith("K"):
                name = f"L{level}" + {"Data": "d", "Instruction": "i"}.get(kind, "")
                sizes[name][shared] = int(size[:-1]) * 1024
    return tuple(Cache(name, sum(of.values()), len(of)) for name, of in sorted(sizes.items()))


def _frequency_hz_max(base: Path, cpu: int) -> int | None:
    khz = read_int(base / f"cpu{cpu}/cpufreq/cpuinfo_max_freq")
    return None if khz is None else khz * 1000


def _frequency_hz(facts: list[dict[str, str]]) -> float | None:
    mhz = [float(fields["cpu MHz"]) for fields in facts if "cpu MHz" in fields]
    return 1e6 * sum(mhz) / len(mhz) if mhz else None


def _cpuinfo(root: Path) -> dict[int, dict[str, str]]:
    """Return the fields of ``/proc/cpuinfo`` by CPU."""
    found: dict[int, dict[str, str]] = {}
    for block in (read_text(root / "proc/cpuinfo") or "").split("\n\n"):
        fields = {
            key.strip(): value.strip()
            for key, separator, value in (line.partition(":") for line in block.splitlines())
            if separator
        }
        if fields.get("processor", "").isdigit():
            found[int(fields["processor"])] = fields
    return found
