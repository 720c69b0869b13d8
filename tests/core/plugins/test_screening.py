"""What is decided before a plugin is imported, is decided without importing it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forebay import MatchRule
from forebay_core.config import Config, PluginSettings, load_config
from forebay_core.plugins import PluginState
from forebay_core.plugins.gates import Machine
from forebay_core.plugins.manager import PluginManager
from forebay_core.plugins.records import PluginRecord
from strangers import Make

Open = Callable[..., PluginManager]


def only(manager: PluginManager) -> PluginRecord:
    (record,) = manager.records()
    return record


@pytest.mark.parametrize("name", ["stranger", "forebay-stranger", "Forebay_Stranger"])
def test_disabled_by_id_or_distribution_it_is_never_imported(
    name: str, install: Make, open_manager: Open
) -> None:
    package = install()
    manager = open_manager(Config(plugins=PluginSettings(disable=(name,))))
    assert manager.hardware_adapters() == ()
    assert only(manager).state is PluginState.BLOCKED
    assert only(manager).reason == "disabled."
    assert not (package / "imported").exists()


def test_disabled_by_the_environment_it_is_never_imported(
    install: Make, open_manager: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = install()
    monkeypatch.setenv("FOREBAY_DISABLE_PLUGINS", "stranger")
    assert open_manager(load_config()).hardware_adapters() == ()
    assert not (package / "imported").exists()


def test_safe_mode_loads_nothing(install: Make, open_manager: Open) -> None:
    package = install()
    manager = open_manager(Config(plugins=PluginSettings(safe_mode=True)))
    assert manager.hardware_adapters() == ()
    assert not (package / "imported").exists()


def test_listing_imports_nothing(install: Make, open_manager: Open) -> None:
    package = install()
    assert only(open_manager()).state is PluginState.DISCOVERED
    assert not (package / "imported").exists()


def test_when_enabled_it_is_imported(install: Make, open_manager: Open) -> None:
    package = install()
    (offered,) = open_manager().hardware_adapters()
    assert offered.name == "stranger"
    assert (package / "imported").exists()


def test_an_incompatible_plugin_is_refused_with_both_sides_and_what_to_do(
    install: Make, open_manager: Open
) -> None:
    package = install(api=">=3,<4")
    manager = open_manager()
    assert manager.hardware_adapters() == ()
    record = only(manager)
    assert record.state is PluginState.INCOMPATIBLE
    for part in ("plugin stranger", "version 2.1", ">=3,<4", "Forebay", "speaks 1.0", "Install"):
        assert part in record.reason
    assert not (package / "imported").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"manifest": "schema = "}, "is not TOML"),
        ({"manifest": "schema = 1\n"}, "id: is missing"),
        ({"entry": "other"}, "found 'stranger', expected 'other'"),
        ({"extra": "colour = 'red'"}, "colour: unknown field"),
    ],
)
def test_a_faulty_manifest_blocks_its_plugin_with_the_reason(
    arguments: dict[str, str], expected: str, install: Make, open_manager: Open
) -> None:
    install(**arguments)
    install("neighbour")
    states = {record.id: record for record in open_manager().records()}
    bad = states[arguments.get("entry", "stranger")]
    assert bad.state is PluginState.BLOCKED
    assert expected in bad.reason
    assert states["neighbour"].state is PluginState.DISCOVERED


def test_a_missing_manifest_or_package_is_told(install: Make, open_manager: Open) -> None:
    package = install()
    (package / "forebay-plugin.toml").unlink()
    assert "has no forebay-plugin.toml" in only(open_manager()).reason
    (package / "__init__.py").unlink()
    (package / "imported").unlink(missing_ok=True)
    package.rmdir()
    assert "is not installed" in only(open_manager()).reason


def test_of_two_with_the_same_id_the_first_distribution_counts(
    install: Make, open_manager: Open
) -> None:
    install(distribution="b-dist")
    install(distribution="a-dist")
    first, second = open_manager().records()
    assert (first.distribution, first.state) == ("a-dist", PluginState.DISCOVERED)
    assert second.state is PluginState.BLOCKED
    assert "already taken by distribution a-dist" in second.reason


OPTIONS = """
[config.properties.level]
type = "integer"
minimum = 1
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"level": 3}, ""),
        ({"level": 0}, "plugin.stranger.level: 0 is less than the minimum of 1"),
        ({"lvl": 1}, "Additional properties are not allowed"),
    ],
)
def test_options_are_checked_by_the_plugins_own_schema(
    options: dict[str, int], expected: str, install: Make, open_manager: Open
) -> None:
    install(extra=OPTIONS)
    record = only(open_manager(Config(plugin={"stranger": options}, source="site.toml")))
    assert (record.state is PluginState.DISCOVERED) == (not expected)
    assert expected in record.reason


