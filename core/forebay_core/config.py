"""The site's configuration: one TOML file, a few environment variables, a few options.

An option wins over the environment, the environment over the file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from forebay import ConfigError, DeviceKind, Fault, InputError, JsonValue, Pool
from forebay.documents import key_line, read_table
from forebay_core.paths import config_file
from forebay_core.selectors import parse_selector

DEFAULT_POOL = Pool(name="default", strategy="shares")
"""Used where the configuration names no pool: every device, lent in shares."""


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """What decides, before any plugin is imported, which are loaded and how.

    Parameters
    ----------
    disable : tuple of str
        Plugin ids or distribution names.
    safe_mode : bool
        Load none.
    """

    disable: tuple[str, ...] = ()
    safe_mode: bool = False


@dataclass(frozen=True, slots=True)
class PoolTable:
    """A ``[[pool]]`` of the file; see :class:`forebay.Pool` for the meaning."""

    name: str
    strategy: str = DEFAULT_POOL.strategy
    kinds: tuple[DeviceKind, ...] = ()
    select: tuple[str, ...] = ()
    quota: Mapping[DeviceKind, float] = field(default_factory=dict)
    options: Mapping[str, bool | int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigTable:
    """The whole file as written."""

    policy: str = "best-fit"
    queue: str = "first-come-skip"
    engine: str = "local"
    plugins: PluginSettings = field(default_factory=PluginSettings)
    plugin: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)
    pool: tuple[PoolTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration in force.

    Parameters
    ----------
    policy : str
        Name of the policy that places requests.
    queue : str
        Name of the policy that puts waiting jobs in order.
    engine : str
        Name of the engine that runs work.
    plugins : PluginSettings
    plugin : mapping of str to mapping
        Each plugin's own options, by plugin id.
    pools : tuple of Pool
        At least one.
    source : str
        File it came from; empty when there is none.
    """

    policy: str = "best-fit"
    queue: str = "first-come-skip"
    engine: str = "local"
    plugins: PluginSettings = field(default_factory=PluginSettings)
    plugin: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)
    pools: tuple[Pool, ...] = (DEFAULT_POOL,)
    source: str = ""


def load_config(
    path: Path | None = None, *, disable: tuple[str, ...] = (), safe_mode: bool = False
) -> Config:
    """Read the configuration in force.

    Parameters
    ----------
    path : Path, optional
        File named on the command line, which must then exist.
    disable : tuple of str
        Plugins disabled on the command line, besides those of file and environment.
    safe_mode : bool

    Raises
    ------
    ConfigError
        The file is unreadable or has faults; all of them are told.
    """
    named = path is not None or "FOREBAY_CONFIG" in os.environ
    path = path or config_file()
    config = Config()
    if named or path.exists():
        try:
            config = parse_config(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(Fault(f"cannot be read: {error}.", source=str(path))) from error
    from_environment = tuple(
        name.strip()
        for name in os.environ.get("FOREBAY_DISABLE_PLUGINS", "").split(",")
        if name.strip()
    )
    plugins = PluginSettings(
        disable=(*config.plugins.disable, *from_environment, *disable),
        safe_mode=safe_mode
        or config.plugins.safe_mode
        or os.environ.get("FOREBAY_SAFE_MODE", "") not in {"", "0", "false"},
    )
    return replace(config, plugins=plugins)


def parse_config(text: str, source: str) -> Config:
    """Read a configuration from its TOML text.

    Raises
    ------
    ConfigError
        With every fault found, each with file, line and field.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(Fault(f"is not TOML: {error}.", source=source)) from error
    table, faults = read_table(ConfigTable, raw, source=source, text=text)
    if table is None:
        raise ConfigError(faults)
    pools: list[Pool] = []
    found: list[Fault] = []
    for index, entry in enumerate(table.pool):
        at = f"pool[{index}]"
        try:
            pools.append(_pool(entry, source, at))
        except InputError as error:
            found += [
                replace(fault, source=source, line=key_line(text, fault.field))
                for fault in error.faults
            ]
    names = [pool.name for pool in pools]
    found += [
        Fault(
            f"the name {name!r} is used twice.",
            source=source,
            field="pool",
            fix="Give each pool a name of its own.",
        )
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    if found:
        raise ConfigError(tuple(found))
    return Config(
        policy=table.policy,
        queue=table.queue,
        engine=table.engine,
        plugins=table.plugins,
        plugin=table.plugin,
        pools=tuple(pools) or (DEFAULT_POOL,),
        source=source,
    )


def _pool(table: PoolTable, source: str, at: str) -> Pool:
    for kind, amount in table.quota.items():
        if amount < 0:
            raise ConfigError(
                Fault(
                    f"found {amount}, expected 0 or more.",
                    source=source,
                    field=f"{at}.quota.{kind}",
                )
            )
    return Pool(
        name=table.name,
        strategy=table.strategy,
        kinds=table.kinds,
        selectors=tuple(
            parse_selector(text, source=source, field=f"{at}.select[{index}]")
            for index, text in enumerate(table.select)
        ),
        quota_millis={kind: round(amount * 1000) for kind, amount in table.quota.items()},
        options=table.options,
    )
