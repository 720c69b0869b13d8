"""Measures what it costs when every process starts a thread for each CPU of the machine.

That is what numerical libraries do unless they are told otherwise, however small their share.
The workload is numpy's matrix product, run by two processes side by side, each with half of the
CPUs as its lease: once as they come, once pinned to their half with a thread for each of its CPUs.
The two variants take turns, so that neither has the quieter machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

REPEATS = 2
MATRIX = 256
PRODUCTS = 30
DEADLINE_S = 20.0

# Waits for a line before it begins, so that all copies run at the same time.
_WORKLOAD = """
import os, sys, time
if sys.argv[1]:
    os.sched_setaffinity(0, [int(cpu) for cpu in sys.argv[1].split(",")])
import numpy
a = numpy.random.default_rng(0).random((int(sys.argv[2]), int(sys.argv[2])))
a @ a
print("ready", flush=True)
sys.stdin.readline()
began = time.perf_counter()
for _ in range(int(sys.argv[3])):
    a @ a
print(time.perf_counter() - began)
"""

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
"""What the common numerical libraries read their number of threads from."""


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


def measure(repeats: int = REPEATS) -> Oversubscription:
    """Measure on the CPUs that this process may use, of which there must be two or more.

    Raises
    ------
    OSError
        The workload could not be run.
    """
    cpus = sorted(os.sched_getaffinity(0))
    half = len(cpus) // 2
    halves = (cpus[:half], cpus[half : 2 * half])
    plain: list[float] = []
    tuned: list[float] = []
    for _ in range(repeats):
        plain.append(run_together(((), ()), threads=len(cpus)))
        tuned.append(run_together(halves, threads=half))
    return Oversubscription(len(cpus), half, statistics.median(plain), statistics.median(tuned))


def run_together(pins: Sequence[Sequence[int]], threads: int) -> float:
    """Run a copy of the workload on each set of CPUs at once; returns seconds of the slowest.

    Parameters
    ----------
    pins : sequence of sequence of int
        CPUs of each copy; empty leaves it free.
    threads : int
        Threads of each copy.
    """
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))}
    copies = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKLOAD, ",".join(map(str, cpus)), str(MATRIX), str(PRODUCTS)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for cpus in pins
    ]
    try:
        for copy in copies:
            assert copy.stdout is not None
            copy.stdout.readline()
        for copy in copies:
            assert copy.stdin is not None
            copy.stdin.write("\n")
            copy.stdin.flush()
        return max(_seconds(copy) for copy in copies)
    finally:
        for copy in copies:
            copy.kill()
            copy.wait()


def _seconds(copy: subprocess.Popen[str]) -> float:
    try:
        output, errors = copy.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        raise OSError(f"the workload took more than {DEADLINE_S:g} s") from None
    if copy.returncode != 0:
        last = errors.strip().splitlines()[-1:] or ["no output"]
        raise OSError(f"the workload failed: {last[0]}")
    return float(output)
