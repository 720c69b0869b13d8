"""Placement policies as published, each a module of its own."""

from __future__ import annotations

from collections.abc import Sequence

from forebay import PluginContext, ScorePolicy, hookimpl


@hookimpl
def forebay_policies(context: PluginContext) -> Sequence[ScorePolicy]:
    """Offer the policies."""
    del context
    from forebay_builtin_plugins.placement_policies.dot_product import DotProduct
    from forebay_builtin_plugins.placement_policies.fgd import FragmentationGradientDescent
    from forebay_builtin_plugins.placement_policies.gpu_clustering import GpuClustering
    from forebay_builtin_plugins.placement_policies.gpu_packing import GpuPacking
    from forebay_builtin_plugins.placement_policies.pwr import Pwr, PwrFgd
    from forebay_builtin_plugins.placement_policies.random_node import RandomNode

    return [
        DotProduct(),
        FragmentationGradientDescent(),
        GpuClustering(),
        GpuPacking(),
        Pwr(),
        PwrFgd(),
        RandomNode(),
    ]
