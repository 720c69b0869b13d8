"""The hardware adapter for CPUs."""

from __future__ import annotations

from collections.abc import Sequence

from forebay import HardwareAdapter, PluginContext, hookimpl


@hookimpl
def forebay_hardware_adapters(context: PluginContext) -> Sequence[HardwareAdapter]:
    """Offer the adapter."""
    from forebay_builtin_plugins.cpu.adapter import CpuAdapter

    return [CpuAdapter(context)]
