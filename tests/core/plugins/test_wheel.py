"""A stranger's plugin, as a stranger meets it: built as a wheel, installed with pip, used.

Nothing in Forebay knows it by name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "acme-npu"
version = "0.3"

[project.entry-points."forebay.plugins"]
acme = "acme_npu"

[tool.hatch.build.targets.wheel]
packages = ["acme_npu"]
"""

MANIFEST = """
schema = 1
id = "acme"
kinds = ["hardware"]
api = ">=1.0,<2"
summary = "Finds the made-up NPUs of a test."
call_deadline_s = 2

[config.properties.count]
type = "integer"
minimum = 0
"""

PLUGIN = """
import os
from forebay import (
    Device, DeviceAccess, DeviceId, DeviceKind, DeviceReport, HardwareAdapter, Link, LinkKind,
    MemoryKind, MemoryRegion, hookimpl,
)

class Acme(HardwareAdapter):
    name = "acme"

    def __init__(self, count):
        self.count = count

    def discover(self):
        if os.environ.get("ACME_MOOD") == "crash":
            os._exit(7)
        memory = (MemoryRegion(MemoryKind.HBM, 8 * 2**30),)
        devices = tuple(
            Device(DeviceId(f"acme-{number}"), DeviceKind.NPU, vendor="acme", memory=memory)
            for number in range(self.count)
        )
        # Even numbers are joined with the next one.
        links = tuple(
            Link(one.id, other.id, LinkKind.HCCS, 50e9)
            for one, other in zip(devices[::2], devices[1::2])
        )
        return DeviceReport(devices, links)

    def prepare(self, lease):
        mine = [draw.device for draw in lease.draws if draw.device.startswith("acme-")]
        return DeviceAccess(environment={"ACME_VISIBLE_DEVICES": ",".join(mine)})

@hookimpl
def forebay_hardware_adapters(context):
    return [Acme(context.config.get("count", 1))]
"""


