"""The network state ``netdev``."""

from __future__ import annotations

from collections.abc import Sequence

from forebay import NetworkState, PluginContext, hookimpl


@hookimpl
def forebay_network_states(context: PluginContext) -> Sequence[NetworkState]:
    """Offer the reader."""
    from forebay_builtin_plugins.netdev.interfaces import Netdev

    return [Netdev(context)]
