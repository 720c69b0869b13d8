"""The NVIDIA adapter, through the real nvidia-ml-py, against a library that stands in for NVML."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forebay import (
    DeviceId,
    DeviceKind,
    DeviceReport,
    FactState,
    HardwareAdapter,
    LinkKind,
    NodeId,
    PluginTimeoutError,
)
from forebay.documents import read_value
from forebay_core.config import Config
from forebay_core.plugins.gates import Machine
from forebay_core.plugins.manager import PluginManager

SOURCE = Path(__file__).with_name("nvml_stand_in.c")
FIRST, SECOND = (
    DeviceId(f"GPU-00000000-0000-0000-0000-00000000000{number}") for number in range(2)
)

CALL = """
import sys
from pathlib import Path
from forebay import *
from forebay_builtin_plugins.nvidia.adapter import NvidiaAdapter
from forebay_core.plugins.wire import encode
adapter = NvidiaAdapter(Path(sys.argv[1]))
draws = tuple(Draw(DeviceId(device), 1000) for device in sys.argv[3:])
lease = Lease(LeaseId(1), JobId(1), "default", NodeId("n"), draws, 0.0)
calls = {
    "discover": lambda: adapter.discover(),
    "prepare": lambda: adapter.prepare(lease),
    "telemetry": lambda: adapter.telemetry([draw.device for draw in draws]),
}
try:
    print(encode(calls[sys.argv[2]]()).decode())
except DeviceError as error:
    print(encode({"error": type(error).__name__, "message": str(error)}).decode())