def test_names_that_nothing_has_are_told(install: Make, open_manager: Open) -> None:
    install()
    config = Config(plugins=PluginSettings(disable=("typo",)), plugin={"other": {}})
    assert open_manager(config).unknown_names() == ("other", "typo")


def machine(tmp_path: Path, **environment: str) -> Machine:
    function = tmp_path / "sys/bus/pci/devices/0000:17:00.0"
    function.mkdir(parents=True)
    (function / "vendor").write_text("0x10DE\n")
    (function / "device").write_text("0x2330\n")
    (function / "class").write_text("0x030200\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/npu3").touch()
    return Machine(tmp_path, environment, "linux")


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        (MatchRule(pci=("10de:*",)), True),
        (MatchRule(pci=("10de:2330:0302",)), True),
        (MatchRule(pci=("10de:*:12", "10de:2330:03")), True),
        (MatchRule(pci=("10de:*:12",)), False),
        (MatchRule(pci=("1002:*",)), False),
        (MatchRule(device_nodes=("/dev/npu*",)), True),
        (MatchRule(device_nodes=("/dev/gpu*",)), False),
        (MatchRule(files=("/sys/bus/pci",)), True),
        (MatchRule(environment=("NPU_HOME",)), True),
        (MatchRule(environment=("GPU_HOME",)), False),
        (MatchRule(systems=("linux", "darwin")), True),
        (MatchRule(systems=("win32",)), False),
        (MatchRule(pci=("10de:*",), systems=("win32",)), False),
    ],
)
def test_every_part_of_a_rule_must_hold(tmp_path: Path, rule: MatchRule, holds: bool) -> None:
    found = machine(tmp_path, NPU_HOME="/opt")
    assert found.matches([rule]) is holds
    assert found.matches([MatchRule(systems=("win32",)), rule]) is holds
    assert found.matches([])


def test_a_plugin_without_a_match_is_not_loaded(
    install: Make, open_manager: Open, tmp_path: Path
) -> None:
    package = install(extra='[[match]]\npci = ["10de:*"]\n')
    (tmp_path / "empty").mkdir()
    manager = open_manager(root=tmp_path / "empty")
    assert manager.hardware_adapters() == ()
    assert only(manager).reason == "nothing on this machine matches it."
    assert not (package / "imported").exists()


def test_listing_works_with_every_plugin_broken(install: Make, open_manager: Open) -> None:
    broken = {
        "not-toml": {"manifest": "schema = "},
        "empty-manifest": {"manifest": ""},
        "wrong-kind": {"kinds": '["warp"]'},
        "too-new": {"api": ">=9"},
        "wrong-id": {"entry": "other-id"},
        "syntax": {"code": "def ("},
        "raises": {"code": "raise RuntimeError"},
        "exits": {"code": "raise SystemExit"},
    }
    for round_ in range(3):
        for name, arguments in broken.items():
            install(f"{name}-{round_}", **arguments)
    manager = open_manager()
    records = manager.records()
    assert len(records) == 24
    assert all(record.reason or record.manifest for record in records)
    assert manager.hardware_adapters() == ()
    assert len(manager.problems()) == 24
