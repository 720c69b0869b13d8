"""The benchmark's input: fleet, tasks, orders of arrival and of nodes.

Orders are the paper's own where the data has them; for other seeds and other files they are drawn
by the paper's protocol: all tasks shuffled, then tasks drawn with replacement until the next one
would pass 130 % of the fleet's GPUs; where all tasks together pass it, random ones are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from forebay import KIND_INDEX, DeviceKind
from forebay.errors import Fault, InputError
from forebay_core.scheduling import build_batch
from forebay_sdk.traces import Fleet, Trace
from forebay_sdk.traces.openb import read_openb_nodes, read_openb_tasks, trace_name

GPU = KIND_INDEX[DeviceKind.GPU]

TRACES = (
    "default",
    "cpu050",
    "cpu100",
    "cpu200",
    "cpu250",
    "gpushare40",
    "gpushare60",
    "gpushare80",
    "gpushare100",
    "gpuspec10",
    "gpuspec20",
    "gpuspec25",
    "gpuspec33",
    "multigpu20",
    "multigpu30",
    "multigpu40",
    "multigpu50",
)
"""Those with published results."""

TUNE = 1.3
"""Up to how much of the fleet's GPUs tasks arrive."""


@dataclass(frozen=True, slots=True, eq=False)
class Openb:
    """A fleet, a trace, and the orders of a seed.

    Parameters
    ----------
    fleet : Fleet
    trace : Trace
        Tasks in order of name.
    gpu_millis : (J,) int64
        What each task asks for.
    """

    fleet: Fleet
    trace: Trace
    gpu_millis: NDArray[np.int64]
    _orders: Path

    @property
    def capacity_millis(self) -> int:
        """GPUs of the fleet, in thousandths."""
        return sum(
            1000 * device.count * int((self.fleet.node_shape == index).sum())
            for index, shape in enumerate(self.fleet.shapes)
            for device in shape.devices
        )

    def orders(self, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the tasks in order of arrival, and the nodes in the order that breaks ties."""
        key = f"{self.trace.name.removeprefix('openb ')}_{seed}"
        if self._orders.exists():
            with np.load(self._orders) as known:
                if key in known and known[key].max() < len(self.trace):
                    return known[key].astype(np.int64), known[f"{key}_nodeorder"].astype(np.int64)
        return self._draw(np.random.default_rng(seed))

    def _draw(self, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        limit = TUNE * self.capacity_millis
        order = rng.permutation(len(self.trace))
        total = int(self.gpu_millis.sum())
        if total > limit:
            kept = np.cumsum(self.gpu_millis[rng.permutation(order)]) <= limit
            return order[kept], rng.permutation(len(self.fleet))
        mean = max(total / max(len(order), 1), 1.0)
        more = rng.integers(0, len(order), int((limit - total) / mean * 1.5) + 64)
        sums = total + np.cumsum(self.gpu_millis[more])
        return np.concatenate([order, more[sums <= limit]]), rng.permutation(len(self.fleet))


def read_openb(data: Path, trace: str, nodes: Path | None = None) -> Openb:
    """Read the benchmark's input.

    Parameters
    ----------
    data : Path
        Directory with ``csv`` and ``arrival_orders.npz``.
    trace : str
        Name of a published trace, or path of a file in the same format.
    nodes : Path, optional
        Another fleet, in the same format.

    Raises
    ------
    InputError
        A file cannot be read, or rows of it are refused.
    """
    given = Path(trace)
    path = given if given.is_file() else _file(data, f"openb_pod_list_{trace}")
    fleet, refused = read_openb_nodes(nodes or _file(data, "openb_node_list_gpu_node"))
    tasks = read_openb_tasks(path)
    if faults := refused + tasks.refused:
        raise InputError(faults)
    gpu_millis = build_batch(tasks.requests).millis[tasks.task_request, GPU]
    own = given.is_file() and trace_name(path) not in TRACES
    return Openb(fleet, tasks, gpu_millis, Path() if own else data / "arrival_orders.npz")


def _file(data: Path, stem: str) -> Path:
    for path in (data / "csv" / f"{stem}.csv.gz", data / "csv" / f"{stem}.csv"):
        if path.is_file():
            return path
    raise InputError(
        Fault(
            f"there is no csv/{stem}.csv.gz.",
            source=str(data),
            fix=f"Name one of {', '.join(TRACES)}, or a file in the same format.",
        )
    )
