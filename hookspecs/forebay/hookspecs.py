"""The hooks: how a plugin offers what it has.

Hooks register, objects behave.
Each hook but the last is called once, when the host first needs the plugin's family,
and returns objects of an interface of this contract.
A plugin implements the hooks of the kinds that its manifest names, and no others,
and may leave out arguments that it does not use.

A hook may raise anything: the host charges it to the plugin, which is then degraded
or quarantined by its failure policy, and calls the hooks of the other plugins all the same.
Hooks are called one plugin at a time, so wrappers and ``tryfirst`` have no effect on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forebay._markers import hookspec
from forebay.accelerator import Accelerator
from forebay.device import NodeId
from forebay.energy import EnergyModel
from forebay.engine import Engine
from forebay.event import Event, JsonValue
from forebay.hardware import HardwareAdapter
from forebay.network import NetworkState
from forebay.pool import PoolStrategy
from forebay.queueing import QueuePolicy
from forebay.scheduling import Filter, PlacementPolicy


@dataclass(frozen=True, slots=True)
class PluginContext:
    """What the host tells a plugin about its place.

    Parameters
    ----------
    plugin : str
        Id of the plugin.
    node : NodeId
        Node that the host runs on.
    config : mapping of str to JsonValue
        The plugin's table of the site's configuration, valid by its own schema.
    state_directory : str
        A directory that is the plugin's alone and outlives restarts; it exists.
    """

    plugin: str
    node: NodeId
    config: Mapping[str, JsonValue] = field(default_factory=dict)
    state_directory: str = ""


@hookspec
def forebay_hardware_adapters(context: PluginContext) -> Sequence[HardwareAdapter]:
    """Offer adapters for the devices of one vendor or kind.

    Called once in the plugin's own process, and again after each restart of that process.
    Must not load a vendor library: that is ``discover``'s to do.

    Parameters
    ----------
    context : PluginContext

    Returns
    -------
    sequence of HardwareAdapter
        Usually one; empty when there is nothing to offer here.
    """
    raise AssertionError("a specification is never called")


@hookspec
def forebay_pool_strategies(context: PluginContext) -> Sequence[PoolStrategy]:
    """Offer strategies that make lendable units from devices.

    Called once in the host's process.

    Parameters
    ----------
    context : PluginContext

    Returns
    -------
    sequence of PoolStrategy
        Names must be unique among all plugins; the host refuses the later one.
    """
    raise AssertionError("a specification is never called")


@hookspec
def forebay_filters(context: PluginContext) -> Sequence[Filter]:
    """Offer filters that rule units out for requests.

    Called once in the host's process; all filters of all plugins are in force.

    Parameters
    ----------
    context : PluginContext

    Returns
    -------
    sequence of Filter
        In any order: a unit must pass all of them.
    """
    raise AssertionError("a specification is never called")


@hookspec
def forebay_policies(context: PluginContext) -> Sequence[PlacementPolicy]:
    """Offer policies that choose where requests run.

    Called once in the host's process; the configuration names the one in force.

    Parameters
    ----------
    context : PluginContext

    Returns
    -------
    sequence of PlacementPolicy
        Names must be unique among all plugins; the host refuses the later one.
    """
    raise AssertionError("a specification is never called")


@hookspec
def forebay_queue_policies(context: PluginContext) -> Sequence[QueuePolicy]:
    """Offer policies that put waiting jobs in order.

    Called once in the host's process; the configuration names the one in force.

    Parameters
    ----------
    context : PluginContext

    Returns
    -------
    sequence of QueuePolicy
        Names must be unique among all plugins; the host refuses the later one.
    """
    raise AssertionError("a specification is never called")


@hookspec
def forebay_accelerators(context: PluginContext) -> Sequence[Accelerator]:
    """Offer accelerators that make work faster.

    Called once in the plugin's own process, and again after each restart of that process.

    Parameters
    ----------
    context : PluginContext

    Returns
    -------
    sequence of Accelerator
        For each start of work the host applies those whose estimate promises enough.
    """
    raise AssertionError("a specification is never called")


@hookspec
def forebay_engines(context: PluginContext) -> Sequence[Engine]:
    """Offer engines that run work.

    Called once in the plugin's own process, and again after each restart of that process.

    Parameters
    ----------
    context : PluginContext
        ``state_directory`` is where an engine keeps what must outlive a crash.

    Returns
    -------
    sequence of Engine
        Names must be unique among all plugins; the configuration names the one in force.
    """
    raise AssertionError("a specification is never called")


@hookspec
def forebay_energy_models(context: PluginContext) -> Sequence[EnergyModel]:
    """Offer models of the power that devices draw.

    Called once in the host's process.

    Parameters
    ----------
    context : PluginContext

    Returns
    -------
    sequence of EnergyModel
        A device's power is that of the first model that knows it, in order of plugin id.
    """
    raise AssertionError("a specification is never called")


@hookspec
def forebay_network_states(context: PluginContext) -> Sequence[NetworkState]:
    """Offer readers of the network's state.

    Called once in the plugin's own process, and again after each restart of that process.

    Parameters
    ----------
    context : PluginContext

    Returns
    -------
    sequence of NetworkState
    """
    raise AssertionError("a specification is never called")


@hookspec
def forebay_observe(context: PluginContext, event: Event) -> None:
    """Take note of one event.

    Called in the host's process for every event, in order, after its transaction is durable:
    at least once, so an observer that must not count twice remembers ``event.sequence``.
    Must return quickly (milliseconds); the host times it and quarantines observers that do not.
    Nothing that an observer does or raises changes what the host does.

    Parameters
    ----------
    context : PluginContext
    event : Event
    """
    raise AssertionError("a specification is never called")
