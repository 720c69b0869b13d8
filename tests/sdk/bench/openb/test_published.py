"""The published results are read as the paper and its artefact tell them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from forebay.errors import InputError, NotFoundError
from forebay_sdk.bench.openb.published import POLICIES, Published

# Unallocated GPU per cent at arrived load 100: random, dot-product, gpu-clustering, gpu-packing,
# best-fit, fgd, and the standard deviation of the last.
AT_LOAD_100 = """
default     13.70  9.38  8.35  8.22  7.14  4.77 0.11
cpu050      10.98  6.97  6.48  6.54  6.44  5.00 0.11
cpu100      12.56  8.27  7.59  7.51  6.74  4.79 0.14
cpu200      16.97 12.54 10.33 10.02  7.85  5.18 0.16
cpu250      20.00 16.43 12.25 11.95  8.79  6.80 0.29
gpushare40  15.14 10.70 10.24 10.23  8.56  6.04 0.07
gpushare60  17.19 13.18 13.10 12.85 10.94  8.74 0.13
gpushare80  19.38 15.86 15.50 15.35 13.34 10.92 0.11
gpushare100 21.10 18.02 17.78 17.87 15.38 13.36 0.16
gpuspec10   13.74  9.83  8.04  7.76  6.90  5.34 0.19
gpuspec20   14.10 11.71 10.89 10.72 11.54  5.34 0.13
gpuspec25   14.58 14.56 13.59 13.23 14.33  6.09 0.11
gpuspec33   16.13 20.18 18.91 17.78 19.60 12.16 0.18
multigpu20  13.08  8.15  6.66  6.50  6.27  4.47 0.16
multigpu30  13.37  6.89  5.45  5.30  5.43  3.64 0.10
multigpu40  14.62  5.96  4.65  4.41  4.90  3.09 0.10
multigpu50  18.72  5.27  4.31  3.94  4.38  2.91 0.11
"""

# Default trace: unallocated at load 90, 95, 110, 120, 130; fragmentation amount at 0, 60, 100,
# 120; fragmentation ratio at 60, 90, 100.
DEFAULT = """
random         14.98 14.28 13.12 12.72 12.53 13.97 15.45 13.49 12.61 38.4 96.6 98.4
dot-product    10.02  9.42  9.30  9.24  9.15 14.08 11.43  9.30  9.16 28.6 94.2 99.2
gpu-clustering 10.02  8.40  8.27  8.20  8.12 13.92 11.19  8.21  8.08 28.0 84.3 98.4
gpu-packing    10.02  8.26  8.15  8.08  8.00 13.93 11.12  8.13  7.99 27.8 83.6 98.9
best-fit       10.01  7.18  7.06  7.00  6.92 14.04  9.97  7.05  6.92 24.9 74.1 98.8
fgd            10.02  5.09  4.70  4.65  4.61 13.88  7.96  4.73  4.61 19.9 50.0 99.1
"""


def table(text: str) -> list[tuple[str, list[float]]]:
    rows = (line.split() for line in text.strip().splitlines())
    return [(name, [float(value) for value in values]) for name, *values in rows]


@pytest.fixture(scope="module")
def published(shared_data: Path) -> Published:
    return Published.read(shared_data / "alibaba-gpu-v2023")


@pytest.mark.shared_data
@pytest.mark.parametrize(("trace", "expected"), table(AT_LOAD_100))
def test_all_traces_at_load_100(published: Published, trace: str, expected: list[float]) -> None:
    found = [published.unallocated(trace, policy, 100) for policy in POLICIES]
    assert [mean for mean, _ in found] == pytest.approx(expected[:6], abs=0.0051)
    assert found[-1][1] == pytest.approx(expected[6], abs=0.0051)


@pytest.mark.shared_data
@pytest.mark.parametrize(("policy", "expected"), table(DEFAULT))
def test_the_default_trace_over_load(
    published: Published, policy: str, expected: list[float]
) -> None:
    left = [published.unallocated("default", policy, bin_)[0] for bin_ in (90, 95, 110, 120, 130)]
    amount = [published.frag_amount("default", policy, bin_)[0] for bin_ in (0, 60, 100, 120)]
    ratio = [published.frag_ratio("default", policy, bin_)[0] for bin_ in (60, 90, 100)]
    assert left == pytest.approx(expected[:5], abs=0.0051)
    assert amount == pytest.approx(expected[5:9], abs=0.0051)
    assert ratio == pytest.approx(expected[9:], abs=0.051)


@pytest.mark.shared_data
def test_each_seed_of_fgd_on_default(published: Published) -> None:
    seeds, allocation = published.allocation("default", "fgd")
    assert seeds.tolist() == list(range(42, 52))
    assert allocation.shape == (10, 131)
    assert allocation[:, 100].tolist() == [
        95.14,
        95.06,
        95.29,
        95.38,
        95.35,
        95.14,
        95.18,
        95.30,
        95.15,
        95.28,
    ]


@pytest.mark.shared_data
def test_every_run_is_there(published: Published) -> None:
    assert set(published.traces) == {name for name, _ in table(AT_LOAD_100)}
    for curves in (published.allocations, published.frag_amounts, published.frag_ratios):
        assert len(curves) == 17 * 6
        assert all(found.values.shape == (10, 131) for found in curves.values())


@pytest.mark.shared_data
def test_nothing_departs_and_no_more_is_allocated_than_has_arrived(published: Published) -> None:
    latest_load = np.arange(131) + 0.5
    rounding = 0.005
    for found in published.allocations.values():
        assert (np.diff(found.values, axis=1) >= 0).all()
        assert (found.values <= latest_load + rounding).all()


HEADER = "workload,sc_policy,tune,seed,0,1\n"
GOOD = "openb_pod_list_tiny,06-FGD,1.3,43,1.0,3.0\nopenb_pod_list_tiny,06-FGD,1.3,42,0.0,2.0\n"


def write(directory: Path, frag: str) -> Path:
    (directory / "published").mkdir()
    for name, text in (("allo", HEADER + GOOD), ("frag", frag), ("frag_ratio", HEADER + GOOD)):
        path = directory / "published" / f"analysis_{name}_discrete.csv.gz"
        path.write_bytes(gzip.compress(text.encode()))
    return directory


def test_seeds_are_sorted_whatever_the_order_of_rows(tmp_path: Path) -> None:
    found = Published.read(write(tmp_path, HEADER + GOOD))
    seeds, values = found.allocation("tiny", "fgd")
    assert seeds.tolist() == [42, 43]
    assert values.tolist() == [[0, 2], [1, 3]]
    assert found.unallocated("tiny", "fgd", 1) == pytest.approx((97.5, 0.5**0.5))


@pytest.mark.parametrize(
    ("frag", "place", "message"),
    [
        ("", ":1:", "found no column workload, sc_policy, seed, 0"),
        (HEADER, "", "found no result"),
        (HEADER + GOOD + "openb_pod_list_tiny,06-FGD,1.3,44,1.0\n", ":4:", "found 5 columns"),
        (HEADER + GOOD.replace("06-FGD", "07-New"), ":2:", "found '07-New'"),
        (HEADER + GOOD.replace("3.0", "three"), ":2:", "three"),
        (HEADER + GOOD.replace("3.0", "nan"), ":2:", "no finite number"),
        (HEADER + GOOD.replace("43", "42"), ":3:", "seed 42"),
    ],
)
def test_a_broken_file_is_refused_with_its_place(
    tmp_path: Path, frag: str, place: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        Published.read(write(tmp_path, frag))
    assert f"analysis_frag_discrete.csv.gz{place}" in str(caught.value)
    assert message in str(caught.value)


def test_a_folder_without_results_and_bytes_that_do_not_decompress(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="could not be read"):
        Published.read(tmp_path)
    broken = write(tmp_path, HEADER + GOOD) / "published" / "analysis_allo_discrete.csv.gz"
    broken.write_bytes(broken.read_bytes()[:-12])
    with pytest.raises(InputError, match="could not be read"):
        Published.read(tmp_path)


def test_what_is_not_published_is_told(tmp_path: Path) -> None:
    found = Published.read(write(tmp_path, HEADER + GOOD))
    with pytest.raises(NotFoundError, match="trace 'tiny' and policy 'best-fit'") as caught:
        found.unallocated("tiny", "best-fit", 1)
    assert "gpu-packing" in caught.value.fix
    with pytest.raises(InputError, match="found bin 2, expected 0 to 1"):
        found.frag_amount("tiny", "fgd", 2)
