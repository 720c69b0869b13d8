"""An upper bound on the GPU that any scheduler can allocate, by linear programming.

Why it holds for every scheduler
--------------------------------
Take whatever a scheduler has placed at some moment when nothing has departed, and count it:
``x[t, c]`` tasks of class ``c`` lie on nodes of type ``t``, and ``y[t, p]`` GPUs of nodes of type
``t`` hold shares that fit in pattern ``p``, a combination of share sizes of at most one GPU to
which no further share can be added. Those counts meet every constraint below, because each
states something true of each node, summed over the nodes of a type:

- GPUs of whole-GPU tasks and GPUs that hold shares are no more than there are;
- the tasks' cores and memory are no more than there are;
- shares of a size are no more than the places that the patterns have for it;
- tasks of a class are no more than have arrived, and lie on allowed models alone.

So the allocated GPU is a feasible value of the linear program, whose maximum is thus a bound;
whether the scheduler knows the future, refuses tasks, or searches for hours makes no difference.
The program forgets that tasks and nodes come whole, so the true optimum is somewhat lower.
Tasks without GPU are left out: refusing them all can only raise the value.

Complexity: (types x classes + types x patterns) variables. The patterns of sizes
``s_1 .. s_k`` number at most ``prod(1000 / s_i + 1)``; the 20 sizes of openb have 1,871.

Axes: ``N`` nodes, ``J`` tasks, ``M`` models, ``K`` arrivals.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from forebay.device import MILLIS_PER_UNIT
from forebay.errors import Fault, ForebayError, InputError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

PATTERN_LIMIT = 20_000
"""More patterns than this are refused: at 21,000 the cluster of openb took 15 s."""


class UnprovenError(ForebayError):
    """A solver ended without proof of its answer."""


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Empty nodes; their GPUs are all of one model and lend any part of themselves.

    Parameters
    ----------
    cpu_millis, memory_bytes : (N,) int64
        Thousandths of a core; bytes of host memory.
    gpus : (N,) int64
    model : (N,) int64
        Column of ``Tasks.allowed``.
    """

    cpu_millis: NDArray[np.int64]
    memory_bytes: NDArray[np.int64]
    gpus: NDArray[np.int64]
    model: NDArray[np.int64]

    @property
    def capacity_millis(self) -> int:
        """Thousandths of a GPU that all nodes have together."""
        return int(self.gpus.sum()) * MILLIS_PER_UNIT


@dataclass(frozen=True, slots=True, eq=False)
class Tasks:
    """What each task asks for, all of it on one node.

    Parameters
    ----------
    cpu_millis, memory_bytes : (J,) int64
    gpu_count : (J,) int64
    gpu_millis : (J,) int64
        Of each GPU: 1 to 1000 of a single one, 1000 of several; ignored where there is none.
    allowed : (J, M) bool
        Whether the task may use GPUs of the model; no matter where it asks for none.

    Raises
    ------
    InputError
        A task asks for a negative amount, or for shares other than the above.
    """

    cpu_millis: NDArray[np.int64]
    memory_bytes: NDArray[np.int64]
    gpu_count: NDArray[np.int64]
    gpu_millis: NDArray[np.int64]
    allowed: NDArray[np.bool_]

    def __post_init__(self) -> None:
        """Refuse what is no request."""
        negative = (self.cpu_millis < 0) | (self.memory_bytes < 0) | (self.gpu_count < 0)
        least = np.where(self.gpu_count > 1, MILLIS_PER_UNIT, 1)
        odd = (self.gpu_millis < least) | (self.gpu_millis > MILLIS_PER_UNIT)
        wrong = np.flatnonzero(negative | (odd & (self.gpu_count > 0)))
        if len(wrong):
            task = int(wrong[0])
            raise InputError(
                Fault(
                    f"found {self.gpu_count[task]} x {self.gpu_millis[task]} GPU millis, "
                    f"{self.cpu_millis[task]} core millis and {self.memory_bytes[task]} bytes; "
                    "expected none below 0, 1 to 1000 millis of one GPU, or 1000 of each of "
                    "several.",
                    field=f"tasks[{task}]",
                )
            )

    @property
    def request_millis(self) -> NDArray[np.int64]:
        """Thousandths of a GPU that each task asks for, of all its GPUs together: (J,)."""
        return self.gpu_count * self.gpu_millis


