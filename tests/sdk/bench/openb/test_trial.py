"""The benchmark's self-check: our policies beside the authors' own results, seed by seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay import DeviceKind, Request, ResourceItem
from forebay_core.cli import run
from forebay_core.scheduling.phase1 import Phase1
from forebay_sdk.bench.offered import Policies, offered_policies
from forebay_sdk.bench.openb.bound import Nodes, Tasks
from forebay_sdk.bench.openb.data import read_openb
from forebay_sdk.bench.openb.optimum import optimal_allocation
from forebay_sdk.bench.openb.published import Published
from forebay_sdk.bench.openb.trial import run_trial
from forebay_sdk.simulator.simulation import mix_of
from forebay_sdk.traces import DeviceShape, Fleet, NodeShape, Trace

SEEDS = (42, 43, 44)

# Over ten seeds means are to be within this (docs/benchmarks.md); the authors' orders of nodes
# cannot be rebuilt, so over a few seeds three standard errors of the difference come on top.
TOLERANCE = 0.15


@pytest.fixture(scope="module")
def policies() -> Iterator[Policies]:
    with offered_policies() as offered:
        yield offered


@pytest.mark.shared_data
@pytest.mark.parametrize("trace", ["default", "gpuspec33"])
@pytest.mark.parametrize("policy", ["best-fit", "fgd"])
def test_the_published_allocation_is_reproduced(
    shared_data: Path, policies: Policies, trace: str, policy: str
) -> None:
    data = shared_data / "alibaba-gpu-v2023"
    openb = read_openb(data, trace)
    trials = [run_trial(openb, policies.score_policy(policy), seed, policies) for seed in SEEDS]
    seeds, allocated = Published.read(data).allocation(trace, policy)
    same = np.isin(seeds, SEEDS)
    for load in (95, 100, 130):
        ours = np.mean([trial.unallocated_percent[load] for trial in trials])
        error = np.std(allocated[:, load], ddof=1) * np.sqrt(2 / len(SEEDS))
        assert ours == pytest.approx(
            100 - allocated[same, load].mean(), abs=TOLERANCE + 3 * float(error)
        )
    if trace == "gpuspec33":
        return
    # Nothing is rejected up to half the load, so there the curve is the paper's to a digit.
    for trial, row in zip(trials, allocated[same], strict=True):
        assert trial.unallocated_percent[10:50] == pytest.approx(100 - row[10:50], abs=0.006)


@pytest.mark.shared_data
def test_the_command_prints_a_line_for_each_policy(
    shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(shared_data / "alibaba-gpu-v2023")
    asked = ["bench", "openb", data, "--trace", "multigpu50", "--policy", "dot-product"]
    assert run([*asked, "--seed", "42", "--reference", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (line,) = document["lines"]
    assert line["published_percent"]["100"] == pytest.approx(5.27, abs=0.01)
    # The plain loop placed every task where the engine did, or the command would have failed.
    assert line["times_plain_loop"] > 0
    assert document["bound_percent"]["multigpu50"] < line["unallocated_percent"]["100"]
    assert run(["bench", "openb", data, "--trace", "nope"]) == 2
    assert "openb_pod_list_nope" in capsys.readouterr().err


@st.composite
def instances(draw: st.DrawFn) -> tuple[Nodes, Tasks]:
    node_count, task_count = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    kinds = [
        draw(st.sampled_from([(0, 0), (1, 250), (1, 500), (1, 810), (1, 1000), (2, 1000)]))
        for _ in range(task_count)
    ]
    nodes = Nodes(
        np.array([draw(st.integers(1, 8)) * 1000 for _ in range(node_count)], np.int64),
        np.full(node_count, 1 << 40, np.int64),
        np.array([draw(st.integers(0, 3)) for _ in range(node_count)], np.int64),
        np.zeros(node_count, np.int64),
    )
    tasks = Tasks(
        np.array([draw(st.integers(1, 4)) * 1000 for _ in range(task_count)], np.int64),
        np.zeros(task_count, np.int64),
        np.array([count for count, _ in kinds], np.int64),
        np.array([millis for _, millis in kinds], np.int64),
        np.ones((task_count, 1), np.bool_),
    )
    return nodes, tasks


@given(instances())
@settings(max_examples=25, deadline=None)
def test_no_policy_beats_the_optimum(instance: tuple[Nodes, Tasks]) -> None:
    nodes, tasks = instance
    best = optimal_allocation(nodes, tasks).allocated_millis
    shapes = tuple(
        NodeShape(int(cpu), 0, (DeviceShape(DeviceKind.GPU, int(gpus)),) if gpus else ())
        for cpu, gpus in zip(nodes.cpu_millis, nodes.gpus, strict=True)
    )
    count = len(shapes)
    names = tuple(f"n{index}" for index in range(count))
    snapshot = Fleet("small", names, shapes, np.arange(count, dtype=np.int32)).snapshot()
    asked = []
    for cpu, gpus, millis in zip(tasks.cpu_millis, tasks.gpu_count, tasks.gpu_millis, strict=True):
        items = [ResourceItem(DeviceKind.CPU, int(cpu))]
        if gpus:
            items.append(ResourceItem(DeviceKind.GPU, int(gpus * millis), 0))
        asked.append(Request(tuple(items)))
    millis = np.where(tasks.gpu_count > 0, tasks.gpu_count * tasks.gpu_millis, 0)
    zeros = np.zeros(len(asked))
    distinct = tuple(dict.fromkeys(asked))
    trace = Trace(
        "small",
        distinct,
        zeros,
        zeros,
        zeros,
        zeros.astype(np.int32),
        np.arange(len(asked) + 1, dtype=np.int32),
        np.array([distinct.index(request) for request in asked], np.int32),
    )
    with offered_policies() as offered:
        judge = offered.judge(snapshot)
        for name in offered.score:
            policy = offered.score_policy(name)
            engine = Phase1(snapshot, policy, judge, mix=mix_of(trace, judge))
            placed = engine.place(asked)
            assert millis[placed.nodes >= 0].sum() <= best, name
