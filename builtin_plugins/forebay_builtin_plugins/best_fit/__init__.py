"""The policy ``best-fit``."""

from __future__ import annotations

from collections.abc import Sequence

from forebay import PluginContext, ScorePolicy, hookimpl


@hookimpl
def forebay_policies(context: PluginContext) -> Sequence[ScorePolicy]:
    """Offer the policy."""
    del context
    from forebay_builtin_plugins.best_fit.policy import BestFit

    return [BestFit()]
