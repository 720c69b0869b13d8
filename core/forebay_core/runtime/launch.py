"""Starts the work of a lease: devices prepared, accelerators applied, engine told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from forebay import (
    GAIN_MIN,
    Accelerator,
    Artifact,
    Device,
    DeviceAccess,
    DeviceId,
    Engine,
    ForebayError,
    HardwareAdapter,
    JobSpec,
    Lease,
    Subject,
    SubjectKind,
    WorkOrder,
    WorkStatus,
)
from forebay_core.plugins import Offered


def launch(
    lease: Lease,
    spec: JobSpec,
    *,
    devices: Mapping[DeviceId, Device],
    adapters: Sequence[HardwareAdapter],
    accelerators: Sequence[Offered[Accelerator]],
    engine: Engine,
    tell: Callable[[str], None] = lambda _message: None,
) -> WorkStatus:
    """Start the work of a lease; idempotent, as its parts are.

    Parameters
    ----------
    lease : Lease
    spec : JobSpec
    devices : mapping of DeviceId to Device
        At least those drawn from.
    adapters : sequence of HardwareAdapter
        Those whose devices are drawn from.
    accelerators : sequence of Offered
        All there are; ``spec.accelerators`` tells which may be applied.
    engine : Engine
    tell : callable
        Told of each accelerator that is applied.

    Raises
    ------
    ForebayError
        Nothing was started.
    """
    access = merge_access([adapter.prepare(lease) for adapter in adapters])
    drawn = [devices[draw.device] for draw in lease.draws if draw.device in devices]
    for offered in accelerators:
        if "*" in spec.accelerators or offered.name in spec.accelerators:
            subject = Subject(
                SubjectKind.PROCESS,
                spec.command,
                spec.environment,
                {"cpus": ",".join(map(str, access.cpus))},
            )
            for artifact in _accelerate(offered.object, engine.name, subject, lease, drawn, tell):
                spec, access = _apply(artifact, spec, access)
    return engine.submit(WorkOrder(lease, spec, access))


def merge_access(parts: Sequence[DeviceAccess]) -> DeviceAccess:
    """Join what several adapters prepared for one lease.

    Raises
    ------
    ForebayError
        Two adapters set the same variable to different values.
    """
    environment: dict[str, str] = {}
    for part in parts:
        for name, value in part.environment.items():
            if environment.setdefault(name, value) != value:
                raise ForebayError(
                    f"two adapters set {name}: to {environment[name]!r} and to {value!r}.",
                    fix="Ask for one of the two kinds only, or disable one of the adapters.",
                )
    return DeviceAccess(
        environment=environment,
        device_nodes=tuple(node for part in parts for node in part.device_nodes),
        mounts=tuple(mount for part in parts for mount in part.mounts),
        cpus=tuple(sorted({cpu for part in parts for cpu in part.cpus})),
        enforced=tuple(sorted({limit for part in parts for limit in part.enforced})),
    )


def _accelerate(
    accelerator: Accelerator,
    target: str,
    subject: Subject,
    lease: Lease,
    devices: Sequence[Device],
    tell: Callable[[str], None],
) -> Sequence[Artifact]:
    """Return what to apply; nothing where the gain is small or the accelerator fails.

    Work must not suffer from a plugin that was only to make it faster,
    and the plugin manager has noted the failure.
    """
    try:
        estimate = accelerator.estimate(subject, lease, devices)
        if estimate is None or estimate.gain < GAIN_MIN:
            return ()
        plan = accelerator.plan(subject, lease, devices, estimate)
        artifacts = accelerator.render(plan, target)
        tell(
            f"accelerator {accelerator.name} is applied: "
            f"{estimate.gain:.1f} times faster by {estimate.method}"
        )
        return artifacts
    except ForebayError:
        return ()


def _apply(artifact: Artifact, spec: JobSpec, access: DeviceAccess) -> tuple[JobSpec, DeviceAccess]:
    spec = replace(
        spec,
        command=(*artifact.command_prefix, *spec.command),
        # What the user set wins over what an accelerator would.
        environment={**artifact.environment, **spec.environment},
    )
    return spec, replace(access, cpus=artifact.cpus or access.cpus)
