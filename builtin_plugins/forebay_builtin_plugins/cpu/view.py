"""What the kernel shows of the CPUs at one moment, and what of it this process may use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from forebay import MILLIS_PER_UNIT, DeviceError
from forebay_builtin_plugins.cpu.cgroup import Limits, read_limits
from forebay_builtin_plugins.cpu.topology import (
    NumaNode,
    Socket,
    read_memory_bytes,
    read_numa,
    read_sockets,
)


@dataclass(frozen=True, slots=True)
class View:
    """What the kernel shows at one moment.

    Parameters
    ----------
    sockets : tuple of Socket
    numa : tuple of NumaNode
    memory_bytes : int
        Of the whole machine; 0 where the kernel does not tell.
    limits : Limits
    allowed : mapping of int to tuple of int
        CPUs of each socket that this process may use.
    limited_by : tuple of str
        What keeps it from more: ``cpuset``, ``affinity``, or the file of a quota.
    """

    sockets: tuple[Socket, ...]
    numa: tuple[NumaNode, ...]
    memory_bytes: int
    limits: Limits
    allowed: Mapping[int, tuple[int, ...]]
    limited_by: tuple[str, ...]

    @property
    def usable_millis(self) -> int:
        """What can be lent of all sockets together."""
        millis = sum(len(cpus) for cpus in self.allowed.values()) * MILLIS_PER_UNIT
        return millis if self.limits.cpu_millis is None else min(millis, self.limits.cpu_millis)

    @property
    def usable_memory_bytes(self) -> int:
        """Memory that can be lent of the whole machine."""
        limit = self.limits.memory_bytes
        return self.memory_bytes if limit is None else min(limit, self.memory_bytes)

    def by_numa(self, socket: Socket) -> list[tuple[int, ...]]:
        """Return a socket's usable CPUs by NUMA node, in one group where there are no nodes."""
        cpus = self.allowed[socket.index]
        groups = [tuple(cpu for cpu in cpus if cpu in node.cpus) for node in self.numa]
        return [group for group in groups if group] or ([cpus] if cpus else [])


def look(root: Path) -> View:
    """Read everything anew; takes a few milliseconds.

    Parameters
    ----------
    root : Path
        Where the file system begins.

    Raises
    ------
    DeviceError
        The kernel does not show its CPUs.
    """
    try:
        sockets = read_sockets(root)
        numa = read_numa(root)
        memory_bytes = read_memory_bytes(root)
        limits = read_limits(root)
    except (OSError, ValueError) as error:
        raise DeviceError(
            f"the kernel's description of the CPUs cannot be read: {error}.",
            fix="Check that /proc and /sys are mounted.",
        ) from error
    online = {cpu for socket in sockets for cpu in socket.cpus}
    fences = {"cpuset": online if limits.cpus is None else set(limits.cpus)}
    if root == Path("/"):
        # The affinity of this process says nothing of a recorded machine.
        fences["affinity"] = os.sched_getaffinity(0)
    may_use = online.intersection(*fences.values())
    limited_by = [name for name, cpus in fences.items() if online - cpus]
    if limits.cpu_millis is not None and limits.cpu_millis < len(may_use) * MILLIS_PER_UNIT:
        limited_by.append(limits.cpu_file)
    return View(
        sockets,
        numa,
        # Memory plugged in later may be missing from the nodes, never from the machine.
        memory_bytes or sum(node.memory_bytes or 0 for node in numa),
        limits,
        {s.index: tuple(cpu for cpu in s.cpus if cpu in may_use) for s in sockets},
        tuple(limited_by),
    )
