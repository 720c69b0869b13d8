"""The scheduling engine: filters, policy, and a check of every decision.

A score policy chooses by itself in phase 1.  Any other policy is asked for the whole batch, within
a budget, and the engine's own first fit stands in for what it gets wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from forebay import (
    Budget,
    Decisions,
    Draw,
    Filter,
    FilterScope,
    NodeId,
    PlacementPolicy,
    PluginError,
    Policy,
    Request,
    RequestBatch,
    ScorePolicy,
    Snapshot,
)
from forebay.allocation import (
    Free,
    UnitDraw,
    draws_on_node,
    feasible_nodes,
    members,
    relevant_units,
    take,
    unit_is_gang,
)
from forebay_core.plugins import Offered
from forebay_core.scheduling.arrays import build_batch
from forebay_core.scheduling.first_fit import FirstFit
from forebay_core.scheduling.phase1 import BadScoreError, Phase1, Placed
from forebay_core.scheduling.verify import check_draws, check_shape

FALLBACK = FirstFit.name
"""Name of the engine's own policy, used where the policy in force failed."""

BUDGET_S = 1.0
"""What a policy may spend on a batch, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was decided for a request.

    Parameters
    ----------
    node : NodeId, optional
        None leaves it waiting.
    draws : tuple of Draw
        One a device, in order of device id.
    policy : str
        Name of the policy that chose.
    terms : mapping of str to float
        Terms of its score.
    """

    node: NodeId | None = None
    draws: tuple[Draw, ...] = ()
    policy: str = ""
    terms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Ruling:
    """What one filter rules out.

    Parameters
    ----------
    filter : str
        Name of the filter.
    reasons : tuple of str
    ruled_out : (len(reasons), R, U) bool
    """

    filter: str
    reasons: tuple[str, ...]
    ruled_out: NDArray[np.bool_]


