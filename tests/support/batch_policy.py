"""A policy that decides for a whole batch, by first fit: the least that such a policy can do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forebay import Budget, Decisions, Policy, RequestBatch, Snapshot
from forebay.allocation import Free, UnitDraw, draws_on_node, feasible_nodes, take


class FirstFitBatch(Policy):
    name = "first-fit-batch"

    def place(
        self,
        snapshot: Snapshot,
        batch: RequestBatch,
        candidates: NDArray[np.bool_],
        rng: np.random.Generator,
        budget: Budget,
    ) -> Decisions:
        del rng, budget
        free = Free.of(snapshot)
        nodes = np.full(len(batch.requests), -1, dtype=np.int32)
        drawn: list[tuple[int, UnitDraw]] = []
        for request in range(len(batch.requests)):
            feasible = feasible_nodes(snapshot, free, batch, request, candidates[request])
            for node in np.flatnonzero(feasible)[:1]:
                draws = draws_on_node(
                    snapshot, free, batch, request, candidates[request], int(node)
                )
                assert draws is not None
                take(snapshot, free, draws)
                nodes[request] = node
                drawn += [(request, draw) for draw in draws]
        return Decisions(
            node=nodes,
            draw_request=np.array([request for request, _ in drawn], dtype=np.int32),
            draw_unit=np.array([draw.unit for _, draw in drawn], dtype=np.int32),
            draw_millis=np.array([draw.millis for _, draw in drawn], dtype=np.int64),
            draw_memory_bytes=np.array([draw.memory_bytes for _, draw in drawn], dtype=np.int64),
        )
