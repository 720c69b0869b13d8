"""The engine ``local``: runs work as processes of this node."""

from __future__ import annotations

from collections.abc import Sequence

from forebay import Engine, PluginContext, hookimpl


@hookimpl
def forebay_engines(context: PluginContext) -> Sequence[Engine]:
    """Offer the engine."""
    from forebay_builtin_plugins.local.engine import LocalEngine

    return [LocalEngine(context)]
