"""Filters rule units out, policies choose among the rest; both are pure functions on arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from forebay.snapshot import RequestBatch, Snapshot


class FilterScope(StrEnum):
    """What a filter's answer depends on, which tells how often it must be asked."""

    FLEET = "fleet"
    """On the fleet and the request; asked once for each distinct request."""
    USE = "use"
    """On what is lent as well; asked before each decision, so a decision takes O(units)."""
    CAPACITY = "capacity"
    """On what is lent, but it rules out nothing that could be drawn: it names the reason.

    Asked by ``explain`` alone, since the rules of drawing judge the same.
    """


class Filter(ABC):
    """Rules out units for requests, each for a named reason."""

    scope: FilterScope = FilterScope.USE

    name: str
    """Unique name."""

    reasons: tuple[str, ...]
    """What the filter can object, short phrases such as ``device unhealthy``.

    ``forebay explain`` prints them with their counts.
    """

    @abstractmethod
    def filter(self, snapshot: Snapshot, batch: RequestBatch) -> NDArray[np.bool_]:
        """Tell which units each reason rules out.

        Called once for each batch, in the host's process, and by ``explain``.
        A pure function of its arguments, unit by unit and request by request,
        so that the host may ask again for the units that changed alone.

        Parameters
        ----------
        snapshot : Snapshot
        batch : RequestBatch

        Returns
        -------
        (len(reasons), R, U) bool
            True rules the unit out.
            Units of kinds that a request does not ask for are ignored.

        Raises
        ------
        Exception
            Anything raised, and an array of another shape or type, is charged to the plugin,
            and the host places nothing until the filter is disabled: fail closed.
        """


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a policy may spend on one call.

    Parameters
    ----------
    duration_s : float, optional
        Wall time after which the host no longer waits for a better answer.
    simulations : int, optional
        Most simulations to run; independent of the machine's speed.
    """

    duration_s: float | None = None
    simulations: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """What a policy chose for a batch.

    The ``B`` draws of all requests lie one after another in the order of requests.

    Parameters
    ----------
    node : (R,) int32
        Index of the node; -1 leaves the request waiting.
    draw_request : (B,) int32
        Request that the draw belongs to.
    draw_unit : (B,) int32
        Unit drawn from.
    draw_millis : (B,) int64
        Amount; a multiple of the unit's step, for a gang its whole capacity.
    draw_memory_bytes : (B,) int64
        Memory from each member of the unit.
    terms : mapping of str to (R,) float64
        Terms of the score of the node chosen; NaN where none was.
    """

    node: NDArray[np.int32]
    draw_request: NDArray[np.int32]
    draw_unit: NDArray[np.int32]
    draw_millis: NDArray[np.int64]
    draw_memory_bytes: NDArray[np.int64]
    terms: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)


class PlacementPolicy(ABC):
    """Chooses where requests run: a :class:`Policy`, or a :class:`~forebay.scoring.ScorePolicy`."""

    name: str
    """Unique name by which a configuration chooses the policy."""


class Policy(PlacementPolicy):
    """Chooses for a whole batch at once, within a budget."""

    @abstractmethod
    def place(
        self,
        snapshot: Snapshot,
        batch: RequestBatch,
        candidates: NDArray[np.bool_],
        rng: np.random.Generator,
        budget: Budget,
    ) -> Decisions:
        """Choose node and units for each request of the batch, in order.

        Called once for each batch, in the host's process.
        A pure function of its arguments: no I/O, no clock, no look at names;
        randomness comes from ``rng`` alone, and ties follow a rule that the class documents.
        Later requests of a batch see what earlier ones took, which is the policy's to track.

        Parameters
        ----------
        snapshot : Snapshot
        batch : RequestBatch
        candidates : (R, U) bool
            Units that every filter lets through, of kinds that the request asks for.
        rng : numpy.random.Generator
            Seeded by the host.
        budget : Budget

        Returns
        -------
        Decisions
            A request is left waiting, never placed in part.
            What the host finds infeasible it refuses, and charges to the plugin.

        Raises
        ------
        Exception
            Anything raised is charged to the plugin, and the host falls back to its default.
        """
