"""The energy model ``linear-power``."""

from __future__ import annotations

from collections.abc import Sequence

from forebay import EnergyModel, PluginContext, hookimpl


@hookimpl
def forebay_energy_models(context: PluginContext) -> Sequence[EnergyModel]:
    """Offer the model."""
    from forebay_builtin_plugins.linear_power.model import LinearPower

    return [LinearPower(context)]
