"""The two pluggy markers and the project name that binds them."""

from __future__ import annotations

from typing import Final

import pluggy

PROJECT_NAME: Final = "forebay"
"""Name that pluggy uses to tell Forebay's hooks from those of other hosts."""

ENTRY_POINT_GROUP: Final = "forebay.plugins"
"""Entry-point group in which a wheel announces its plugins."""

MANIFEST_NAME: Final = "forebay-plugin.toml"
"""File name of the static manifest inside the plugin's package."""

API_VERSION: Final = "1.0"
"""Version of this contract, ``MAJOR.MINOR``; minor versions only add."""

hookspec = pluggy.HookspecMarker(PROJECT_NAME)
"""Marks a function of :mod:`forebay.hookspecs` as a hook specification."""

hookimpl = pluggy.HookimplMarker(PROJECT_NAME)
"""Marks a plugin's function as the implementation of the hook of the same name."""
