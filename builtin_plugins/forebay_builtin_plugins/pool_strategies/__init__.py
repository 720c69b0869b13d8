"""The pool strategies ``whole``, ``shares`` and ``gangs``."""

from __future__ import annotations

from collections.abc import Sequence

from forebay import PluginContext, PoolStrategy, hookimpl


@hookimpl
def forebay_pool_strategies(context: PluginContext) -> Sequence[PoolStrategy]:
    """Offer the strategies."""
    del context
    from forebay_builtin_plugins.pool_strategies.gangs import Gangs
    from forebay_builtin_plugins.pool_strategies.slices import Shares, Whole

    return [Whole(), Shares(), Gangs()]