"""


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the library, made by the machine's compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler to make the library that stands in for NVML")
    directory = tmp_path_factory.mktemp("nvml")
    library = directory / "libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, SOURCE],
        check=True,
    )
    return directory


def call(stand_in: Path, scenario: str, method: str, *devices: str, root: str = "/nowhere") -> Any:  # noqa: ANN401 - JSON
    environment = {**os.environ, "LD_LIBRARY_PATH": str(stand_in), "NVML_SCENARIO": scenario}
    done = subprocess.run(
        [sys.executable, "-c", CALL, root, method, *devices],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return json.loads(done.stdout)


def discover(stand_in: Path, scenario: str, root: str = "/nowhere") -> DeviceReport:
    report, faults = read_value(DeviceReport, call(stand_in, scenario, "discover", root=root))
    assert not faults
    assert isinstance(report, DeviceReport)
    return report


def test_two_gpus_are_described_and_linked(stand_in: Path) -> None:
    report = discover(stand_in, "ok")
    assert [device.id for device in report.devices] == [FIRST, SECOND]
    gpu = report.devices[0]
    assert gpu.kind is DeviceKind.GPU
    assert (gpu.model, gpu.architecture) == ("NVIDIA H100 80GB HBM3", "hopper")
    assert gpu.compute_capability == "cuda:9.0"
    assert gpu.driver_version == "550.54.15"
    assert gpu.memory_bytes == 85520809984
    assert gpu.pci_address == "0000:17:00.0"
    assert gpu.attributes["pcie_generation_max"] == 5
    assert gpu.alias("nvml_index") == "0"
    (link,) = report.links
    assert (link.source, link.target, link.kind) == (FIRST, SECOND, LinkKind.NVLINK)
    assert link.bandwidth_bytes_per_s == 4 * 25e9
    assert not report.failures
    assert not report.absent


def test_what_the_library_lacks_is_missing_and_not_zero(stand_in: Path) -> None:
    missing = {fact.name: fact.state for fact in discover(stand_in, "ok").devices[0].missing}
    assert missing["numa_node"] is FactState.NOT_SUPPORTED
    assert missing["power_limit_milliwatts"] is FactState.NOT_SUPPORTED


def test_memory_that_is_not_supported_leaves_the_device_there(stand_in: Path) -> None:
    report = discover(stand_in, "no_memory")
    assert len(report.devices) == 2
    gpu = report.devices[0]
    assert gpu.memory == ()
    assert {fact.name: fact.state for fact in gpu.missing}["memory"] is FactState.NOT_SUPPORTED


def test_a_lost_gpu_hides_no_other(stand_in: Path) -> None:
    report = discover(stand_in, "lost")
    assert [device.id for device in report.devices] == [FIRST]
    (failure,) = report.failures
    assert failure.state is FactState.LOST
    assert "index 1" in failure.subject


def test_a_mismatch_of_driver_and_library_is_a_failure_with_what_to_do(stand_in: Path) -> None:
    report = discover(stand_in, "mismatch")
    assert not report.absent
    (failure,) = report.failures
    assert "different versions" in failure.reason
    assert "Reboot" in failure.fix


def test_no_driver_and_no_card_is_absence(stand_in: Path) -> None:
    report = discover(stand_in, "not_loaded")
    assert "no NVIDIA GPU on PCI" in report.absent
    assert not report.failures


def test_no_driver_with_a_card_is_a_failure_that_names_it(stand_in: Path, tmp_path: Path) -> None:
    card = tmp_path / "sys/bus/pci/devices/0000:17:00.0"
    card.mkdir(parents=True)
    (card / "vendor").write_text("0x10de\n")
    (card / "class").write_text("0x030200\n")
    report = discover(stand_in, "not_loaded", root=str(tmp_path))
    assert not report.absent
    (failure,) = report.failures
    assert failure.subject == "0000:17:00.0"
    assert failure.state is FactState.DRIVER_ABSENT
    assert failure.fix == "Load it with: modprobe nvidia"


def test_without_the_library_at_all_there_is_nothing(tmp_path: Path) -> None:
    assert "no NVIDIA GPU on PCI" in discover(tmp_path, "ok").absent


def test_identity_stays_when_the_indexes_change(stand_in: Path) -> None:
    before = {gpu.id: gpu for gpu in discover(stand_in, "ok").devices}
    after = {gpu.id: gpu for gpu in discover(stand_in, "reordered").devices}
    assert set(before) == set(after)
    assert before[FIRST].alias("nvml_index") == "0"
    assert after[FIRST].alias("nvml_index") == "1"
    assert before[FIRST].pci_address == after[FIRST].pci_address


def test_work_is_given_its_gpus_by_uuid(stand_in: Path) -> None:
    access = call(stand_in, "reordered", "prepare", SECOND)
    assert access["environment"]["CUDA_VISIBLE_DEVICES"] == SECOND
    assert "/dev/nvidia1" in access["device_nodes"]
    assert "/dev/nvidia0" not in access["device_nodes"]


def test_a_gpu_that_went_away_is_not_lent(stand_in: Path) -> None:
    answer = call(stand_in, "lost", "prepare", SECOND)
    assert answer["error"] == "DeviceLostError"
    assert SECOND in answer["message"]


def test_every_reading_has_its_state(stand_in: Path) -> None:
    readings = {reading["name"]: reading for reading in call(stand_in, "ok", "telemetry", FIRST)}
    assert readings["hw.gpu.utilization"]["value"] == 0.5
    assert readings["hw.power"]["value"] == 350.0
    assert readings["hw.gpu.memory.usage"]["value"] == 2**30
    # The library that stands in has no such function.
    assert readings["hw.temperature"]["state"] == FactState.NOT_SUPPORTED
    assert readings["hw.temperature"]["value"] is None
    lost = {reading["name"]: reading for reading in call(stand_in, "lost", "telemetry", SECOND)}
    assert lost["hw.gpu.memory.usage"]["state"] == FactState.LOST


def test_a_library_that_hangs_costs_this_adapter_only(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way: manifest, match rule, own process, deadline, neighbour untouched."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stand_in))
    monkeypatch.setenv("NVML_SCENARIO", "hang")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    (tmp_path / "sys").symlink_to("/sys")
    manager = PluginManager(
        Config(), node=NodeId("n"), state_directory=tmp_path, machine=Machine(tmp_path)
    )
    for record in manager.records():
        if record.id == "nvidia":
            assert record.manifest is not None
            object.__setattr__(record.manifest, "call_deadline_s", 1.0)
    with manager:
        adapters: dict[str, HardwareAdapter] = {
            offered.name: offered.object for offered in manager.hardware_adapters()
        }
        with pytest.raises(PluginTimeoutError, match="discover within 1 s"):
            adapters["nvidia"].discover()
        assert adapters["cpu"].discover().devices


def test_registering_loads_no_vendor_library() -> None:
    script = (
        "import sys; from forebay import PluginContext;"
        "import forebay_builtin_plugins.nvidia as plugin;"
        "plugin.forebay_hardware_adapters(PluginContext('nvidia', 'n'));"
        "assert 'pynvml' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
