"""The simulator: what holds after every event, and what a seed repeats."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from forebay import (
    Backfill,
    DeviceKind,
    FleetArrays,
    Parameters,
    QueuedJobs,
    QueuePolicy,
    Request,
    RequestArrays,
    RequestBatch,
    ResourceItem,
    ScorePolicy,
)
from forebay_builtin_plugins.best_fit.policy import BestFit
from forebay_builtin_plugins.queue_policies.first_come import FirstCome
from forebay_builtin_plugins.queue_policies.shortest_first import ShortestFirst
from forebay_sdk.simulator import NodeEvents, Run, Simulation
from forebay_sdk.simulator.events import NODE_DOWN, NODE_DRAINED, NODE_UP, NOW_RUNNING, NOW_WAITING
from forebay_sdk.simulator.simulation import Stepper
from forebay_sdk.traces import DeviceShape, Fleet, NodeShape, Trace
from forebay_sdk.traces.synthetic import synthetic_fleet, synthetic_trace

SHAPES = (NodeShape(8_000, 0, (DeviceShape(DeviceKind.GPU, 4),)), NodeShape(4_000, 0))


def request(cores: int, gpu_millis: int, group: str = "") -> Request:
    items = [ResourceItem(DeviceKind.CPU, cores * 1000)] if cores else []
    if gpu_millis:
        items.append(ResourceItem(DeviceKind.GPU, gpu_millis, 0))
    return Request(tuple(items), spread_group=group, spread_max=int(bool(group)))


REQUESTS = (
    request(1, 0),
    request(1, 500),
    request(2, 1000),
    request(0, 4000),
    request(1, 0, "web"),
)


def trace_of(jobs: list[tuple[float, float, list[int]]]) -> Trace:
    """Make a trace of (submission, run time, tasks), in any order."""
    jobs = sorted(jobs, key=lambda job: job[0])
    offsets = np.cumsum([0, *(len(tasks) for _, _, tasks in jobs)])
    duration_s = np.array([duration for _, duration, _ in jobs], np.float64)
    return Trace(
        "test",
        REQUESTS,
        np.array([submit for submit, _, _ in jobs], np.float64),
        duration_s,
        duration_s.copy(),
        np.zeros(len(jobs), np.int32),
        offsets.astype(np.int32),
        np.array([task for _, _, tasks in jobs for task in tasks], np.int32),
    )


def fleet_of(shapes: list[int]) -> Fleet:
    names = tuple(f"n{index}" for index in range(len(shapes)))
    return Fleet("test", names, SHAPES, np.array(shapes, np.int32))


def simulation(
    fleet: Fleet,
    trace: Trace,
    queue: QueuePolicy,
    policy: ScorePolicy | None = None,
    node_events: NodeEvents | None = None,
    *,
    compile: bool = False,  # noqa: A002
    seed: int = 0,
) -> Simulation:
    snapshot = fleet.snapshot()

    def judge(batch: RequestBatch) -> NDArray[np.bool_]:
        return np.ones((len(batch.requests), len(snapshot.unit_ids)), np.bool_)

    return Simulation(
        snapshot,
        trace,
        policy or BestFit(),
        queue,
        judge,
        seed=seed,
        node_events=node_events or NodeEvents.none(),
        checkpoint_s=10.0,
        restart_s=1.0,
        compile=compile,
    )


jobs = st.lists(
    st.tuples(
        st.integers(0, 60).map(float),
        st.integers(1, 40).map(float),
        st.lists(st.integers(0, len(REQUESTS) - 1), min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=25,
)
node_changes = st.lists(
    st.tuples(
        st.integers(0, 90).map(float),
        st.integers(0, 3),
        st.sampled_from([NODE_DOWN, NODE_DRAINED, NODE_UP]),
    ),
    max_size=8,
)


@given(
    st.lists(st.integers(0, 1), min_size=1, max_size=4),
    jobs,
    node_changes,
    st.sampled_from(list(Backfill)),
    st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_after_every_event_what_runs_is_what_is_lent(
    shapes: list[int],
    todo: list[tuple[float, float, list[int]]],
    changes: list[tuple[float, int, int]],
    backfill: Backfill,
    shortest: bool,
) -> None:
    fleet = fleet_of(shapes)
    trace = trace_of(todo)
    queue: QueuePolicy = (ShortestFirst if shortest else FirstCome)("test", backfill)
    ordered = sorted(changes)
    happening = NodeEvents(
        np.array([at for at, _, _ in ordered], np.float64),
        np.array([node % len(shapes) for _, node, _ in ordered], np.int32),
        np.array([kind for _, _, kind in ordered], np.int8),
    )
    stepper = Stepper(simulation(fleet, trace, queue, node_events=happening))
    snapshot = stepper.simulation.snapshot
    more = True
    while more:
        more = stepper.step(1)
        free = snapshot.device_free_millis.copy()
        running = stepper.timeline.running[: stepper.counters[NOW_RUNNING]]
        spread = np.zeros(len(shapes), int)
        for job in running:
            first, end = stepper.jobs.task_offsets[job], stepper.jobs.task_offsets[job + 1]
            for task in range(first, end):
                node = stepper.jobs.task_node[task]
                assert node >= 0, "a gang starts whole"
                rows = range(stepper.jobs.first_draw[task], stepper.jobs.draw_end[task])
                for row in rows:
                    assert snapshot.unit_node[stepper.draws.unit[row]] == node
                    free[stepper.draws.unit[row]] -= stepper.draws.millis[row]
                spread[node] += trace.requests[trace.task_request[task]].spread_group == "web"
        assert (free == stepper.phase1.fleet.device_free_millis).all()
        assert (free >= 0).all()
        assert (spread <= 1).all()
        waiting = trace.task_offsets.size - 1 - len(running)
        ended = int((~np.isnan(stepper.jobs.end_s)).sum())
        unsubmitted = len(trace) - int(stepper.counters[0])
        assert waiting == int(stepper.counters[NOW_WAITING]) + ended + unsubmitted
    run = stepper.result()
    done = ~np.isnan(run.end_s)
    if not changes:
        assert (run.end_s[done] - run.first_start_s[done] == run.duration_s[done]).all()
    assert (run.first_start_s[done] >= run.submit_s[done]).all()
    assert (np.diff(run.log.time_s) >= 0).all()
    assert not run.faults


@given(jobs, st.sampled_from(list(Backfill)))
@settings(max_examples=20, deadline=None)
def test_equal_seeds_give_equal_bytes(
    todo: list[tuple[float, float, list[int]]], backfill: Backfill
) -> None:
    fleet, trace = fleet_of([0, 1, 0]), trace_of(todo)
    queue = FirstCome("test", backfill)
    assert simulation(fleet, trace, queue).run().digest == (
        simulation(fleet, trace, queue).run().digest
    )


def run(todo: list[tuple[float, float, list[int]]], backfill: Backfill) -> Run:
    return simulation(fleet_of([0]), trace_of(todo), FirstCome("test", backfill)).run()


# One node of four GPUs: two are busy until 100; then comes one that wants all four.
BLOCKED = [(0.0, 100.0, [2, 2]), (1.0, 10.0, [3])]


@pytest.mark.parametrize(
    ("backfill", "short_s", "long_s"),
    [
        # Behind the one that waits: it runs from 100 to 110.
        (Backfill.NONE, 110.0, 110.0),
        (Backfill.SKIP, 2.0, 3.0),
        # The short one ends by 100 and may go ahead, the long one would not.
        (Backfill.EASY, 2.0, 110.0),
        (Backfill.CONSERVATIVE, 2.0, 110.0),
    ],
)
def test_backfill_lets_pass_what_delays_nobody(
    backfill: Backfill, short_s: float, long_s: float
) -> None:
    found = run([*BLOCKED, (2.0, 50.0, [2]), (3.0, 500.0, [2])], backfill)
    assert found.first_start_s[2] == short_s
    assert found.first_start_s[3] == long_s
    if backfill is not Backfill.SKIP:
        assert found.first_start_s[1] == 100.0


def test_a_killed_job_goes_on_from_its_last_checkpoint() -> None:
    down = NodeEvents(
        np.array([25.0, 30.0]), np.zeros(2, np.int32), np.array([NODE_DOWN, NODE_UP], np.int8)
    )
    found = simulation(
        fleet_of([0]),
        trace_of([(0.0, 100.0, [2])]),
        FirstCome("x", Backfill.NONE),
        node_events=down,
    ).run()
    # 20 s of 100 were safe, a restart costs 1 s, and the node is back at 30.
    assert found.end_s[0] == 30.0 + 80.0 + 1.0
    assert found.killed == 1


class NotANumber(ScorePolicy):
    name = "not-a-number"

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
            scores[index] = np.nan


def test_a_policy_without_a_number_is_charged_and_the_run_goes_on() -> None:
    found = simulation(
        fleet_of([0]), trace_of(BLOCKED), FirstCome("x", Backfill.NONE), NotANumber()
    ).run()
    assert (~np.isnan(found.end_s)).all()
    (fault,) = found.faults
    assert "not-a-number" in str(fault)
    assert "first fit went on" in str(fault)


class TooFew(QueuePolicy):
    name = "too-few"

    def keys(self, jobs: QueuedJobs) -> NDArray[np.float64]:
        return np.zeros(1)


def test_a_queue_policy_of_the_wrong_shape_is_charged_and_jobs_go_as_they_came() -> None:
    found = simulation(fleet_of([0]), trace_of(BLOCKED), TooFew()).run()
    assert (~np.isnan(found.end_s)).all()
    (fault,) = found.faults
    assert "expected (2,)" in str(fault)


@pytest.mark.parametrize("backfill", [Backfill.SKIP, Backfill.EASY])
def test_compiled_and_plain_event_loops_give_equal_bytes(backfill: Backfill) -> None:
    fleet = synthetic_fleet(12, seed=2)
    trace = synthetic_trace(fleet, 300, seed=2, load=1.5)
    digests = {
        simulation(fleet, trace, FirstCome("x", backfill), compile=compile).run().digest
        for compile in (False, True)  # noqa: A001
    }
    assert len(digests) == 1
