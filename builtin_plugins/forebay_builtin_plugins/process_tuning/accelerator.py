"""Settings of a process that match its lease: threads, cores, NUMA node."""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from forebay import (
    GAIN_MIN,
    MILLIS_PER_UNIT,
    Accelerator,
    Artifact,
    Capability,
    Device,
    DeviceKind,
    Estimate,
    Evidence,
    Lease,
    Plan,
    PluginContext,
    StateError,
    Subject,
    SubjectKind,
    Trial,
    UnsupportedError,
)
from forebay_builtin_plugins.process_tuning.measure import (
    THREAD_VARIABLES,
    Oversubscription,
    measure,
)


class ProcessTuning(Accelerator):
    """Keeps a process from starting more threads than it has cores, or reaching far for memory.

    The gain is estimated from a measurement on this very machine, made by ``probe`` and kept;
    without one, and where the estimate is under 1.1, it declines.

    Parameters
    ----------
    context : PluginContext
    """

    name = "process-tuning"
    subjects = (SubjectKind.PROCESS,)

    def __init__(self, context: PluginContext) -> None:
        self._path = Path(context.state_directory) / "oversubscription.json"

    def probe(self) -> Sequence[Capability]:
        """Measure what too many threads cost here, unless that is known."""
        cpus = sorted(os.sched_getaffinity(0))
        numa = _numa_nodes()
        numactl = shutil.which("numactl") is not None
        known = self._known()
        reason = ""
        if len(cpus) < 2:
            reason = "there is one CPU, so no work has less than all of them."
        elif known is None:
            try:
                measured = measure()
                self._path.write_text(json.dumps({"machine": machine(), **asdict(measured)}))
            except (OSError, ValueError) as error:
                reason = str(error)
            else:
                known = measured
        return [
            Capability(
                "threads",
                available=known is not None,
                parameters={} if known is None else asdict(known),
                reason=reason,
            ),
            Capability(
                "numa-binding",
                available=numa > 1 and numactl,
                parameters={"numa_nodes": numa},
                reason="there is one NUMA node."
                if numa <= 1
                else ("" if numactl else "the program numactl is not installed."),
            ),
        ]

    def estimate(
        self, subject: Subject, lease: Lease, devices: Sequence[Device]
    ) -> Estimate | None:
        """Scale the measured cost by how many threads would share a core.

        The measurement is of work that does nothing but compute, so it is the most to be had.

        Work whose user has set a thread variable is left alone, and so is all work
        where the variable stands in the host's own environment, which local work inherits.
        """
        known = self._known()
        cores = leased_cores(lease, devices)
        if known is None or subject.kind is not SubjectKind.PROCESS or cores == 0:
            return None
        if any(name in subject.environment or name in os.environ for name in THREAD_VARIABLES):
            return None
        measured_excess = known.cpus / known.cores - 1
        excess = known.cpus / cores - 1
        if excess <= 0 or measured_excess <= 0:
            return None
        # Linear in the excess and no more than was measured: a cautious reading.
        share = min(excess / measured_excess, 1.0)
        baseline_s = known.tuned_s + (known.plain_s - known.tuned_s) * share
        estimate = Estimate(
            baseline_s,
            known.tuned_s,
            f"two matrix products side by side, with {known.cpus} threads each against "
            f"{known.cores} pinned, measured on this machine and scaled to {cores} core(s)",
        )
        return estimate if estimate.gain >= GAIN_MIN else None

    def plan(
        self, subject: Subject, lease: Lease, devices: Sequence[Device], estimate: Estimate
    ) -> Plan:
        """Choose one thread a core, the CPUs set aside for the work, and their NUMA node."""
        cpus = str(subject.parameters.get("cpus", ""))
        settings: dict[str, bool | int | float | str | tuple[int, ...]] = {
            "threads": leased_cores(lease, devices),
            "cpus": tuple(int(cpu) for cpu in cpus.split(",") if cpu),
        }
        nodes = {device.numa_node for device in devices if device.kind is DeviceKind.CPU}
        node = nodes.pop() if len(nodes) == 1 else None
        if node is not None and _numa_nodes() > 1 and shutil.which("numactl"):
            settings["numa_node"] = node
        return Plan(self.name, subject, settings, estimate)

    def render(self, plan: Plan, target: str) -> Sequence[Artifact]:
        """Put the plan as variables, CPUs to keep to, and numactl where it is to be used."""
        if target != "local":
            raise UnsupportedError(
                f"{self.name} cannot render for {target}; it knows the engine local."
            )
        environment = {
            name: str(plan.settings["threads"])
            for name in THREAD_VARIABLES
            if name not in plan.subject.environment
        }
        prefix: tuple[str, ...] = ()
        if "numa_node" in plan.settings:
            # Preferred, not bound: work that needs more memory than the node has must still run.
            prefix = ("numactl", f"--preferred={plan.settings['numa_node']}")
        cpus = plan.settings.get("cpus", ())
        assert isinstance(cpus, tuple)
        return [Artifact(environment=environment, command_prefix=prefix, cpus=cpus)]

    def verify(self, plan: Plan, trials: Sequence[Trial]) -> Evidence:
        """Compare medians of the trials with and without the plan."""
        tuned = [trial.duration_s for trial in trials if trial.accelerated]
        plain = [trial.duration_s for trial in trials if not trial.accelerated]
        if not tuned or not plain:
            raise StateError(
                f"found {len(tuned)} trial(s) with the plan and {len(plain)} without.",
                fix="Run the work at least once each way.",
            )
        return Evidence(
            "process_duration",
            statistics.median(tuned),
            "s",
            f"median of {len(tuned)} run(s) with {plan.settings['threads']} thread(s), "
            f"baseline median of {len(plain)} run(s) with the library's default",
            baseline=statistics.median(plain),
            versions={"python": platform.python_version()},
            machine=machine(),
            time_s=time.time(),
        )

    def _known(self) -> Oversubscription | None:
        """Return what was measured on this machine, None if nothing was."""
        try:
            kept: Mapping[str, object] = json.loads(self._path.read_text())
            if kept["machine"] != machine():
                return None
            known = Oversubscription(
                cpus=int(str(kept["cpus"])),
                cores=int(str(kept["cores"])),
                plain_s=float(str(kept["plain_s"])),
                tuned_s=float(str(kept["tuned_s"])),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        sound = all(0 < value < math.inf for value in asdict(known).values())
        return known if sound else None


def leased_cores(lease: Lease, devices: Sequence[Device]) -> int:
    """Return the whole cores of a lease, at least one if there is any; 0 without a CPU."""
    cpus = {device.id for device in devices if device.kind is DeviceKind.CPU}
    millis = sum(draw.millis for draw in lease.draws if draw.device in cpus)
    return -(-millis // MILLIS_PER_UNIT)


def _numa_nodes() -> int:
    return len(list(Path("/sys/devices/system/node").glob("node[0-9]*")))


def machine() -> str:
    """Return what tells machines apart: node, architecture, usable CPUs and kernel."""
    uname = platform.uname()
    return f"{uname.node} {uname.machine} {len(os.sched_getaffinity(0))} CPUs {uname.release}"
