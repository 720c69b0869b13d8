"""The NVIDIA adapter, through the real nvidia-ml-py, against a library that stands in for NVML."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pynvml
import pytest
from ruamel.yaml import YAML

from forebay import (
    DeviceId,
    DeviceKind,
    DeviceReport,
    FactState,
    HardwareAdapter,
    HealthStatus,
    LinkKind,
    NodeId,
    PluginTimeoutError,
)
from forebay.documents import read_value
from forebay_core.config import Config
from forebay_core.plugins.gates import Machine
from forebay_core.plugins.manager import PluginManager

NOWHERE = Path("/nowhere")
SOURCE = Path(__file__).with_name("nvml_stand_in.c")
FIRST, SECOND = (
    DeviceId(f"GPU-00000000-0000-0000-0000-00000000000{number}") for number in range(2)
)

CALL = """
import os, sys
from pathlib import Path
if "NO_BINDINGS" in os.environ:
    sys.modules["pynvml"] = None
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
    "health": lambda: adapter.health([draw.device for draw in draws]),
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


def call(
    stand_in: Path,
    scenario: str,
    method: str,
    *devices: str,
    root: Path = NOWHERE,
    **variables: str,
) -> Any:  # noqa: ANN401 - JSON
    done = subprocess.run(
        [sys.executable, "-c", CALL, root, method, *devices],
        env=os.environ | {"LD_LIBRARY_PATH": str(stand_in), "NVML_SCENARIO": scenario} | variables,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return json.loads(done.stdout)


def discover(stand_in: Path, scenario: str, root: Path = NOWHERE, **variables: str) -> DeviceReport:
    answer = call(stand_in, scenario, "discover", root=root, **variables)
    report, faults = read_value(DeviceReport, answer)
    assert not faults
    assert isinstance(report, DeviceReport)
    return report


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A file system with the first GPU on PCI, below a bridge of root complex 0000:15."""
    root = tmp_path / "root"
    card = root / "sys/devices/pci0000:15/0000:15:01.0/0000:17:00.0"
    for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("numa_node", "1")):
        write(card / name, text)
    listed = root / "sys/bus/pci/devices"
    listed.mkdir(parents=True)
    (listed / card.name).symlink_to(card)
    return root


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


def test_where_a_gpu_sits_is_read_from_the_kernel(stand_in: Path, root: Path) -> None:
    first, second = discover(stand_in, "ok", root).devices
    assert (first.numa_node, first.pcie_root) == (1, "pci0000:15")
    # The second is not in that file system: its node is missing, and not 0.
    assert (second.numa_node, second.pcie_root) == (None, "")
    assert "numa_node" in {fact.name for fact in second.missing}


def test_memory_that_is_a_numa_node_of_the_host_says_so(stand_in: Path, root: Path) -> None:
    gpu = discover(stand_in, "grace", root).devices[0]
    assert [region.numa_node for region in gpu.memory] == [2]
    assert gpu.numa_node == 1


def test_the_librarys_own_speed_of_nvlinks_comes_first(stand_in: Path) -> None:
    report = discover(stand_in, "speed_told")
    assert report.links[0].bandwidth_bytes_per_s == 4 * 26562e6
    assert report.devices[0].interconnect_bandwidth_bytes_per_s == 4 * 26562e6
    assert report.devices[0].attributes["nvlinks_active"] == 4


def test_what_the_library_lacks_is_missing_and_not_zero(stand_in: Path) -> None:
    missing = {fact.name: fact.state for fact in discover(stand_in, "ok").devices[0].missing}
    assert missing["power_limit_milliwatts"] is FactState.NOT_SUPPORTED


def test_memory_of_no_bytes_is_missing(stand_in: Path) -> None:
    gpu = discover(stand_in, "ok", NVML_GPU_MEMORY="0").devices[0]
    assert gpu.memory == ()
    assert "memory" in {fact.name for fact in gpu.missing}


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


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (
            "NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024",
            "535.183.01",
        ),
        ("NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build", "570.86.15"),
    ],
)
def test_a_mismatch_of_driver_and_library_names_both_versions(
    stand_in: Path, root: Path, line: str, version: str
) -> None:
    write(root / "proc/driver/nvidia/version", f"NVRM version: {line}")
    report = discover(stand_in, "mismatch", root)
    assert not report.absent
    (failure,) = report.failures
    assert f"the library is 12.550.54.15, the module {version}." in failure.reason
    assert "Reboot" in failure.fix


def test_a_user_who_may_not_ask_is_told_so(stand_in: Path) -> None:
    (failure,) = discover(stand_in, "not_permitted").failures
    assert failure.state is FactState.NOT_PERMITTED


def test_no_driver_and_no_card_is_absence(stand_in: Path) -> None:
    report = discover(stand_in, "not_loaded")
    assert "no NVIDIA GPU on PCI" in report.absent
    assert not report.failures


def test_no_driver_with_a_card_is_a_failure_that_names_it(stand_in: Path, root: Path) -> None:
    report = discover(stand_in, "not_loaded", root)
    assert not report.absent
    (failure,) = report.failures
    assert failure.subject == "0000:17:00.0"
    assert failure.state is FactState.DRIVER_ABSENT
    assert failure.fix == "Load it with: modprobe nvidia"


def test_without_the_library_at_all_there_is_nothing(tmp_path: Path) -> None:
    assert "no NVIDIA GPU on PCI" in discover(tmp_path, "ok").absent


def test_a_card_without_the_python_package_is_a_failure_with_what_to_install(
    stand_in: Path, root: Path
) -> None:
    (failure,) = discover(stand_in, "ok", root, NO_BINDINGS="1").failures
    assert failure.subject == "0000:17:00.0"
    assert failure.fix == "Install it with: pip install 'forebay[nvidia]'"


def test_a_driver_without_the_python_package_is_a_failure_too(
    stand_in: Path, tmp_path: Path
) -> None:
    """As in a container that does not see PCI."""
    write(
        tmp_path / "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12",
    )
    report = discover(stand_in, "ok", tmp_path, NO_BINDINGS="1")
    assert not report.absent
    assert [failure.subject for failure in report.failures] == ["NVIDIA driver"]


@pytest.mark.shared_data
def test_a_recorded_machine_without_a_driver_has_a_card(shared_data: Path, tmp_path: Path) -> None:
    name = "linux-amd64-accel-nvidia.tar.xz"
    with tarfile.open(shared_data / "hardware-fixtures/ghw-sysfs" / name) as archive:
        wanted = [
            member
            for member in archive.getmembers()
            if "bus/pci/devices" in member.name
            or member.name.endswith(("/vendor", "/class", "/numa_node"))
        ]
        archive.extractall(tmp_path, wanted, filter="data")
    (failure,) = discover(tmp_path / "no-library", "ok", tmp_path).failures
    assert failure.subject == "0000:06:00.0"
    assert failure.state is FactState.DRIVER_ABSENT


@pytest.mark.shared_data
@pytest.mark.parametrize("model", ["a100", "b200", "gb200", "gb300", "h100", "l40s", "t4"])
def test_nvidias_profiles_are_described_field_by_field(
    stand_in: Path, shared_data: Path, model: str
) -> None:
    path = shared_data / f"hardware-fixtures/nvidia-nvml-mock-profiles/{model}.yaml"
    profile = YAML(typ="safe", pure=True).load(path)
    wanted = profile["device_defaults"]
    capability = wanted["compute_capability"]
    architecture = wanted["architecture"].removesuffix("_lovelace")
    gpu = discover(
        stand_in,
        "ok",
        NVML_GPU_DRIVER=profile["system"]["driver_version"],
        NVML_GPU_NAME=wanted["name"],
        NVML_GPU_MAJOR=str(capability["major"]),
        NVML_GPU_MINOR=str(capability["minor"]),
        NVML_GPU_ARCHITECTURE=str(getattr(pynvml, f"NVML_DEVICE_ARCH_{architecture.upper()}")),
        NVML_GPU_MEMORY=str(wanted["memory"]["total_bytes"]),
        NVML_GPU_PCIE_GENERATION=str(wanted["pcie"]["max_link_gen"]),
        NVML_GPU_PCIE_WIDTH=str(wanted["pcie"]["max_link_width"]),
    ).devices[0]
    assert gpu.driver_version == profile["system"]["driver_version"]
    assert gpu.model == wanted["name"]
    assert gpu.compute_capability == f"cuda:{capability['major']}.{capability['minor']}"
    assert gpu.architecture == architecture
    assert gpu.memory_bytes == wanted["memory"]["total_bytes"]
    assert gpu.attributes["pcie_generation_max"] == wanted["pcie"]["max_link_gen"]
    assert gpu.attributes["pcie_width_max"] == wanted["pcie"]["max_link_width"]


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


def test_draws_of_other_vendors_are_not_its_own(stand_in: Path) -> None:
    access = call(stand_in, "ok", "prepare", FIRST, "GPU-4f2a9c1d7b3e8056", "cpu-here-0")
    assert access["environment"]["NVIDIA_VISIBLE_DEVICES"] == FIRST


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


def test_without_a_driver_readings_say_so(stand_in: Path) -> None:
    readings = call(stand_in, "not_loaded", "telemetry", FIRST)
    assert {reading["state"] for reading in readings} == {FactState.DRIVER_ABSENT}
    assert {reading.get("value") for reading in readings} == {None}


def test_a_worn_gpu_has_failed_and_one_to_be_reset_is_degraded(stand_in: Path) -> None:
    first, second = discover(stand_in, "worn").devices
    assert {item.type: item.status for item in first.health} == {
        "row_remap": HealthStatus.DEGRADED,
        "ecc": HealthStatus.DEGRADED,
    }
    assert second.is_failed
    assert [item.reason for item in second.health] == [
        "nvidia:row_remap_failed",
        "nvidia:ecc_uncorrected",
    ]
    well = discover(stand_in, "ok").devices[0].health
    assert {item.status for item in well} == {HealthStatus.OK}


def test_health_is_judged_one_by_one(stand_in: Path) -> None:
    unknown = "GPU-00000000-0000-0000-0000-00000000000f"
    answer = call(stand_in, "worn", "health", FIRST, SECOND, unknown)
    worst = {judged["device"]: judged["conditions"][0] for judged in answer}
    assert worst[FIRST]["status"] == HealthStatus.DEGRADED
    assert worst[SECOND]["status"] == HealthStatus.FAILED
    assert worst[unknown]["reason"] == "nvidia:gpu_lost"


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