def arrived_at_load(
    order: NDArray[np.integer], tasks: Tasks, capacity_millis: int, load_percent: float
) -> NDArray[np.float64]:
    """Return how often each task has arrived once the summed request reaches a load: (J,).

    Parameters
    ----------
    order : (K,) int
        Index of the task that arrives, in order; a task may arrive more than once.
    tasks : Tasks
    capacity_millis : int
        What counts as 100 per cent.
    load_percent : float

    Raises
    ------
    InputError
        The arrivals end before that load.
    """
    loads = _loads(order, tasks, capacity_millis)
    count = int(np.searchsorted(loads, load_percent)) + 1
    if count > len(order):
        raise _no_such_load(loads, load_percent)
    return _sums(order[:count], np.ones(count), len(tasks.gpu_count))


def arrived_in_bin(
    order: NDArray[np.integer], tasks: Tasks, capacity_millis: int, load_bin: int
) -> NDArray[np.float64]:
    """Return how often each task has arrived, averaged over the arrivals in a bin: (J,).

    The benchmark's measure is the mean allocation over all arrivals whose load rounds to the bin.
    The program's maximum is concave in the counts, so by Jensen's inequality the bound at the
    mean counts is a bound on that mean.

    Raises
    ------
    InputError
        No arrival falls in the bin.
    """
    loads = _loads(order, tasks, capacity_millis)
    inside = np.flatnonzero(np.rint(loads) == load_bin)
    if not len(inside):
        raise _no_such_load(loads, load_bin)
    first, end = int(inside[0]), int(inside[-1]) + 1
    # Of the end - first states in the bin, an arrival is part of those from its own on.
    weights = np.minimum((end - np.arange(end)) / (end - first), 1.0)
    return _sums(order[:end], weights, len(tasks.gpu_count))


def allocation_bound_percent(
    nodes: Nodes, tasks: Tasks, arrived: NDArray[np.float64] | NDArray[np.integer]
) -> float:
    """Return what no scheduler can exceed: allocated GPU as a percentage of all GPU.

    Parameters
    ----------
    nodes : Nodes
    tasks : Tasks
    arrived : (J,) float64 or int
        How often each task has arrived; a fraction where it is a mean.

    Returns
    -------
    float
        0 to 100. It is computed from the solver's dual prices by weak duality, which holds for
        any prices: the solver's tolerances can make the bound looser, never wrong.

    Raises
    ------
    InputError
        There is no GPU, or the share sizes combine in more than ``PATTERN_LIMIT`` ways.
    UnprovenError
        The solver found no optimum.
    UnsupportedError
        SciPy is not installed.

    Notes
    -----
    Deterministic. About half a second for 1,213 nodes and 400 classes; see the module's head.

    References
    ----------
    Gilmore, Gomory: A Linear Programming Approach to the Cutting-Stock Problem, Operations
    Research 9 (1961), for the patterns. Neumaier, Shcherbina: Safe bounds in linear and
    mixed-integer linear programming, Mathematical Programming 99 (2004), for the dual bound.
    """
    if find_spec("scipy") is None:
        raise UnsupportedError(
            "the bound needs SciPy, which is not installed",
            fix="Install it with: pip install 'forebay[bench]'",
        )
    if nodes.capacity_millis == 0:
        raise InputError(Fault("found no GPU, expected at least one.", field="nodes.gpus"))
    types, counts = _types(nodes)
    classes, arrivals = _classes(tasks, arrived)
    program = _program(types, counts, classes, arrivals)
    if program is None:
        return 0.0
    return min(100.0, 100 * program.upper_bound() * MILLIS_PER_UNIT / nodes.capacity_millis)


