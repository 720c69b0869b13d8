"""The event loop: jobs come, start, end; nodes fail, drain and return.

Events are ordered by time, then by priority (ends, then nodes, then submissions, so that what is
given back at an instant can be used at that instant), then by sequence.  Everything that places or
gives back is the engine's own; this file knows time and the queue.

Jobs of one shape, that is with the same tasks in the same order, wait in one heap: a job that does
not fit rules out its whole shape until something is given back, so a pass over a queue of any
length costs its shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from forebay import FleetArrays, Parameters
from forebay.drawing import ClassArrays, Draws, take
from forebay_core.scheduling.choosing import ScoreCache, ScoreKernel, give_back, place_one, touch

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUBMITTED, STARTED, ENDED, KILLED, NODE_DOWN, NODE_DRAINED, NODE_UP = range(7)
"""Kinds of entries of the event log."""

NONE, SKIP, EASY, CONSERVATIVE = range(4)
"""What later jobs may do; see :class:`forebay.queueing.Backfill`."""

DONE, MORE, BAD_SCORE, LOG_FULL = range(4)
"""What the loop returned for."""

RESERVATIONS_MAX = 64
"""How many waiting jobs hold reservations under conservative backfill."""


class Jobs(NamedTuple):
    """The trace, and what becomes of each job.

    Parameters
    ----------
    submit_s, duration_s, estimate_s, key : (J,) float64
    task_offsets : (J + 1,) int64
    task_request : (T,) int32
        Number of the request in the engine.
    shape : (J,) int32
        Index along ``S``.
    first_draw : (T + 1,) int64
        Room for the draws of each task begins there.
    draw_end : (T,) int64
        Row after the last draw of a task that runs.
    task_node : (T,) int32
        -1 where the task does not run.
    start_s, end_s : (J,) float64
        Last start and end; NaN where it has not happened.
    first_start_s : (J,) float64
    left_s : (J,) float64
        Run time still to be done.
    run : (J,) int32
        How many times it started.
    """

    submit_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    estimate_s: NDArray[np.float64]
    key: NDArray[np.float64]
    task_offsets: NDArray[np.int64]
    task_request: NDArray[np.int32]
    shape: NDArray[np.int32]
    first_draw: NDArray[np.int64]
    draw_end: NDArray[np.int64]
    task_node: NDArray[np.int32]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    first_start_s: NDArray[np.float64]
    left_s: NDArray[np.float64]
    run: NDArray[np.int32]


class Queue(NamedTuple):
    """Waiting jobs, a heap for each shape; ``S`` shapes.

    Parameters
    ----------
    heap : (J,) int32
        Heap of shape ``s`` begins at ``offsets[s]``.
    offsets : (S + 1,) int64
    sizes : (S,) int64
    blocked : (S,) bool
        Shapes that do not fit until something is given back.
    """

    heap: NDArray[np.int32]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    blocked: NDArray[np.bool_]


class Timeline(NamedTuple):
    """Ends to come, node events, and samples.

    Parameters
    ----------
    end_s : (J,) float64
    end_run : (J,) int32
        Which start of the job an end belongs to.
    end_job : (J,) int32
        A heap by time, then by job.
    node_s : (E,) float64
    node : (E,) int32
    node_kind : (E,) int8
        In order of time.
    sample_s : (X,) float64
    sample_running, sample_waiting : (X,) int64
    sample_free : (X, K) int64
        Sum over all nodes.
    sample_nodes : (X, B) float64
        Mean share in use of the nodes of each of ``B`` bands.
    running : (J,) int32
        Jobs that run, in no order.
    running_at : (J,) int32
        Where each lies among them; -1 for none.
    """

    end_s: NDArray[np.float64]
    end_run: NDArray[np.int32]
    end_job: NDArray[np.int32]
    node_s: NDArray[np.float64]
    node: NDArray[np.int32]
    node_kind: NDArray[np.int8]
    sample_s: NDArray[np.float64]
    sample_running: NDArray[np.int64]
    sample_waiting: NDArray[np.int64]
    sample_free: NDArray[np.int64]
    sample_nodes: NDArray[np.float64]
    running: NDArray[np.int32]
    running_at: NDArray[np.int32]


class Log(NamedTuple):
    """The event log, by columns.

    Parameters
    ----------
    time_s : (L,) float64
    kind : (L,) int8
    job, node : (L,) int32
        -1 where there is none; the node of a gang is that of its first task.
    """

    time_s: NDArray[np.float64]
    kind: NDArray[np.int8]
    job: NDArray[np.int32]
    node: NDArray[np.int32]


class Reservations(NamedTuple):
    """What is kept for jobs that wait.

    Parameters
    ----------
    job : (RESERVATIONS_MAX,) int32
    at_s : (RESERVATIONS_MAX,) float64
    node_s : (N,) float64
        When each node is wanted; infinite where it is not.
    nodes : (N,) int32
        Those wanted.
    end_s : (J,) float64
    order : (J,) int32
        A heap of what runs, by the end that each says.
    """

    job: NDArray[np.int32]
    at_s: NDArray[np.float64]
    node_s: NDArray[np.float64]
    nodes: NDArray[np.int32]
    end_s: NDArray[np.float64]
    order: NDArray[np.int32]


COUNTERS = 12
(
    NOW_SUBMITTED,
    NOW_ENDS,
    NOW_NODE,
    NOW_SAMPLE,
    NOW_LOG,
    NOW_RUNNING,
    NOW_WAITING,
    NOW_RESERVED,
    NOW_RESERVED_NODES,
    NOW_BAD_NODE,
    NOW_BAD_JOB,
    NOW_KILLED,
) = range(COUNTERS)
"""Where the loop keeps its numbers, so that it can stop and go on."""


def before(jobs: Jobs, one: int, other: int) -> bool:
    """Tell whether a job goes before another."""
    if jobs.key[one] != jobs.key[other]:
        return jobs.key[one] < jobs.key[other]
    return one < other


def push(queue: Queue, jobs: Jobs, job: int) -> None:
    """Put a job into the heap of its shape; O(log waiting)."""
    shape = jobs.shape[job]
    base = queue.offsets[shape]
    at = queue.sizes[shape]
    queue.sizes[shape] = at + 1
    while at > 0:
        parent = (at - 1) // 2
        if not before(jobs, job, queue.heap[base + parent]):
            break
        queue.heap[base + at] = queue.heap[base + parent]
        at = parent
    queue.heap[base + at] = job


def pop(queue: Queue, jobs: Jobs, shape: int) -> None:
    """Take the first job out of the heap of a shape; O(log waiting)."""
    base = queue.offsets[shape]
    size = queue.sizes[shape] - 1
    queue.sizes[shape] = size
    job = queue.heap[base + size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and before(
            jobs, queue.heap[base + child + 1], queue.heap[base + child]
        ):
            child += 1
        if not before(jobs, queue.heap[base + child], job):
            break
        queue.heap[base + at] = queue.heap[base + child]
        at = child
    if size > 0:
        queue.heap[base + at] = job


def first_waiting(queue: Queue, jobs: Jobs, unblocked: bool) -> int:
    """Return the shape whose first job goes first; -1 where none waits. O(S)."""
    best = -1
    for shape in range(len(queue.sizes)):
        if queue.sizes[shape] == 0 or (unblocked and queue.blocked[shape]):
            continue
        job = queue.heap[queue.offsets[shape]]
        if best < 0 or before(jobs, job, queue.heap[queue.offsets[best]]):
            best = shape
    return best


def add_end(
    timeline: Timeline, counters: NDArray[np.int64], at_s: float, job: int, run: int
) -> None:
    """Note when a job will end; O(log running)."""
    at = counters[NOW_ENDS]
    counters[NOW_ENDS] = at + 1
    while at > 0:
        parent = (at - 1) // 2
        if timeline.end_s[parent] < at_s or (
            timeline.end_s[parent] == at_s and timeline.end_job[parent] < job
        ):
            break
        timeline.end_s[at] = timeline.end_s[parent]
        timeline.end_job[at] = timeline.end_job[parent]
        timeline.end_run[at] = timeline.end_run[parent]
        at = parent
    timeline.end_s[at] = at_s
    timeline.end_job[at] = job
    timeline.end_run[at] = run


def drop_first_end(timeline: Timeline, counters: NDArray[np.int64]) -> None:
    """Forget the end that comes first; O(log running)."""
    size = counters[NOW_ENDS] - 1
    counters[NOW_ENDS] = size
    at_s = timeline.end_s[size]
    job = timeline.end_job[size]
    run = timeline.end_run[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and (
            timeline.end_s[child + 1] < timeline.end_s[child]
            or (
                timeline.end_s[child + 1] == timeline.end_s[child]
                and timeline.end_job[child + 1] < timeline.end_job[child]
            )
        ):
            child += 1
        if at_s < timeline.end_s[child] or (
            at_s == timeline.end_s[child] and job < timeline.end_job[child]
        ):
            break
        timeline.end_s[at] = timeline.end_s[child]
        timeline.end_job[at] = timeline.end_job[child]
        timeline.end_run[at] = timeline.end_run[child]
        at = child
    timeline.end_s[at] = at_s
    timeline.end_job[at] = job
    timeline.end_run[at] = run


def note(
    log: Log, counters: NDArray[np.int64], time_s: float, kind: int, job: int, node: int
) -> None:
    """Write an entry of the event log; O(1)."""
    at = counters[NOW_LOG]
    log.time_s[at] = time_s
    log.kind[at] = kind
    log.job[at] = job
    log.node[at] = node
    counters[NOW_LOG] = at + 1


def place_job(
    score: ScoreKernel,
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    parameters: Parameters,
    jobs: Jobs,
    draws: Draws,
    counters: NDArray[np.int64],
    job: int,
    uniform_ties: bool,
    uniform_units: bool,
    chance: NDArray[np.float64],
) -> int:
    """Place all tasks of a job or none; returns 1 placed, 0 not, -1 a bad score."""
    begin = jobs.task_offsets[job]
    end = jobs.task_offsets[job + 1]
    for task in range(begin, end):
        row = place_one(
            score,
            fleet,
            classes,
            cache,
            parameters,
            jobs.task_request[task],
            uniform_ties,
            uniform_units,
            chance[task % len(chance)],
            draws,
            jobs.first_draw[task],
            cache.node_of,
        )
        if row == -2 or cache.node_of[0] < 0:
            if row == -2:
                counters[NOW_BAD_NODE] = cache.node_of[0]
                counters[NOW_BAD_JOB] = job
            give_back_tasks(fleet, classes, cache, jobs, draws, begin, task)
            return -1 if row == -2 else 0
        jobs.draw_end[task] = row
        jobs.task_node[task] = cache.node_of[0]
    return 1


def give_back_tasks(
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    jobs: Jobs,
    draws: Draws,
    begin: int,
    end: int,
) -> None:
    """Give back what tasks hold, the last first."""
    for task in range(end - 1, begin - 1, -1):
        give_back(
            fleet,
            classes,
            cache,
            jobs.task_request[task],
            jobs.task_node[task],
            draws,
            jobs.first_draw[task],
            jobs.draw_end[task],
        )
        jobs.task_node[task] = -1


def start(
    jobs: Jobs,
    timeline: Timeline,
    log: Log,
    counters: NDArray[np.int64],
    job: int,
    now_s: float,
) -> None:
    """Let a placed job run from now on."""
    jobs.start_s[job] = now_s
    if jobs.run[job] == 0:
        jobs.first_start_s[job] = now_s
    jobs.run[job] += 1
    timeline.running_at[job] = counters[NOW_RUNNING]
    timeline.running[counters[NOW_RUNNING]] = job
    counters[NOW_RUNNING] += 1
    if jobs.left_s[job] < np.inf:
        add_end(timeline, counters, now_s + jobs.left_s[job], job, jobs.run[job])
    note(log, counters, now_s, STARTED, job, jobs.task_node[jobs.task_offsets[job]])


def stop(jobs: Jobs, timeline: Timeline, counters: NDArray[np.int64], job: int) -> None:
    """Take a job out of those that run."""
    at = timeline.running_at[job]
    counters[NOW_RUNNING] -= 1
    last = timeline.running[counters[NOW_RUNNING]]
    timeline.running[at] = last
    timeline.running_at[last] = at
    timeline.running_at[job] = -1


def estimated_end(jobs: Jobs, job: int, now_s: float) -> float:
    """Return when a job that runs says it ends; never before now, and never if it does not say."""
    estimate = jobs.estimate_s[job]
    if np.isnan(estimate):
        return np.inf
    return max(jobs.start_s[job] + estimate, now_s)


def close_nodes(
    fleet: FleetArrays,
    cache: ScoreCache,
    kept: Reservations,
    counters: NDArray[np.int64],
    until_s: float,
    is_open: bool,
) -> None:
    """Close the nodes that are wanted before a time, or open them again."""
    for index in range(counters[NOW_RESERVED_NODES]):
        node = kept.nodes[index]
        if kept.node_s[node] < until_s:
            fleet.node_open[node] = is_open
            touch(cache, node)


def reserve(
    score: ScoreKernel,
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    parameters: Parameters,
    jobs: Jobs,
    timeline: Timeline,
    draws: Draws,
    kept: Reservations,
    counters: NDArray[np.int64],
    job: int,
    now_s: float,
    chance: NDArray[np.float64],
) -> None:
    """Find when a job fits as those that run end, by what they say; O(running).

    The nodes are those that the policy chooses then.  A job that fits nowhere even on nodes
    that nobody else wants gets no reservation.
    """
    running = counters[NOW_RUNNING]
    for index in range(running):
        kept.end_s[index] = estimated_end(jobs, timeline.running[index], now_s)
        kept.order[index] = timeline.running[index]
    for index in range(running // 2 - 1, -1, -1):
        _sift(kept, index, running)
    # What is tried is taken back in the end, so only the time and the nodes are kept.
    left = running
    while left > 0 and kept.end_s[0] < np.inf:
        at_s = kept.end_s[0]
        while left > 0 and kept.end_s[0] == at_s:
            left -= 1
            kept.end_s[0], kept.end_s[left] = kept.end_s[left], kept.end_s[0]
            kept.order[0], kept.order[left] = kept.order[left], kept.order[0]
            _sift(kept, 0, left)
            _lend_job(fleet, classes, cache, jobs, draws, kept.order[left], -1)
        placed = place_job(
            score,
            fleet,
            classes,
            cache,
            parameters,
            jobs,
            draws,
            counters,
            job,
            False,
            False,
            chance,
        )
        if placed == 1:
            _keep(jobs, kept, counters, job, at_s)
            give_back_tasks(
                fleet,
                classes,
                cache,
                jobs,
                draws,
                jobs.task_offsets[job],
                jobs.task_offsets[job + 1],
            )
            break
    for index in range(left, running):
        _lend_job(fleet, classes, cache, jobs, draws, kept.order[index], 1)


def _keep(
    jobs: Jobs, kept: Reservations, counters: NDArray[np.int64], job: int, at_s: float
) -> None:
    """Keep the nodes that a job has been placed on, from a time on."""
    slot = counters[NOW_RESERVED]
    kept.job[slot] = job
    kept.at_s[slot] = at_s
    counters[NOW_RESERVED] = slot + 1
    for task in range(jobs.task_offsets[job], jobs.task_offsets[job + 1]):
        node = jobs.task_node[task]
        if kept.node_s[node] == np.inf:
            kept.nodes[counters[NOW_RESERVED_NODES]] = node
            counters[NOW_RESERVED_NODES] += 1
        kept.node_s[node] = min(kept.node_s[node], at_s)


def _sift(kept: Reservations, at: int, size: int) -> None:
    """Let an entry of the heap of ends sink to its place."""
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and kept.end_s[child + 1] < kept.end_s[child]:
            child += 1
        if kept.end_s[at] <= kept.end_s[child]:
            return
        kept.end_s[at], kept.end_s[child] = kept.end_s[child], kept.end_s[at]
        kept.order[at], kept.order[child] = kept.order[child], kept.order[at]
        at = child


def _lend_job(
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    jobs: Jobs,
    draws: Draws,
    job: int,
    sign: int,
) -> None:
    """Take what a job holds out of what is free (1), or give it back (-1), for a trial."""
    for task in range(jobs.task_offsets[job], jobs.task_offsets[job + 1]):
        node = jobs.task_node[task]
        request = jobs.task_request[task]
        begin, end = jobs.first_draw[task], jobs.draw_end[task]
        take(fleet, classes, request, node, draws, begin, end, sign)
        touch(cache, node)


def forget_reservations(kept: Reservations, counters: NDArray[np.int64]) -> None:
    """Let go of what is kept for jobs that wait."""
    for index in range(counters[NOW_RESERVED_NODES]):
        kept.node_s[kept.nodes[index]] = np.inf
    counters[NOW_RESERVED] = 0
    counters[NOW_RESERVED_NODES] = 0


def schedule(
    score: ScoreKernel,
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    parameters: Parameters,
    jobs: Jobs,
    queue: Queue,
    timeline: Timeline,
    draws: Draws,
    kept: Reservations,
    log: Log,
    counters: NDArray[np.int64],
    now_s: float,
    backfill: int,
    uniform_ties: bool,
    uniform_units: bool,
    chance: NDArray[np.float64],
) -> int:
    """Start what can be started now; returns 0, or -1 for a bad score.

    Under reservations a job that would still run when a node is wanted is placed with such nodes
    closed to it.
    """
    while True:
        shape = first_waiting(queue, jobs, backfill != NONE)
        if shape < 0:
            return 0
        job = queue.heap[queue.offsets[shape]]
        if backfill == NONE and queue.blocked[shape]:
            return 0
        closing = counters[NOW_RESERVED] > 0
        estimate = jobs.estimate_s[job]
        until_s = np.inf if np.isnan(estimate) else now_s + estimate
        if closing:
            close_nodes(fleet, cache, kept, counters, until_s, False)
        placed = place_job(
            score,
            fleet,
            classes,
            cache,
            parameters,
            jobs,
            draws,
            counters,
            job,
            uniform_ties,
            uniform_units,
            chance,
        )
        if closing:
            close_nodes(fleet, cache, kept, counters, until_s, True)
        if placed < 0:
            return -1
        if placed == 1:
            pop(queue, jobs, shape)
            counters[NOW_WAITING] -= 1
            start(jobs, timeline, log, counters, job, now_s)
            continue
        queue.blocked[shape] = True
        if backfill < EASY:
            continue
        limit = 1 if backfill == EASY else RESERVATIONS_MAX
        if counters[NOW_RESERVED] < limit:
            reserve(
                score,
                fleet,
                classes,
                cache,
                parameters,
                jobs,
                timeline,
                draws,
                kept,
                counters,
                job,
                now_s,
                chance,
            )


def sample(fleet: FleetArrays, timeline: Timeline, counters: NDArray[np.int64]) -> None:
    """Write down the present state; O(N K)."""
    at = counters[NOW_SAMPLE]
    timeline.sample_running[at] = counters[NOW_RUNNING]
    timeline.sample_waiting[at] = counters[NOW_WAITING]
    bands = timeline.sample_nodes.shape[1]
    nodes = fleet.node_free_millis.shape[0]
    for node in range(nodes):
        free = 0
        total = 0
        for kind in range(fleet.node_free_millis.shape[1]):
            timeline.sample_free[at, kind] += fleet.node_free_millis[node, kind]
            if kind > 0:
                free += fleet.node_free_millis[node, kind]
                total += fleet.node_capacity_millis[node, kind]
        if total == 0:
            free = fleet.node_free_millis[node, 0]
            total = fleet.node_capacity_millis[node, 0]
        band = node * bands // nodes
        if total > 0:
            timeline.sample_nodes[at, band] += 1.0 - free / total
    for band in range(bands):
        first = -(-band * nodes // bands)
        last = -(-(band + 1) * nodes // bands)
        if last > first:
            timeline.sample_nodes[at, band] /= last - first
    counters[NOW_SAMPLE] = at + 1


def node_event(
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    jobs: Jobs,
    queue: Queue,
    timeline: Timeline,
    draws: Draws,
    log: Log,
    counters: NDArray[np.int64],
    checkpoint_s: float,
    restart_s: float,
) -> None:
    """Let a node go down, drain or return; what runs on one that goes down waits again.

    A job that is killed goes on from its last checkpoint, and needs ``restart_s`` more.
    O(running) where a node goes down.
    """
    at = counters[NOW_NODE]
    counters[NOW_NODE] = at + 1
    now_s = timeline.node_s[at]
    node = timeline.node[at]
    kind = timeline.node_kind[at]
    note(log, counters, now_s, kind, -1, node)
    fleet.node_open[node] = kind == NODE_UP
    touch(cache, node)
    if kind != NODE_DOWN:
        return
    index = 0
    while index < counters[NOW_RUNNING]:
        job = timeline.running[index]
        begin = jobs.task_offsets[job]
        end = jobs.task_offsets[job + 1]
        hit = False
        for task in range(begin, end):
            hit = hit or jobs.task_node[task] == node
        if not hit:
            index += 1
            continue
        give_back_tasks(fleet, classes, cache, jobs, draws, begin, end)
        stop(jobs, timeline, counters, job)
        done_s = now_s - jobs.start_s[job]
        saved_s = done_s // checkpoint_s * checkpoint_s if checkpoint_s > 0 else 0.0
        jobs.left_s[job] = jobs.left_s[job] - saved_s + restart_s
        # Ends that were noted for an earlier run are passed over.
        jobs.run[job] += 1
        note(log, counters, now_s, KILLED, job, node)
        counters[NOW_KILLED] += 1
        push(queue, jobs, job)
        counters[NOW_WAITING] += 1


def run_events(
    score: ScoreKernel,
    fleet: FleetArrays,
    classes: ClassArrays,
    cache: ScoreCache,
    parameters: Parameters,
    jobs: Jobs,
    queue: Queue,
    timeline: Timeline,
    draws: Draws,
    kept: Reservations,
    log: Log,
    counters: NDArray[np.int64],
    backfill: int,
    uniform_ties: bool,
    uniform_units: bool,
    chance: NDArray[np.float64],
    checkpoint_s: float,
    restart_s: float,
    events_max: int,
    watched: bool,
) -> int:
    """Go through the events; O((log N + changed nodes) per task) and the queue's shapes per event.

    Parameters
    ----------
    jobs : Jobs
    queue : Queue
    timeline : Timeline
    draws : Draws
    kept : Reservations
    log : Log
    counters : (COUNTERS,) int64
        Where the loop stands; all 0 at first.
    backfill : int
    chance : (any, 2) float64
        Uniform random numbers.
    checkpoint_s : float
        Work of every so many seconds is safe; 0 for none.
    restart_s : float
        What a restart costs.
    events_max : int
        Instants to go through before returning, for progress and checks.
    watched : bool
        Whether ``events_max`` counts; otherwise everything is gone through.

    Returns
    -------
    int
        :data:`DONE`, :data:`MORE`, :data:`BAD_SCORE`, or :data:`LOG_FULL` where the log may not
        hold the next instant.
    """
    count = len(jobs.submit_s)
    steps = 0
    while True:
        now_s = np.inf
        if counters[NOW_ENDS] > 0:
            now_s = timeline.end_s[0]
        if counters[NOW_NODE] < len(timeline.node_s):
            now_s = min(now_s, timeline.node_s[counters[NOW_NODE]])
        if counters[NOW_SUBMITTED] < count:
            now_s = min(now_s, jobs.submit_s[counters[NOW_SUBMITTED]])
        if now_s == np.inf:
            return DONE
        if (
            counters[NOW_SUBMITTED] == count
            and counters[NOW_ENDS] == 0
            and (counters[NOW_WAITING] == 0)
        ):
            # Nothing but nodes is left to change.
            return DONE
        unsubmitted = count - counters[NOW_SUBMITTED]
        entries = 3 * unsubmitted + 2 * counters[NOW_WAITING] + 4 * counters[NOW_RUNNING]
        if counters[NOW_LOG] + entries + len(timeline.node_s) > len(log.time_s):
            return LOG_FULL
        while (
            counters[NOW_SAMPLE] < len(timeline.sample_s)
            and timeline.sample_s[counters[NOW_SAMPLE]] < now_s
        ):
            sample(fleet, timeline, counters)
        returned = False
        while counters[NOW_ENDS] > 0 and timeline.end_s[0] == now_s:
            job = timeline.end_job[0]
            run = timeline.end_run[0]
            drop_first_end(timeline, counters)
            if run != jobs.run[job]:
                continue
            begin = jobs.task_offsets[job]
            note(log, counters, now_s, ENDED, job, jobs.task_node[begin])
            end = jobs.task_offsets[job + 1]
            give_back_tasks(fleet, classes, cache, jobs, draws, begin, end)
            stop(jobs, timeline, counters, job)
            jobs.end_s[job] = now_s
            returned = True
        while (
            counters[NOW_NODE] < len(timeline.node_s)
            and timeline.node_s[counters[NOW_NODE]] == now_s
        ):
            node_event(
                fleet,
                classes,
                cache,
                jobs,
                queue,
                timeline,
                draws,
                log,
                counters,
                checkpoint_s,
                restart_s,
            )
            returned = True
        while counters[NOW_SUBMITTED] < count and (jobs.submit_s[counters[NOW_SUBMITTED]] == now_s):
            job = counters[NOW_SUBMITTED]
            counters[NOW_SUBMITTED] = job + 1
            note(log, counters, now_s, SUBMITTED, job, -1)
            push(queue, jobs, job)
            counters[NOW_WAITING] += 1
        if returned or backfill >= EASY:
            for shape in range(len(queue.blocked)):
                queue.blocked[shape] = False
            forget_reservations(kept, counters)
        bad = schedule(
            score,
            fleet,
            classes,
            cache,
            parameters,
            jobs,
            queue,
            timeline,
            draws,
            kept,
            log,
            counters,
            now_s,
            backfill,
            uniform_ties,
            uniform_units,
            chance,
        )
        if bad < 0:
            return BAD_SCORE
        steps += 1
        if watched and steps >= events_max:
            return MORE