class SchedulingEngine:
    """Decides where requests run.

    Parameters
    ----------
    filters : sequence of Offered
        All in force.
    policy : Offered
    seed : int
        Of the policy's random source; the same seed, snapshot and requests give the same answer.
    budget_s : float
        What the policy may spend on a batch.
    charge : callable
        Told the plugin and the error when one breaks the contract.
    """

    def __init__(
        self,
        filters: Sequence[Offered[Filter]],
        policy: Offered[PlacementPolicy],
        *,
        seed: int = 0,
        budget_s: float = BUDGET_S,
        charge: Callable[[str, Exception], None] = lambda _plugin, _error: None,
    ) -> None:
        self._filters = filters
        self._policy = policy
        self._rng = np.random.default_rng(seed)
        self._budget_s = budget_s
        self._charge = charge

    def decide(self, snapshot: Snapshot, requests: Sequence[Request]) -> tuple[Outcome, ...]:
        """Decide for each request, in order; every draw is known to fit after those before it.

        A filter that fails rules everything out; where the policy fails, or decides what does
        not fit, the engine places by first fit instead.
        """
        policy = self._policy.object
        if isinstance(policy, ScorePolicy):
            return self._decide_by_score(snapshot, requests, policy)
        assert isinstance(policy, Policy)
        batch = build_batch(requests)
        candidates = self.candidates(snapshot, batch)
        decisions = self._ask(policy, snapshot, batch, candidates)
        free = Free.of(snapshot)
        outcomes = []
        refused = False
        for request in range(len(requests)):
            outcome, fault = self._settle(
                snapshot, free, batch, request, candidates[request], decisions
            )
            if fault and not refused:
                # What the fallback took may be why later decisions do not fit: one charge a batch.
                self._charge(
                    self._policy.plugin,
                    PluginError(self._policy.plugin, f"policy {self._policy.name}: {fault}."),
                )
            refused = refused or bool(fault)
            outcomes.append(outcome)
        return tuple(outcomes)

    def _decide_by_score(
        self, snapshot: Snapshot, requests: Sequence[Request], policy: ScorePolicy
    ) -> tuple[Outcome, ...]:
        """Place by phase 1; where the policy fails, what is left is placed by first fit."""
        outcomes: list[Outcome] = []
        alone = any(offered.object.scope is FilterScope.USE for offered in self._filters)
        steps = 1 if alone else max(len(requests), 1)
        while len(outcomes) < len(requests):
            chosen = requests[len(outcomes) : len(outcomes) + steps]
            placed, snapshot = self._place_by_score(snapshot, chosen, policy)
            outcomes += placed
        return tuple(outcomes)

    def _place_by_score(
        self, snapshot: Snapshot, requests: Sequence[Request], policy: ScorePolicy
    ) -> tuple[list[Outcome], Snapshot]:
        """Return the outcomes of requests whose filters need not be asked in between."""
        outcomes: list[Outcome] = []
        chosen = policy
        while len(outcomes) < len(requests):
            phase1 = None
            try:
                phase1 = self.phase1(snapshot, chosen)
                # Kept one by one: what was placed before a fault stays.
                for request in requests[len(outcomes) :]:
                    outcomes.append(_outcome(phase1, request))  # noqa: PERF401
            except Exception as error:
                if isinstance(chosen, FirstFit):
                    raise
                self._charge(self._policy.plugin, _as_charged(self._policy, error))
                chosen = FirstFit()
            if phase1 is not None:
                snapshot = phase1.as_snapshot()
        return outcomes, snapshot

    def phase1(self, snapshot: Snapshot, policy: ScorePolicy | None = None) -> Phase1:
        """Return phase 1 on a snapshot, with the filters in force.

        Raises
        ------
        Exception
            Whatever the policy raises while it prepares.
        """
        if policy is None:
            own = self._policy.object
            policy = own if isinstance(own, ScorePolicy) else FirstFit()
        return Phase1(
            snapshot,
            policy,
            lambda batch: self.judge(snapshot, batch),
            seed=int(self._rng.integers(1 << 32)),
        )

    def judge(self, snapshot: Snapshot, batch: RequestBatch) -> NDArray[np.bool_]:
        """Return the units that the filters let through, the rules of drawing aside."""
        passed = np.ones((len(batch.requests), len(snapshot.unit_ids)), np.bool_)
        for offered in self._filters:
            if offered.object.scope is not FilterScope.CAPACITY:
                passed &= ~self._rule(offered, snapshot, batch).ruled_out.any(axis=0)
        return passed

    def rulings(self, snapshot: Snapshot, batch: RequestBatch) -> tuple[Ruling, ...]:
        """Ask every filter; one that fails rules everything out, which is its ruling."""
        return tuple(self._rule(offered, snapshot, batch) for offered in self._filters)

    def candidates(self, snapshot: Snapshot, batch: RequestBatch) -> NDArray[np.bool_]:
        """Return the units that may serve each request: (R, U) bool."""
        candidates = relevant_units(snapshot, batch)
        for ruling in self.rulings(snapshot, batch):
            candidates &= ~ruling.ruled_out.any(axis=0)
        return candidates

    def _rule(self, offered: Offered[Filter], snapshot: Snapshot, batch: RequestBatch) -> Ruling:
        shape = (len(batch.requests), len(snapshot.unit_ids))
        try:
            reasons = tuple(str(reason) for reason in offered.object.reasons)
            # What the annotation promises is what is to be checked.
            ruled_out: object = offered.object.filter(snapshot, batch)
            if not isinstance(ruled_out, np.ndarray) or ruled_out.dtype != bool:
                raise PluginError(offered.plugin, f"filter {offered.name} returned no bool array.")
            if ruled_out.shape != (len(reasons), *shape):
                raise PluginError(
                    offered.plugin,
                    f"filter {offered.name} returned shape {ruled_out.shape}, "
                    f"expected {(len(reasons), *shape)}.",
                )
        except Exception as error:  # noqa: BLE001 - a filter is a stranger's code
            self._charge(offered.plugin, error)
            failed = f"filter {offered.name} of plugin {offered.plugin} failed"
            return Ruling(offered.name, (failed,), np.ones((1, *shape), dtype=bool))
        return Ruling(offered.name, reasons, ruled_out)

    def _ask(
        self,
        policy: Policy,
        snapshot: Snapshot,
        batch: RequestBatch,
        candidates: NDArray[np.bool_],
    ) -> Decisions | None:
        given = candidates.copy()
        given.setflags(write=False)
        began = time.perf_counter()
        try:
            decisions = policy.place(
                snapshot, batch, given, self._rng, Budget(duration_s=self._budget_s)
            )
            if fault := check_shape(snapshot, batch, decisions):
                raise PluginError(self._policy.plugin, f"policy {self._policy.name}: {fault}.")
        except Exception as error:  # noqa: BLE001 - a policy is a stranger's code
            self._charge(self._policy.plugin, error)
            return None
        duration_s = time.perf_counter() - began
        if duration_s > self._budget_s:
            # A call in this process cannot be ended, so its answer is used, and the delay charged.
            self._charge(
                self._policy.plugin,
                PluginError(
                    self._policy.plugin,
                    f"policy {self._policy.name} took {duration_s:.2f} s, "
                    f"its budget is {self._budget_s:g} s.",
                ),
            )
        return decisions

    def _settle(
        self,
        snapshot: Snapshot,
        free: Free,
        batch: RequestBatch,
        request: int,
        candidates: NDArray[np.bool_],
        decisions: Decisions | None,
    ) -> tuple[Outcome, str]:
        """Return what is done with a request, and why its decision was refused, if it was."""
        fault = ""
        if decisions is not None:
            node = int(decisions.node[request])
            draws = [
                UnitDraw(
                    int(decisions.draw_unit[index]),
                    int(decisions.draw_millis[index]),
                    int(decisions.draw_memory_bytes[index]),
                )
                for index in np.flatnonzero(decisions.draw_request == request)
            ]
            if node < 0 and not draws:
                return Outcome(), ""
            fault = check_draws(snapshot, free, batch, request, candidates, node, draws)
            if not fault:
                terms = {
                    name: float(values[request])
                    for name, values in decisions.terms.items()
                    if not np.isnan(values[request])
                }
                return self._place(snapshot, free, node, draws, self._policy.name, terms), ""
        return self._first_fit(snapshot, free, batch, request, candidates), fault

    def _first_fit(
        self,
        snapshot: Snapshot,
        free: Free,
        batch: RequestBatch,
        request: int,
        candidates: NDArray[np.bool_],
    ) -> Outcome:
        feasible = np.flatnonzero(feasible_nodes(snapshot, free, batch, request, candidates))
        for node in feasible:
            draws = draws_on_node(snapshot, free, batch, request, candidates, int(node))
            if draws is not None:
                return self._place(snapshot, free, int(node), draws, FALLBACK, {})
        return Outcome()

    def _place(
        self,
        snapshot: Snapshot,
        free: Free,
        node: int,
        draws: list[UnitDraw],
        policy: str,
        terms: Mapping[str, float],
    ) -> Outcome:
        take(snapshot, free, draws)
        return Outcome(snapshot.node_ids[node], device_draws(snapshot, draws), policy, terms)


