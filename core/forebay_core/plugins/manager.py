"""The plugin manager: which plugins there are, and what they offer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forebay import (
    PROCESS_KINDS,
    Accelerator,
    EnergyModel,
    Engine,
    Event,
    Filter,
    HardwareAdapter,
    NetworkState,
    NodeId,
    PlacementPolicy,
    PluginContext,
    PluginError,
    PluginKind,
    PoolStrategy,
    QueuePolicy,
)
from forebay_core.config import Config
from forebay_core.plugins.discovery import find_plugins
from forebay_core.plugins.gates import Machine
from forebay_core.plugins.inprocess import InProcessPlugin
from forebay_core.plugins.isolated import IsolatedPlugin, note_failure
from forebay_core.plugins.records import Offered, PluginRecord, PluginState
from forebay_core.plugins.screening import screen


class PluginManager:
    """Finds plugins, loads those that are needed, and keeps each one's failures to itself.

    Nothing is imported before a family is asked for.

    Parameters
    ----------
    config : Config
    node : NodeId
        This node.
    state_directory : Path
        Each plugin gets a directory of its own below it.
    path : sequence of str, optional
        Where to look for distributions, instead of the interpreter's path.
    machine : Machine, optional
        What match rules look at.
    """

    def __init__(
        self,
        config: Config,
        *,
        node: NodeId,
        state_directory: Path,
        path: Sequence[str] | None = None,
        machine: Machine | None = None,
    ) -> None:
        self._config = config
        self._node = node
        self._state_directory = state_directory
        machine = machine or Machine()
        self._records = [screen(found, config, machine) for found in find_plugins(path)]
        self._isolated: dict[str, IsolatedPlugin] = {}
        self._inprocess: dict[str, InProcessPlugin] = {}
        self._offers: dict[PluginKind, tuple[Offered[Any], ...]] = {}

    def __enter__(self) -> PluginManager:
        """Return the manager itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """End the plugins' processes."""
        for plugin in self._isolated.values():
            plugin.stop()

    def records(self) -> tuple[PluginRecord, ...]:
        """Return what is known of every plugin, in order of id."""
        return tuple(self._records)

    def problems(self) -> tuple[PluginRecord, ...]:
        """Return the plugins that are faulty or have failed."""
        bad = {PluginState.INCOMPATIBLE, PluginState.DEGRADED, PluginState.QUARANTINED}
        return tuple(record for record in self._records if record.state in bad or record.last_error)

    def unknown_names(self) -> tuple[str, ...]:
        """Return names that the configuration disables or configures and nothing has."""
        known = {record.id for record in self._records}
        known |= {record.distribution for record in self._records}
        named = {*self._config.plugins.disable, *self._config.plugin}
        return tuple(sorted(named - known))

    def hardware_adapters(self) -> tuple[Offered[HardwareAdapter], ...]:
        """Return the adapters of all plugins."""
        return self._family(PluginKind.HARDWARE)

    def pool_strategies(self) -> tuple[Offered[PoolStrategy], ...]:
        """Return the pool strategies of all plugins."""
        return self._family(PluginKind.POOL)

    def filters(self) -> tuple[Offered[Filter], ...]:
        """Return the filters of all plugins."""
        return self._family(PluginKind.FILTER)

    def policies(self) -> tuple[Offered[PlacementPolicy], ...]:
        """Return the policies of all plugins."""
        return self._family(PluginKind.POLICY)

    def queue_policies(self) -> tuple[Offered[QueuePolicy], ...]:
        """Return the queue policies of all plugins."""
        return self._family(PluginKind.QUEUE)

    def accelerators(self) -> tuple[Offered[Accelerator], ...]:
        """Return the accelerators of all plugins."""
        return self._family(PluginKind.ACCELERATOR)

    def engines(self) -> tuple[Offered[Engine], ...]:
        """Return the engines of all plugins."""
        return self._family(PluginKind.ENGINE)

    def energy_models(self) -> tuple[Offered[EnergyModel], ...]:
        """Return the energy models of all plugins."""
        return self._family(PluginKind.ENERGY)

    def network_states(self) -> tuple[Offered[NetworkState], ...]:
        """Return the network states of all plugins."""
        return self._family(PluginKind.NETWORK)

    def observe(self, event: Event) -> None:
        """Hand an event to every observer."""
        for record in self._records:
            if record.may_load and self._has(record, PluginKind.OBSERVER):
                self._in_process(record).observe(event)

    def report_failure(self, plugin: str, error: Exception) -> None:
        """Charge a plugin that runs in the host's process with a failure seen elsewhere."""
        for record in self._records:
            if record.id == plugin and record.manifest is not None:
                self._in_process(record).failed(error)

    def load(self, record: PluginRecord) -> None:
        """Load everything that one plugin offers, to see whether it can be.

        Raises
        ------
        PluginError
            It cannot.
        """
        if record.manifest is None:
            raise PluginError(record.id, record.reason)
        for kind in record.manifest.kinds:
            if kind is PluginKind.OBSERVER:
                self._in_process(record).load()
            else:
                self._offers_of(record, kind)

    def _family(self, kind: PluginKind) -> tuple[Offered[Any], ...]:
        """Return what all plugins offer of one kind; what fails is left out and noted.

        The answer is kept once every plugin of the kind has given one.
        """
        if kind in self._offers:
            return self._offers[kind]
        offers: dict[str, Offered[Any]] = {}
        complete = True
        for record in self._records:
            if not record.may_load or not self._has(record, kind):
                continue
            try:
                offered = self._offers_of(record, kind)
            except PluginError:
                complete = False
                continue
            for item in offered:
                first = offers.setdefault(item.name, item)
                if first is not item:
                    self._refuse_double(record, kind, item.name, first.plugin)
        answer = tuple(offers.values())
        if complete:
            self._offers[kind] = answer
        return answer

    def _offers_of(self, record: PluginRecord, kind: PluginKind) -> list[Offered[Any]]:
        if kind in PROCESS_KINDS:
            return self._in_own_process(record).offers(kind)
        return self._in_process(record).offers(kind)

    def _in_process(self, record: PluginRecord) -> InProcessPlugin:
        if record.id not in self._inprocess:
            assert record.manifest is not None
            self._inprocess[record.id] = InProcessPlugin(
                record, record.manifest, self._context(record)
            )
        return self._inprocess[record.id]

    def _in_own_process(self, record: PluginRecord) -> IsolatedPlugin:
        if record.id not in self._isolated:
            assert record.manifest is not None
            kinds = [kind for kind in record.manifest.kinds if kind in PROCESS_KINDS]
            self._isolated[record.id] = IsolatedPlugin(
                record, record.manifest, self._context(record), kinds
            )
        return self._isolated[record.id]

    def _context(self, record: PluginRecord) -> PluginContext:
        directory = self._state_directory / record.id
        directory.mkdir(parents=True, exist_ok=True)
        return PluginContext(
            record.id, self._node, self._config.plugin.get(record.id, {}), str(directory)
        )

    def _has(self, record: PluginRecord, kind: PluginKind) -> bool:
        return record.manifest is not None and kind in record.manifest.kinds

    def _refuse_double(self, record: PluginRecord, kind: PluginKind, name: str, first: str) -> None:
        assert record.manifest is not None
        error = PluginError(
            record.id,
            f"offers the {kind} {name!r}, a name that plugin {first} has taken.",
            fix="Disable one of the two plugins.",
        )
        note_failure(record, error, record.manifest.failure_policy, exhausted=False)
