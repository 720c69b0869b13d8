"""Orders in which waiting jobs are tried."""

from __future__ import annotations

from collections.abc import Sequence

from forebay import PluginContext, QueuePolicy, hookimpl


@hookimpl
def forebay_queue_policies(context: PluginContext) -> Sequence[QueuePolicy]:
    """Offer the policies."""
    del context
    from forebay import Backfill
    from forebay_builtin_plugins.queue_policies.first_come import FirstCome
    from forebay_builtin_plugins.queue_policies.shortest_first import ShortestFirst
    from forebay_builtin_plugins.queue_policies.smallest_first import SmallestFirst

    return [
        FirstCome("first-come", Backfill.NONE),
        FirstCome("first-come-skip", Backfill.SKIP),
        FirstCome("easy", Backfill.EASY),
        FirstCome("conservative", Backfill.CONSERVATIVE),
        ShortestFirst("shortest-first", Backfill.NONE),
        ShortestFirst("shortest-first-skip", Backfill.SKIP),
        SmallestFirst("smallest-first-skip", Backfill.SKIP),
    ]
