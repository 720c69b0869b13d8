"""What the engine decides always fits, and what fits it always finds."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from allocation_oracle import Usage, could_run, snapshot_of, take
from batch_policy import FirstFitBatch
from fleets import BEST_FIT, FILTERS, Fleet, fail, fleets, requests, scheduling
from forebay import (
    CapacityError,
    Decisions,
    Device,
    DeviceId,
    DeviceKind,
    Filter,
    FleetArrays,
    LendableUnit,
    MemoryKind,
    MemoryRegion,
    Node,
    NodeId,
    Parameters,
    Policy,
    Pool,
    Request,
    RequestArrays,
    RequestBatch,
    RequestMix,
    ResourceItem,
    Snapshot,
)
from forebay_builtin_plugins.best_fit.policy import BestFit
from forebay_core.plugins import Offered
from forebay_core.pools import BuiltPool
from forebay_core.scheduling import (
    SchedulingEngine,
    build_snapshot,
    check_ever_fits,
    explain,
)
from forebay_core.scheduling.engine import FALLBACK


@given(fleets(), st.lists(requests(), max_size=8), st.data())
@settings(max_examples=200, deadline=None)
def test_one_by_one_a_request_is_placed_exactly_when_something_fits(
    fleet: Fleet, asked: list[Request], data: st.DataObject
) -> None:
    engine = scheduling()
    # Other pools lend the same devices, in steps of their own.
    usage: Usage = {
        device.id: (data.draw(st.integers(0, device.capacity_millis)), 0)
        for device in fleet.devices
        if data.draw(st.integers(0, 3)) == 0
    }
    lent: dict[DeviceKind, int] = {}
    for request in asked:
        expected = could_run(fleet, request, usage, lent)
        (outcome,) = engine.decide(snapshot_of(fleet, usage, lent), [request])
        assert (outcome.node is not None) == expected
        take(fleet, outcome, usage, lent)


@given(fleets(), st.lists(requests(), max_size=8))
@settings(max_examples=100, deadline=None)
def test_a_batch_is_placed_as_its_requests_one_after_another(
    fleet: Fleet, asked: list[Request]
) -> None:
    engine = scheduling()
    together = engine.decide(snapshot_of(fleet, {}), asked)
    usage: Usage = {}
    lent: dict[DeviceKind, int] = {}
    for request, outcome in zip(asked, together, strict=True):
        (alone,) = engine.decide(snapshot_of(fleet, usage, lent), [request])
        assert (alone.node, alone.draws) == (outcome.node, outcome.draws)
        take(fleet, outcome, usage, lent)


@given(fleets(), requests())
@settings(max_examples=100, deadline=None)
def test_what_can_never_fit_is_refused_at_once(fleet: Fleet, request: Request) -> None:
    bare = replace(request, device_selectors=(), node_selectors=())
    well = replace(fleet, devices=tuple(replace(device, health=()) for device in fleet.devices))
    try:
        check_ever_fits(snapshot_of(fleet, {}), request)
    except CapacityError as error:
        assert not could_run(well, bare, {}, {})
        assert "asked for" in str(error) or "no single node" in str(error)  # noqa: PT017
    else:
        assert could_run(well, bare, {}, {})


@given(fleets(), st.lists(requests(), max_size=6), requests())
@settings(max_examples=100, deadline=None)
def test_an_explanation_counts_what_the_filters_rule_out_and_its_changes_work(
    fleet: Fleet, before: list[Request], request: Request
) -> None:
    engine = scheduling()
    usage: Usage = {}
    lent: dict[DeviceKind, int] = {}
    for earlier in before:
        (outcome,) = engine.decide(snapshot_of(fleet, usage, lent), [earlier])
        take(fleet, outcome, usage, lent)
    snapshot = snapshot_of(fleet, usage, lent)
    explanation = explain(snapshot, request, engine)
    assert (explanation.nodes_feasible > 0) == could_run(fleet, request, usage, lent)
    counts = {reason.reason: reason.devices for reason in explanation.reasons}
    by_id = {device.id: device for device in fleet.devices}
    relevant = {
        member
        for item in request.items
        for unit in fleet.built().units
        if unit.kind is item.kind and unit.is_gang == item.linked
        for member in unit.members
    }
    assert explanation.devices == len(relevant)
    sick = {
        member
        for item in request.items
        for unit in fleet.built().units
        if unit.kind is item.kind
        and unit.is_gang == item.linked
        and any(by_id[other].is_failed for other in unit.members)
        for member in unit.members
    }
    assert counts.get("device unhealthy", 0) == len(sick)
    for change in explanation.changes:
        assert 0 <= change.size <= 1
        if change.text.startswith("ask for") and ".memory" not in change.text:
            kind, _, amount = change.text.removeprefix("ask for ").split(" ")[0].partition("=")
            millis = round(float(amount) * 1000)
            less = with_millis(request, kind, millis)
            assert could_run(fleet, less, usage, lent)
            (asked,) = (item.millis for item in request.items if item.kind == kind)
            step = 1000 if millis >= 1000 and kind != "cpu" else 100 if kind == "cpu" else 10
            if millis + step < asked:
                assert not could_run(fleet, with_millis(request, kind, millis + step), usage, lent)
        if change.text.startswith("drop the condition"):
            dropped = change.text.removeprefix("drop the condition ")
            rest = replace(
                request,
                device_selectors=tuple(s for s in request.device_selectors if str(s) != dropped),
                node_selectors=tuple(s for s in request.node_selectors if str(s) != dropped),
            )
            assert could_run(fleet, rest, usage, lent)


def with_millis(request: Request, kind: str, millis: int) -> Request:
    return replace(
        request,
        items=tuple(
            replace(item, millis=millis) if item.kind == kind else item for item in request.items
        ),
    )


class Hostile(Policy):
    """Decides as told, right or wrong."""

    name = "hostile"

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def place(self, *_: object) -> Any:  # noqa: ANN401 - anything, right or wrong
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def decisions(**changes: object) -> Decisions:
    fields: dict[str, Any] = {
        "node": np.zeros(1, dtype=np.int32),
        "draw_request": np.zeros(1, dtype=np.int32),
        "draw_unit": np.zeros(1, dtype=np.int32),
        "draw_millis": np.array([1000], dtype=np.int64),
        "draw_memory_bytes": np.zeros(1, dtype=np.int64),
    }
    return Decisions(**{**fields, **changes})


HOSTILE = {
    "raises": (ValueError("boom"), "boom"),
    "returns nothing": (None, "expected Decisions"),
    "node out of range": (decisions(node=np.array([5], dtype=np.int32)), "out of range"),
    "unit out of range": (decisions(draw_unit=np.array([9], dtype=np.int32)), "out of range"),
    "unit negative": (decisions(draw_unit=np.array([-1], dtype=np.int32)), "out of range"),
    "wrong shape": (decisions(node=np.zeros(3, dtype=np.int32)), "shape"),
    "wrong type": (decisions(draw_millis=np.array([1000.0])), "whole numbers"),
    "too little": (decisions(draw_millis=np.array([500], dtype=np.int64)), "of 1000 millis"),
    "too much": (decisions(draw_millis=np.array([9000], dtype=np.int64)), "that much free"),
    "negative": (decisions(draw_millis=np.array([-100], dtype=np.int64)), "multiple of the step"),
    "off step": (decisions(draw_millis=np.array([1050], dtype=np.int64)), "multiple of the step"),
    "not a number": (decisions(terms={"x": np.array([np.nan])}), "NaN"),
    "infinite": (decisions(terms={"x": np.array([np.inf])}), "infinite"),
    "more than asked for": (decisions(draw_millis=np.array([1100], dtype=np.int64)), "asked for"),
    "memory not asked for": (
        decisions(draw_memory_bytes=np.array([8], dtype=np.int64)),
        "not what was asked for",
    ),
    "memory from nowhere": (
        decisions(draw_memory_bytes=np.array([10**6], dtype=np.int64)),
        "memory free",
    ),
    "drawn twice": (
        decisions(
            draw_request=np.zeros(2, dtype=np.int32),
            draw_unit=np.zeros(2, dtype=np.int32),
            draw_millis=np.array([500, 500], dtype=np.int64),
            draw_memory_bytes=np.zeros(2, dtype=np.int64),
        ),
        "twice",
    ),
    "drawn without a node": (decisions(node=np.array([-1], dtype=np.int32)), "another node"),
}


@pytest.mark.parametrize("case", sorted(HOSTILE))
def test_a_policy_that_decides_nonsense_is_charged_and_work_goes_on(case: str) -> None:
    answer, expected = HOSTILE[case]
    node = Node(NodeId("n0"), {"zone": "a"})
    cpu = Device(
        DeviceId("cpu"),
        DeviceKind.CPU,
        node=node.id,
        capacity_millis=4000,
        memory=(MemoryRegion(MemoryKind.DDR, 8),),
    )
    fleet = Fleet((node,), (cpu,), (), Pool("default", "shares"))
    charged: list[str] = []
    engine = SchedulingEngine(
        FILTERS,
        Offered("stranger", "hostile", Hostile(answer)),
        charge=lambda plugin, error: charged.append(f"{plugin}: {error}"),
    )
    request = Request((ResourceItem(DeviceKind.CPU, 1000),))
    (outcome,) = engine.decide(snapshot_of(fleet, {}), [request])
    assert outcome.policy == FALLBACK
    assert outcome.draws[0].millis == 1000
    assert charged
    assert all(message.startswith("stranger: ") for message in charged)
    assert expected in charged[0]


@given(fleets(), requests())
@settings(max_examples=30, deadline=None)
def test_a_filter_that_fails_lets_nothing_through(fleet: Fleet, request: Request) -> None:
    class Broken(Filter):
        name = "broken"
        reasons = ("whatever",)

        def filter(self, snapshot: Snapshot, batch: RequestBatch) -> NDArray[np.bool_]:
            return np.zeros((7, 7), dtype=bool)

    charged: list[str] = []
    engine = SchedulingEngine(
        (*FILTERS, Offered("stranger", "broken", Broken())),
        BEST_FIT,
        charge=lambda plugin, _error: charged.append(plugin),
    )
    (outcome,) = engine.decide(snapshot_of(fleet, {}), [request])
    assert outcome.node is None
    assert charged == ["stranger"]


@pytest.mark.parametrize(
    ("item", "unit", "millis"),
    [
        (ResourceItem(DeviceKind.GPU, 100, 0), 0, 500),
        (ResourceItem(DeviceKind.GPU, 333, 0), 0, 350),
        (ResourceItem(DeviceKind.GPU, 2000, 0, linked=True), 2, 3000),
    ],
)
def test_more_of_a_device_or_a_larger_gang_than_asked_for_is_refused(
    item: ResourceItem, unit: int, millis: int
) -> None:
    node = Node(NodeId("n0"), {"zone": "a"})
    gpus = [Device(DeviceId(f"g{index}"), DeviceKind.GPU, node=node.id) for index in range(3)]
    shares = [
        LendableUnit(gpu.id, gpu.kind, node.id, (gpu.id,), gpu.capacity_millis, 10)
        for gpu in gpus[:2]
    ]
    gangs = [
        LendableUnit(f"first-{size}", DeviceKind.GPU, node.id, members, size * 1000, size * 1000)
        for size in (3, 2)
        for members in (tuple(gpu.id for gpu in gpus[:size]),)
    ]
    pool = BuiltPool(Pool("default", "test"), tuple(gpus), (*shares, *gangs))
    snapshot = build_snapshot(pool, nodes=[node], usage={}, pool_used_millis={})
    answer = decisions(
        draw_unit=np.array([unit], dtype=np.int32), draw_millis=np.array([millis], dtype=np.int64)
    )
    charged: list[str] = []
    engine = SchedulingEngine(
        (),
        Offered("stranger", "hostile", Hostile(answer)),
        charge=lambda _plugin, error: charged.append(str(error)),
    )
    (outcome,) = engine.decide(snapshot, [Request((item,))])
    assert outcome.policy == FALLBACK
    assert sum(draw.millis for draw in outcome.draws) == -(-item.millis // 10) * 10
    assert len(charged) == 1
    assert f"{millis} millis are drawn" in charged[0]


class Raising(Filter):
    """Fails when asked."""

    name = "raising"
    reasons = ("whatever",)

    def filter(self, snapshot: Snapshot, batch: RequestBatch) -> NDArray[np.bool_]:
        raise OSError("gone")


class WithoutReasons(Raising):
    """Does not even say what it can object."""

    reasons = None  # type: ignore[assignment]  # on purpose


ONE_CPU = Fleet(
    (Node(NodeId("n0"), {"zone": "a"}),),
    (Device(DeviceId("cpu"), DeviceKind.CPU, node=NodeId("n0"), capacity_millis=4000),),
    (),
    Pool("default", "shares"),
)
ONE_CORE = Request((ResourceItem(DeviceKind.CPU, 1000),))


@pytest.mark.parametrize("broken", [Raising(), WithoutReasons()])
def test_an_explanation_names_the_plugin_whose_filter_failed(broken: Filter) -> None:
    charged: list[str] = []
    engine = SchedulingEngine(
        (*FILTERS, Offered("stranger", "raising", broken)),
        BEST_FIT,
        charge=lambda plugin, _error: charged.append(plugin),
    )
    explanation = explain(snapshot_of(ONE_CPU, {}), ONE_CORE, engine)
    assert "filter raising of plugin stranger failed" in {
        reason.reason for reason in explanation.reasons
    }
    assert set(charged) == {"stranger"}


class Writing(Policy):
    """Asks for less than was asked of it."""

    name = "writing"

    def __init__(self, field: str) -> None:
        self._field = field

    def place(self, *arguments: Any) -> Decisions:  # noqa: ANN401 - as the base class
        snapshot, batch, *_ = arguments
        array = getattr(batch if hasattr(batch, self._field) else snapshot, self._field)
        array[...] = 0
        return decisions(draw_millis=np.array([100], dtype=np.int64))


@pytest.mark.parametrize("field", ["millis", "wanted", "device_capacity_millis", "unit_node"])
def test_a_policy_cannot_change_what_it_is_given(field: str) -> None:
    charged: list[str] = []
    engine = SchedulingEngine(
        FILTERS,
        Offered("stranger", "writing", Writing(field)),
        charge=lambda _plugin, error: charged.append(str(error)),
    )
    (outcome,) = engine.decide(snapshot_of(ONE_CPU, {}), [ONE_CORE])
    assert (outcome.policy, outcome.draws[0].millis) == (FALLBACK, 1000)
    assert charged == ["assignment destination is read-only"]


def test_a_policy_is_charged_once_for_a_batch() -> None:
    answer = decisions(
        node=np.zeros(4, dtype=np.int32),
        draw_request=np.arange(4, dtype=np.int32),
        draw_unit=np.zeros(4, dtype=np.int32),
        draw_millis=np.array([1500, 1500, 500, 500], dtype=np.int64),
        draw_memory_bytes=np.zeros(4, dtype=np.int64),
    )
    charged: list[str] = []
    engine = SchedulingEngine(
        FILTERS,
        Offered("stranger", "hostile", Hostile(answer)),
        charge=lambda _plugin, error: charged.append(str(error)),
    )
    outcomes = engine.decide(snapshot_of(ONE_CPU, {}), [ONE_CORE] * 4)
    assert [outcome.node for outcome in outcomes] == ["n0"] * 4
    assert len(charged) == 1


def test_the_same_state_gives_the_same_answer_and_ties_go_to_the_first_node() -> None:
    nodes = tuple(Node(NodeId(f"n{index}"), {"zone": "a"}) for index in range(3))
    cpus = tuple(
        Device(DeviceId(f"cpu{index}"), DeviceKind.CPU, node=node.id, capacity_millis=4000)
        for index, node in enumerate(nodes)
    )
    fleet = Fleet(nodes, cpus, (), Pool("default", "shares"))
    request = Request((ResourceItem(DeviceKind.CPU, 1000),))
    outcomes = scheduling().decide(snapshot_of(fleet, {}), [request] * 12)
    assert [outcome.node for outcome in outcomes] == ["n0"] * 4 + ["n1"] * 4 + ["n2"] * 4
    assert outcomes == scheduling().decide(snapshot_of(fleet, {}), [request] * 12)


def test_a_policy_that_overruns_its_budget_is_charged_and_its_answer_used() -> None:
    class Slow(FirstFitBatch):
        def place(self, *arguments: Any) -> Decisions:  # noqa: ANN401 - as the base class
            time.sleep(0.05)
            return super().place(*arguments)

    node = Node(NodeId("n0"), {"zone": "a"})
    cpu = Device(DeviceId("cpu"), DeviceKind.CPU, node=node.id, capacity_millis=4000)
    fleet = Fleet((node,), (cpu,), (), Pool("default", "shares"))
    charged: list[str] = []
    engine = SchedulingEngine(
        FILTERS,
        Offered("stranger", "slow", Slow()),
        budget_s=0.01,
        charge=lambda _plugin, error: charged.append(str(error)),
    )
    (outcome,) = engine.decide(
        snapshot_of(fleet, {}), [Request((ResourceItem(DeviceKind.CPU, 1000),))]
    )
    assert outcome.policy == "slow"
    assert len(charged) == 1
    assert "its budget is 0.01 s" in charged[0]


POLICIES_PAGE = Path(__file__).parents[3] / "docs/hooks/policies.md"


@given(fleets(), st.lists(requests(), max_size=5))
@settings(max_examples=30, deadline=None)
def test_the_policy_of_the_documentation_really_places(fleet: Fleet, asked: list[Request]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", POLICIES_PAGE.read_text(), re.M | re.S)
    (code,) = (block for block in blocks if "class Anywhere" in block)
    namespace: dict[str, Any] = {"__name__": "example"}
    exec(code, namespace)
    engine = SchedulingEngine(
        FILTERS, Offered("example", "anywhere", namespace["Anywhere"]()), charge=fail
    )
    usage: Usage = {}
    lent: dict[DeviceKind, int] = {}
    for request in asked:
        (outcome,) = engine.decide(snapshot_of(fleet, usage, lent), [request])
        assert (outcome.node is not None) == could_run(fleet, request, usage, lent)
        assert outcome.node is None or outcome.policy == "anywhere"
        take(fleet, outcome, usage, lent)


class BadAfterOne(BestFit):
    """Scores well while a node is empty, and no number once it is in use."""

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
            node = nodes[index]
            untouched = fleet.node_free_millis[node, 0] == fleet.node_capacity_millis[node, 0]
            scores[index] = 0.0 if untouched else np.nan


def test_first_fit_goes_on_from_what_a_failing_score_policy_placed() -> None:
    node = Node(NodeId("n0"), {"zone": "a"})
    cpu = Device(DeviceId("cpu"), DeviceKind.CPU, node=node.id, capacity_millis=3000)
    fleet = Fleet((node,), (cpu,), (), Pool("default", "shares"))
    charged: list[str] = []
    engine = SchedulingEngine(
        FILTERS,
        Offered("stranger", "best-fit", BadAfterOne()),
        charge=lambda plugin, error: charged.append(f"{plugin}: {error}"),
    )
    asked = [Request((ResourceItem(DeviceKind.CPU, 1000),))] * 5
    outcomes = engine.decide(snapshot_of(fleet, {}), asked)
    assert [outcome.policy for outcome in outcomes] == ["best-fit", FALLBACK, FALLBACK, "", ""]
    (told,) = charged
    assert "stranger" in told
    assert "is NaN or infinite" in told


class Unprepared(BadAfterOne):
    def prepare(self, snapshot: Snapshot, mix: RequestMix) -> Parameters:
        raise RuntimeError("no idea")


def test_a_score_policy_that_raises_is_charged_and_first_fit_places() -> None:
    node = Node(NodeId("n0"), {"zone": "a"})
    cpu = Device(DeviceId("cpu"), DeviceKind.CPU, node=node.id, capacity_millis=3000)
    fleet = Fleet((node,), (cpu,), (), Pool("default", "shares"))
    charged: list[str] = []
    engine = SchedulingEngine(
        FILTERS,
        Offered("stranger", "best-fit", Unprepared()),
        charge=lambda plugin, error: charged.append(f"{plugin}: {error}"),
    )
    (outcome,) = engine.decide(
        snapshot_of(fleet, {}), [Request((ResourceItem(DeviceKind.CPU, 1000),))]
    )
    assert (outcome.node, outcome.policy) == ("n0", FALLBACK)
    assert charged == ["stranger: no idea"]
