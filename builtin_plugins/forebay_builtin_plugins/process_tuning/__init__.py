"""The accelerator ``process-tuning``."""

from __future__ import annotations

from collections.abc import Sequence

from forebay import Accelerator, PluginContext, hookimpl


@hookimpl
def forebay_accelerators(context: PluginContext) -> Sequence[Accelerator]:
    """Offer the accelerator."""
    from forebay_builtin_plugins.process_tuning.accelerator import ProcessTuning

    return [ProcessTuning(context)]
