"""Why not, and when: against plain trial."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from forebay import DeviceKind, Request, RequestBatch, ResourceItem
from forebay_builtin_plugins.best_fit.policy import BestFit
from forebay_core.scheduling.fleet import CHANGING, copy_fleet
from forebay_core.scheduling.forecast import Running, Waiting, forecast_start
from forebay_core.scheduling.phase1 import Phase1
from forebay_core.scheduling.shortfall import explain_shortfall
from forebay_sdk.traces import DeviceShape, Fleet, NodeShape

SHAPES = (
    NodeShape(8_000, 0, (DeviceShape(DeviceKind.GPU, 4),)),
    NodeShape(16_000, 0, (DeviceShape(DeviceKind.GPU, 2),)),
    NodeShape(4_000, 0),
)

requests = st.builds(
    lambda cores, gpu: Request(
        (
            ResourceItem(DeviceKind.CPU, cores * 1000),
            *((ResourceItem(DeviceKind.GPU, gpu, 0),) if gpu else ()),
        )
    ),
    st.integers(1, 9),
    st.sampled_from([0, 250, 500, 1000, 2000, 4000]),
)


def phase1_of(shapes: list[int]) -> Phase1:
    names = tuple(f"n{index}" for index in range(len(shapes)))
    snapshot = Fleet("test", names, SHAPES, np.array(shapes, np.int32)).snapshot()

    def judge(batch: RequestBatch) -> NDArray[np.bool_]:
        return np.ones((len(batch.requests), len(snapshot.unit_ids)), np.bool_)

    return Phase1(snapshot, BestFit(), judge)


fleets = st.lists(st.integers(0, 2), min_size=1, max_size=6)


def fits_with(phase1: Phase1, request: Request, kind: DeviceKind, millis: int) -> bool:
    items = [
        ResourceItem(kind, millis, item.memory_bytes) if item.kind is kind else item
        for item in request.items
    ]
    with phase1.what_if() as trial:
        return bool(trial.place([Request(tuple(items))]).nodes[0] >= 0)


@given(fleets, st.lists(requests, max_size=12), requests)
@settings(max_examples=100, deadline=None)
def test_reasons_add_up_and_the_most_told_fits_while_more_does_not(
    shapes: list[int], held: list[Request], asked: Request
) -> None:
    phase1 = phase1_of(shapes)
    phase1.place(held)
    found = explain_shortfall(phase1, asked)
    assert found.fitting + sum(found.reasons.values()) == len(shapes)
    with phase1.what_if() as trial:
        fits = trial.place([asked]).nodes[0] >= 0
    assert (found.fitting > 0) == fits
    if fits:
        return
    for item in asked.items:
        most = found.most[item.kind]
        assert most < item.millis
        part = item.kind is not DeviceKind.CPU and item.millis < 1000
        step = 1 if part or item.kind is DeviceKind.CPU else 1000
        if most:
            assert fits_with(phase1, asked, item.kind, most)
        for more in (most + step, (most + item.millis) // 2):
            if most < more < item.millis and more % step == 0:
                assert not fits_with(phase1, asked, item.kind, more)


@given(
    fleets,
    st.lists(st.tuples(requests, st.integers(1, 50).map(float)), max_size=12),
    st.lists(st.tuples(requests, st.integers(1, 50).map(float)), max_size=3),
    requests,
)
@settings(max_examples=100, deadline=None)
def test_the_start_told_is_that_of_playing_it_forward(
    shapes: list[int],
    held: list[tuple[Request, float]],
    ahead: list[tuple[Request, float]],
    asked: Request,
) -> None:
    phase1 = phase1_of(shapes)
    placed = phase1.place([request for request, _ in held])
    end_s = np.array([end for _, end in held], np.float64)
    before = copy_fleet(phase1.fleet)
    told_s = forecast_start(
        phase1,
        Running(placed, end_s),
        asked,
        ahead=[Waiting(request, estimate) for request, estimate in ahead],
    )
    for name in CHANGING:
        assert (getattr(before, name) == getattr(phase1.fleet, name)).all(), name
    assert told_s == played_forward(phase1, held, placed.nodes, ahead, asked)


def played_forward(
    phase1: Phase1,
    held: list[tuple[Request, float]],
    nodes: NDArray[np.int32],
    ahead: list[tuple[Request, float]],
    asked: Request,
) -> float:
    """Play it instant by instant, with a fresh engine at each."""
    shapes = [int(cpu) for cpu in phase1.fleet.node_capacity_millis[:, 0]]
    order = [next(i for i, s in enumerate(SHAPES) if s.cpu_millis == cpu) for cpu in shapes]
    live = phase1_of(order)
    running = []
    for (request, end), node in zip(held, nodes, strict=True):
        done = live.place([request])
        assert done.nodes[0] == node
        if node >= 0:
            running.append((end, done))
    now = 0.0
    for request, estimate in [*ahead, (asked, 0.0)]:
        while (done := live.place([request])).nodes[0] < 0:
            if not running:
                return float("inf")
            now = max(now, min(end for end, _ in running))
            for end, over in [one for one in running if one[0] <= now]:
                live.give_back(over)
                running.remove((end, over))
        running.append((now + estimate, done))
    return now
