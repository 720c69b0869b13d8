"""Plugins: found by manifest, loaded on demand, each one's failures kept to itself."""

from __future__ import annotations

from forebay_core.plugins.records import Offered, PluginRecord, PluginState

__all__ = ["Offered", "PluginRecord", "PluginState"]
