"""The recorded traces are read whole, and are as their authors count them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from forebay import DeviceKind, Operator
from forebay_sdk.traces import Trace
from forebay_sdk.traces.capacity import hosting_nodes
from forebay_sdk.traces.dlrm import dlrm_fleet, read_dlrm
from forebay_sdk.traces.openb import read_openb_nodes, read_openb_tasks
from forebay_sdk.traces.philly import read_philly

pytestmark = pytest.mark.shared_data


def asked(trace: Trace, kind: DeviceKind) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return what each task asks for of a kind, in thousandths."""
    millis = [
        sum(item.millis for item in request.items if item.kind is kind)
        for request in trace.requests
    ]
    return np.array(millis, np.int64)[trace.task_request]


def test_openb_is_as_its_authors_count_it(shared_data: Path) -> None:
    folder = shared_data / "alibaba-gpu-v2023" / "csv"
    fleet, refused = read_openb_nodes(folder / "openb_node_list_gpu_node.csv.gz")
    assert not refused
    assert len(fleet) == 1213
    gpus = [sum(device.count for device in shape.devices) for shape in fleet.shapes]
    cores = [shape.cpu_millis for shape in fleet.shapes]
    assert np.array(gpus)[fleet.node_shape].sum() == 6212
    assert np.array(cores)[fleet.node_shape].sum() == 107_018_000
    trace = read_openb_tasks(folder / "openb_pod_list_default.csv.gz")
    assert not trace.refused
    assert (trace.submit_s == np.arange(8152)).all()
    millis = asked(trace, DeviceKind.GPU)
    assert [
        int((millis == 0).sum()),
        int(((millis > 0) & (millis < 1000)).sum()),
        int((millis == 1000).sum()),
        int((millis > 1000).sum()),
    ] == [1088, 3078, 3911, 75]


def test_every_openb_trace_is_read_whole(shared_data: Path) -> None:
    folder = shared_data / "alibaba-gpu-v2023" / "csv"
    orders = np.load(shared_data / "alibaba-gpu-v2023" / "arrival_orders.npz")
    paths = sorted(folder.glob("openb_pod_list_*.csv.gz"))
    assert len(paths) == 17
    for path in paths:
        trace = read_openb_tasks(path)
        assert not trace.refused
        name = path.name.removeprefix("openb_pod_list_").removesuffix(".csv.gz")
        # The published orders of arrival number the tasks as they come by name.
        assert orders[f"{name}_42"].max() < len(trace)
    constrained = read_openb_tasks(folder / "openb_pod_list_gpuspec33.csv.gz")
    chosen = [request.device_selectors for request in constrained.requests]
    share = np.array([bool(one) for one in chosen])[constrained.task_request]
    assert share[asked(constrained, DeviceKind.GPU) > 0].mean() == pytest.approx(0.33, abs=0.01)
    assert {one[0].operator for one in chosen if one} == {Operator.IN, Operator.EQUAL}


def test_openb_with_its_times_keeps_every_task(shared_data: Path) -> None:
    folder = shared_data / "alibaba-gpu-v2023" / "csv"
    trace = read_openb_tasks(folder / "openb_pod_list_default.csv.gz", timed=True)
    assert len(trace) == 8152
    assert not trace.refused
    assert trace.submit_s[-1] < 150 * 86_400


def test_philly_is_as_its_readme_counts_it(shared_data: Path) -> None:
    trace = read_philly(shared_data / "philly-queue" / "philly_jobs.csv.gz")
    assert len(trace) == 82_247
    assert not trace.refused
    gpus = np.add.reduceat(asked(trace, DeviceKind.GPU), trace.task_offsets[:-1]) // 1000
    assert (gpus == 1).mean() == pytest.approx(0.932, abs=0.0005)
    assert gpus.max() == 128
    assert np.diff(trace.task_offsets).max() == 16
    assert trace.duration_s.mean() == pytest.approx(13_136, abs=1)
    assert np.median(trace.duration_s) == pytest.approx(1144, abs=1)
    demand = (gpus * trace.duration_s).sum() / trace.submit_s[-1]
    assert demand == pytest.approx(374, abs=1)


def test_dlrm_is_as_its_readme_counts_it(shared_data: Path) -> None:
    path = shared_data / "alibaba-gpu-v2025-dlrm" / "disaggregated_DLRM_trace.csv.gz"
    trace = read_dlrm(path)
    assert len(trace) == 16_591
    assert {fault.field for fault in trace.refused} == {"creation_time"}
    everything = read_dlrm(path, standing=True)
    assert not everything.refused
    assert len(everything) == 23_871
    gpu = asked(everything, DeviceKind.GPU)
    assert [int((gpu == 0).sum()), int((gpu == 1000).sum())] == [16_485, 7386]
    interface = asked(everything, DeviceKind.RDMA_NIC)
    assert interface.sum() == (290_879 + 205_801) * 10
    # The fleet that we propose can hold each of them.
    assert (hosting_nodes(dlrm_fleet(1, 1), everything.requests) > 0).all()
