"""The host: one process's view of the site, and the steps of its cycle."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from forebay import (
    Backfill,
    ConfigError,
    Device,
    DeviceId,
    DeviceKind,
    Engine,
    Fault,
    ForebayError,
    HardwareAdapter,
    Job,
    JobId,
    JobSpec,
    JobState,
    Lease,
    NodeId,
    NotFoundError,
    Placement,
    PluginKind,
    QueuePolicy,
    Request,
)
from forebay_core.clock import Clock, SystemClock
from forebay_core.config import Config
from forebay_core.inventory import Inventory, discover
from forebay_core.ledger import ActiveLease, Ledger
from forebay_core.plugins import Offered
from forebay_core.plugins.manager import PluginManager
from forebay_core.plugins.screening import NO_MATCH
from forebay_core.pools import BuiltPool, build_pools
from forebay_core.processes import is_alive, own_identity
from forebay_core.runtime.launch import launch
from forebay_core.runtime.settle import EXPIRY_MARGIN_S, judge
from forebay_core.scheduling import (
    Explanation,
    SchedulingEngine,
    Snapshot,
    build_snapshot,
    check_ever_fits,
    explain,
    queue_order,
)

log = logging.getLogger(__name__)

PATIENCE_S = 60.0
"""A job that has waited this long keeps later ones from the kinds it asks for."""

CANCEL_GRACE_S = 5.0
"""Time that cancelled work has between SIGTERM and SIGKILL."""

_OBSERVERS = "observers"

T = TypeVar("T")


class Host:
    """Opens plugins and ledger; every method is one step of the cycle.

    Any number of hosts may share a home directory: the ledger lets each lease be taken once,
    engines start each lease once.

    Parameters
    ----------
    config : Config
    home : Path
        Directory of ledger, logs and plugin state.
    clock : Clock, optional
    """

    def __init__(self, config: Config, home: Path, clock: Clock | None = None) -> None:
        self.config = config
        self.home = home
        self.clock = clock or SystemClock()
        self.node = NodeId(socket.gethostname())
        self.ledger = Ledger(home / "ledger.db", self.clock)
        self.plugins = PluginManager(config, node=self.node, state_directory=home / "plugins")
        self.inventory = Inventory()
        self.pools: tuple[BuiltPool, ...] = ()
        self.tell: Callable[[str], None] = lambda _message: None
        self._scheduling: SchedulingEngine | None = None
        self._cancelled: set[int] = set()

    def close(self) -> None:
        """End the plugins' processes and let go of the ledger; work goes on."""
        self.plugins.close()
        self.ledger.close()

    def __enter__(self) -> Host:
        """Return the host itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    # Physical and logical level

    def refresh(self, *, record: bool = True) -> Inventory:
        """Discover devices and rebuild the pools.

        Parameters
        ----------
        record : bool
            Enter what was found into the ledger, for all who share it.
            A command that only looks must not: with a plugin disabled, or as another user,
            it may see less than there is.
        """
        owners = self.ledger.adapters()
        known: dict[str, list[Device]] = {}
        for device in self.ledger.devices():
            known.setdefault(owners[device.id], []).append(device)
        found = discover(self.plugins.hardware_adapters(), self.plugins.engines(), self.node, known)
        unmatched = tuple(
            (record.id, record.reason)
            for record in self.plugins.records()
            if record.manifest is not None
            and PluginKind.HARDWARE in record.manifest.kinds
            and record.reason == NO_MATCH
        )
        self.inventory = replace(found, absent=(*found.absent, *unmatched))
        if record:
            self.ledger.sync_devices(
                self.inventory.nodes, self.inventory.devices, self.inventory.adapters
            )
            self.ledger.sync_pools(self.config.pools)
        self.pools = build_pools(
            self.config.pools,
            self.inventory.devices,
            self.inventory.links,
            self.plugins.pool_strategies(),
        )
        return self.inventory

    def pool(self, name: str) -> BuiltPool:
        """Return a pool by name.

        Raises
        ------
        NotFoundError
            There is none of that name; the message names those there are.
        """
        for built in self.pools:
            if built.pool.name == name:
                return built
        known = ", ".join(built.pool.name for built in self.pools) or "none"
        raise NotFoundError(f"there is no pool {name!r}.", fix=f"Pools: {known}.")

    def snapshot(self, built: BuiltPool, *, empty: bool = False) -> Snapshot:
        """Return the present state of a pool, or that with nothing lent."""
        usage: Mapping[DeviceId, tuple[int, int]] = {} if empty else self.ledger.usage()
        lent = {} if empty else self.ledger.pool_usage()
        return build_snapshot(
            built,
            nodes=self.inventory.nodes,
            usage=usage,
            pool_used_millis={kind: lent.get((built.pool.name, kind), 0) for kind in DeviceKind},
        )

    # Queue

    def submit(self, spec: JobSpec) -> Job:
        """Check that a job can ever run here, and put it into the queue.

        Raises
        ------
        NotFoundError
            Its pool does not exist.
        CapacityError
            It asks for more than the pool has with nothing lent; says by how much.
        """
        self.check(spec.request)
        return self.ledger.submit(spec)

    def check(self, request: Request) -> None:
        """Raise what :meth:`submit` would."""
        built = self.pool(request.pool)
        if built.error:
            raise ConfigError(
                Fault(built.error, source=self.config.source, field=f"pool {request.pool}")
            )
        check_ever_fits(self.snapshot(built, empty=True), request)

    def explain(self, job: Job) -> Explanation:
        """Tell why a job waits, and the smallest change that would let it run."""
        snapshot = self.snapshot(self.pool(job.spec.request.pool))
        leases = [entry.lease for entry in self.ledger.active_leases()]
        return explain(snapshot, job.spec.request, self.scheduling, leases)

    # Cycle

    @property
    def scheduling(self) -> SchedulingEngine:
        """The scheduling engine with the filters and the policy in force."""
        if self._scheduling is None:
            policies = self.plugins.policies()
            self._scheduling = SchedulingEngine(
                self.plugins.filters(),
                _by_name(policies, self.config.policy, "policy", self.config.source),
                charge=self.plugins.report_failure,
            )
        return self._scheduling

    def cycle(self, only: JobId | None = None) -> tuple[Lease, ...]:
        """Place pending jobs and start their work.

        Jobs are taken in the order of the queue policy in force.
        One that does not fit lets later ones pass where the policy says so, until it has waited
        for :data:`PATIENCE_S`; from then on they leave it the kinds that it asks for.
        Under a policy that makes reservations they do so at once.

        Parameters
        ----------
        only : JobId, optional
            Place this job alone.

        Returns
        -------
        tuple of Lease
            Those taken in this step.
        """
        queue = [job for job in self._in_order(self.ledger.queue()) if only in {None, job.id}]
        placements: list[Placement] = []
        for built in self.pools:
            jobs = [job for job in queue if job.spec.request.pool == built.pool.name]
            if jobs:
                placements += self._decide(built, jobs)
        if not placements:
            return ()
        leases = self.ledger.place(placements, engine=self.config.engine, owner=own_identity())
        taken = [lease for lease in leases if lease is not None]
        specs = {job.id: job.spec for job in queue}
        for lease in taken:
            self._launch(lease, specs[lease.job], self.config.engine)
        return tuple(taken)

    @property
    def queue_policy(self) -> Offered[QueuePolicy]:
        """The queue policy in force.

        Raises
        ------
        ConfigError
            No enabled plugin offers the one that the configuration names.
        """
        policies = self.plugins.queue_policies()
        return _by_name(policies, self.config.queue, "queue", self.config.source)

    def _in_order(self, jobs: Sequence[Job]) -> list[Job]:
        """Return jobs in the order of the queue policy; one that fails leaves them as they are."""
        if len(jobs) < 2:
            return list(jobs)
        offered = self.queue_policy
        try:
            order = queue_order(offered.object, jobs)
        except Exception as error:  # noqa: BLE001 - a policy is a stranger's code
            self.plugins.report_failure(offered.plugin, error)
            return list(jobs)
        return [jobs[index] for index in order]

    def _decide(self, built: BuiltPool, jobs: Sequence[Job]) -> Iterator[Placement]:
        outcomes = self.scheduling.decide(self.snapshot(built), [job.spec.request for job in jobs])
        held: set[DeviceKind] = set()
        backfill = self.queue_policy.object.backfill
        for job, outcome in zip(jobs, outcomes, strict=True):
            kinds = {item.kind for item in job.spec.request.items}
            if outcome.node is None:
                waited_s = self.clock.now_s() - job.submitted_s
                if backfill is Backfill.NONE:
                    held |= set(DeviceKind)
                elif backfill is not Backfill.SKIP or waited_s > PATIENCE_S:
                    held |= kinds
            elif not kinds & held:
                yield Placement(
                    job=job.id,
                    pool=built.pool.name,
                    node=outcome.node,
                    draws=outcome.draws,
                    policy=outcome.policy,
                    terms=outcome.terms,
                )

    def settle(self) -> tuple[ActiveLease, ...]:
        """Bring the leases in force up to date with their engines.

        Returns
        -------
        tuple of ActiveLease
            Those in force when it began.
        """
        active = self.ledger.active_leases()
        for name in sorted({entry.engine for entry in active}):
            entries = [entry for entry in active if entry.engine == name]
            try:
                engine = self.engine(name)
                statuses = engine.status([entry.lease.id for entry in entries])
            except ForebayError as error:
                # The leases stay in force: what runs still holds its devices.
                log.warning("engine %s cannot tell what runs: %s", name, error)
                continue
            for entry, status in zip(entries, statuses, strict=True):
                verdict = judge(entry, status, owner_alive=is_alive(entry.owner))
                if verdict is None:
                    continue
                if verdict.state is JobState.STARTING:
                    self._launch(entry.lease, entry.job.spec, name)
                elif verdict.state is JobState.RUNNING:
                    started_s = status.started_s or self.clock.now_s()
                    if entry.job.state is JobState.STARTING:
                        self.ledger.started(entry.lease.id, started_s)
                    self._stop_if_due(entry, engine)
                else:
                    if entry.job.state is JobState.STARTING and status.started_s is not None:
                        self.ledger.started(entry.lease.id, status.started_s)
                    self._release(entry.lease)
                    self.ledger.end(
                        entry.lease.id,
                        verdict.state,
                        exit_status=verdict.exit_status,
                        reason=verdict.reason,
                    )
        return active

    def _stop_if_due(self, entry: ActiveLease, engine: Engine) -> None:
        expires_s = entry.lease.expires_s
        overdue = expires_s is not None and self.clock.now_s() > expires_s + EXPIRY_MARGIN_S
        if (entry.cancelling or overdue) and entry.lease.id not in self._cancelled:
            engine.cancel(entry.lease.id, CANCEL_GRACE_S)
            self._cancelled.add(entry.lease.id)

    def _launch(self, lease: Lease, spec: JobSpec, engine_name: str) -> None:
        """Start a lease's work; what fails ends the lease and its job, with the reason."""
        try:
            status = launch(
                lease,
                spec,
                devices={device.id: device for device in self.ledger.devices()},
                adapters=self._adapters_of(lease),
                accelerators=self.plugins.accelerators() if spec.accelerators else (),
                engine=self.engine(engine_name),
                tell=self.tell,
            )
        except ForebayError as error:
            self._release(lease)
            self.ledger.end(lease.id, JobState.FAILED, reason=f"could not start: {error}")
            return
        if status.started_s is not None:
            self.ledger.started(lease.id, status.started_s)

    def _release(self, lease: Lease) -> None:
        for adapter in self._adapters_of(lease):
            try:
                adapter.release(lease)
            except ForebayError as error:
                log.warning("adapter %s kept lease %s: %s", adapter.name, lease.id, error)

    def _adapters_of(self, lease: Lease) -> list[HardwareAdapter]:
        owners = self.ledger.adapters()
        names = {owners.get(draw.device) for draw in lease.draws}
        return [
            offered.object for offered in self.plugins.hardware_adapters() if offered.name in names
        ]

    def engine(self, name: str) -> Engine:
        """Return an engine by name.

        Raises
        ------
        ConfigError
            No enabled plugin offers it.
        """
        return _by_name(self.plugins.engines(), name, "engine", self.config.source).object

    def dispatch_events(self) -> int:
        """Hand new events to the observers; returns how many.

        One host at a time does so; the position is kept in the ledger,
        so every event reaches the observers at least once, in order.
        """
        with try_lock(self.home / "observers.lock") as held:
            if not held:
                return 0
            events = self.ledger.events(self.ledger.cursor(_OBSERVERS), limit=1000)
            for event in events:
                self.plugins.observe(event)
            if events:
                self.ledger.move_cursor(_OBSERVERS, events[-1].sequence)
            return len(events)


def _by_name(offers: Sequence[Offered[T]], name: str, family: str, source: str) -> Offered[T]:
    for offered in offers:
        if offered.name == name:
            return offered
    known = ", ".join(offered.name for offered in offers) or "none"
    raise ConfigError(
        Fault(
            f"no enabled plugin offers the {family} {name!r}.",
            source=source,
            field=family,
            fix=f"Offered: {known}. See what is wrong with: forebay plugins doctor",
        )
    )


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Take a lock file if nobody has it; it is let go at the end, however the process ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
