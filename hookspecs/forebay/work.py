"""Work and what it asks for: requests, jobs, placements and leases.

A job carries a request.
A placement says where a request could run, a lease that it runs there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from forebay.device import DeviceId, DeviceKind, NodeId

JobId = NewType("JobId", int)
"""Number of a job, unique within a ledger, in order of submission."""

LeaseId = NewType("LeaseId", int)
"""Number of a lease, unique within a ledger."""


class Operator(StrEnum):
    """How a selector compares an attribute with its value."""

    EQUAL = "=="
    NOT_EQUAL = "!="
    AT_LEAST = ">="
    AT_MOST = "<="
    IN = "=in="
    """Equal to one of several, which the value names with ``|`` between them."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A condition on a device attribute or node label.

    An attribute that a device does not have satisfies NOT_EQUAL alone.

    Parameters
    ----------
    name : str
        Attribute or label; ``vendor``, ``model``, ``architecture``, ``compute_capability``
        and ``driver_version`` name the device's own fields.
    operator : Operator
    value : bool, int or str
    """

    name: str
    operator: Operator
    value: bool | int | str

    def __str__(self) -> str:
        """Return the selector as a person would type it."""
        return f"{self.name}{self.operator}{self.value}"

    def matches(self, value: object) -> bool:
        """Tell whether a value satisfies the condition; None is a value that is not there.

        Text compares with text, so a version typed ``9`` equals the attribute ``"9"``;
        true is not 1; an order holds among whole numbers alone.
        """
        wanted = self.value
        if self.operator is Operator.IN:
            return isinstance(value, str) and value in str(wanted).split("|")
        if self.operator in {Operator.EQUAL, Operator.NOT_EQUAL}:
            if isinstance(value, str):
                equal = value == str(wanted)
            else:
                equal = type(value) is type(wanted) and value == wanted
            return equal == (self.operator is Operator.EQUAL)
        if type(value) is not int or type(wanted) is not int:
            return False
        return value >= wanted if self.operator is Operator.AT_LEAST else value <= wanted


@dataclass(frozen=True, slots=True)
class ResourceItem:
    """An amount of one kind of device.

    Parameters
    ----------
    kind : DeviceKind
    millis : int
        Thousandths of a core (CPU) or device (any other kind).
        Above 1000, a kind that does not divide freely takes whole devices only.
        May be 0 where only memory is asked for.
    memory_bytes : int, optional
        Memory on each device drawn from; on a CPU, memory of the host.
        None asks for the same share of the memory as of the device (0 on a CPU).
    linked : bool
        Whether the devices must come as one gang, joined by links.
    """

    kind: DeviceKind
    millis: int
    memory_bytes: int | None = None
    linked: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What a job needs, all of it at once and on one node.

    Parameters
    ----------
    items : tuple of ResourceItem
        At least one; each kind at most once.
    device_selectors : tuple of Selector
        Every device drawn from must match all of them, CPUs excepted
        unless CPU is the only kind asked for.
    node_selectors : tuple of Selector
        The node must match all of them.
    pool : str
        Name of the pool to draw from.
    spread_group : str
        Requests of one group keep apart, as by Kubernetes' pod anti-affinity; empty for none.
    spread_max : int
        How many of the group may run on one node; at least 1 where there is a group.
    """

    items: tuple[ResourceItem, ...]
    device_selectors: tuple[Selector, ...] = ()
    node_selectors: tuple[Selector, ...] = ()
    pool: str = "default"
    spread_group: str = ""
    spread_max: int = 0


class JobState(StrEnum):
    """State of a job, in Slurm's words."""

    PENDING = "pending"
    STARTING = "starting"
    """A lease is held, the engine has not confirmed that work runs."""
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    LOST = "lost"
    """The work vanished without an exit status, for example with its node."""

    @property
    def is_final(self) -> bool:
        """Whether the job will never change again."""
        return self not in {JobState.PENDING, JobState.STARTING, JobState.RUNNING}


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What to run.

    Parameters
    ----------
    command : tuple of str
        Program and arguments; never passed through a shell.
    request : Request
    name : str
    environment : mapping of str to str
        Added to the engine's own.
    directory : str
        Working directory; empty means the engine's default.
    time_limit_s : float, optional
        The engine ends the work when it has run this long.
    priority : int
        Higher is placed first; equal priorities in order of submission.
    accelerators : tuple of str
        Names of accelerators to apply; ``*`` stands for all that apply.
    """

    command: tuple[str, ...]
    request: Request
    name: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""
    time_limit_s: float | None = None
    priority: int = 0
    accelerators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the ledger knows it.

    Parameters
    ----------
    id : JobId
    spec : JobSpec
    state : JobState
    submitted_s, started_s, ended_s : float
        Seconds since the epoch; None where it has not happened.
    exit_status : int, optional
        Exit status of the command; negative is minus the signal that ended it.
    reason : str
        Why it ended, or why it still waits.
    """

    id: JobId
    spec: JobSpec
    state: JobState
    submitted_s: float
    started_s: float | None = None
    ended_s: float | None = None
    exit_status: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Draw:
    """An amount taken from one device.

    Parameters
    ----------
    device : DeviceId
    millis : int
    memory_bytes : int
    """

    device: DeviceId
    millis: int
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """The choice of a policy: where a job could run.

    Parameters
    ----------
    job : JobId
    pool : str
    node : NodeId
    draws : tuple of Draw
        One a device, in order of device id.
    policy : str
        Name of the policy that chose.
    terms : mapping of str to float
        Terms of the score, as the policy names them.
    """

    job: JobId
    pool: str
    node: NodeId
    draws: tuple[Draw, ...]
    policy: str = ""
    terms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lease:
    """A placement in force.

    Parameters
    ----------
    id : LeaseId
    job : JobId
    pool : str
    node : NodeId
    draws : tuple of Draw
    created_s : float
        Seconds since the epoch.
    expires_s : float, optional
        Latest end, from the job's time limit; without one the lease ends with the work.
    ended_s : float, optional
        None while the lease is in force.
    """

    id: LeaseId
    job: JobId
    pool: str
    node: NodeId
    draws: tuple[Draw, ...]
    created_s: float
    expires_s: float | None = None
    ended_s: float | None = None


@dataclass(frozen=True, slots=True)
class Mount:
    """A path of the host that the work must see."""

    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class DeviceAccess:
    """What a process or container needs to use its devices, and those alone.

    Parameters
    ----------
    environment : mapping of str to str
        For example ``CUDA_VISIBLE_DEVICES``.
    device_nodes : tuple of str
        Paths below ``/dev``.
    mounts : tuple of Mount
    cpus : tuple of int
        CPUs of the operating system that the work is kept on; empty means no limit.
    enforced : tuple of str
        Limits that the platform itself keeps: ``devices``, ``memory``, ``compute``.
        What is not listed is advisory.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    device_nodes: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    cpus: tuple[int, ...] = ()
    enforced: tuple[str, ...] = ()
