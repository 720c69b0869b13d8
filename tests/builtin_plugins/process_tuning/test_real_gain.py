"""Two processes side by side on this machine, as they come and with the plan: real evidence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from forebay import (
    Device,
    DeviceId,
    DeviceKind,
    Draw,
    Estimate,
    JobId,
    Lease,
    LeaseId,
    NodeId,
    PluginContext,
    Subject,
    SubjectKind,
    Trial,
)
from forebay_builtin_plugins.process_tuning.accelerator import ProcessTuning
from forebay_builtin_plugins.process_tuning.measure import THREAD_VARIABLES

WORK = """
import os, sys, time
if sys.argv[1]:
    os.sched_setaffinity(0, [int(cpu) for cpu in sys.argv[1].split(",")])
import numpy
a = numpy.ones((256, 256))
a @ a
print("ready", flush=True)
sys.stdin.readline()
began = time.perf_counter()
for _ in range(20):
    a @ a
print(time.perf_counter() - began)
"""
"""Work that multiplies matrices once it is told to, and tells how long that took."""

Neighbour = tuple[Mapping[str, str], tuple[int, ...]]
"""Variables and CPUs of one process."""


def duration_s(neighbours: list[Neighbour]) -> float:
    """Return the seconds that the slowest of the processes took, all begun at once."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", WORK, ",".join(map(str, cpus))],
                    env={**os.environ, **environment},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for environment, cpus in neighbours
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        return max(float(process.communicate()[0]) for process in processes)


def test_work_as_it_comes_and_with_the_plan_becomes_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("there is one CPU, so no two processes can have their own.")
    half, names = len(cpus) // 2, [str(cpu) for cpu in cpus]
    socket = Device(DeviceId("cpu"), DeviceKind.CPU, capacity_millis=1000 * len(cpus))
    draws = (Draw(socket.id, 1000 * half),)
    lease = Lease(LeaseId(1), JobId(1), "default", NodeId("n"), draws, created_s=0.0)
    tuning = ProcessTuning(PluginContext("process-tuning", NodeId("n"), {}, str(tmp_path)))
    plans = [
        tuning.plan(
            Subject(SubjectKind.PROCESS, ("python3",), parameters={"cpus": ",".join(own)}),
            lease,
            [socket],
            Estimate(2.0, 1.0, "for the test"),
        )
        for own in (names[:half], names[half : 2 * half])
    ]
    neighbours: list[Neighbour] = []
    for plan in plans:
        (artifact,) = tuning.render(plan, "local")
        assert artifact.environment["OMP_NUM_THREADS"] == str(half)
        neighbours.append((artifact.environment, artifact.cpus))
    trials = []
    for _ in range(2):
        trials.append(Trial(False, duration_s([({}, ()), ({}, ())])))
        trials.append(Trial(True, duration_s(neighbours)))
    evidence = tuning.verify(plans[0], trials)
    assert evidence.value > 0
    assert evidence.baseline is not None
    assert evidence.gain == pytest.approx(evidence.baseline / evidence.value)
    assert evidence.machine
    # Shown by ``pytest -s``: what this machine gains, which no test can promise.
    print(f"\n{evidence.gain:.2f} times as fast: {evidence}")


def test_a_probe_measures_anew_on_another_machine(tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one CPU, so nothing is measured.")
    tuning = ProcessTuning(PluginContext("process-tuning", NodeId("n"), {}, str(tmp_path)))
    file = tmp_path / "oversubscription.json"
    moved = {"machine": "another", "cpus": 64, "cores": 32, "plain_s": 9e9, "tuned_s": 1e9}
    file.write_text(json.dumps(moved))
    threads = tuning.probe()[0]
    assert threads.available
    assert threads.parameters["cpus"] == len(os.sched_getaffinity(0))
    assert float(threads.parameters["plain_s"]) < 1e9
    assert json.loads(file.read_text())["machine"] != "another"
