"""The hardware adapter for NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from forebay import HardwareAdapter, PluginContext, hookimpl


@hookimpl
def forebay_hardware_adapters(context: PluginContext) -> Sequence[HardwareAdapter]:
    """Offer the adapter; loads no vendor library."""
    del context
    from forebay_builtin_plugins.nvidia.adapter import NvidiaAdapter

    return [NvidiaAdapter()]
