"""The rules of drawing in kernels are those stated in NumPy for whole fleets."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation_oracle import snapshot_of
from fleets import Fleet, fleets, requests
from forebay import FleetArrays, Request
from forebay.allocation import (
    Free,
    UnitDraw,
    draws_on_node,
    feasible_nodes,
    relevant_units,
)
from forebay.allocation import take as take_units
from forebay.drawing import TOO_MUCH, draw, fits, take
from forebay_core.scheduling import build_batch
from forebay_core.scheduling.classes import RequestClasses
from forebay_core.scheduling.fleet import build_fleet
from forebay_core.scheduling.phase1 import empty_draws


@given(fleets(), st.lists(requests(), min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_a_node_fits_and_is_drawn_from_as_the_numpy_rules_say(
    fleet: Fleet, asked: list[Request]
) -> None:
    snapshot = snapshot_of(fleet, {})
    free = Free.of(snapshot)
    arrays = build_fleet(snapshot)
    everything = np.ones((len(asked), len(snapshot.unit_ids)), np.bool_)
    classes = RequestClasses(arrays, lambda batch: everything[: len(batch.requests)])
    numbers = classes.number(asked)
    batch = build_batch(asked)
    for index, number in enumerate(numbers):
        candidates = relevant_units(snapshot, batch)[index]
        feasible = feasible_nodes(snapshot, free, batch, index, candidates)
        chosen: tuple[int, list[UnitDraw]] | None = None
        for node in range(len(snapshot.node_ids)):
            expected = draws_on_node(snapshot, free, batch, index, candidates, node)
            room = empty_draws(32)
            quota = arrays.quota_free_millis
            end = draw(arrays, classes.arrays, number, node, -1, quota, room, 0)
            assert (end >= 0) == (expected is not None) == bool(feasible[node])
            if expected is None:
                continue
            assert fits(arrays, classes.arrays, number, node, quota)
            found = [
                UnitDraw(int(room.unit[row]), int(room.millis[row]), int(room.memory_bytes[row]))
                for row in range(end)
            ]
            assert found == expected
            chosen = chosen or (node, expected)
        if chosen is None:
            continue
        node, draws = chosen
        take_units(snapshot, free, draws)
        room = empty_draws(32)
        end = draw(arrays, classes.arrays, number, node, -1, arrays.quota_free_millis, room, 0)
        take(arrays, classes.arrays, number, node, room, 0, end, 1)
        assert_same_state(free, arrays)


def assert_same_state(free: Free, arrays: FleetArrays) -> None:
    assert (free.millis == arrays.device_free_millis).all()
    assert (free.memory_bytes == arrays.device_free_memory_bytes).all()
    limited = free.quota_millis < TOO_MUCH
    assert (free.quota_millis == arrays.quota_free_millis)[limited].all()
    assert (arrays.quota_free_millis[~limited] >= TOO_MUCH).all()
