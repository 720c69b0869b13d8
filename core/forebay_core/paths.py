"""Where Forebay keeps what it must not lose, and where it looks for its configuration."""

from __future__ import annotations

import os
from pathlib import Path


def home_directory() -> Path:
    """Return the directory of ledger, logs and plugin state.

    ``FOREBAY_HOME`` if set, else ``forebay`` below ``XDG_STATE_HOME`` (``~/.local/state``).
    """
    if home := os.environ.get("FOREBAY_HOME"):
        return Path(home).absolute()
    return _xdg("XDG_STATE_HOME", ".local/state") / "forebay"


def config_file() -> Path:
    """Return the path of the configuration file, which need not exist.

    ``FOREBAY_CONFIG`` if set, else ``forebay/forebay.toml`` below ``XDG_CONFIG_HOME``
    (``~/.config``).
    """
    if path := os.environ.get("FOREBAY_CONFIG"):
        return Path(path).absolute()
    return _xdg("XDG_CONFIG_HOME", ".config") / "forebay" / "forebay.toml"


def _xdg(variable: str, default: str) -> Path:
    # The base directory specification ignores values that are not absolute.
    value = Path(os.environ.get(variable, ""))
    return value if value.is_absolute() else Path.home() / default
