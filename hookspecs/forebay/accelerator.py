"""The accelerator: makes work faster without standing in its data path."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from forebay.device import Device
from forebay.evidence import Evidence
from forebay.work import Lease

GAIN_MIN = 1.1
"""A plan whose estimated gain is below this is not applied: do no harm."""


class SubjectKind(StrEnum):
    """What an accelerator can act upon."""

    PROCESS = "process"
    COLLECTIVE = "collective"
    DATASET = "dataset"
    GRAPH = "graph"


@dataclass(frozen=True, slots=True)
class Subject:
    """The work, or part of it, to be made faster.

    Parameters
    ----------
    kind : SubjectKind
    command : tuple of str
        For a process: program and arguments.
    environment : mapping of str to str
        For a process: what the user set; it is never overridden.
    parameters : mapping of str to bool, int, float or str
        For a process ``cpus``: those that the adapters set aside for it, joined by commas.
        For the other kinds as the accelerator documents.
    """

    kind: SubjectKind
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, bool | int | float | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Capability:
    """Something that a plugin declares or was found able to do.

    Parameters
    ----------
    name : str
    available : bool
    parameters : mapping of str to bool, int, float or str
    reason : str
        Why it is not available; empty when it is.
    """

    name: str
    available: bool = True
    parameters: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted effect on a subject.

    Parameters
    ----------
    baseline_s : float
        Duration without the accelerator.
    accelerated_s : float
        Duration with it, in the same terms.
    method : str
        Model or measurement behind the numbers.
    """

    baseline_s: float
    accelerated_s: float
    method: str

    @property
    def gain(self) -> float:
        """Baseline over accelerated; above 1 is faster."""
        return self.baseline_s / self.accelerated_s


@dataclass(frozen=True, slots=True)
class Plan:
    """A vendor-neutral decision, before it is rendered for a target.

    Parameters
    ----------
    accelerator : str
    subject : Subject
    settings : mapping of str to bool, int, float, str or tuple of int
        As the accelerator documents; ``cpus`` is a tuple of int.
    estimate : Estimate
    """

    accelerator: str
    subject: Subject
    settings: Mapping[str, bool | int | float | str | tuple[int, ...]]
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Artifact:
    """What the target must be given to follow a plan.

    Parameters
    ----------
    environment : mapping of str to str
    command_prefix : tuple of str
        Put before the command, for example ``numactl --membind=0``.
    cpus : tuple of int
        CPUs to keep the work on; empty means no limit.
    files : mapping of str to str
        Name and content of files the target must find in its directory.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    command_prefix: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of the subject.

    Parameters
    ----------
    accelerated : bool
        Whether the plan was in force.
    duration_s : float
    """

    accelerated: bool
    duration_s: float


class Accelerator(ABC):
    """Makes a subject faster by choosing settings of the native stack.

    Runs in a process of its own; every call has a deadline.
    The host calls ``estimate``, and only where the gain reaches :data:`GAIN_MIN`
    ``plan`` and ``render``; ``verify`` when runs were measured.
    """

    name: str
    """Unique name."""

    subjects: tuple[SubjectKind, ...]
    """Kinds of subject that the accelerator knows."""

    @abstractmethod
    def probe(self) -> Sequence[Capability]:
        """Tell what is present on this node; called at start and on demand.

        May measure, for less than two seconds.
        What is absent is a capability that is not available, never an exception.
        """

    @abstractmethod
    def estimate(
        self, subject: Subject, lease: Lease, devices: Sequence[Device]
    ) -> Estimate | None:
        """Predict the effect on a subject under a lease; called before each start.

        Fast (milliseconds) and without effect on the machine.

        Parameters
        ----------
        subject : Subject
        lease : Lease
        devices : sequence of Device
            The devices drawn from, in the order of the lease's draws.

        Returns
        -------
        Estimate or None
            None declines: nothing to gain, or not a subject of this accelerator.
        """

    @abstractmethod
    def plan(
        self, subject: Subject, lease: Lease, devices: Sequence[Device], estimate: Estimate
    ) -> Plan:
        """Decide how to reach the estimate; called at most once for each start.

        Parameters
        ----------
        subject : Subject
        lease : Lease
        devices : sequence of Device
            As for :meth:`estimate`.
        estimate : Estimate
            What :meth:`estimate` returned for the same arguments.

        Raises
        ------
        UnsupportedError
            The subject cannot be planned after all.
        """

    @abstractmethod
    def render(self, plan: Plan, target: str) -> Sequence[Artifact]:
        """Put a plan in the terms of a target; a pure function.

        Parameters
        ----------
        plan : Plan
            Made by this accelerator.
        target : str
            Name of an engine, for example ``local``.

        Raises
        ------
        UnsupportedError
            The target is not known.
        """

    @abstractmethod
    def verify(self, plan: Plan, trials: Sequence[Trial]) -> Evidence:
        """Turn measured runs into evidence of what the plan gained.

        Parameters
        ----------
        plan : Plan
        trials : sequence of Trial
            At least one with and one without the plan.

        Raises
        ------
        StateError
            Trials of one sort are missing.
        """
