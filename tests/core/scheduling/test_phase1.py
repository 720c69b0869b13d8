"""Phase 1: what it keeps is what it would work out anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from forebay import (
    DeviceKind,
    FleetArrays,
    Operator,
    Parameters,
    Request,
    RequestArrays,
    RequestBatch,
    ResourceItem,
    ScorePolicy,
    Selector,
    Snapshot,
)
from forebay_builtin_plugins.best_fit.policy import BestFit
from forebay_builtin_plugins.filters.selection import AttributeFilter
from forebay_builtin_plugins.placement_policies.fgd import FragmentationGradientDescent
from forebay_core.scheduling.first_fit import FirstFit
from forebay_core.scheduling.fleet import CHANGING, copy_fleet
from forebay_core.scheduling.phase1 import BadScoreError, Phase1, Placed
from forebay_sdk.traces import DeviceShape, Fleet, NodeShape
from forebay_sdk.traces.synthetic import synthetic_fleet, synthetic_requests

GIB = 1 << 30
SHAPES = (
    NodeShape(8_000, 16 * GIB, (DeviceShape(DeviceKind.GPU, 2, "A"),)),
    NodeShape(16_000, 8 * GIB, (DeviceShape(DeviceKind.GPU, 4, "B"),)),
    NodeShape(4_000, 4 * GIB),
)


def fleet_of(shapes: list[int]) -> Fleet:
    names = tuple(f"n{index}" for index in range(len(shapes)))
    return Fleet("test", names, SHAPES, np.array(shapes, np.int32))


def asked(cores: int, gpu_millis: int, model: str = "", group: str = "") -> Request:
    items = [ResourceItem(DeviceKind.CPU, cores * 1000, GIB)]
    if gpu_millis:
        items.append(ResourceItem(DeviceKind.GPU, gpu_millis, 0))
    selectors = (Selector("model", Operator.EQUAL, model),) if model else ()
    return Request(tuple(items), selectors, spread_group=group, spread_max=int(bool(group)))


REQUESTS = (
    asked(1, 0),
    asked(1, 250),
    asked(2, 500, "B"),
    asked(2, 1000),
    asked(1, 2000),
    asked(1, 500, group="web"),
)


def engine(
    snapshot: Snapshot,
    policy: ScorePolicy | None = None,
    *,
    compile: bool = False,  # noqa: A002
) -> Phase1:
    def judge(batch: RequestBatch) -> NDArray[np.bool_]:
        passed: NDArray[np.bool_] = ~AttributeFilter().filter(snapshot, batch)[0]
        return passed

    return Phase1(snapshot, policy or BestFit(), judge, seed=1, compile=compile)


steps = st.lists(
    st.tuples(
        st.sampled_from(["place", "give back", "what if"]),
        st.lists(st.integers(0, len(REQUESTS) - 1), min_size=1, max_size=4),
        st.booleans(),
    ),
    max_size=15,
)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), steps)
@settings(max_examples=60, deadline=None)
def test_kept_scores_choose_as_fresh_ones_and_nothing_is_over_lent(
    shapes: list[int], todo: list[tuple[str, list[int], bool]]
) -> None:
    snapshot = fleet_of(shapes).snapshot(quota_millis={DeviceKind.GPU: 6_000})
    kept = engine(snapshot)
    held: list[Placed] = []
    for what, numbers, as_gang in todo:
        wanted = [REQUESTS[number] for number in numbers]
        gangs = np.array([0, len(wanted)], np.int64) if as_gang else None
        if what == "give back" and held:
            kept.give_back(held.pop(0))
        elif what == "what if":
            before = copy_fleet(kept.fleet)
            with kept.what_if() as trial:
                trial.place(wanted, gangs)
            for name in CHANGING:
                assert (getattr(before, name) == getattr(kept.fleet, name)).all(), name
        else:
            fresh = engine(snapshot)
            fresh.number(kept.classes.requests)
            fresh.fleet = copy_fleet(kept.fleet)
            expected = fresh.place(wanted, gangs).nodes
            placed = kept.place(wanted, gangs)
            assert (placed.nodes == expected).all()
            if as_gang:
                assert (placed.nodes >= 0).all() or (placed.nodes < 0).all()
            held.append(placed)
        assert_sound(snapshot, kept, held)


def assert_sound(snapshot: Snapshot, phase1: Phase1, held: list[Placed]) -> None:
    """Add up what is held, in plain Python, and compare."""
    free = snapshot.device_free_millis.astype(int).copy()
    memory = snapshot.device_free_memory_bytes.astype(int).copy()
    quota = 6_000
    spread: dict[int, int] = {}
    for placed in held:
        for index, node in enumerate(placed.nodes):
            request = phase1.classes.requests[placed.requests[index]]
            if node < 0:
                continue
            drawn = {DeviceKind.CPU: 0, DeviceKind.GPU: 0}
            for row in range(placed.first_draw[index], placed.first_draw[index + 1]):
                unit = placed.draws.unit[row]
                assert snapshot.unit_node[unit] == node
                free[unit] -= placed.draws.millis[row]
                memory[unit] -= placed.draws.memory_bytes[row]
                kind = DeviceKind.GPU if snapshot.unit_kind[unit] else DeviceKind.CPU
                drawn[kind] += int(placed.draws.millis[row])
            assert all(drawn[item.kind] == item.millis for item in request.items)
            quota -= drawn[DeviceKind.GPU]
            if request.spread_group:
                spread[int(node)] = spread.get(int(node), 0) + 1
    assert (free == phase1.fleet.device_free_millis).all()
    assert (free >= 0).all()
    assert (memory >= 0).all()
    assert quota >= 0
    assert all(count <= 1 for count in spread.values())


@pytest.mark.parametrize("policy", [BestFit(), FragmentationGradientDescent(), FirstFit()])
def test_compiled_and_plain_kernels_place_alike(policy: ScorePolicy) -> None:
    fleet = synthetic_fleet(70, seed=3)
    requests, _ = synthetic_requests(fleet)
    chosen = np.random.default_rng(0).integers(0, len(requests), 300)
    placed = []
    for compile in (False, True):  # noqa: A001
        phase1 = engine(fleet.snapshot(), policy, compile=compile)
        placed.append(phase1.place([requests[index] for index in chosen]))
    assert (placed[0].nodes == placed[1].nodes).all()
    assert (placed[0].nodes >= 0).any()
    assert (placed[0].nodes < 0).any()
    rows = placed[0].first_draw[-1]
    plain, compiled = (one.draws for one in placed)
    assert (plain.unit[:rows] == compiled.unit[:rows]).all()
    assert (plain.millis[:rows] == compiled.millis[:rows]).all()
    assert (plain.memory_bytes[:rows] == compiled.memory_bytes[:rows]).all()


class Broken(ScorePolicy):
    name = "broken"

    @staticmethod
    def score(
        fleet: FleetArrays,
        request: RequestArrays,
        nodes: NDArray[np.int32],
        count: int,
        parameters: Parameters,
        scores: NDArray[np.float64],
        units: NDArray[np.int32],
    ) -> None:
        for index in range(count):
            scores[index] = np.nan if nodes[index] == 1 else 0.0


@pytest.mark.parametrize("compile", [False, True])
def test_a_score_that_is_no_number_is_told_and_nothing_is_taken(compile: bool) -> None:  # noqa: A002
    snapshot = fleet_of([0, 0]).snapshot()
    phase1 = engine(snapshot, Broken(), compile=compile)
    with pytest.raises(BadScoreError, match="node 1 is NaN"):
        phase1.place([REQUESTS[3]])
    assert (phase1.fleet.device_free_millis == snapshot.device_free_millis).all()
    phase1.change_policy(FirstFit())
    assert phase1.place([REQUESTS[3]]).nodes.tolist() == [0]


class Veto(Broken):
    name = "veto"

    @staticmethod
    def score(
        fleet: FleetArrays,
        request: RequestArrays,
        nodes: NDArray[np.int32],
        count: int,
        parameters: Parameters,
        scores: NDArray[np.float64],
        units: NDArray[np.int32],
    ) -> None:
        for index in range(count):
            scores[index] = -np.inf if nodes[index] == 0 else 0.0


def test_minus_infinity_vetoes_a_node() -> None:
    phase1 = engine(fleet_of([0, 0]).snapshot(), Veto())
    assert phase1.place([REQUESTS[4]] * 2).nodes.tolist() == [1, -1]
