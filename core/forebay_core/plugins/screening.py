"""Decides from manifests alone which plugins may be loaded here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import metadata

from forebay import API_VERSION, IncompatiblePluginError, JsonValue, Manifest
from forebay_core.config import Config
from forebay_core.plugins.discovery import Found
from forebay_core.plugins.gates import Machine
from forebay_core.plugins.records import PluginRecord, PluginState

NO_MATCH = "nothing on this machine matches it."
"""Reason of a plugin that no rule of its manifest lets be loaded here."""


def screen(found: Found, config: Config, machine: Machine) -> PluginRecord:
    """Return a plugin's record, with the reason if it is not to be loaded.

    Parameters
    ----------
    found : Found
    config : Config
    machine : Machine
    """
    state, reason = _judge(found, config, machine)
    return PluginRecord(
        found.id,
        found.distribution,
        found.version,
        found.package,
        state,
        reason,
        found.manifest,
        last_error=found.error,
    )


def _judge(found: Found, config: Config, machine: Machine) -> tuple[PluginState, str]:
    if config.plugins.safe_mode or is_disabled(found, config.plugins.disable):
        return PluginState.BLOCKED, "safe mode." if config.plugins.safe_mode else "disabled."
    if found.manifest is None:
        return PluginState.BLOCKED, found.error
    try:
        check_compatible(found.id, found.version, found.manifest)
    except IncompatiblePluginError as error:
        return PluginState.INCOMPATIBLE, f"{error} {error.fix}"
    if not machine.matches(found.manifest.match):
        return PluginState.BLOCKED, NO_MATCH
    if fault := config_fault(found.manifest, config.plugin.get(found.id, {}), config.source):
        return PluginState.BLOCKED, fault
    return PluginState.DISCOVERED, ""


def is_disabled(found: Found, names: Collection[str]) -> bool:
    """Tell whether a plugin is disabled by its id or by the name of its distribution."""
    wanted = {_normal(name) for name in names}
    return _normal(found.id) in wanted or _normal(found.distribution) in wanted


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def check_compatible(plugin: str, version: str, manifest: Manifest) -> None:
    """Check the versions of the contract that a plugin works with.

    Raises
    ------
    IncompatiblePluginError
        This host's is not among them; the message names both sides and what to do.
    """
    from packaging.specifiers import SpecifierSet

    if SpecifierSet(manifest.api).contains(API_VERSION):
        return
    host = metadata.version("forebay")
    raise IncompatiblePluginError(
        plugin,
        f"version {version} speaks contract {manifest.api}; "
        f"this Forebay {host} speaks {API_VERSION}.",
        fix=f"Install a version of {plugin} for contract {API_VERSION}, or another Forebay.",
    )


def config_fault(manifest: Manifest, table: Mapping[str, JsonValue], source: str) -> str:
    """Return what is wrong with a plugin's options, empty when nothing is."""
    if not table:
        return ""
    schema = {"type": "object", "additionalProperties": False, **manifest.config}
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"its manifest's config is no JSON Schema: {error.message}."
    faults = [
        f"{source}: plugin.{'.'.join([manifest.id, *map(str, fault.path)])}: {fault.message}."
        for fault in Draft202012Validator(schema).iter_errors(dict(table))
    ]
    return " ".join(sorted(faults))
