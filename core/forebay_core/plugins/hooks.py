"""Loads a plugin's package and calls its hooks, the same way in every process."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pluggy

from forebay import (
    Accelerator,
    EnergyModel,
    Engine,
    Filter,
    HardwareAdapter,
    NetworkState,
    PlacementPolicy,
    PluginContext,
    PluginError,
    PluginKind,
    PoolStrategy,
    QueuePolicy,
    hookspecs,
)
from forebay._markers import PROJECT_NAME

INTERFACES: Mapping[PluginKind, type] = {
    PluginKind.HARDWARE: HardwareAdapter,
    PluginKind.POOL: PoolStrategy,
    PluginKind.FILTER: Filter,
    PluginKind.POLICY: PlacementPolicy,
    PluginKind.QUEUE: QueuePolicy,
    PluginKind.ACCELERATOR: Accelerator,
    PluginKind.ENGINE: Engine,
    PluginKind.ENERGY: EnergyModel,
    PluginKind.NETWORK: NetworkState,
}
"""What the hook of each kind returns; the observer's returns nothing."""


class PluginHooks:
    """One plugin's hooks, loaded.

    Parameters
    ----------
    plugin : str
        Id of the plugin.
    package : str
        Package to import.
    kinds : sequence of PluginKind
        Kinds that the manifest declares.

    Raises
    ------
    PluginError
        The package cannot be imported, or its hooks are not those that the manifest declares.
    """

    def __init__(self, plugin: str, package: str, kinds: Sequence[PluginKind]) -> None:
        self.plugin = plugin
        module = self._import(package)
        self._check_declared(module, kinds)
        self._manager = pluggy.PluginManager(PROJECT_NAME)
        self._manager.add_hookspecs(hookspecs)
        try:
            # Of the module only its hooks, since pluggy looks at every attribute it is given.
            hooks = {kind.hook: getattr(module, kind.hook) for kind in kinds}
            self._manager.register(SimpleNamespace(**hooks), name=plugin)
            self._manager.check_pending()
        except pluggy.PluginValidationError as error:
            raise PluginError(plugin, str(error).replace("\n", " ")) from error

    def call(self, kind: PluginKind, **arguments: object) -> Any:  # noqa: ANN401 - as the hook
        """Call the hook of one kind with those of the arguments that it takes.

        Whatever it raises is raised here: catching it is the host's affair.
        """
        caller = getattr(self._manager.hook, kind.hook)
        (implementation,) = caller.get_hookimpls()
        return implementation.function(*(arguments[name] for name in implementation.argnames))

    def offers(self, kind: PluginKind, context: PluginContext) -> tuple[Any, ...]:
        """Return what the plugin offers of one kind.

        Raises
        ------
        PluginError
            The hook returned something else than objects of the family's interface.
        """
        offered = self.call(kind, context=context)
        interface = INTERFACES[kind]
        if isinstance(offered, str) or not isinstance(offered, Sequence):
            raise PluginError(
                self.plugin,
                f"{kind.hook} returned {type(offered).__name__}, "
                f"expected a sequence of {interface.__name__}.",
            )
        for item in offered:
            if not isinstance(item, interface):
                raise PluginError(
                    self.plugin,
                    f"{kind.hook} offered {type(item).__name__}, expected {interface.__name__}.",
                )
            name = getattr(item, "name", None)
            if not isinstance(name, str) or not name:
                raise PluginError(
                    self.plugin,
                    f"{type(item).__name__} has no name.",
                    fix="Set the attribute name.",
                )
        return tuple(offered)

    def _import(self, package: str) -> ModuleType:
        try:
            return importlib.import_module(package)
        except (Exception, SystemExit) as error:
            # A stranger's import may raise anything; even a request to exit is its failure.
            raise PluginError(
                self.plugin, f"import of {package} failed: {type(error).__name__}: {error}"
            ) from error

    def _check_declared(self, module: ModuleType, kinds: Sequence[PluginKind]) -> None:
        for kind in PluginKind:
            implemented = hasattr(getattr(module, kind.hook, None), f"{PROJECT_NAME}_impl")
            if implemented and kind not in kinds:
                raise PluginError(
                    self.plugin,
                    f"implements {kind.hook}, which its manifest does not declare.",
                    fix=f'Add "{kind}" to kinds in the manifest.',
                )
            if kind in kinds and not implemented:
                raise PluginError(
                    self.plugin,
                    f"declares kind {kind} and does not implement {kind.hook}.",
                    fix=f"Write the hook and mark it with hookimpl, or remove {kind} from kinds.",
                )