def _outcome(phase1: Phase1, request: Request) -> Outcome:
    """Place one request, and tell where and why."""
    placed = phase1.place([request])
    if placed.nodes[0] < 0:
        return Outcome()
    return Outcome(
        phase1.snapshot.node_ids[int(placed.nodes[0])],
        device_draws(phase1.snapshot, _unit_draws(placed, 0)),
        phase1.policy.name,
        phase1.terms(placed, 0),
    )


def _unit_draws(placed: Placed, index: int) -> list[UnitDraw]:
    rows = range(int(placed.first_draw[index]), int(placed.first_draw[index + 1]))
    return [
        UnitDraw(
            int(placed.draws.unit[row]),
            int(placed.draws.millis[row]),
            int(placed.draws.memory_bytes[row]),
        )
        for row in rows
    ]


def _as_charged(policy: Offered[PlacementPolicy], error: Exception) -> Exception:
    if isinstance(error, BadScoreError):
        return PluginError(policy.plugin, f"policy {policy.name}: {error}.")
    return error


def device_draws(snapshot: Snapshot, draws: Sequence[UnitDraw]) -> tuple[Draw, ...]:
    """Return what is taken from each device, in order of device id."""
    taken: dict[int, tuple[int, int]] = {}
    gang = unit_is_gang(snapshot)
    for draw in draws:
        for device in members(snapshot, draw.unit):
            whole = int(snapshot.device_capacity_millis[device])
            millis, memory = taken.get(int(device), (0, 0))
            taken[int(device)] = (
                millis + (whole if gang[draw.unit] else draw.millis),
                memory + draw.memory_bytes,
            )
    return tuple(
        Draw(snapshot.device_ids[device], millis, memory)
        for device, (millis, memory) in sorted(taken.items())
    )
