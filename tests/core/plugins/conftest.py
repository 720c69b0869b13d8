"""Makes plugins of strangers: packages with a manifest, installed as a wheel would be."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay import NodeId
from forebay_core.config import Config
from forebay_core.plugins.gates import Machine
from forebay_core.plugins.manager import PluginManager
from strangers import ADAPTER, HEADER, Make


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that plugins are installed into, on the path of this and of child processes."""
    directory = tmp_path / "site"
    directory.mkdir()
    monkeypatch.syspath_prepend(directory)
    monkeypatch.setenv("PYTHONPATH", str(directory))
    return directory


@pytest.fixture
def install(site: Path) -> Iterator[Make]:
    """Install a plugin; returns the directory of its package."""
    made: list[str] = []

    def make(
        plugin: str = "stranger",
        *,
        code: str = ADAPTER,
        kinds: str = '["hardware"]',
        manifest: str | None = None,
        extra: str = "",
        api: str = ">=1.0,<2",
        distribution: str | None = None,
        entry: str | None = None,
    ) -> Path:
        package = plugin.replace("-", "_") + "_package"
        made.append(package)
        directory = site / package
        directory.mkdir(exist_ok=True)
        (directory / "__init__.py").write_text(HEADER + code.replace("NAME", repr(plugin)))
        text = (
            f'schema = 1\nid = "{plugin}"\nkinds = {kinds}\napi = "{api}"\n'
            f'summary = "Made for a test."\n{extra}\n'
        )
        (directory / "forebay-plugin.toml").write_text(text if manifest is None else manifest)
        name = distribution or f"forebay-{plugin}"
        metadata = site / f"{name.replace('-', '_')}-2.1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.1\n")
        (metadata / "entry_points.txt").write_text(
            f"[forebay.plugins]\n{entry or plugin} = {package}\n"
        )
        return directory

    yield make
    for package in made:
        sys.modules.pop(package, None)


@pytest.fixture
def open_manager(site: Path, tmp_path: Path) -> Iterator[Callable[..., PluginManager]]:
    """Open managers that see the installed plugins alone; they are closed at the end."""
    opened: list[PluginManager] = []

    def make(config: Config | None = None, root: Path = Path("/")) -> PluginManager:
        manager = PluginManager(
            config or Config(),
            node=NodeId("here"),
            state_directory=tmp_path / "state",
            path=[str(site)],
            machine=Machine(root),
        )
        opened.append(manager)
        return manager

    yield make
    for manager in opened:
        manager.close()
