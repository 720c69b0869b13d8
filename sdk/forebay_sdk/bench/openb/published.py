"""The published results on the openb traces: 17 traces, 6 policies, 10 seeds.

They are the authors' own files, one row a run and one column a bin of arrived load.

Axes: ``S`` seeds, rising; ``B`` bins of arrived load, whole per cent from 0.

References
----------
Weng, Yang, Yu, Wang, Tang, Yang, Zhang: Beware of Fragmentation: Scheduling GPU-Sharing Workloads
with Fragmentation Gradient Descent, USENIX ATC 2023, figures 7, 9 and 11 to 14.
Files: hkust-adsl/kubernetes-scheduler-simulator, ``experiments/analysis/expected_results``.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from forebay.errors import Fault, InputError, NotFoundError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POLICIES = {
    "random": "01-Random",
    "dot-product": "02-DotProd",
    "gpu-clustering": "03-GpuClustering",
    "gpu-packing": "04-GpuPacking",
    "best-fit": "05-BestFit",
    "fgd": "06-FGD",
}
"""Our name of each published policy, and the files' in column ``sc_policy``."""

TRACE_PREFIX = "openb_pod_list_"
"""What the files put before a trace's name in column ``workload``."""


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """One measure over arrived load, for each seed of one trace and policy.

    Parameters
    ----------
    seeds : (S,) int64
    values : (S, B) float64
        Per cent; the mean over all arrivals that fall in the bin.
    """

    seeds: NDArray[np.int64]
    values: NDArray[np.float64]

    def at(self, load_bin: int) -> tuple[float, float]:
        """Return mean and standard deviation over the seeds in a bin, of a sample (divisor S - 1).

        The deviation is NaN for a single seed.

        Raises
        ------
        InputError
            The bin is none of the file's.
        """
        bins = self.values.shape[1]
        if not 0 <= load_bin < bins:
            raise InputError(
                Fault(
                    f"found bin {load_bin}, expected 0 to {bins - 1} per cent of arrived load.",
                    field="bin",
                )
            )
        column = self.values[:, load_bin]
        deviation = float(column.std(ddof=1)) if len(column) > 1 else float("nan")
        return float(column.mean()), deviation


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """The published curves by (trace, policy), under our names: ``("default", "fgd")``.

    Parameters
    ----------
    allocations : mapping
        Allocated GPU as a percentage of all GPU.
    frag_amounts : mapping
        Fragmented GPU as a percentage of all GPU ("Frag / Total").
    frag_ratios : mapping
        Fragmented GPU as a percentage of idle GPU ("Frag Rate").
    """

    allocations: Mapping[tuple[str, str], Curves]
    frag_amounts: Mapping[tuple[str, str], Curves]
    frag_ratios: Mapping[tuple[str, str], Curves]

    @classmethod
    def read(cls, directory: Path) -> Published:
        """Read the three files below ``directory / "published"``; about 0.3 s.

        Raises
        ------
        InputError
            A file is absent or is not what it should be; names file, line and column.
        """
        folder = directory / "published"
        return cls(
            allocations=_read_curves(folder / "analysis_allo_discrete.csv.gz"),
            frag_amounts=_read_curves(folder / "analysis_frag_discrete.csv.gz"),
            frag_ratios=_read_curves(folder / "analysis_frag_ratio_discrete.csv.gz"),
        )

    @property
    def traces(self) -> tuple[str, ...]:
        """The traces that have results, sorted by name."""
        return tuple(sorted({trace for trace, _ in self.allocations}))

    def allocation(self, trace: str, policy: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the seeds, and the allocated GPU per cent of each by bin: (S,) and (S, B).

        Raises
        ------
        NotFoundError
            Nothing is published for this trace and policy; so do the methods below.
        """
        curves = _find(self.allocations, trace, policy)
        return curves.seeds, curves.values

    def unallocated(self, trace: str, policy: str, load_bin: int) -> tuple[float, float]:
        """Return mean and sd over the seeds of the GPU left unallocated, per cent of all GPU."""
        mean, deviation = _find(self.allocations, trace, policy).at(load_bin)
        return 100 - mean, deviation

    def frag_amount(self, trace: str, policy: str, load_bin: int) -> tuple[float, float]:
        """Return mean and sd over the seeds of the fragmented GPU, per cent of all GPU."""
        return _find(self.frag_amounts, trace, policy).at(load_bin)

    def frag_ratio(self, trace: str, policy: str, load_bin: int) -> tuple[float, float]:
        """Return mean and sd over the seeds of the fragmented GPU, per cent of idle GPU."""
        return _find(self.frag_ratios, trace, policy).at(load_bin)


def _find(curves: Mapping[tuple[str, str], Curves], trace: str, policy: str) -> Curves:
    found = curves.get((trace, policy))
    if found is None:
        traces = ", ".join(sorted({name for name, _ in curves}))
        raise NotFoundError(
            f"nothing is published for trace {trace!r} and policy {policy!r}",
            fix=f"Choose one of the traces {traces} and of the policies {', '.join(POLICIES)}.",
        )
    return found


def _read_curves(path: Path) -> dict[tuple[str, str], Curves]:
    """Return the curves of one file, their seeds sorted."""
    import numpy as np

    names = {published: ours for ours, published in POLICIES.items()}
    runs: dict[tuple[str, str], dict[int, NDArray[np.float64]]] = {}
    for line, row in _read_rows(path):
        bins = [value for column, value in row.items() if column.isdecimal()]
        try:
            policy = names[row["sc_policy"]]
            seed = int(row["seed"])
            values = np.array(bins, dtype=np.float64)
        except (KeyError, ValueError) as error:
            raise _fault(path, f"found {error}, which is no known value of its column", line) from (
                error
            )
        if not np.isfinite(values).all():
            raise _fault(path, "found a bin that is no finite number", line)
        key = row["workload"].removeprefix(TRACE_PREFIX), policy
        if seed in runs.setdefault(key, {}):
            raise _fault(path, f"found seed {seed} of {key} a second time", line)
        runs[key][seed] = values
    if not runs:
        raise _fault(path, "found no result")
    return {
        key: Curves(
            np.array(sorted(by_seed), dtype=np.int64),
            np.stack([by_seed[seed] for seed in sorted(by_seed)]),
        )
        for key, by_seed in runs.items()
    }


def _read_rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Return each row with its line, columns by name; every row has every column."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
    # Bytes that do not decompress come as EOFError, or as OSError like a file not there.
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise _fault(path, f"could not be read: {error}") from error
    header = lines[0] if lines else []
    missing = [name for name in ("workload", "sc_policy", "seed", "0") if name not in header]
    if missing:
        raise _fault(path, f"found no column {', '.join(missing)}", 1)
    for number, row in enumerate(lines[1:], start=2):
        if len(row) != len(header):
            raise _fault(path, f"found {len(row)} columns, expected {len(header)}", number)
    return [
        (number, dict(zip(header, row, strict=True)))
        for number, row in enumerate(lines[1:], start=2)
    ]


def _fault(path: Path, message: str, line: int | None = None) -> InputError:
    return InputError(
        Fault(
            f"{message}.",
            source=str(path),
            line=line,
            fix="Fetch the published results again; the README beside them has their checksums.",
        )
    )
