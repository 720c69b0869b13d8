"""Measures what it costs when every process starts a thread for each CPU of the machine.

That is what numerical libraries do unless they are told otherwise, however small their share.
The workload is numpy's matrix product, run by two processes side by side, each with half of the
CPUs as its lease: once as they come, once pinned to their half with a thread for each of its CPUs.
Both pairs are started once and then take turns, so that neither has the quieter machine
and most of the time goes into the products.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

ROUNDS_MIN = 2
ROUNDS_MAX = 5
BUDGET_S = 1.2
"""No round begins later than this; a probe may take two seconds."""

MATRIX = 256
PRODUCTS = 10
DEADLINE_S = 20.0

# Each line that it reads is a round, so that all copies of a pair begin one together.
_WORKLOAD = """
import os, sys, time
if sys.argv[1]:
    os.sched_setaffinity(0, [int(cpu) for cpu in sys.argv[1].split(",")])
import numpy
a = numpy.random.default_rng(0).random((int(sys.argv[2]), int(sys.argv[2])))
a @ a
print("ready", flush=True)
for line in sys.stdin:
    began = time.perf_counter()
    for _ in range(int(sys.argv[3])):
        a @ a
    print(time.perf_counter() - began, flush=True)
"""

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
"""What the common numerical libraries read their number of threads from.

``OMP_PROC_BIND`` is not among them: every process of the work would bind its first thread
to the same CPU, and work of several processes would be slower for it.
"""


@dataclass(frozen=True, slots=True)
class Oversubscription:
    """What two untuned neighbours cost each other.

    Parameters
    ----------
    cpus : int
        CPUs of the machine, and threads that each process starts by itself.
    cores : int
        CPUs that each process has a right to.
    plain_s, tuned_s : float
        Median duration of the slower process, untuned and tuned.
    """

    cpus: int
    cores: int
    plain_s: float
    tuned_s: float


def measure(rounds: int = ROUNDS_MAX) -> Oversubscription:
    """Measure on the CPUs that this process may use, of which there must be two or more.

    Parameters
    ----------
    rounds : int
        Most rounds of each pair; fewer where the machine is slow.

    Raises
    ------
    OSError
        The workload could not be run.
    """
    began_s = time.monotonic()
    cpus = sorted(os.sched_getaffinity(0))
    half = len(cpus) // 2
    with ExitStack() as stack:
        plain = [_start(stack, (), len(cpus)) for _ in range(2)]
        tuned = [_start(stack, pins, half) for pins in (cpus[:half], cpus[half : 2 * half])]
        for copy in (*plain, *tuned):
            _answer(copy)
        plain_s: list[float] = []
        tuned_s: list[float] = []
        while len(plain_s) < rounds and (
            len(plain_s) < ROUNDS_MIN or time.monotonic() - began_s < BUDGET_S
        ):
            plain_s.append(_round(plain))
            tuned_s.append(_round(tuned))
    return Oversubscription(len(cpus), half, statistics.median(plain_s), statistics.median(tuned_s))


def _start(stack: ExitStack, cpus: Sequence[int], threads: int) -> subprocess.Popen[str]:
    """Start a copy of the workload that ends with the stack, or after the deadline.

    Parameters
    ----------
    stack : ExitStack
    cpus : sequence of int
        CPUs to keep to; empty leaves the copy free.
    threads : int
        Threads of the copy.
    """
    copy = stack.enter_context(
        subprocess.Popen(
            [sys.executable, "-c", _WORKLOAD, ",".join(map(str, cpus)), str(MATRIX), str(PRODUCTS)],
            env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )
    stack.callback(copy.kill)
    deadline = threading.Timer(DEADLINE_S, copy.kill)
    deadline.daemon = True
    deadline.start()
    stack.callback(deadline.cancel)
    return copy


def _round(pair: Sequence[subprocess.Popen[str]]) -> float:
    """Let both copies work at once; returns seconds of the slower one."""
    for copy in pair:
        assert copy.stdin is not None
        copy.stdin.write("\n")
        copy.stdin.flush()
    return max(float(_answer(copy)) for copy in pair)


def _answer(copy: subprocess.Popen[str]) -> str:
    assert copy.stdout is not None
    assert copy.stderr is not None
    line = copy.stdout.readline()
    if not line:
        last = copy.stderr.read().strip().splitlines()[-1:]
        raise OSError(f"the workload failed: {last[0] if last else 'it ended without a word'}.")
    return line
