"""FGD's own sums against the definition, added up apart."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from forebay import DeviceKind, Operator, Request, RequestBatch, RequestMix, ResourceItem, Selector
from forebay.drawing import Draws, take
from forebay_builtin_plugins.filters.selection import AttributeFilter
from forebay_builtin_plugins.placement_policies.fgd import (
    FragmentationGradientDescent,
    fall_of_fragmentation,
)
from forebay_core.scheduling.arrays import build_batch
from forebay_core.scheduling.choosing import request_arrays
from forebay_core.scheduling.phase1 import Phase1
from forebay_sdk.bench.openb.fragmentation import node_fragmentation, typical_tasks
from forebay_sdk.traces import DeviceShape, Fleet, NodeShape, Trace

SHAPES = (
    NodeShape(16_000, 0, (DeviceShape(DeviceKind.GPU, 4, "A"),)),
    NodeShape(8_000, 0, (DeviceShape(DeviceKind.GPU, 2, "B"),)),
)


@st.composite
def tasks(draw: st.DrawFn) -> Request:
    items = [ResourceItem(DeviceKind.CPU, draw(st.integers(0, 6)) * 1000, 0)]
    gpu = draw(st.sampled_from([0, 250, 500, 810, 1000, 2000]))
    if gpu:
        items.append(ResourceItem(DeviceKind.GPU, gpu, 0))
    model = draw(st.sampled_from(["", "A", "A|B"])) if gpu else ""
    selectors = (Selector("model", Operator.IN, model),) if model else ()
    return Request(tuple(items), selectors)


@given(
    st.lists(tasks(), min_size=1, max_size=8),
    st.lists(st.integers(0, 7), max_size=12),
    st.integers(0, 7),
)
@settings(max_examples=100, deadline=None)
def test_the_fall_is_fragmentation_before_less_after(
    requests: list[Request], history: list[int], next_task: int
) -> None:
    distinct = tuple(dict.fromkeys(requests))
    arrived = np.array([distinct.index(request) for request in requests], np.int32)
    count = len(arrived)
    zeros = np.zeros(count)
    trace = Trace(
        "test",
        distinct,
        zeros,
        zeros,
        zeros,
        zeros.astype(np.int32),
        np.arange(count + 1, dtype=np.int32),
        arrived,
    )
    fleet = Fleet("test", ("a", "b", "c"), SHAPES, np.array([0, 1, 0], np.int32))
    snapshot = fleet.snapshot()

    def judge(batch: RequestBatch) -> NDArray[np.bool_]:
        passed: NDArray[np.bool_] = ~AttributeFilter().filter(snapshot, batch)[0]
        return passed

    weight = np.bincount(arrived, minlength=len(distinct)) / count
    batch = build_batch(distinct)
    mix = RequestMix(batch, weight, judge(batch))
    phase1 = Phase1(snapshot, FragmentationGradientDescent(), judge, mix=mix)
    numbers = phase1.number(distinct)
    phase1.place_numbered(numbers[np.array(history, np.int64) % len(distinct)])
    table, allowed = typical_tasks(trace, snapshot, judge)
    number = int(numbers[next_task % len(distinct)])
    with phase1.what_if() as trial:
        placed = trial.place([distinct[number]])
        node = int(placed.nodes[0])
        if node < 0:
            return
        after = node_fragmentation(phase1.fleet, node, table, allowed)
        rows = int(placed.first_draw[0]), int(placed.first_draw[1])
        draws = Draws(*(array.copy() for array in placed.draws))  # type: ignore[arg-type]  # arrays
    before = node_fragmentation(phase1.fleet, node, table, allowed)
    request = request_arrays(phase1.classes.arrays, number)
    fall, unit = fall_of_fragmentation(phase1.fleet, request, node, phase1.parameters)
    assert math.isclose(fall, before - after, abs_tol=1e-6)
    if unit < 0:
        return
    assert unit in draws.unit[rows[0] : rows[1]]
    # No other device of the node would do better.
    for other in range(phase1.fleet.first_unit[node], phase1.fleet.first_unit[node + 1]):
        tried = phase1.fleet.node_units[other]
        gpu_rows = [row for row in range(*rows) if draws.unit[row] == unit]
        asked = int(draws.millis[gpu_rows[0]])
        if snapshot.unit_kind[tried] == 0 or phase1.fleet.device_free_millis[tried] < asked:
            continue
        moved = Draws(draws.unit.copy(), draws.millis, draws.memory_bytes)
        moved.unit[gpu_rows] = tried
        take(phase1.fleet, phase1.classes.arrays, number, node, moved, *rows, 1)
        worse = before - node_fragmentation(phase1.fleet, node, table, allowed)
        take(phase1.fleet, phase1.classes.arrays, number, node, moved, *rows, -1)
        assert worse <= fall + 1e-6
