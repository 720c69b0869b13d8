"""What the host knows of each plugin."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from forebay import Manifest

T_co = TypeVar("T_co", covariant=True)


class PluginState(StrEnum):
    """How far a plugin has come."""

    DISCOVERED = "discovered"
    """Its manifest is read; nothing has been loaded."""
    BLOCKED = "blocked"
    """Not to be loaded: disabled, faulty manifest or configuration, or no match on this machine."""
    INCOMPATIBLE = "incompatible"
    """It works with other versions of the contract."""
    LOADED = "loaded"
    DEGRADED = "degraded"
    """It failed, and will be tried again."""
    QUARANTINED = "quarantined"
    """It failed too often, and is not called any more by this process."""


@dataclass(slots=True)
class PluginRecord:
    """A plugin and what has become of it in this process.

    Parameters
    ----------
    id, distribution, version, package : str
    state : PluginState
    reason : str
        Why it is in that state, one sentence; empty when all is well.
    manifest : Manifest, optional
    load_s : float, optional
        How long loading took.
    calls, failures : int
    call_s : float
        Time spent in calls so far.
    last_error : str
    """

    id: str
    distribution: str
    version: str
    package: str
    state: PluginState
    reason: str = ""
    manifest: Manifest | None = field(default=None)
    load_s: float | None = None
    calls: int = 0
    failures: int = 0
    call_s: float = 0.0
    last_error: str = ""

    @property
    def may_load(self) -> bool:
        """Whether the host may load and call it."""
        return self.state in {PluginState.DISCOVERED, PluginState.LOADED, PluginState.DEGRADED}


@dataclass(frozen=True, slots=True)
class Offered(Generic[T_co]):
    """Something a plugin offers.

    Parameters
    ----------
    plugin : str
        Id of the plugin.
    name : str
        Name of the object, unique in its family.
    object : T_co
        The object, or a proxy of it in the plugin's own process.
    """

    plugin: str
    name: str
    object: T_co
