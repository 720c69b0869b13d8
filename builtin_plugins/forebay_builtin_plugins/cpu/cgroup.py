"""What the control groups of this process leave it of the machine.

Both versions are read: the kernel's ``Documentation/admin-guide/cgroup-v2.rst``
and ``Documentation/admin-guide/cgroup-v1/``.
Every level from the process's own group up to the root may set a limit; the least one holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from forebay import MILLIS_PER_UNIT
from forebay_builtin_plugins.cpu.cpulist import parse_cpu_list
from forebay_builtin_plugins.cpu.files import read_int, read_text

_V1_NO_LIMIT = 1 << 60
"""Version 1 writes a number near 2**63 where there is no limit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of control groups; None is no limit.

    Parameters
    ----------
    cpu_millis : int, optional
    cpu_file : str
        Name of the file that sets ``cpu_millis``; empty without that limit.
    cpus : tuple of int, optional
    memory_bytes : int, optional
    """

    cpu_millis: int | None = None
    cpu_file: str = ""
    cpus: tuple[int, ...] | None = None
    memory_bytes: int | None = None


def read_limits(root: Path = Path("/")) -> Limits:
    """Return the limits of this process.

    Parameters
    ----------
    root : Path
        Where the file system begins.

    Raises
    ------
    ValueError
        A file holds something else than the kernel writes.
    """
    quotas: list[tuple[int, str]] = []
    memory: list[int] = []
    cpus: tuple[int, ...] | None = None
    for controllers, group in _groups(root):
        for directory in _levels(root, controllers, group):
            if (quota := _quota(directory)) is not None:
                quotas.append(quota)
            if (limit := _memory_bytes(directory)) is not None:
                memory.append(limit)
            cpus = cpus or _cpus(directory)
    millis, file = min(quotas, default=(None, ""))
    return Limits(millis, file, cpus, min(memory, default=None))


def _groups(root: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """Return controllers and path of each group; version 2 has no controllers named."""
    text = read_text(root / "proc/self/cgroup") or ""
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        names, _, group = rest.partition(":")
        yield tuple(name for name in names.split(",") if name), group


def _levels(root: Path, controllers: tuple[str, ...], group: str) -> Iterator[Path]:
    """Return the directories of a group and those above it, the nearest first.

    In a container the group's path may be that of the host and not exist here;
    the mount itself is then the process's own group.
    """
    base = root / "sys/fs/cgroup"
    mounts = [base / ",".join(controllers), *(base / name for name in controllers)]
    for mount in mounts if controllers else (base, base / "unified"):
        if not mount.is_dir():
            continue
        directory = mount / group.strip("/")
        while directory != mount:
            if directory.is_dir():
                yield directory
            directory = directory.parent
        yield mount


def _quota(directory: Path) -> tuple[int, str] | None:
    """Return millis and the file that sets them."""
    text = read_text(directory / "cpu.max")
    if text is not None:
        quota, _, period = text.partition(" ")
        if quota == "max":
            return None
        return int(quota) * MILLIS_PER_UNIT // int(period or 100_000), "cpu.max"
    v1_quota = read_int(directory / "cpu.cfs_quota_us")
    v1_period = read_int(directory / "cpu.cfs_period_us")
    if v1_quota is None or not v1_period or v1_quota < 0:
        return None
    return v1_quota * MILLIS_PER_UNIT // v1_period, "cpu.cfs_quota_us"


def _memory_bytes(directory: Path) -> int | None:
    text = read_text(directory / "memory.max")
    if text is not None:
        return None if text == "max" else int(text)
    limit = read_int(directory / "memory.limit_in_bytes")
    return None if limit is None or limit >= _V1_NO_LIMIT else limit


def _cpus(directory: Path) -> tuple[int, ...] | None:
    for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
        if text := read_text(directory / name):
            return parse_cpu_list(text)
    return None
