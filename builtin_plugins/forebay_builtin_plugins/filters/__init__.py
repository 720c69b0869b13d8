"""The filters that every site needs."""

from __future__ import annotations

from collections.abc import Sequence

from forebay import Filter, PluginContext, hookimpl


@hookimpl
def forebay_filters(context: PluginContext) -> Sequence[Filter]:
    """Offer the filters."""
    del context
    from forebay_builtin_plugins.filters.health import HealthFilter
    from forebay_builtin_plugins.filters.resources import ResourceFilter
    from forebay_builtin_plugins.filters.selection import AttributeFilter, NodeFilter

    return [AttributeFilter(), HealthFilter(), NodeFilter(), ResourceFilter()]