class Site:
    """A clean environment with Forebay and the stranger's wheel in it."""

    def __init__(self, directory: Path) -> None:
        self.python = directory / "venv/bin/python"
        self.home = directory / "home"
        self.config = directory / "forebay.toml"
        self.config.write_text("[plugin.acme]\ncount = 2\n")

    def forebay(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, "-c", "from forebay_core.cli import main; main()", *arguments],
            env={
                **os.environ,
                "FOREBAY_HOME": str(self.home),
                "FOREBAY_CONFIG": str(self.config),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def json(self, *arguments: str, **environment: str) -> Any:  # noqa: ANN401 - JSON
        done = self.forebay(*arguments, "--json", **environment)
        return json.loads(done.stdout)

    def plugin(self, **environment: str) -> dict[str, Any]:
        listed = self.json("plugins", "list", **environment)
        return next(entry for entry in listed if entry["plugin"] == "acme")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    directory = tmp_path_factory.mktemp("site")
    project = directory / "project"
    package = project / "acme_npu"
    package.mkdir(parents=True)
    (project / "pyproject.toml").write_text(PYPROJECT)
    (package / "__init__.py").write_text(PLUGIN)
    (package / "forebay-plugin.toml").write_text(MANIFEST)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", directory, project],
        check=True,
        capture_output=True,
    )
    venv.create(directory / "venv", symlinks=True)
    (wheel,) = directory.glob("acme_npu-*.whl")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = directory / f"venv/lib/{version}/site-packages"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
            *("--target", packages, wheel),
        ],
        check=True,
        capture_output=True,
    )
    # Forebay itself and what it needs come from here, so that nothing is downloaded;
    # addsitedir also follows the .pth file of an editable install.
    here = sysconfig.get_path("purelib")
    (packages / "here.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    return Site(directory)


def test_it_is_discovered_and_used(site: Site) -> None:
    found = site.plugin()
    assert (found["distribution"], found["version"]) == ("acme-npu", "0.3")
    assert found["state"] == "discovered"
    devices = {device["id"]: device for device in site.json("devices")["devices"]}
    assert {"acme-0", "acme-1"} <= set(devices)
    done = site.forebay("run", "-r", "npu=1", "--", "sh", "-c", "echo $ACME_VISIBLE_DEVICES")
    assert (done.returncode, done.stdout) == (0, "acme-0\n")
    half = site.forebay("run", "-r", "npu=0.5", "--", "sh", "-c", "echo $ACME_VISIBLE_DEVICES")
    assert half.stdout.startswith("acme-")
    assert site.json("pools")["leases"] == []


GANGS = """
[plugin.acme]
count = 4

[[pool]]
name = "gangs"
strategy = "gangs"
kinds = ["npu"]
quota = { npu = 3 }
"""


def test_its_linked_devices_are_lent_as_gangs(site: Site, tmp_path: Path) -> None:
    config = tmp_path / "forebay.toml"
    config.write_text(GANGS)
    show = ("sh", "-c", "echo $ACME_VISIBLE_DEVICES; sleep 0.5")

    def run(*request: str) -> subprocess.CompletedProcess[str]:
        return site.forebay(
            "run", "--pool", "gangs", *request, "--", *show, FOREBAY_CONFIG=str(config)
        )

    assert run("-r", "npu=2", "--linked").stdout in {"acme-0,acme-1\n", "acme-2,acme-3\n"}
    too_large = run("-r", "npu=3", "--linked")
    assert too_large.returncode == 125
    assert "no gang of that size" in too_large.stderr
    beyond = run("-r", "npu=4")
    assert "the quota of pool gangs is 3: 1 too much" in beyond.stderr


def test_it_is_disabled_by_option_environment_and_safe_mode(site: Site) -> None:
    for arguments, environment in (
        (("--no-plugin", "acme"), {}),
        (("--no-plugin", "acme-npu"), {}),
        ((), {"FOREBAY_DISABLE_PLUGINS": "acme"}),
        (("--safe-mode",), {}),
    ):
        listed = site.json(*arguments, "devices", **environment)
        assert not [device for device in listed["devices"] if device["id"].startswith("acme-")]


def test_its_options_are_checked_by_its_own_schema(site: Site, tmp_path: Path) -> None:
    config = tmp_path / "forebay.toml"
    config.write_text("[plugin.acme]\ncount = -1\n")
    found = site.plugin(FOREBAY_CONFIG=str(config))
    assert found["state"] == "blocked"
    assert "plugin.acme.count: -1 is less than the minimum of 0" in found["reason"]


def test_when_it_misbehaves_it_costs_itself_alone(site: Site) -> None:
    listed = site.json("devices", ACME_MOOD="crash")
    assert [device["kind"] for device in listed["devices"]].count("cpu") >= 1
    # What it reported before is remembered, and not lent while it does not answer.
    remembered = [device for device in listed["devices"] if device["id"].startswith("acme-")]
    assert remembered
    assert {device["health"][0]["reason"] for device in remembered} == {"forebay:adapter-silent"}
    (failure,) = [entry for entry in listed["failures"] if entry["plugin"] == "acme"]
    assert "exit status 7" in failure["failure"]["reason"]
    done = site.forebay("run", "-r", "cpu=1", "--", "echo", "fine", ACME_MOOD="crash")
    assert (done.returncode, done.stdout) == (0, "fine\n")


QUARANTINE = """
from pathlib import Path
import sys
from forebay import NodeId, PluginError
from forebay_core.config import Config
from forebay_core.plugins.manager import PluginManager
with PluginManager(Config(), node=NodeId("n"), state_directory=Path(sys.argv[1])) as manager:
    (acme,) = (found.object for found in manager.hardware_adapters() if found.name == "acme")
    for _ in range(6):
        try:
            acme.discover()
        except PluginError as error:
            print(type(error).__name__)
    print(next(record.state for record in manager.records() if record.id == "acme"))
"""


def test_after_five_crashes_it_is_quarantined(site: Site, tmp_path: Path) -> None:
    done = subprocess.run(
        [site.python, "-c", QUARANTINE, tmp_path],
        env={**os.environ, "ACME_MOOD": "crash"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    crashes = ["PluginCrashedError"] * 5
    assert done.stdout.split() == [*crashes, "PluginQuarantinedError", "quarantined"]
