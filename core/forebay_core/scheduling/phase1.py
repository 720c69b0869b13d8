"""Phase 1 of the engine: requests in, placements out, on arrays that are kept between calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay import (
    KIND_ORDER,
    Parameters,
    Request,
    RequestMix,
    ScorePolicy,
    Snapshot,
    Ties,
    UnitChoice,
)
from forebay.drawing import Draws, take
from forebay_core.scheduling.arrays import NO_QUOTA, build_batch
from forebay_core.scheduling.choosing import (
    BAD_SCORE,
    NO_ROOM,
    ScoreCache,
    give_back_batch,
    place_batch,
    request_arrays,
)
from forebay_core.scheduling.classes import Judge, RequestClasses
from forebay_core.scheduling.compiled import COMPILED_NODES_MIN, compiled, numba_is_there, pointer
from forebay_core.scheduling.fleet import as_snapshot, build_fleet
from forebay_core.scheduling.index import level_starts

LOG_PER_NODE = 4
"""Length of the log of touched nodes, for each node: a row further behind is filled anew."""


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """What phase 1 decided for some requests, gang by gang.

    Parameters
    ----------
    requests : (R,) int32
        Number of each request among the distinct ones.
    nodes : (R,) int32
        -1 for what waits.
    first_draw : (R + 1,) int64
        Draws of request ``r`` are rows ``first_draw[r]`` to ``first_draw[r + 1]``.
    draws : Draws
    """

    requests: NDArray[np.int32]
    nodes: NDArray[np.int32]
    first_draw: NDArray[np.int64]
    draws: Draws


@dataclass(frozen=True, slots=True, eq=False)
class BadScoreError(Exception):
    """A score policy returned no number.

    Parameters
    ----------
    request : Request
    node : int
    """

    request: Request
    node: int

    def __str__(self) -> str:
        """Say what was found."""
        return f"score of node {self.node} is NaN or infinite"


class Phase1:
    """Keeps a fleet's state and scores, and places requests on it.

    Parameters
    ----------
    snapshot : Snapshot
        The state to begin with; not changed.
    policy : ScorePolicy
    judge : callable
        Returns the units that every filter lets through: (R, U) bool.
    seed : int
        Of policies that leave something to chance.
    mix : RequestMix, optional
        What the host expects.
    compile : bool, optional
        Whether to compile; by the number of nodes where not told.

    Raises
    ------
    Exception
        Whatever the policy's ``prepare`` raises, or Numba where it cannot compile the score.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        policy: ScorePolicy,
        judge: Judge,
        *,
        seed: int = 0,
        mix: RequestMix | None = None,
        compile: bool | None = None,  # noqa: A002 - the plain word
    ) -> None:
        self.snapshot = snapshot
        self.fleet = build_fleet(snapshot)
        self.classes = RequestClasses(self.fleet, judge)
        self._rng = np.random.default_rng(seed)
        nodes = len(snapshot.node_ids)
        self.is_compiled = numba_is_there() and (
            nodes >= COMPILED_NODES_MIN if compile is None else compile
        )
        self._mix = mix or RequestMix(
            build_batch([]), np.zeros(0), np.zeros((0, len(snapshot.unit_ids)), np.bool_)
        )
        self.cache = _empty_cache(nodes)
        self.change_policy(policy)

    def change_policy(self, policy: ScorePolicy) -> None:
        """Let another policy go on from here; every score is asked for anew."""
        self.policy = policy
        self.parameters = own_parameters(policy.prepare(self.snapshot, self._mix))
        self.score = score_kernel(policy, self) if self.is_compiled else policy.score
        self.cache.seen[:] = -1

    def kernel(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a kernel as this fleet runs it: compiled or plain."""
        return entry(function, self) if self.is_compiled else function

    def number(self, requests: Sequence[Request]) -> NDArray[np.int32]:
        """Return the number of each request, making room for those that are new."""
        numbers = self.classes.number(requests)
        grown = len(self.classes)
        known = len(self.cache.seen)
        if grown > known:
            rows = max(grown, min(2 * known, grown + 64)) - known
            nodes = len(self.snapshot.node_ids)
            self.cache = self.cache._replace(
                tree=_grow(self.cache.tree, rows, -np.inf),
                wish=_grow(self.cache.wish, rows, -1),
                seen=_grow(self.cache.seen, rows, -1),
            )
            groups = len(self.classes.groups)
            if groups > len(self.fleet.spread_used):
                missing = groups - len(self.fleet.spread_used)
                self.fleet = self.fleet._replace(
                    spread_used=np.concatenate(
                        [self.fleet.spread_used, np.zeros((missing, nodes), np.int32)]
                    )
                )
        if len(self.cache.quota_slack) != grown:
            self.cache = self.cache._replace(quota_slack=self.classes.quota_slack)
        return numbers

    def place(
        self, requests: Sequence[Request], gang_offsets: NDArray[np.int64] | None = None
    ) -> Placed:
        """Place requests in order; each gang all or nothing, by default each request by itself.

        Raises
        ------
        BadScoreError
            The policy returned no number; what came before is placed.
        """
        return self.place_numbered(self.number(requests), gang_offsets)

    def place_numbered(
        self, requests: NDArray[np.int32], gang_offsets: NDArray[np.int64] | None = None
    ) -> Placed:
        """Place requests by number; see :meth:`place`."""
        count = len(requests)
        if gang_offsets is None:
            gang_offsets = np.arange(count + 1, dtype=np.int64)
        nodes = np.full(count, -1, np.int32)
        first_draw = np.zeros(count + 1, np.int64)
        progress = np.array([0, -1], np.int64)
        chance = self._rng.random((max(count, 1) if self.policy.leaves_to_chance else 1, 2))
        largest = int(np.diff(gang_offsets).max(initial=1)) * self.classes.draws_max
        draws = empty_draws(max(2 * count, 16) + largest)
        kernel = self.kernel(place_batch)
        while True:
            status = kernel(
                self.score,
                self.fleet,
                self.classes.arrays,
                self.cache,
                self.parameters,
                requests,
                gang_offsets,
                self.policy.ties is Ties.UNIFORM,
                self.policy.unit_choice is UnitChoice.UNIFORM,
                chance,
                nodes,
                first_draw,
                draws,
                self.classes.draws_max,
                progress,
            )
            if status == BAD_SCORE:
                at = int(gang_offsets[progress[0]])
                raise BadScoreError(self.classes.requests[int(requests[at])], int(progress[1]))
            if status != NO_ROOM:
                return Placed(requests, nodes, first_draw, draws)
            draws = Draws(*(np.concatenate([array, np.empty_like(array)]) for array in draws))

    def give_back(self, placed: Placed) -> None:
        """Undo placements, the last first; what waits stays as it is."""
        self.kernel(give_back_batch)(
            self.fleet,
            self.classes.arrays,
            self.cache,
            placed.requests,
            placed.nodes,
            placed.first_draw,
            placed.draws,
        )

    @contextmanager
    def what_if(self) -> Iterator[WhatIf]:
        """Try placements, and take them all back at the end; costs what is tried, not the fleet."""
        trial = WhatIf(self)
        try:
            yield trial
        finally:
            trial.undo()

    def terms(self, placed: Placed, index: int) -> Mapping[str, float]:
        """Return the terms of the score that placed a request, before anything else is placed."""
        number, node = int(placed.requests[index]), int(placed.nodes[index])
        rows = int(placed.first_draw[index]), int(placed.first_draw[index + 1])
        arguments = self.fleet, self.classes.arrays, number, node, placed.draws, *rows
        take(*arguments, -1)
        terms = self.policy.terms(
            self.fleet,
            request_arrays(self.classes.arrays, number),
            node,
            int(self.cache.wish[number, node]),
            self.parameters,
        )
        take(*arguments, 1)
        return terms or {"score": float(self.cache.tree[number, node])}

    def as_snapshot(self) -> Snapshot:
        """Return the present state as a snapshot that shares this object's arrays."""
        return as_snapshot(self.snapshot, self.fleet)


@dataclass(slots=True, eq=False)
class WhatIf:
    """Placements that will be taken back."""

    phase1: Phase1
    _placed: list[Placed] = field(default_factory=list)

    def place(
        self, requests: Sequence[Request], gang_offsets: NDArray[np.int64] | None = None
    ) -> Placed:
        """Place as :meth:`Phase1.place` does."""
        placed = self.phase1.place(requests, gang_offsets)
        self._placed.append(placed)
        return placed

    def undo(self) -> None:
        """Take back everything, the last first."""
        while self._placed:
            self.phase1.give_back(self._placed.pop())


def empty_draws(rows: int) -> Draws:
    """Return room for draws."""
    return Draws(np.empty(rows, np.int32), np.empty(rows, np.int64), np.empty(rows, np.int64))


def own_parameters(parameters: Parameters) -> Parameters:
    """Return parameters as kernels are compiled for them."""
    return Parameters(
        np.array(parameters.table, np.float64, order="C", ndmin=2),
        np.array(parameters.node_values, np.int64, order="C", ndmin=2),
    )


def score_kernel(policy: ScorePolicy, phase1: Phase1) -> Any:  # noqa: ANN401 - Numba's
    """Compile a policy's score once for all fleets: every policy has the same signature."""
    signature = _score_signature(phase1)
    return pointer(compiled(policy.score, signature), signature)


def _score_signature(phase1: Phase1) -> Any:  # noqa: ANN401 - Numba has no types of its own
    import numba
    from numba import types

    kinds = np.zeros(len(KIND_ORDER), np.int64)
    request = (kinds, kinds, 0, 0, np.zeros(1, np.bool_))
    from forebay import RequestArrays

    return types.void(
        numba.typeof(phase1.fleet),
        numba.typeof(RequestArrays(*request)),
        numba.typeof(np.zeros(1, np.int32)),
        types.int64,
        numba.typeof(phase1.parameters),
        numba.typeof(np.zeros(1)),
        numba.typeof(np.zeros(1, np.int32)),
    )


def entry(function: Callable[..., Any], phase1: Phase1) -> Callable[..., Any]:
    """Return a kernel compiled for calls from Python, its score function a pointer.

    So a kernel is compiled once, whatever the policy, and kept on disk.
    """

    def call(*arguments: Any) -> Any:  # noqa: ANN401 - whatever the kernel takes
        import numba
        from numba import types

        key = (function, tuple(_kind_of(argument) for argument in arguments))
        kernel = _ENTRIES.get(key)
        if kernel is None:
            signature = tuple(
                types.FunctionType(_score_signature(phase1))
                if callable(argument)
                else numba.typeof(argument)
                for argument in arguments
            )
            kernel = _ENTRIES[key] = compiled(function, signature)
        return kernel(*arguments)

    return call


_ENTRIES: dict[object, Callable[..., Any]] = {}


def _kind_of(argument: object) -> object:
    return "score" if callable(argument) else type(argument)


def _empty_cache(nodes: int) -> ScoreCache:
    starts = level_starts(nodes)
    kinds = len(KIND_ORDER)
    return ScoreCache(
        tree=np.full((0, int(starts[-1])), -np.inf),
        starts=starts,
        wish=np.full((0, nodes), -1, np.int32),
        seen=np.full(0, -1, np.int64),
        log=np.zeros(max(LOG_PER_NODE * nodes, 64), np.int32),
        touched=np.full(nodes, -1, np.int64),
        clock=np.zeros(1, np.int64),
        nodes=np.zeros(nodes, np.int32),
        feasible=np.zeros(nodes, np.int32),
        scores=np.zeros(nodes),
        units=np.full(nodes, -1, np.int32),
        no_quota=np.full(kinds, NO_QUOTA, np.int64),
        quota_slack=np.zeros((0, kinds), np.int64),
        node_of=np.full(1, -1, np.int32),
        turn=np.zeros(1, np.int64),
    )


def _grow(array: NDArray[Any], rows: int, fill: float) -> NDArray[Any]:
    return np.concatenate([array, np.full((rows, *array.shape[1:]), fill, array.dtype)])