def maximal_patterns(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return every way to fill a GPU with shares so that no further share fits: (P, S).

    Parameters
    ----------
    sizes : (S,) int64
        Millis, distinct, falling.

    Returns
    -------
    (P, S) int64
        How many shares of each size.

    Raises
    ------
    InputError
        There are more than ``PATTERN_LIMIT``.
    """
    # A filling is maximal when less than the smallest size is left, so that size's count follows
    # from the others', and there are as many patterns as fillings with the others.
    others = sizes[:-1].tolist()
    fillings = [1] + [0] * MILLIS_PER_UNIT
    for size in others:
        for used in range(size, MILLIS_PER_UNIT + 1):
            fillings[used] += fillings[used - size]
    if sum(fillings) > PATTERN_LIMIT:
        raise InputError(
            Fault(
                f"found {len(sizes)} sizes of GPU share, down to {sizes[-1]} millis, which combine "
                f"in {sum(fillings):.3g} ways; expected at most {PATTERN_LIMIT:,}.",
                field="tasks.gpu_millis",
                fix="Leave the bound out, or round the sizes down to fewer.",
            )
        )
    heads: list[tuple[tuple[int, ...], int]] = [((), MILLIS_PER_UNIT)]
    for size in others:
        heads = [
            ((*head, count), left - count * size)
            for head, left in heads
            for count in range(left // size + 1)
        ]
    last = sizes[-1:].tolist()
    rows = [(*head, *(left // size for size in last)) for head, left in heads]
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(sizes))


@dataclass(frozen=True, slots=True, eq=False)
class _Program:
    """Maximise ``gain @ v`` where ``rows @ v <= limits`` and ``0 <= v <= most``."""

    gain: NDArray[np.float64]
    rows: csr_array
    limits: NDArray[np.float64]
    most: NDArray[np.float64]

    def upper_bound(self) -> float:
        from scipy.optimize import linprog

        found = linprog(-self.gain, A_ub=self.rows, b_ub=self.limits, method="highs")
        if found.status != 0:
            raise UnprovenError(f"the linear program of the bound: {found.message}")
        prices = np.maximum(-found.ineqlin.marginals, 0.0)
        unpaid = np.maximum(self.gain - self.rows.T @ prices, 0.0)
        return float(prices @ self.limits + unpaid @ self.most)


def _program(
    types: Nodes, counts: NDArray[np.int64], classes: Tasks, arrivals: NDArray[np.float64]
) -> _Program | None:
    """Return the linear program in GPUs, or None where no task fits any node.

    Rows of cores and memory are in nodes, so that all coefficients are of like size.
    """
    from scipy.sparse import csr_array

    of_type, of_class = _pairs(types, classes)
    if not len(of_type):
        return None
    shared = classes.gpu_millis < MILLIS_PER_UNIT
    sizes = -np.unique(-classes.gpu_millis[shared])
    size_of = np.searchsorted(-sizes, -classes.gpu_millis)
    patterns = maximal_patterns(sizes)
    gpus = (types.gpus * counts).astype(np.float64)

    # Columns: the tasks of each type and class, then the GPUs of each type and pattern.
    task_column = np.arange(len(of_type))
    type_pattern = np.arange(len(counts) * len(patterns))
    pattern_type, pattern = np.divmod(type_pattern, len(patterns))
    pattern_column = len(of_type) + type_pattern
    # Rows: GPUs, cores and memory of each type, places of each type and size, then arrivals.
    cpu_row, memory_row, place_row = (len(counts) * place for place in (1, 2, 3))
    arrival_row = place_row + len(counts) * len(sizes)
    whole, share = np.flatnonzero(~shared[of_class]), np.flatnonzero(shared[of_class])
    place, slot = np.nonzero(patterns[pattern])
    cpu_nodes = classes.cpu_millis[of_class] / np.maximum(types.cpu_millis, 1)[of_type]
    memory_nodes = classes.memory_bytes[of_class] / np.maximum(types.memory_bytes, 1)[of_type]
    blocks = [
        (of_type[whole], task_column[whole], classes.gpu_count[of_class[whole]]),
        (pattern_type, pattern_column, np.ones(len(pattern))),
        (cpu_row + of_type, task_column, cpu_nodes),
        (memory_row + of_type, task_column, memory_nodes),
        (
            place_row + (of_type * len(sizes) + size_of[of_class])[share],
            task_column[share],
            np.ones(len(share)),
        ),
        (
            place_row + pattern_type[place] * len(sizes) + slot,
            pattern_column[place],
            -patterns[pattern[place], slot],
        ),
        (arrival_row + of_class, task_column, np.ones(len(of_class))),
    ]
    row, column, value = (np.concatenate(part) for part in zip(*blocks, strict=True))
    shape = arrival_row + len(arrivals), len(of_type) + len(type_pattern)
    no_places = np.zeros(len(counts) * len(sizes))
    return _Program(
        gain=np.concatenate(
            (classes.request_millis[of_class] / MILLIS_PER_UNIT, np.zeros(len(type_pattern)))
        ),
        rows=csr_array((value.astype(np.float64), (row, column)), shape=shape),
        limits=np.concatenate((gpus, counts, counts, no_places, arrivals)),
        most=np.concatenate((arrivals[of_class], gpus[pattern_type])),
    )


def _pairs(types: Nodes, classes: Tasks) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each type and class of which a task may run on an empty node."""
    of_type, of_class = np.nonzero(
        (classes.cpu_millis <= types.cpu_millis[:, None])
        & (classes.memory_bytes <= types.memory_bytes[:, None])
        & (classes.gpu_count <= types.gpus[:, None])
        & classes.allowed.T[types.model]
    )
    return of_type, of_class


def _types(nodes: Nodes) -> tuple[Nodes, NDArray[np.int64]]:
    """Return one node of each sort that has GPUs, and how many there are."""
    table = np.stack((nodes.cpu_millis, nodes.memory_bytes, nodes.gpus, nodes.model), axis=1)
    rows, counts = np.unique(table[nodes.gpus > 0], axis=0, return_counts=True)
    return Nodes(*rows.T), counts


def _classes(
    tasks: Tasks, arrived: NDArray[np.float64] | NDArray[np.integer]
) -> tuple[Tasks, NDArray[np.float64]]:
    """Return one task of each sort that asks for GPU, and how often it has arrived."""
    amounts = (tasks.cpu_millis, tasks.memory_bytes, tasks.gpu_count, tasks.gpu_millis)
    table = np.column_stack((*amounts, tasks.allowed))
    kept = (tasks.gpu_count > 0) & (np.asarray(arrived) > 0)
    rows, sort = np.unique(table[kept], axis=0, return_inverse=True)
    cpu_millis, memory_bytes, gpu_count, gpu_millis, *allowed = rows.T
    classes = Tasks(
        cpu_millis,
        memory_bytes,
        gpu_count,
        gpu_millis,
        np.array(allowed, dtype=bool).T.reshape(len(rows), tasks.allowed.shape[1]),
    )
    return classes, _sums(sort, arrived[kept], len(rows))


def _sums(
    places: NDArray[np.integer], amounts: NDArray[np.float64] | NDArray[np.integer], count: int
) -> NDArray[np.float64]:
    """Return the sum of the amounts at each place: (count,)."""
    sums = np.zeros(count)
    np.add.at(sums, places, amounts)
    return sums


def _loads(order: NDArray[np.integer], tasks: Tasks, capacity_millis: int) -> NDArray[np.float64]:
    """Return the arrived load after each arrival, per cent: (K,)."""
    loads: NDArray[np.float64] = 100 * np.cumsum(tasks.request_millis[order]) / capacity_millis
    return loads


def _no_such_load(loads: NDArray[np.float64], load: float) -> InputError:
    most = f"{loads[-1]:.2f}" if len(loads) else "0"
    return InputError(
        Fault(
            f"found no arrival at load {load} per cent; the arrivals reach {most} per cent.",
            field="load",
        )
    )
