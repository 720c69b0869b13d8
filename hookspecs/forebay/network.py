"""The network state: what the links between nodes carry now."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from forebay.device import FactState, NodeId


@dataclass(frozen=True, slots=True)
class InterfaceState:
    """State of one network interface of a node.

    Parameters
    ----------
    node : NodeId
        The host fills it in where the plugin leaves it empty.
    interface : str
    state : FactState
        State of the rate; counters that are None were not read.
    is_up : bool
    rate_bits_per_s : int, optional
        Line rate of one direction.
    received_bytes, sent_bytes : int, optional
        Counters since the interface came up.
    time_s : float
        When it was read, seconds since the epoch.
    """

    node: NodeId
    interface: str
    state: FactState
    is_up: bool
    rate_bits_per_s: int | None = None
    received_bytes: int | None = None
    sent_bytes: int | None = None
    time_s: float = 0.0


class NetworkState(ABC):
    """Reads the state of the network; runs in a process of its own."""

    name: str
    """Unique name."""

    @abstractmethod
    def interfaces(self) -> Sequence[InterfaceState]:
        """Read the interfaces that this plugin sees; called every few seconds.

        Raises
        ------
        DeviceError
            Nothing can be read at all.
        """
