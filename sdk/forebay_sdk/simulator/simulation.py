"""Runs a trace on a fleet: sets up the engine and the event loop, and keeps what happened."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from forebay import (
    KIND_ORDER,
    PluginError,
    RequestMix,
    ScorePolicy,
    Snapshot,
    Ties,
    UnitChoice,
)
from forebay.queueing import Backfill, QueuedJobs, QueuePolicy
from forebay_core.scheduling.arrays import build_batch
from forebay_core.scheduling.classes import Judge
from forebay_core.scheduling.first_fit import FirstFit
from forebay_core.scheduling.phase1 import Phase1, empty_draws
from forebay_sdk.simulator import events
from forebay_sdk.traces import Trace

SAMPLES = 240
"""How many times the state is written down over a run."""

BANDS = 64
"""How many bands of nodes the heat map has."""

CHANCES = 1 << 16
"""Uniform random numbers drawn for a run; tasks use them in turn."""

EVENTS_PER_STEP = 20_000
"""Instants between two looks at the progress."""

_BACKFILL = {
    Backfill.NONE: events.NONE,
    Backfill.SKIP: events.SKIP,
    Backfill.EASY: events.EASY,
    Backfill.CONSERVATIVE: events.CONSERVATIVE,
}


@dataclass(frozen=True, slots=True, eq=False)
class NodeEvents:
    """What becomes of nodes, in order of time; ``E`` events.

    Parameters
    ----------
    time_s : (E,) float64
    node : (E,) int32
    kind : (E,) int8
        :data:`~forebay_sdk.simulator.events.NODE_DOWN`, ``NODE_DRAINED`` or ``NODE_UP``.
    """

    time_s: NDArray[np.float64]
    node: NDArray[np.int32]
    kind: NDArray[np.int8]

    @classmethod
    def none(cls) -> NodeEvents:
        """Return no events."""
        return cls(np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.int8))


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What happened; arrays are those of the trace, job by job.

    Parameters
    ----------
    trace, policy, queue : str
    seed : int
    submit_s, first_start_s, end_s : (J,) float64
        NaN where it did not happen.
    duration_s : (J,) float64
    task_node : (T,) int32
        Node of each task at the end of the run; -1 where it does not run.
    log : Log
    samples : Timeline
        Of which the ``sample_`` fields are of interest.
    capacity_millis : (K,) int64
    killed : int
        How many times a job was stopped by its node.
    faults : tuple of PluginError
        What was charged to plugins.
    """

    trace: str
    policy: str
    queue: str
    seed: int
    submit_s: NDArray[np.float64]
    first_start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    task_node: NDArray[np.int32]
    log: events.Log
    samples: events.Timeline
    capacity_millis: NDArray[np.int64]
    killed: int
    faults: tuple[PluginError, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the event log's bytes: equal runs have equal digests."""
        text = hashlib.sha256()
        for column in self.log:
            text.update(np.ascontiguousarray(column).tobytes())
        return text.hexdigest()


@dataclass(slots=True, eq=False)
class Simulation:
    """A trace on a fleet, to be run.

    Parameters
    ----------
    snapshot : Snapshot
        The fleet, usually with nothing lent.
    trace : Trace
    policy : ScorePolicy
    queue : QueuePolicy
    judge : callable
        Returns the units that every filter lets through: (R, U) bool.
    seed : int
    node_events : NodeEvents
    checkpoint_s : float
        A killed job loses what it did since the last multiple of this; 0 for all of it.
    restart_s : float
        What a restart costs on top.
    samples : int
        How many times the state is written down.
    plugin : str
        Id of the plugin that offers the policy, for the attribution of faults.
    compile : bool, optional
        Whether to compile; by the number of nodes where not told.
    """

    snapshot: Snapshot
    trace: Trace
    policy: ScorePolicy
    queue: QueuePolicy
    judge: Judge
    seed: int = 0
    node_events: NodeEvents = field(default_factory=NodeEvents.none)
    checkpoint_s: float = 0.0
    restart_s: float = 0.0
    samples: int = SAMPLES
    plugin: str = ""
    compile: bool | None = None

    def run(self, progress: Callable[[int], None] | None = None) -> Run:
        """Run to the end of the trace.

        A policy that scores no number is charged, and first fit goes on in its place.

        Parameters
        ----------
        progress : callable, optional
            Told now and then how many jobs have been submitted.
        """
        return Stepper(self).run(progress)


class Stepper:
    """A run under way: the event loop, an instant at a time where wanted.

    Parameters
    ----------
    simulation : Simulation
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        trace = simulation.trace
        self.phase1 = Phase1(
            simulation.snapshot,
            simulation.policy,
            simulation.judge,
            seed=simulation.seed,
            mix=mix_of(trace, simulation.judge),
            compile=simulation.compile,
        )
        self.numbers = self.phase1.number(trace.requests)
        self.faults: list[PluginError] = []
        self.jobs = self._jobs()
        self.queue = _queue(self.jobs.shape)
        self.timeline = self._timeline()
        self.log = _log(3 * len(trace) + len(simulation.node_events.time_s) + 16)
        nodes = len(simulation.snapshot.node_ids)
        self.kept = events.Reservations(
            np.zeros(events.RESERVATIONS_MAX, np.int32),
            np.zeros(events.RESERVATIONS_MAX),
            np.full(nodes, np.inf),
            np.zeros(nodes, np.int32),
            np.zeros(len(trace)),
            np.zeros(len(trace), np.int32),
        )
        self.counters = np.zeros(events.COUNTERS, np.int64)
        self.draws = empty_draws(int(self.jobs.first_draw[-1]))
        rng = np.random.default_rng(simulation.seed)
        self.chance = rng.random((CHANCES if simulation.policy.leaves_to_chance else 1, 2))

    def step(self, events_max: int, *, watched: bool = True) -> bool:
        """Go through some instants; returns whether there are more."""
        while True:
            policy = self.phase1.policy
            status = self.phase1.kernel(events.run_events)(
                self.phase1.score,
                self.phase1.fleet,
                self.phase1.classes.arrays,
                self.phase1.cache,
                self.phase1.parameters,
                self.jobs,
                self.queue,
                self.timeline,
                self.draws,
                self.kept,
                self.log,
                self.counters,
                _BACKFILL[self.simulation.queue.backfill],
                policy.ties is Ties.UNIFORM,
                policy.unit_choice is UnitChoice.UNIFORM,
                self.chance,
                float(self.simulation.checkpoint_s),
                float(self.simulation.restart_s),
                events_max,
                watched,
            )
            if status == events.LOG_FULL:
                self.log = _grown(self.log)
            elif status == events.BAD_SCORE:
                self._fall_back()
            else:
                return bool(status == events.MORE)

    def run(self, progress: Callable[[int], None] | None = None) -> Run:
        """Go through everything that is left."""
        while self.step(EVENTS_PER_STEP, watched=progress is not None):
            if progress is not None:
                progress(int(self.counters[events.NOW_SUBMITTED]))
        return self.result()

    def result(self) -> Run:
        """Return what has happened so far."""
        simulation = self.simulation
        written = int(self.counters[events.NOW_LOG])
        sampled = int(self.counters[events.NOW_SAMPLE])
        samples = {
            name: getattr(self.timeline, name)[:sampled]
            for name in self.timeline._fields
            if name.startswith("sample_")
        }
        return Run(
            trace=simulation.trace.name,
            policy=simulation.policy.name,
            queue=simulation.queue.name,
            seed=simulation.seed,
            submit_s=self.jobs.submit_s,
            first_start_s=self.jobs.first_start_s,
            end_s=self.jobs.end_s,
            duration_s=self.jobs.duration_s,
            task_node=self.jobs.task_node,
            log=events.Log(
                self.log.time_s[:written],
                self.log.kind[:written],
                self.log.job[:written],
                self.log.node[:written],
            ),
            samples=self.timeline._replace(**samples),
            capacity_millis=self.phase1.fleet.node_capacity_millis.sum(axis=0),
            killed=int(self.counters[events.NOW_KILLED]),
            faults=tuple(self.faults),
        )

    def _fall_back(self) -> None:
        """Charge the policy for its score, and go on by first fit."""
        node = int(self.counters[events.NOW_BAD_NODE])
        job = int(self.counters[events.NOW_BAD_JOB])
        self.faults.append(
            PluginError(
                self.simulation.plugin or self.phase1.policy.name,
                f"policy {self.phase1.policy.name}: its score of node "
                f"{self.simulation.snapshot.node_ids[node]} for job {job} is NaN or infinite; "
                "first fit went on in its place.",
            )
        )
        self.phase1.change_policy(FirstFit())

    def _jobs(self) -> events.Jobs:
        trace = self.simulation.trace
        count, tasks = len(trace), len(trace.task_request)
        offsets = trace.task_offsets.astype(np.int64)
        request = self.numbers[trace.task_request].astype(np.int32)
        room = self.phase1.classes.draws[request]
        first_draw = np.concatenate(([0], np.cumsum(room)))
        return events.Jobs(
            submit_s=np.array(trace.submit_s, np.float64),
            duration_s=np.array(trace.duration_s, np.float64),
            estimate_s=np.array(trace.estimate_s, np.float64),
            key=self._keys(),
            task_offsets=offsets,
            task_request=request,
            shape=_shapes(offsets, request),
            first_draw=first_draw.astype(np.int64),
            draw_end=np.zeros(tasks, np.int64),
            task_node=np.full(tasks, -1, np.int32),
            start_s=np.full(count, np.nan),
            end_s=np.full(count, np.nan),
            first_start_s=np.full(count, np.nan),
            left_s=np.array(trace.duration_s, np.float64),
            run=np.zeros(count, np.int32),
        )

    def _keys(self) -> NDArray[np.float64]:
        """Ask the queue's policy; one that fails is charged, and jobs go as they came."""
        trace = self.simulation.trace
        policy = self.simulation.queue
        try:
            keys = np.asarray(policy.keys(queued_jobs(trace)), np.float64)
            if keys.shape != (len(trace),):
                raise ValueError(f"keys has shape {keys.shape}, expected ({len(trace)},)")
        except Exception as error:  # noqa: BLE001 - a policy is a stranger's code
            self.faults.append(PluginError(policy.name, f"queue policy {policy.name}: {error}."))
            return np.zeros(len(trace))
        return np.where(np.isnan(keys), np.inf, keys)

    def _timeline(self) -> events.Timeline:
        trace = self.simulation.trace
        node = self.simulation.node_events
        count = len(trace)
        samples = self.simulation.samples
        last_s = float(trace.submit_s[-1]) if count else 0.0
        return events.Timeline(
            end_s=np.zeros(2 * count + 1),
            end_run=np.zeros(2 * count + 1, np.int32),
            end_job=np.zeros(2 * count + 1, np.int32),
            node_s=np.array(node.time_s, np.float64),
            node=np.array(node.node, np.int32),
            node_kind=np.array(node.kind, np.int8),
            sample_s=np.linspace(0.0, last_s, samples),
            sample_running=np.zeros(samples, np.int64),
            sample_waiting=np.zeros(samples, np.int64),
            sample_free=np.zeros((samples, len(KIND_ORDER)), np.int64),
            sample_nodes=np.zeros((samples, BANDS)),
            running=np.zeros(count, np.int32),
            running_at=np.full(count, -1, np.int32),
        )


def mix_of(trace: Trace, judge: Judge) -> RequestMix:
    """Return what a trace asks for and how often, without its order; O(T + R U)."""
    counts = np.bincount(trace.task_request, minlength=len(trace.requests)).astype(np.float64)
    batch = build_batch(trace.requests)
    return RequestMix(batch, counts / max(counts.sum(), 1.0), judge(batch))


def queued_jobs(trace: Trace) -> QueuedJobs:
    """Return the jobs of a trace as a queue's policy sees them; O(T)."""
    millis = build_batch(trace.requests).millis[trace.task_request]
    sums = np.zeros((len(trace), millis.shape[1]), np.int64)
    if len(trace):
        sums = np.add.reduceat(millis, trace.task_offsets[:-1], axis=0)
    return QueuedJobs(trace.submit_s, trace.estimate_s, trace.priority, sums)


def _shapes(offsets: NDArray[np.int64], request: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the number of each job's sequence of tasks: (J,) int32."""
    sizes = np.diff(offsets)
    shape = np.zeros(len(sizes), np.int32)
    single = sizes == 1
    values, numbers = np.unique(request[offsets[:-1][single]], return_inverse=True)
    shape[single] = numbers
    known: dict[bytes, int] = {}
    for job in np.flatnonzero(~single):
        key = request[offsets[job] : offsets[job + 1]].tobytes()
        shape[job] = len(values) + known.setdefault(key, len(known))
    return shape


def _queue(shape: NDArray[np.int32]) -> events.Queue:
    sizes = np.bincount(shape, minlength=1)
    return events.Queue(
        np.zeros(len(shape), np.int32),
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        np.zeros(len(sizes), np.int64),
        np.zeros(len(sizes), np.bool_),
    )


def _log(rows: int) -> events.Log:
    return events.Log(
        np.zeros(rows), np.zeros(rows, np.int8), np.zeros(rows, np.int32), np.zeros(rows, np.int32)
    )


def _grown(log: events.Log) -> events.Log:
    """Return the log with twice the room."""
    room = _log(len(log.time_s))
    return events.Log(
        np.concatenate([log.time_s, room.time_s]),
        np.concatenate([log.kind, room.kind]),
        np.concatenate([log.job, room.job]),
        np.concatenate([log.node, room.node]),
    )
