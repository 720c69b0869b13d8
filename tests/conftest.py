"""What every test shares: its own home for Forebay, the recorded data, repeatable examples."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# Other work on the machine must not fail a test, so no example has a deadline.
settings.register_profile("dev", deadline=None)
# A failure in CI is then the change's doing, never the seed's.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked ``shared_data`` where that folder is absent."""
    if SHARED_DATA.is_dir():
        return
    skip = pytest.mark.skip(reason=f"no recorded data at {SHARED_DATA}")
    for item in items:
        if item.get_closest_marker("shared_data"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of recorded data; its tests carry the marker ``shared_data``."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"no recorded data at {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(autouse=True)
def forebay_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a fresh home for Forebay, with nothing of the user's settings in force."""
    for name in list(os.environ):
        if name.startswith("FOREBAY_"):
            monkeypatch.delenv(name)
    home = tmp_path / "forebay-home"
    monkeypatch.setenv("FOREBAY_HOME", str(home))
    # Where no FOREBAY_CONFIG is set, the configuration file is looked for here.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config-home"))
    return home
