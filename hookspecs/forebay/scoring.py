"""Score policies: one number for each node, from which the engine chooses the highest.

A score is a pure function of one node, one request and the policy's parameters, so the engine
keeps scores and asks again only for nodes that changed: the cost of a decision hardly grows with
the fleet.  The function works on arrays and is compiled where the fleet is large, so it uses what
Numba supports: numbers, arrays, loops, and functions of its own kind.

Axes are those of :mod:`forebay.snapshot`, and

=====  ==================================================================
``F``  forms of requests: 0 no accelerator, 1 part of one, ``1 + n`` n whole
``A``  groups of requests that keep apart
``P``  columns that a policy keeps for each node
=====  ==================================================================
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from forebay.scheduling import PlacementPolicy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from forebay.snapshot import RequestBatch, Snapshot

FORM_COUNT = 10
"""Length of axis ``F``; more than eight whole devices count as eight."""


class FleetArrays(NamedTuple):
    """The fleet as kernels see it: the arrays of a snapshot, gathered by node.

    The first thirteen never change while the fleet stays; the engine keeps the others up to date.

    Parameters
    ----------
    first_unit : (N + 1,) int32
        Units of node ``n`` are ``node_units[first_unit[n]:first_unit[n + 1]]``.
    node_units : (U,) int32
        In order of kind, then of index.
    first_of_kind : (N, K + 1) int32
        Units of kind ``k`` of node ``n`` are those from ``first_of_kind[n, k]`` to
        ``first_of_kind[n, k + 1]`` of ``node_units``.
    unit_kind : (U,) int8
    unit_step_millis : (U,) int64
    unit_capacity_millis : (U,) int64
    member_offsets : (U + 1,) int32
    member_devices : (M,) int32
    first_device : (N + 1,) int32
        Devices of node ``n`` are ``node_devices[first_device[n]:first_device[n + 1]]``.
    node_devices : (D,) int32
    device_kind : (D,) int8
        Index along ``K``; -1 for a device that no unit stands on.
    device_capacity_millis : (D,) int64
    device_memory_bytes : (D,) int64
    node_capacity_millis : (N, K) int64
        Sum over the node's devices.
    device_free_millis : (D,) int64
    device_free_memory_bytes : (D,) int64
    node_free_millis : (N, K) int64
        Sum over the node's devices.
    node_hosted : (N, F) int32
        How many requests of each form run on the node.
    quota_free_millis : (K,) int64
    spread_used : (A, N) int32
        How many requests of each group run on the node.
    node_open : (N,) bool
        False where a node takes no new work: drained, down, or kept for another.
    """

    first_unit: NDArray[np.int32]
    node_units: NDArray[np.int32]
    first_of_kind: NDArray[np.int32]
    unit_kind: NDArray[np.int8]
    unit_step_millis: NDArray[np.int64]
    unit_capacity_millis: NDArray[np.int64]
    member_offsets: NDArray[np.int32]
    member_devices: NDArray[np.int32]
    first_device: NDArray[np.int32]
    node_devices: NDArray[np.int32]
    device_kind: NDArray[np.int8]
    device_capacity_millis: NDArray[np.int64]
    device_memory_bytes: NDArray[np.int64]
    node_capacity_millis: NDArray[np.int64]
    device_free_millis: NDArray[np.int64]
    device_free_memory_bytes: NDArray[np.int64]
    node_free_millis: NDArray[np.int64]
    node_hosted: NDArray[np.int32]
    quota_free_millis: NDArray[np.int64]
    spread_used: NDArray[np.int32]
    node_open: NDArray[np.bool_]


class RequestArrays(NamedTuple):
    """One request as kernels see it.

    Parameters
    ----------
    millis : (K,) int64
        Amount of each kind; 0 where not asked for.
    memory_bytes : (K,) int64
        -1 asks for the same share as of the device.
    kind : int
        Index of the first kind asked for that is no CPU; -1 where there is none.
    form : int
        Index along ``F``.
    candidates : (U,) bool
        Units that every filter lets through.
    """

    millis: NDArray[np.int64]
    memory_bytes: NDArray[np.int64]
    kind: int
    form: int
    candidates: NDArray[np.bool_]


class Parameters(NamedTuple):
    """What a policy works out once and reads in each score.

    Parameters
    ----------
    table : (any, any) float64
        For example the requests that the policy expects.
    node_values : (N, P) int64
        For example the code of each node's model.
    """

    table: NDArray[np.float64]
    node_values: NDArray[np.int64]


class Ties(StrEnum):
    """Which node is chosen among those of the highest score."""

    FIRST = "first"
    """The lowest index."""
    UNIFORM = "uniform"
    """Any of them, each as likely."""


class UnitChoice(StrEnum):
    """Which unit of the node serves a request for a part of a device."""

    BEST_FIT = "best-fit"
    """The one named by the score, or else that with the least free that fits; then the first."""
    UNIFORM = "uniform"
    """Any that fits, each as likely."""


@dataclass(frozen=True, slots=True, eq=False)
class RequestMix:
    """The requests that are expected, and how often; never their order.

    Parameters
    ----------
    batch : RequestBatch
        Distinct requests.
    weight : (R,) float64
        Share of each; they sum to 1.
    allowed : (R, U) bool
        Units that every filter lets through for each of them.
    """

    batch: RequestBatch
    weight: NDArray[np.float64]
    allowed: NDArray[np.bool_]


class ScorePolicy(PlacementPolicy):
    """Scores nodes; the engine chooses the highest, and the units by the rules of drawing.

    A request that fits somewhere is always placed, unless every node that it fits scores minus
    infinity, which is a veto.
    """

    ties: Ties = Ties.FIRST
    unit_choice: UnitChoice = UnitChoice.BEST_FIT

    @property
    def leaves_to_chance(self) -> bool:
        """Whether anything is chosen by lot."""
        return self.ties is Ties.UNIFORM or self.unit_choice is UnitChoice.UNIFORM

    @staticmethod
    @abstractmethod
    def score(
        fleet: FleetArrays,
        request: RequestArrays,
        nodes: NDArray[np.int32],
        count: int,
        parameters: Parameters,
        scores: NDArray[np.float64],
        units: NDArray[np.int32],
    ) -> None:
        """Score the first ``count`` of ``nodes``, each of which can serve the request.

        Called for the nodes that changed since the request's like was last placed.
        A pure function of its arguments: each node's score depends on the node alone, never on
        the other nodes, the time or chance.  Compiled by Numba, so no Python objects.

        Parameters
        ----------
        fleet : FleetArrays
        request : RequestArrays
        nodes : (N,) int32
            Valid up to ``count``.
        count : int
        parameters : Parameters
            What :meth:`prepare` returned.
        scores : (N,) float64
            To be filled: higher is better, minus infinity never.
        units : (N,) int32
            To be filled where the policy has a wish: the unit that serves a request for a part
            of a device; comes filled with -1.

        Raises
        ------
        Exception
            Must not raise.  NaN or plus infinity is charged to the plugin, as is a function
            that Numba cannot compile, and the engine scores by first fit instead.
        """

    def prepare(self, snapshot: Snapshot, mix: RequestMix) -> Parameters:
        """Work out the parameters; called when the fleet or the expectation changes.

        Parameters
        ----------
        snapshot : Snapshot
        mix : RequestMix
            What the host expects, empty where it knows nothing.

        Returns
        -------
        :class:`Parameters`
            The default has none.
        """
        del mix
        return no_parameters(len(snapshot.node_ids))

    def terms(
        self,
        fleet: FleetArrays,
        request: RequestArrays,
        node: int,
        unit: int,
        parameters: Parameters,
    ) -> Mapping[str, float]:
        """Return the terms of the score of a node, before the request is placed there.

        Called once for each decision that people may ask about, in plain Python.

        Parameters
        ----------
        fleet : FleetArrays
        request : RequestArrays
        node : int
        unit : int
            The unit wished for, or -1.
        parameters : Parameters

        Returns
        -------
        mapping of str to float
            The default has none, and the host tells the score itself.
        """
        del fleet, request, node, unit, parameters
        return {}


def no_parameters(count: int) -> Parameters:
    """Return the parameters of a policy that has none, for so many nodes."""
    import numpy as np

    return Parameters(np.zeros((1, 1)), np.zeros((count, 1), dtype=np.int64))


def largest_node_millis(snapshot: Snapshot) -> NDArray[np.float64]:
    """Return what the node with the most of each kind has: (K,) float64; O(M log M)."""
    import numpy as np

    from forebay.snapshot import KIND_ORDER

    largest = np.zeros(len(KIND_ORDER))
    for kind in np.unique(snapshot.unit_kind):
        of_kind = np.repeat(snapshot.unit_kind == kind, np.diff(snapshot.member_offsets))
        # Each device once, however many units stand on it.
        devices = np.unique(snapshot.member_devices[of_kind])
        capacity = np.bincount(
            snapshot.device_node[devices], weights=snapshot.device_capacity_millis[devices]
        )
        largest[kind] = capacity.max()
    return largest


__all__ = [
    "FORM_COUNT",
    "FleetArrays",
    "Parameters",
    "RequestArrays",
    "RequestMix",
    "ScorePolicy",
    "Ties",
    "UnitChoice",
    "largest_node_millis",
    "no_parameters",
]
