"""Pools: what may be lent, made from devices by a strategy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forebay.device import Device, DeviceId, DeviceKind, Link, NodeId
from forebay.work import Selector


@dataclass(frozen=True, slots=True)
class LendableUnit:
    """What a pool lends: a device, a part of it in steps, or a gang of devices.

    Units of one or several pools may stand on the same devices;
    the ledger accounts by device, so nothing is lent twice.

    Parameters
    ----------
    id : str
        Unique within the pool, stable while its members are.
    kind : DeviceKind
        Kind of every member.
    node : NodeId
        Node of every member.
    members : tuple of DeviceId
        One device, or the devices of a gang, in order of id.
    capacity_millis : int
        Sum over the members.
    step_millis : int
        Smallest amount lent, and the step above it.
        Equal to the capacity where the unit is lent whole or not at all;
        a gang is always lent whole.
    """

    id: str
    kind: DeviceKind
    node: NodeId
    members: tuple[DeviceId, ...]
    capacity_millis: int
    step_millis: int

    @property
    def is_gang(self) -> bool:
        """Whether the unit joins several devices."""
        return len(self.members) > 1


@dataclass(frozen=True, slots=True)
class Pool:
    """A named part of the site's devices and the rule by which it is lent.

    Parameters
    ----------
    name : str
    strategy : str
        Name of a pool strategy.
    kinds : tuple of DeviceKind
        Kinds taken in; empty means all.
    selectors : tuple of Selector
        Devices must match all of them.
    quota_millis : mapping of DeviceKind to int
        Most that may be lent at once, by kind; a kind not named has no limit.
    options : mapping of str to bool, int or str
        Handed to the strategy.
    """

    name: str
    strategy: str
    kinds: tuple[DeviceKind, ...] = ()
    selectors: tuple[Selector, ...] = ()
    quota_millis: Mapping[DeviceKind, int] = field(default_factory=dict)
    options: Mapping[str, bool | int | str] = field(default_factory=dict)


class PoolStrategy(ABC):
    """Makes lendable units from devices: by slicing or by joining."""

    name: str
    """Unique name by which a pool chooses the strategy."""

    @abstractmethod
    def units(
        self,
        devices: Sequence[Device],
        links: Sequence[Link],
        options: Mapping[str, bool | int | str],
    ) -> Sequence[LendableUnit]:
        """Return the units that a pool of these devices lends.

        Called once for each pool whenever the inventory changes, in the host's process.
        A pure function: no I/O, no clock, same input same output.

        Parameters
        ----------
        devices : sequence of Device
            The pool's devices, in order of id.
        links : sequence of Link
            Links whose two ends are both among ``devices``.
        options : mapping of str to bool, int or str
            The pool's options for this strategy.

        Returns
        -------
        sequence of LendableUnit
            In an order of the strategy's choosing, which is the order of ties later on.

        Raises
        ------
        ConfigError
            An option is unknown or out of range.
        """
