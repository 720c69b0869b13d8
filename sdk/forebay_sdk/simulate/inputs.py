"""What is simulated: a trace and a fleet, recorded or drawn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forebay.errors import Fault, InputError
from forebay_sdk.traces import Fleet, Trace

FORMATS = ("dlrm", "openb", "philly", "swf", "synthetic")


@dataclass(frozen=True, slots=True)
class Inputs:
    """A trace, and the fleet that it is replayed on.

    Parameters
    ----------
    trace : Trace
    fleet : Fleet
    """

    trace: Trace
    fleet: Fleet


def read_inputs(
    path: Path | None,
    form: str,
    *,
    fleet: Path | None,
    nodes: int,
    jobs: int,
    load: float,
    seed: int,
) -> Inputs:
    """Read or draw what is simulated.

    Parameters
    ----------
    path : Path, optional
        File of the trace; none where it is drawn.
    form : str
        One of :data:`FORMATS`.
    fleet : Path, optional
        File of nodes, in openb's format.
    nodes : int
        How many nodes where there is no such file.
    jobs : int
    load : float
    seed : int
        Of what is drawn.

    Raises
    ------
    InputError
        A file is missing or cannot be read, or the format is unknown.
    """
    from forebay_sdk.traces import synthetic

    if form not in FORMATS:
        raise InputError(Fault(f"found {form!r}, expected {', '.join(FORMATS)}.", field="--format"))
    if form == "synthetic":
        drawn = _fleet(fleet) or synthetic.synthetic_fleet(nodes, seed)
        return Inputs(synthetic.synthetic_trace(drawn, jobs, seed, load=load), drawn)
    if path is None:
        raise InputError(
            Fault(
                f"found no file, expected one in format {form}.",
                field="TRACE",
                fix="Name the file, or use --format synthetic.",
            )
        )
    if form == "openb":
        from forebay_sdk.traces.openb import read_openb_tasks

        return Inputs(
            read_openb_tasks(path, timed=True),
            _fleet(fleet) or synthetic.synthetic_fleet(nodes, seed),
        )
    if form == "dlrm":
        from forebay_sdk.traces.dlrm import dlrm_fleet, read_dlrm

        return Inputs(read_dlrm(path), dlrm_fleet(nodes - nodes // 3, nodes // 3))
    if form == "philly":
        from forebay_sdk.traces.philly import GPUS_PER_NODE, philly_fleet, read_philly

        return Inputs(read_philly(path), _fleet(fleet) or philly_fleet(nodes * GPUS_PER_NODE))
    from forebay_sdk.traces.swf import cpu_fleet, read_swf

    return Inputs(read_swf(path, CORES_PER_NODE), cpu_fleet(nodes, CORES_PER_NODE))


CORES_PER_NODE = 64
"""Of the nodes that a workload without a fleet is replayed on."""


def _fleet(path: Path | None) -> Fleet | None:
    if path is None:
        return None
    from forebay_sdk.traces.openb import read_openb_nodes

    fleet, refused = read_openb_nodes(path)
    if refused:
        raise InputError(refused)
    return fleet
