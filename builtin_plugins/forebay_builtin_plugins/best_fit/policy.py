"""Best fit: the node that a request leaves the least free.

The rule is that of best-fit bin packing, taken over several resources by summing what is left
of each as a share of the node's capacity (Johnson, Demers, Ullman, Garey, Graham:
*Worst-Case Performance Bounds for Simple One-Dimensional Packing Algorithms*,
SIAM J. Comput. 3(4), 1974).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forebay import KIND_ORDER, Budget, Decisions, Policy, RequestBatch, Snapshot
from forebay.allocation import Free, UnitDraw, draws_on_node, feasible_nodes, take


class BestFit(Policy):
    """Places requests one after another, each where it leaves the least.

    Ties go to the lowest node index, and within the node to the unit with the least free,
    then the lowest unit index.  The random source is not used.
    One request takes O(M + N).
    """

    name = "best-fit"

    def place(
        self,
        snapshot: Snapshot,
        batch: RequestBatch,
        candidates: NDArray[np.bool_],
        rng: np.random.Generator,
        budget: Budget,
    ) -> Decisions:
        """Choose for each request in order; see the class for the rule."""
        del rng, budget
        free = Free.of(snapshot)
        count = len(batch.requests)
        nodes = np.full(count, -1, dtype=np.int32)
        wanted = np.flatnonzero(batch.wanted.any(axis=0)) if count else np.empty(0, dtype=np.intp)
        terms = {f"left_{KIND_ORDER[kind]}": np.full(count, np.nan) for kind in wanted}
        drawn: list[tuple[int, UnitDraw]] = []
        for request in range(count):
            feasible = feasible_nodes(snapshot, free, batch, request, candidates[request])
            if not feasible.any():
                continue
            left = {
                int(kind): _left(snapshot, free, batch, request, int(kind))
                for kind in np.flatnonzero(batch.wanted[request])
            }
            total = np.where(feasible, sum(left.values()), np.inf)
            node = int(np.argmin(total))
            draws = draws_on_node(snapshot, free, batch, request, candidates[request], node)
            if draws is None:
                continue
            take(snapshot, free, draws)
            nodes[request] = node
            drawn += [(request, draw) for draw in draws]
            for kind, shares in left.items():
                terms[f"left_{KIND_ORDER[kind]}"][request] = shares[node]
        return Decisions(
            node=nodes,
            draw_request=np.array([request for request, _ in drawn], dtype=np.int32),
            draw_unit=np.array([draw.unit for _, draw in drawn], dtype=np.int32),
            draw_millis=np.array([draw.millis for _, draw in drawn], dtype=np.int64),
            draw_memory_bytes=np.array([draw.memory_bytes for _, draw in drawn], dtype=np.int64),
            terms=terms,
        )


def _left(
    snapshot: Snapshot, free: Free, batch: RequestBatch, request: int, kind: int
) -> NDArray[np.float64]:
    """Return what the request would leave of a kind on each node, as a share: (N,) float64."""
    count = len(snapshot.node_ids)
    of_kind = np.repeat(snapshot.unit_kind == kind, np.diff(snapshot.member_offsets))
    # Each device once, however many units stand on it.
    devices = np.unique(snapshot.member_devices[of_kind])
    nodes = snapshot.device_node[devices]
    capacity = np.bincount(nodes, weights=snapshot.device_capacity_millis[devices], minlength=count)
    lent = np.bincount(nodes, weights=free.millis[devices], minlength=count)
    left: NDArray[np.float64] = (lent - batch.millis[request, kind]) / np.maximum(capacity, 1.0)
    return left
