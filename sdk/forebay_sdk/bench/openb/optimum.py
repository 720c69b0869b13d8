"""The exact maximum of allocated GPU of a small instance, by constraint programming.

It judges policies and the linear bound: no policy can exceed it, and the bound is no less.
It knows which tasks come and may refuse any, as no online policy may.

Axes: ``N`` nodes, ``J`` tasks, ``G`` spread groups.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from forebay.device import MILLIS_PER_UNIT
from forebay.errors import Fault, InputError, UnsupportedError
from forebay_sdk.bench.openb.bound import Nodes, Tasks, UnprovenError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray
    from ortools.sat.python.cp_model import CpModel, CpSolver, IntVar

Key = TypeVar("Key")
Value = TypeVar("Value")

NONE = -1
"""No node, no GPU, no group, no gang."""


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """The best placement of an instance.

    Parameters
    ----------
    allocated_millis : int
        Thousandths of a GPU.
    status : str
        ``optimal``: the solver proved that no placement allocates more.
    node : (J,) int64
        Node of each task, -1 where it is refused.
    gpu : (J,) int64
        GPU within its node of each task that shares one, -1 for any other;
        whole-GPU tasks take any of those that no share lies on.
    """

    allocated_millis: int
    status: str
    node: NDArray[np.int64]
    gpu: NDArray[np.int64]


def optimal_allocation(
    nodes: Nodes,
    tasks: Tasks,
    *,
    spread_group: NDArray[np.int64] | None = None,
    spread_max: NDArray[np.int64] | None = None,
    gang: NDArray[np.int64] | None = None,
    limit_s: float = 60.0,
) -> Optimum:
    """Return a placement that allocates the most GPU, with proof.

    Parameters
    ----------
    nodes : Nodes
    tasks : Tasks
        Each arrives once; any may be refused.
    spread_group : (J,) int64, optional
        Group of tasks that keep apart, -1 for none.
    spread_max : (G,) int64, optional
        How many tasks of each group one node may host; needed with `spread_group`.
    gang : (J,) int64, optional
        Gang of tasks that are placed all or none, on any nodes; -1 for none.
    limit_s : float
        Seconds of wall time after which the solver gives up.

    Raises
    ------
    InputError
        There are spread groups without their maxima.
    UnprovenError
        The solver gave up before it had the proof.
    UnsupportedError
        OR-tools is not installed.

    Notes
    -----
    One thread and a fixed seed: the same instance has the same answer. The time grows
    exponentially; 5 nodes and 12 tasks take some hundredths of a second.
    """
    if find_spec("ortools") is None:
        raise UnsupportedError(
            "the exact optimum needs OR-tools, which is not installed",
            fix="Install it with: pip install 'forebay[bench]'",
        )
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    choices = _Choices.of(model, nodes, tasks)
    choices.fit(model, nodes, tasks)
    if spread_group is not None:
        if spread_max is None:
            raise InputError(
                Fault("found groups that keep apart, but no maximum.", field="spread_max")
            )
        choices.keep_apart(model, spread_group, spread_max)
    if gang is not None:
        choices.keep_whole(model, gang)
    model.maximize(
        sum(
            int(tasks.request_millis[task]) * chosen
            for (task, _), chosen in choices.on_node.items()
        )
    )
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_time_in_seconds = limit_s
    status = solver.solve(model)
    if status != cp_model.OPTIMAL:
        raise UnprovenError(
            f"the optimum of {len(tasks.gpu_count)} tasks on {len(nodes.gpus)} nodes is not "
            f"proven: the solver ended as {solver.status_name(status)} after "
            f"{solver.wall_time:.1f} s",
            fix="Give it more time, or a smaller instance.",
        )
    return choices.read(solver, tasks)


@dataclass(frozen=True, slots=True)
class _Choices:
    """Decisions: a task on a node, a share on a GPU, and whether a GPU holds shares."""

    on_node: dict[tuple[int, int], IntVar]
    on_gpu: dict[tuple[int, int, int], IntVar]
    shared: dict[tuple[int, int], IntVar]

    @classmethod
    def of(cls, model: CpModel, nodes: Nodes, tasks: Tasks) -> _Choices:
        """Return the decisions that model masks leave open, each task on one node at most."""
        allowed = tasks.allowed[:, nodes.model]
        on_node = {
            (task, node): model.new_bool_var(f"task {task} on node {node}")
            # Models are those of GPUs, so a task without GPU runs on any node.
            for task, node in np.argwhere(allowed | (tasks.gpu_count == 0)[:, None]).tolist()
        }
        on_gpu = {
            (task, node, gpu): model.new_bool_var(f"task {task} on GPU {gpu} of node {node}")
            for task, node in on_node
            if _shares(tasks, task)
            for gpu in range(int(nodes.gpus[node]))
        }
        shared = {
            (node, gpu): model.new_bool_var(f"GPU {gpu} of node {node} shared")
            for node, count in enumerate(nodes.gpus.tolist())
            for gpu in range(count)
        }
        for chosen in _grouped((task, var) for (task, _), var in on_node.items()).values():
            model.add_at_most_one(chosen)
        return cls(on_node, on_gpu, shared)

    def fit(self, model: CpModel, nodes: Nodes, tasks: Tasks) -> None:
        """Keep to what the nodes have."""
        gpus = _grouped(((task, node), var) for (task, node, _), var in self.on_gpu.items())
        shares = _grouped(
            ((node, gpu), int(tasks.gpu_millis[task]) * var)
            for (task, node, gpu), var in self.on_gpu.items()
        )
        for (task, node), chosen in self.on_node.items():
            if _shares(tasks, task):
                model.add(sum(gpus[task, node]) == chosen)
        for (node, gpu), shared in self.shared.items():
            model.add(sum(shares[node, gpu]) <= MILLIS_PER_UNIT * shared)
            # The GPUs of a node are alike: those that are shared come first.
            if gpu:
                model.add_implication(shared, self.shared[node, gpu - 1])
        for node, count in enumerate(nodes.gpus.tolist()):
            here = [(task, var) for (task, place), var in self.on_node.items() if place == node]
            whole = [
                int(tasks.gpu_count[task]) * var for task, var in here if not _shares(tasks, task)
            ]
            model.add(sum(whole) + sum(self.shared[node, gpu] for gpu in range(count)) <= count)
            for asked, had in (
                (tasks.cpu_millis, nodes.cpu_millis),
                (tasks.memory_bytes, nodes.memory_bytes),
            ):
                model.add(sum(int(asked[task]) * var for task, var in here) <= int(had[node]))

    def keep_apart(self, model: CpModel, group: NDArray[np.int64], most: NDArray[np.int64]) -> None:
        """Let a node host no more of a spread group than its maximum."""
        members = _grouped(
            ((int(group[task]), node), var) for (task, node), var in self.on_node.items()
        )
        for (number, _), chosen in members.items():
            if number != NONE:
                model.add(sum(chosen) <= int(most[number]))

    def keep_whole(self, model: CpModel, gang: NDArray[np.int64]) -> None:
        """Place all tasks of a gang or none."""
        chosen = _grouped((task, var) for (task, _), var in self.on_node.items())
        first: dict[int, int] = {}
        for task, number in enumerate(gang.tolist()):
            if number != NONE:
                leader = first.setdefault(number, task)
                model.add(sum(chosen[task]) == sum(chosen[leader]))

    def read(self, solver: CpSolver, tasks: Tasks) -> Optimum:
        """Return what the solver chose."""
        node = np.full(len(tasks.gpu_count), NONE, dtype=np.int64)
        gpu = node.copy()
        for (task, place), chosen in self.on_node.items():
            if solver.boolean_value(chosen):
                node[task] = place
        for (task, _, number), chosen in self.on_gpu.items():
            if solver.boolean_value(chosen):
                gpu[task] = number
        allocated = int(tasks.request_millis[node != NONE].sum())
        return Optimum(allocated, "optimal", node, gpu)


def _shares(tasks: Tasks, task: int) -> bool:
    return bool(tasks.gpu_count[task] == 1 and tasks.gpu_millis[task] < MILLIS_PER_UNIT)


def _grouped(pairs: Iterable[tuple[Key, Value]]) -> defaultdict[Key, list[Value]]:
    groups: defaultdict[Key, list[Value]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups
