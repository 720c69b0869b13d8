"""What is drawn is drawn alike, to the load asked for, and can be placed."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay import DeviceKind, InputError, Operator, Request, ResourceItem, Selector
from forebay_sdk.bench.offered import offered_policies
from forebay_sdk.simulator import Simulation
from forebay_sdk.traces import DeviceShape, Fleet, NodeShape, Trace
from forebay_sdk.traces.capacity import hosting_nodes, scarce_demand
from forebay_sdk.traces.synthetic import (
    DAY_S,
    SHAPES,
    failures,
    maintenance,
    synthetic_fleet,
    synthetic_requests,
    synthetic_trace,
)

GIB = 1 << 30


def load_of(fleet: Fleet, trace: Trace) -> float:
    """Return the mean demand of accelerators by what the fleet has, counted device by device."""
    millis = np.array(
        [
            sum(item.millis for item in one.items if item.kind is not DeviceKind.CPU)
            for one in trace.requests
        ]
    )
    lasting = np.repeat(trace.duration_s, np.diff(trace.task_offsets))
    capacity = sum(
        1000 * device.count for shape in fleet.node_shape for device in fleet.shapes[shape].devices
    )
    return float((millis[trace.task_request] * lasting).sum() / trace.submit_s[-1] / capacity)


@given(nodes=st.integers(1, 60), seed=st.integers(0, 99), gang_share=st.floats(0, 1))
@settings(max_examples=40)
def test_a_small_fleet_gets_only_work_that_it_can_hold(
    nodes: int, seed: int, gang_share: float
) -> None:
    fleet = synthetic_fleet(nodes, seed)
    trace = synthetic_trace(fleet, 200, seed, gang_share=gang_share)
    hosts = hosting_nodes(fleet, trace.requests)
    sizes = np.diff(trace.task_offsets)
    assert (sizes >= 1).all()
    assert (sizes <= hosts[trace.task_request[trace.task_offsets[:-1]]]).all()


@pytest.mark.parametrize(("nodes", "seed"), [(1, 0), (2, 3), (5, 1), (12, 2)])
def test_strict_order_on_a_small_fleet_never_waits_for_ever(nodes: int, seed: int) -> None:
    fleet = synthetic_fleet(nodes, seed)
    trace = synthetic_trace(fleet, 80, seed, gang_share=0.3)
    snapshot = fleet.snapshot()
    with offered_policies() as policies:
        run = Simulation(
            snapshot,
            trace,
            policies.score_policy("best-fit"),
            policies.queue_policy("first-come"),
            policies.judge(snapshot),
            compile=False,
        ).run()
    assert np.isfinite(run.end_s).all()


@pytest.mark.parametrize("days", [None, 5.0])
def test_what_is_drawn_is_drawn_alike_and_to_the_load(days: float | None) -> None:
    fleet = synthetic_fleet(400, seed=5)
    first, second = (synthetic_trace(fleet, 20_000, seed=5, load=0.7, days=days) for _ in range(2))
    assert (first.submit_s == second.submit_s).all()
    assert (first.duration_s == second.duration_s).all()
    assert (first.task_request == second.task_request).all()
    other = synthetic_trace(fleet, 20_000, seed=6, load=0.7, days=days)
    assert (first.submit_s != other.submit_s).any()
    assert load_of(fleet, first) == pytest.approx(0.7, rel=0.01)
    if days is not None:
        assert first.submit_s[-1] == pytest.approx(days * DAY_S, rel=0.01)
    assert len(first.requests) <= 64
    assert (first.estimate_s >= first.duration_s).all()


def test_more_jobs_come_by_day_than_by_night() -> None:
    trace = synthetic_trace(synthetic_fleet(400), 200_000, days=10)
    hour = (trace.submit_s % DAY_S) // 3600
    counts = np.bincount(hour.astype(int), minlength=24)
    # The rate is 1 - cos / 2 of the mean: 1.5 at noon, 0.5 at midnight.
    assert counts[11:13].mean() / counts.mean() == pytest.approx(1.5, abs=0.05)
    assert counts[[0, 23]].mean() / counts.mean() == pytest.approx(0.5, abs=0.05)


def test_a_fleet_without_accelerators_is_loaded_by_its_cores() -> None:
    fleet = synthetic_fleet(50, mix=[(1.0, NodeShape(64_000, 256 * GIB))])
    trace = synthetic_trace(fleet, 5_000, load=0.5)
    asked, capacity = scarce_demand(fleet, trace.requests)
    assert capacity == 50 * 64_000
    lasting = np.repeat(trace.duration_s, np.diff(trace.task_offsets))
    demand = (asked[trace.task_request] * lasting).sum() / trace.submit_s[-1]
    assert demand / capacity == pytest.approx(0.5, rel=0.01)


def test_the_mix_and_the_zones_are_as_asked_for() -> None:
    fleet = synthetic_fleet(8000, seed=1)
    drawn = np.bincount(fleet.node_shape % len(SHAPES), minlength=len(SHAPES)) / 8000
    assert drawn == pytest.approx([share for share, _ in SHAPES], abs=0.02)
    zone = fleet.snapshot().node_labels["zone"]
    names, counts = np.unique(zone.astype(str), return_counts=True)
    assert names.tolist() == ["zone-0", "zone-1", "zone-2", "zone-3"]
    assert counts.tolist() == [2000] * 4


def test_requests_for_models_that_a_fleet_lacks_are_not_drawn() -> None:
    shape = NodeShape(96_000, 768 * GIB, (DeviceShape(DeviceKind.GPU, 4, "T4"),))
    requests, weight = synthetic_requests(synthetic_fleet(10, mix=[(1.0, shape)]))
    assert weight.sum() == pytest.approx(1.0)
    assert not any(one.device_selectors for one in requests)
    assert {item.kind for one in requests for item in one.items} == {DeviceKind.CPU, DeviceKind.GPU}
    assert max(one.items[-1].millis for one in requests if len(one.items) > 1) == 4000


def test_an_empty_node_holds_what_is_within_each_of_its_resources() -> None:
    device = DeviceShape(DeviceKind.GPU, 2, "T4")
    shapes = (NodeShape(4000, GIB, (device,)), NodeShape(8000, 2 * GIB))
    fleet = Fleet("test", ("a", "b", "c"), shapes, np.array([1, 0, 1], np.int32))

    def request(cpu_millis: int, memory_bytes: int, gpu_millis: int, model: str = "") -> Request:
        items = [ResourceItem(DeviceKind.CPU, cpu_millis, memory_bytes)]
        if gpu_millis:
            items.append(ResourceItem(DeviceKind.GPU, gpu_millis, 0))
        selector = (Selector("model", Operator.IN, model),) if model else ()
        return Request(tuple(items), device_selectors=selector)

    expected = {
        request(4000, GIB, 0): 3,
        request(4001, GIB, 0): 2,
        request(4000, GIB + 1, 0): 2,
        request(8001, GIB, 0): 0,
        request(4000, GIB, 2000): 1,
        request(4001, GIB, 1000): 0,
        request(1000, GIB, 3000): 0,
        request(1000, GIB, 500, "T4|G2"): 1,
        request(1000, GIB, 500, "G2"): 0,
    }
    assert hosting_nodes(fleet, tuple(expected)).tolist() == list(expected.values())


def test_a_fleet_that_can_hold_nothing_is_refused() -> None:
    fleet = synthetic_fleet(3, mix=[(1.0, NodeShape(0, 0))])
    with pytest.raises(InputError, match="no node of synthetic 3 can hold any request"):
        synthetic_trace(fleet, 10)


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("load", lambda fleet: synthetic_trace(fleet, 10, load=0.0)),
        ("load", lambda fleet: synthetic_trace(fleet, 10, load=float("nan"))),
        ("days", lambda fleet: synthetic_trace(fleet, 10, days=-1.0)),
        ("mean_duration_s", lambda fleet: synthetic_trace(fleet, 10, mean_duration_s=1e999)),
        ("mtbf_s", lambda fleet: failures(len(fleet), 1e6, mtbf_s=0.0)),
        ("every_s", lambda fleet: maintenance(len(fleet), 1e6, every_s=0.0)),
    ],
)
def test_a_number_out_of_range_is_refused(name: str, draw: Callable[[Fleet], object]) -> None:
    with pytest.raises(InputError, match=f"{name}: found"):
        draw(synthetic_fleet(5))


@given(
    nodes=st.integers(0, 40),
    span_s=st.floats(0, 1e6),
    seed=st.integers(0, 9),
    mean_s=st.floats(3e3, 1e6),
)
@settings(max_examples=60)
def test_what_becomes_of_a_node_never_overlaps(
    nodes: int, span_s: float, seed: int, mean_s: float
) -> None:
    failed = failures(nodes, span_s, seed, mtbf_s=mean_s, mttr_s=mean_s / 9)
    drained = maintenance(nodes, span_s, seed, every_s=mean_s, lasting_s=mean_s / 3, share=0.2)
    for node, begin_s, end_s in (failed, drained):
        assert (np.diff(begin_s) >= 0).all()
        assert (begin_s < span_s).all()
        assert (end_s >= begin_s).all()
        assert ((node >= 0) & (node < nodes)).all()
        for one in range(nodes):
            mine = node == one
            assert (begin_s[mine][1:] >= end_s[mine][:-1]).all()


def test_failures_are_as_many_and_as_long_as_told() -> None:
    # Far more failures a node than its mean: none is cut off.
    node, down_s, up_s = failures(500, 1e6, seed=1, mtbf_s=1e4, mttr_s=1e3)
    assert len(node) == pytest.approx(500 * 1e6 / 1.1e4, rel=0.02)
    assert (up_s - down_s).mean() == pytest.approx(1e3, rel=0.02)
    late = down_s > 9e5
    assert late.sum() == pytest.approx(len(node) / 10, rel=0.05)


def test_maintenance_reaches_every_node_once_a_period_and_few_at_a_time() -> None:
    node, drained_s, up_s = maintenance(100, 3 * DAY_S, every_s=DAY_S, lasting_s=600.0, share=0.05)
    assert (up_s == drained_s + 600.0).all()
    assert (np.bincount(node, minlength=100) == 3).all()
    out = [int(((drained_s <= at) & (up_s > at)).sum()) for at in drained_s]
    assert max(out) == 5
    with pytest.raises(InputError, match="expected drains within the period"):
        maintenance(10, DAY_S, every_s=60.0, lasting_s=61.0)


def test_the_largest_fleet_and_trace_are_drawn_within_seconds() -> None:
    began = time.perf_counter()
    fleet = synthetic_fleet(100_000)
    trace = synthetic_trace(fleet, 1_000_000)
    failures(len(fleet), float(trace.submit_s[-1]))
    # Measured: 0.4 s; the bound is for a machine that others use as well.
    assert time.perf_counter() - began < 3.0
