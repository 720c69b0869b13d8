"""Whatever happens to a ledger, it never lends too much, and its events tell the whole story."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
)

from forebay import (
    Device,
    DeviceId,
    DeviceKind,
    Draw,
    JobId,
    JobSpec,
    JobState,
    LeaseId,
    MemoryKind,
    MemoryRegion,
    Node,
    NodeId,
    Placement,
    Pool,
    Request,
    ResourceItem,
)
from forebay_core.ledger import Ledger, replay

NODE = Node(NodeId("n1"), {"hostname": "n1"})
DEVICE_COUNT = 3
FINAL_STATES = [state for state in JobState if state.is_final]


class SteppingClock:
    """Tells a time that grows by a second with each question."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now_s(self) -> float:
        self._now_s += 1.0
        return self._now_s


def device(index: int, millis: int, memory_bytes: int) -> Device:
    kind = DeviceKind.CPU if index == 0 else DeviceKind.GPU
    return Device(
        DeviceId(f"d{index}"),
        kind,
        node=NODE.id,
        capacity_millis=millis,
        memory=(MemoryRegion(MemoryKind.UNKNOWN, memory_bytes),),
    )


def spec(kind: DeviceKind = DeviceKind.CPU, millis: int = 1000) -> JobSpec:
    return JobSpec(("true",), Request((ResourceItem(kind, millis),)))


@pytest.fixture(scope="module")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated ledger to copy, since migrating takes longer than a whole example."""
    path = tmp_path_factory.mktemp("template") / "ledger.db"
    Ledger(path).close()
    return path


amounts = st.integers(1, 2500)
draws = st.dictionaries(
    st.integers(0, DEVICE_COUNT - 1), st.tuples(amounts, st.integers(0, 60)), min_size=1
)


class LedgerMachine(RuleBasedStateMachine):
    """Any order of operations, sensible or not."""

    template: Path

    jobs = Bundle("jobs")
    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.path = self.directory / "ledger.db"
        shutil.copy(self.template, self.path)
        self.ledger = Ledger(self.path, SteppingClock())
        self.capacity = dict.fromkeys(range(DEVICE_COUNT), (2000, 100))
        self.quota: int | None = None
        self.in_force: dict[LeaseId, dict[int, tuple[int, int]]] = {}
        self.sync()

    def sync(self) -> None:
        devices = [device(index, *amount) for index, amount in sorted(self.capacity.items())]
        self.ledger.sync_devices([NODE], devices, {found.id: "test" for found in devices})
        quota = {} if self.quota is None else {DeviceKind.GPU: self.quota}
        self.ledger.sync_pools([Pool("default", "shares", quota_millis=quota)])

    def used(self, index: int) -> tuple[int, int]:
        taken = [draw[index] for draw in self.in_force.values() if index in draw]
        return sum(millis for millis, _ in taken), sum(memory for _, memory in taken)

    @rule(target=jobs)
    def submit(self) -> JobId:
        return self.ledger.submit(spec()).id

    @rule(target=leases, job=jobs, wanted=draws)
    def place(self, job: JobId, wanted: dict[int, tuple[int, int]]) -> LeaseId | None:
        pending = self.ledger.job(job).state is JobState.PENDING
        fits = all(
            index in self.capacity
            and self.used(index)[0] + millis <= self.capacity[index][0]
            and self.used(index)[1] + memory <= self.capacity[index][1]
            for index, (millis, memory) in wanted.items()
        )
        lent = sum(self.used(index)[0] for index in range(1, DEVICE_COUNT))
        asked = sum(millis for index, (millis, _) in wanted.items() if index > 0)
        within_quota = self.quota is None or asked == 0 or lent + asked <= self.quota
        placement = Placement(
            job,
            "default",
            NODE.id,
            tuple(
                Draw(DeviceId(f"d{index}"), millis, memory)
                for index, (millis, memory) in sorted(wanted.items())
            ),
        )
        (lease,) = self.ledger.place([placement], engine="local", owner="1@0")
        assert (lease is not None) == (pending and fits and within_quota)
        if lease is None:
            return None
        assert lease.draws == placement.draws
        self.in_force[lease.id] = wanted
        return lease.id

    @rule(lease=leases)
    def start(self, lease: LeaseId | None) -> None:
        if lease is not None:
            self.ledger.started(lease, 1.0)

    @rule(lease=consumes(leases), state=st.sampled_from(FINAL_STATES))
    def end(self, lease: LeaseId | None, state: JobState) -> None:
        if lease is not None:
            assert self.ledger.end(lease, state) == (lease in self.in_force)
            assert not self.ledger.end(lease, state)
            self.in_force.pop(lease, None)

    @rule(job=jobs)
    def cancel(self, job: JobId) -> None:
        before = self.ledger.job(job).state
        after = self.ledger.cancel(job, "test").state
        assert after is (JobState.CANCELLED if before is JobState.PENDING else before)

    @rule(index=st.integers(0, DEVICE_COUNT - 1), millis=st.integers(0, 3000))
    def change_capacity(self, index: int, millis: int) -> None:
        self.capacity[index] = (millis, 100)
        self.sync()

    @rule(index=st.integers(1, DEVICE_COUNT - 1))
    def lose_device(self, index: int) -> None:
        self.capacity.pop(index, None)
        self.sync()

    @rule(quota=st.none() | st.integers(0, 4000))
    def change_quota(self, quota: int | None) -> None:
        self.quota = quota
        self.sync()

    @rule()
    def reopen(self) -> None:
        """What a crash leaves is what a new process finds: the file, and nothing in memory."""
        self.ledger.close()
        self.ledger = Ledger(self.path, SteppingClock())

    @invariant()
    def usage_is_that_of_the_leases_in_force(self) -> None:
        usage = self.ledger.usage()
        for index in range(DEVICE_COUNT):
            assert usage[DeviceId(f"d{index}")] == self.used(index)
        assert {entry.lease.id for entry in self.ledger.active_leases()} == set(self.in_force)

    @invariant()
    def events_replay_to_the_same_state(self) -> None:
        events = self.ledger.events()
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        assert replay(events) == self.ledger.state()

    def teardown(self) -> None:
        for lease in list(self.in_force):
            self.ledger.end(lease, JobState.COMPLETED)
        assert set(self.ledger.usage().values()) <= {(0, 0)}
        assert set(self.ledger.pool_usage().values()) <= {0}
        self.ledger.close()
        shutil.rmtree(self.directory)


def test_any_sequence_of_operations_keeps_the_books(empty_ledger: Path) -> None:
    LedgerMachine.template = empty_ledger
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        LedgerMachine, settings=settings(max_examples=60, stateful_step_count=30, deadline=None)
    )
