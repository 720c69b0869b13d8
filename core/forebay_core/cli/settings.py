"""The options that every command shares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

if TYPE_CHECKING:
    from forebay_core.config import Config
    from forebay_core.runtime import Host


@dataclass(frozen=True, slots=True)
class Settings:
    """What stood before the command's name.

    Parameters
    ----------
    config_file : Path, optional
    disable : tuple of str
    safe_mode : bool
    """

    config_file: Path | None = None
    disable: tuple[str, ...] = ()
    safe_mode: bool = False

    def config(self) -> Config:
        """Read the configuration in force."""
        from forebay_core.config import load_config

        return load_config(self.config_file, disable=self.disable, safe_mode=self.safe_mode)

    def host(self) -> Host:
        """Open plugins and ledger."""
        from forebay_core.paths import home_directory
        from forebay_core.runtime import Host

        return Host(self.config(), home_directory())


def settings_of(context: typer.Context) -> Settings:
    """Return the shared options of a command."""
    settings = cast("Settings | None", context.obj)
    return settings or Settings()
