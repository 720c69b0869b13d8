"""The policies and filters that installed plugins offer, a stranger's like a builtin one's."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from forebay.errors import NotFoundError

if TYPE_CHECKING:
    from forebay import Filter, QueuePolicy, ScorePolicy, Snapshot
    from forebay_core.plugins import Offered
    from forebay_core.scheduling.classes import Judge


@dataclass(frozen=True, slots=True)
class Policies:
    """What plugins offer for scheduling.

    Parameters
    ----------
    score : mapping of str to Offered
        Score policies by name.
    queue : mapping of str to Offered
        Queue policies by name.
    filters : sequence of Offered
    """

    score: dict[str, Offered[ScorePolicy]]
    queue: dict[str, Offered[QueuePolicy]]
    filters: Sequence[Offered[Filter]]

    def score_policy(self, name: str) -> ScorePolicy:
        """Return a score policy by name.

        Raises
        ------
        NotFoundError
            No plugin offers it.
        """
        if name not in self.score:
            raise _unknown("score policy", name, self.score)
        return self.score[name].object

    def queue_policy(self, name: str) -> QueuePolicy:
        """Return a queue policy by name.

        Raises
        ------
        NotFoundError
            No plugin offers it.
        """
        if name not in self.queue:
            raise _unknown("queue policy", name, self.queue)
        return self.queue[name].object

    def judge(self, snapshot: Snapshot) -> Judge:
        """Return the filters' verdict on requests for a snapshot, asked as the engine asks."""
        from forebay_core.plugins import Offered
        from forebay_core.scheduling import SchedulingEngine
        from forebay_core.scheduling.first_fit import FirstFit

        engine = SchedulingEngine(self.filters, Offered("", FirstFit.name, FirstFit()))
        return lambda batch: engine.judge(snapshot, batch)


def _unknown(what: str, name: str, known: Mapping[str, object]) -> NotFoundError:
    return NotFoundError(
        f"no enabled plugin offers the {what} {name!r}.",
        fix=f"Offered: {', '.join(sorted(known)) or 'none'}.",
    )


@contextmanager
def offered_policies() -> Iterator[Policies]:
    """Load what installed plugins offer for scheduling; nothing of this machine is touched."""
    from forebay import NodeId, ScorePolicy
    from forebay_core.config import Config
    from forebay_core.plugins import Offered
    from forebay_core.plugins.manager import PluginManager

    with (
        tempfile.TemporaryDirectory() as home,
        PluginManager(Config(), node=NodeId("bench"), state_directory=Path(home)) as plugins,
    ):
        yield Policies(
            score={
                found.name: Offered(found.plugin, found.name, found.object)
                for found in plugins.policies()
                if isinstance(found.object, ScorePolicy)
            },
            queue={found.name: found for found in plugins.queue_policies()},
            filters=plugins.filters(),
        )
