"""The whole cycle but the engine's processes: pools, scheduling and ledger, in any order.

Never over-allocated, every lease ends, and the event log replays to the same state,
whatever the shape of the pool and the mix of requests.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fleets import Fleet, fleets, requests, scheduling
from forebay import (
    DeviceKind,
    Draw,
    JobSpec,
    JobState,
    LeaseId,
    Placement,
    Request,
)
from forebay_core.ledger import Ledger, replay
from forebay_core.scheduling import Snapshot, build_snapshot


class CycleMachine(RuleBasedStateMachine):
    """Submits, places, ends, cancels and crashes."""

    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.path = self.directory / "ledger.db"
        shutil.copy(self.template, self.path)
        self.ledger = Ledger(self.path)
        self.scheduling = scheduling()
        self.leases: list[LeaseId] = []
        self.stale: Snapshot | None = None

    @initialize(fleet=fleets(max_nodes=2))
    def discover(self, fleet: Fleet) -> None:
        self.fleet = fleet
        adapters = {device.id: "test" for device in fleet.devices}
        self.ledger.sync_devices(fleet.nodes, fleet.devices, adapters)
        self.ledger.sync_pools([fleet.pool])

    def snapshot(self) -> Snapshot:
        lent = self.ledger.pool_usage()
        return build_snapshot(
            self.fleet.built(),
            nodes=self.fleet.nodes,
            usage=self.ledger.usage(),
            pool_used_millis={kind: lent.get(("default", kind), 0) for kind in DeviceKind},
        )

    @rule(request=requests())
    def submit(self, request: Request) -> None:
        self.ledger.submit(JobSpec(("true",), request))

    @rule()
    def look(self) -> None:
        """A second scheduler takes a snapshot, and will decide by it later."""
        self.stale = self.snapshot()

    @rule()
    def cycle(self) -> None:
        refused = self.place(self.snapshot())
        assert not refused, "what was decided on the present state always fits"

    @precondition(lambda self: self.stale is not None)
    @rule()
    def cycle_on_an_old_snapshot(self) -> None:
        assert self.stale is not None
        self.place(self.stale)

    def place(self, snapshot: Snapshot) -> int:
        queue = self.ledger.queue()
        outcomes = self.scheduling.decide(snapshot, [job.spec.request for job in queue])
        placements = [
            Placement(job.id, "default", outcome.node, outcome.draws, outcome.policy, outcome.terms)
            for job, outcome in zip(queue, outcomes, strict=True)
            if outcome.node is not None
        ]
        leases = self.ledger.place(placements, engine="local", owner="1@0")
        self.leases += [lease.id for lease in leases if lease is not None]
        return sum(lease is None for lease in leases)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), state=st.sampled_from([s for s in JobState if s.is_final]))
    def end(self, data: st.DataObject, state: JobState) -> None:
        lease = data.draw(st.sampled_from(self.leases))
        self.leases.remove(lease)
        assert self.ledger.end(lease, state)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        jobs = self.ledger.jobs()
        if jobs:
            self.ledger.cancel(data.draw(st.sampled_from(jobs)).id, "test")

    @rule()
    def crash(self) -> None:
        self.ledger.close()
        self.ledger = Ledger(self.path)

    @invariant()
    def never_over_allocated(self) -> None:
        if not hasattr(self, "fleet"):
            return
        taken: dict[str, list[Draw]] = {}
        for entry in self.ledger.active_leases():
            for draw in entry.lease.draws:
                taken.setdefault(draw.device, []).append(draw)
        for device in self.fleet.devices:
            draws = taken.get(device.id, [])
            assert sum(draw.millis for draw in draws) <= device.capacity_millis
            assert sum(draw.memory_bytes for draw in draws) <= device.memory_bytes

    @invariant()
    def events_replay_to_the_same_state(self) -> None:
        assert replay(self.ledger.events()) == self.ledger.state()

    def teardown(self) -> None:
        for lease in self.leases:
            self.ledger.end(lease, JobState.COMPLETED)
        assert not self.ledger.active_leases()
        assert set(self.ledger.usage().values()) <= {(0, 0)}
        self.ledger.close()
        shutil.rmtree(self.directory)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "ledger.db"
    Ledger(path).close()
    return path


def test_any_order_of_steps_keeps_the_books(template: Path) -> None:
    CycleMachine.template = template
    run_state_machine_as_test(
        CycleMachine, settings=settings(max_examples=50, stateful_step_count=25, deadline=None)
    )
