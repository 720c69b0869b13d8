"""The exact optimum equals exhaustive search, and the linear bound is no less."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations, product
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.errors import InputError
from forebay_sdk.bench.openb.bound import (
    Nodes,
    Tasks,
    UnprovenError,
    allocation_bound_percent,
)
from forebay_sdk.bench.openb.optimum import NONE, Optimum, optimal_allocation

Drawn = TypeVar("Drawn")
Choice = tuple[int, tuple[int, ...]] | None


@dataclass(frozen=True)
class Instance:
    nodes: list[tuple[int, int, int, int]]
    tasks: list[tuple[int, int, int, int]]
    allowed: list[tuple[bool, bool]]
    group: list[int]
    gang: list[int]
    most: tuple[int, int]

    def arrays(self) -> tuple[Nodes, Tasks]:
        nodes = np.array(self.nodes, dtype=np.int64)
        tasks = np.array(self.tasks, dtype=np.int64)
        cpu_millis, memory_bytes, gpu_count, gpu_millis = tasks.T
        return Nodes(*nodes.T), Tasks(
            cpu_millis, memory_bytes, gpu_count, gpu_millis, np.array(self.allowed)
        )

    def solve(self) -> Optimum:
        nodes, tasks = self.arrays()
        return optimal_allocation(
            nodes,
            tasks,
            spread_group=np.array(self.group),
            spread_max=np.array(self.most),
            gang=np.array(self.gang),
        )

    def is_feasible(self, choices: tuple[Choice, ...]) -> bool:
        """Judge a placement by the rules, one after another, as a reader would."""
        left = {(node, gpu): 1000 for node, row in enumerate(self.nodes) for gpu in range(row[2])}
        cores = [row[0] for row in self.nodes]
        memory = [row[1] for row in self.nodes]
        together: Counter[tuple[int, int]] = Counter()
        for task, choice in enumerate(choices):
            if choice is None:
                continue
            node, gpus = choice
            cores[node] -= self.tasks[task][0]
            memory[node] -= self.tasks[task][1]
            for gpu in gpus:
                left[node, gpu] -= self.tasks[task][3]
            if self.group[task] != NONE:
                together[node, self.group[task]] += 1
        gangs: dict[int, set[bool]] = {}
        for task, number in enumerate(self.gang):
            if number != NONE:
                gangs.setdefault(number, set()).add(choices[task] is None)
        return (
            min([*left.values(), *cores, *memory]) >= 0
            and all(count <= self.most[group] for (_, group), count in together.items())
            and all(len(placed) == 1 for placed in gangs.values())
        )

    def choices_of(self, task: int) -> list[Choice]:
        count = self.tasks[task][2]
        return [None] + [
            (node, gpus)
            for node, row in enumerate(self.nodes)
            if count == 0 or self.allowed[task][row[3]]
            for gpus in combinations(range(row[2]), count)
        ]

    def allocated(self, choices: tuple[Choice, ...]) -> int:
        return sum(
            row[2] * row[3]
            for row, choice in zip(self.tasks, choices, strict=True)
            if choice is not None
        )

    def search(self) -> int:
        return max(
            self.allocated(choices)
            for choices in product(*map(self.choices_of, range(len(self.tasks))))
            if self.is_feasible(choices)
        )


@st.composite
def instances(draw: st.DrawFn, nodes: int, gpus: int, tasks: int) -> Instance:
    count = draw(st.integers(1, tasks))
    node = st.tuples(st.integers(1, 8), st.integers(1, 8), st.integers(0, gpus), st.integers(0, 1))
    gpu_asked = st.one_of(
        st.tuples(st.just(1), st.sampled_from([190, 300, 500, 810, 1000])),
        st.tuples(st.integers(0, gpus), st.just(1000)),
    )
    task = st.tuples(st.integers(0, 4), st.integers(0, 4), gpu_asked).map(
        lambda row: (row[0], row[1], *row[2])
    )
    label = st.sampled_from([NONE, NONE, 0, 1])

    def each(of: st.SearchStrategy[Drawn]) -> st.SearchStrategy[list[Drawn]]:
        return st.lists(of, min_size=count, max_size=count)

    return Instance(
        nodes=draw(st.lists(node, min_size=1, max_size=nodes)),
        tasks=draw(each(task)),
        allowed=draw(each(st.sampled_from([(True, True), (True, False), (False, True)]))),
        group=draw(each(label)),
        gang=draw(each(label)),
        most=draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
    )


@settings(max_examples=80)
@given(instances(nodes=2, gpus=2, tasks=4))
def test_the_optimum_is_that_of_exhaustive_search(instance: Instance) -> None:
    found = instance.solve()
    assert found.status == "optimal"
    assert found.allocated_millis == instance.search()


@settings(max_examples=40)
@given(instances(nodes=5, gpus=4, tasks=12))
def test_the_placement_told_keeps_every_rule_and_the_bound_is_no_less(instance: Instance) -> None:
    found = instance.solve()
    nodes, tasks = instance.arrays()
    # Whole-GPU tasks take, in turn, the GPUs of the node that hold no share.
    free = [
        [gpu for gpu in range(row[2]) if gpu not in set(found.gpu[found.node == node].tolist())]
        for node, row in enumerate(instance.nodes)
    ]
    choices: list[Choice] = []
    for task, node in enumerate(found.node.tolist()):
        if node == NONE:
            choices.append(None)
            continue
        count = instance.tasks[task][2]
        if instance.tasks[task][3] < 1000 and count:
            gpus = (int(found.gpu[task]),)
        else:
            gpus = tuple(free[node].pop() for _ in range(count))
        assert count == 0 or instance.allowed[task][instance.nodes[node][3]]
        choices.append((node, gpus))
    assert instance.is_feasible(tuple(choices))
    assert instance.allocated(tuple(choices)) == found.allocated_millis
    if nodes.capacity_millis:
        bound = allocation_bound_percent(nodes, tasks, np.ones(len(instance.tasks)))
        assert bound * nodes.capacity_millis / 100 >= found.allocated_millis - 1e-6


def one_node(gpus: int, *asked: tuple[int, int]) -> tuple[Nodes, Tasks]:
    nodes = Nodes(*np.array([[64], [64], [gpus], [0]]))
    gpu_count, gpu_millis = np.array(asked, dtype=np.int64).T
    ones = np.ones(len(asked), dtype=np.int64)
    return nodes, Tasks(ones, ones, gpu_count, gpu_millis, ones.astype(bool)[:, None])


def test_a_gang_is_placed_all_or_none() -> None:
    nodes, tasks = one_node(2, (1, 1000), (2, 1000), (1, 500))
    assert optimal_allocation(nodes, tasks).allocated_millis == 2000
    gang = np.array([0, 0, NONE])
    assert optimal_allocation(nodes, tasks, gang=gang).allocated_millis == 500


def test_tasks_of_a_group_keep_apart() -> None:
    nodes, tasks = one_node(4, (1, 1000), (1, 1000), (1, 1000))
    group = np.array([0, 0, 1])
    found = optimal_allocation(nodes, tasks, spread_group=group, spread_max=np.array([1, 1]))
    assert found.allocated_millis == 2000
    with pytest.raises(InputError, match="spread_max"):
        optimal_allocation(nodes, tasks, spread_group=group)


def test_what_is_not_proven_is_no_answer() -> None:
    nodes, tasks = one_node(4, *[(1, millis) for millis in (810, 500, 300, 190) * 3])
    with pytest.raises(UnprovenError, match="12 tasks on 1 nodes is not proven"):
        optimal_allocation(nodes, tasks, limit_s=0.0)
