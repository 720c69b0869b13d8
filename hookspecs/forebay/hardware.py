"""The hardware adapter: everything Forebay asks of a vendor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forebay.device import DeviceId, DeviceReport, HealthCondition, Reading
from forebay.errors import UnsupportedError
from forebay.evidence import Evidence
from forebay.work import DeviceAccess, Lease


@dataclass(frozen=True, slots=True)
class PartitionProfile:
    """A way in which hardware can divide a device.

    Parameters
    ----------
    name : str
        As the vendor names it, for example ``1g.10gb``.
    count_max : int
        Most partitions of this profile at once.
    millis : int
        Share of the parent device.
    memory_bytes : int
    disturbs : str
        What applying it interrupts: ``nothing``, ``device`` or ``node``.
    """

    name: str
    count_max: int
    millis: int
    memory_bytes: int
    disturbs: str = "device"


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a device that the hardware itself keeps apart.

    Parameters
    ----------
    id : DeviceId
        The partition's own stable id; it appears as a device in the next report.
    parent : DeviceId
    profile : str
    """

    id: DeviceId
    parent: DeviceId
    profile: str


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """Health of one device.

    Parameters
    ----------
    device : DeviceId
    conditions : tuple of HealthCondition
    """

    device: DeviceId
    conditions: tuple[HealthCondition, ...] = field(default=())


class HardwareAdapter(ABC):
    """Finds, describes and prepares the devices of one vendor or kind.

    Runs in a process of its own; every call has a deadline.
    ``discover`` and ``prepare`` are duties, the rest is optional:
    a method left alone raises :class:`~forebay.errors.UnsupportedError`, which is an answer.
    Methods are called one at a time.
    """

    name: str
    """Unique name; the host lists devices under it."""

    @abstractmethod
    def discover(self) -> DeviceReport:
        """Find the devices of this node and describe them.

        Called at start and then every few seconds; must not disturb running work.
        Finding nothing is a report with ``absent`` set, a device or driver that fails
        is one of its ``failures``; neither is an exception.

        Returns
        -------
        DeviceReport
            Ids are the same in every call for as long as the hardware is.

        Raises
        ------
        DeviceError
            The adapter cannot tell anything at all.
        """

    @abstractmethod
    def prepare(self, lease: Lease) -> DeviceAccess:
        """Make the lease's devices ready and tell how work reaches them.

        Called once before work starts, again after a crash of the host: idempotent.
        Draws of devices that are not the adapter's are to be ignored.

        Parameters
        ----------
        lease : Lease
            In force; at least one draw is of this adapter's devices.

        Returns
        -------
        DeviceAccess
            Devices are named by stable id, or by an index read in this very call.

        Raises
        ------
        DeviceError
            The devices cannot be used; the job fails and the lease ends.
        """

    def release(self, lease: Lease) -> None:
        """Undo ``prepare``; called once the work has ended, perhaps again: idempotent.

        Parameters
        ----------
        lease : Lease
            One that ``prepare`` was called for, or would have been had nothing crashed.

        Raises
        ------
        DeviceError
            The devices could not be cleaned; they stay out of the pool until the next discovery.
        """

    def telemetry(self, devices: Sequence[DeviceId]) -> Sequence[Reading]:
        """Read the present values of some devices; called every few seconds.

        Parameters
        ----------
        devices : sequence of DeviceId

        Returns
        -------
        sequence of Reading
            A value that cannot be had is a reading with its state, never a zero.

        Raises
        ------
        UnsupportedError
            The adapter has no telemetry.
        """
        raise UnsupportedError(f"{self.name} offers no telemetry")

    def health(self, devices: Sequence[DeviceId]) -> Sequence[DeviceHealth]:
        """Judge the health of some devices; called every few seconds.

        Parameters
        ----------
        devices : sequence of DeviceId

        Raises
        ------
        UnsupportedError
            The adapter cannot judge; the host then trusts ``discover`` alone.
        """
        raise UnsupportedError(f"{self.name} offers no health")

    def partition_profiles(self, device: DeviceId) -> Sequence[PartitionProfile]:
        """List the ways in which the hardware can divide a device now; called on demand.

        Parameters
        ----------
        device : DeviceId

        Raises
        ------
        UnsupportedError
            The device cannot be partitioned.
        NotFoundError
            No such device.
        """
        raise UnsupportedError(f"{self.name} offers no partitions")

    def partition(
        self, device: DeviceId, profiles: Sequence[str], dry_run: bool
    ) -> Sequence[Partition]:
        """Divide a device; called on an operator's demand, when nothing runs on it.

        Parameters
        ----------
        device : DeviceId
        profiles : sequence of str
            Names of profiles, one for each partition wanted.
        dry_run : bool
            Check and plan only; change nothing.

        Returns
        -------
        sequence of Partition
            All partitions that the device has (or would have) afterwards.

        Raises
        ------
        UnsupportedError, NotFoundError, StateError
            Not offered, no such device or profile, or the device is in use.
        """
        raise UnsupportedError(f"{self.name} offers no partitions")

    def restore(self, device: DeviceId) -> None:
        """Remove all partitions of a device; idempotent.

        Parameters
        ----------
        device : DeviceId

        Raises
        ------
        UnsupportedError, NotFoundError, StateError
            As for :meth:`partition`.
        """
        raise UnsupportedError(f"{self.name} offers no partitions")

    def probe(self, device: DeviceId) -> Sequence[Evidence]:
        """Measure what the device really does; called on demand, when nothing runs on it.

        Parameters
        ----------
        device : DeviceId

        Raises
        ------
        UnsupportedError, NotFoundError, DeviceError
            Not offered, no such device, or the device failed the measurement.
        """
        raise UnsupportedError(f"{self.name} offers no probe")

    def explain(self, reason: str) -> str:
        """Tell in a sentence what a vendor's reason code means; empty when unknown.

        Parameters
        ----------
        reason : str
            As in :attr:`forebay.HealthCondition.reason`.
        """
        del reason
        return ""

    def options(self) -> Mapping[str, bool | int | str]:
        """Return the configuration in force, for ``forebay plugins info``."""
        return {}
