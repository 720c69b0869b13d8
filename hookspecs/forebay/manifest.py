"""The manifest: what a plugin says of itself before any of its code is loaded.

It lies as ``forebay-plugin.toml`` in the package that the entry point names.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from forebay._markers import MANIFEST_NAME
from forebay.documents import key_line, read_table
from forebay.errors import Fault, ManifestError
from forebay.event import JsonValue

MANIFEST_SCHEMA = 1
"""Version of the manifest's own form."""

_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_RANGE = re.compile(
    r"\s*(>=|<=|==|!=|~=|>|<)\s*\d+(\.\d+)*(\.\*)?\s*(,\s*(>=|<=|==|!=|~=|>|<)\s*\d+(\.\d+)*(\.\*)?\s*)*"
)
_PCI = re.compile(r"[0-9a-f]{4}:([0-9a-f]{4}|\*)(:([0-9a-f]{2}|[0-9a-f]{4}|[0-9a-f]{6}))?")


class PluginKind(StrEnum):
    """Family of a plugin; each has one hook."""

    HARDWARE = "hardware"
    POOL = "pool"
    FILTER = "filter"
    POLICY = "policy"
    QUEUE = "queue"
    ACCELERATOR = "accelerator"
    ENGINE = "engine"
    ENERGY = "energy"
    NETWORK = "network"
    OBSERVER = "observer"

    @property
    def hook(self) -> str:
        """Name of the hook of this family."""
        return _HOOKS[self]


_HOOKS: Mapping[PluginKind, str] = {
    PluginKind.HARDWARE: "forebay_hardware_adapters",
    PluginKind.POOL: "forebay_pool_strategies",
    PluginKind.FILTER: "forebay_filters",
    PluginKind.POLICY: "forebay_policies",
    PluginKind.QUEUE: "forebay_queue_policies",
    PluginKind.ACCELERATOR: "forebay_accelerators",
    PluginKind.ENGINE: "forebay_engines",
    PluginKind.ENERGY: "forebay_energy_models",
    PluginKind.NETWORK: "forebay_network_states",
    PluginKind.OBSERVER: "forebay_observe",
}

PROCESS_KINDS = frozenset(
    {PluginKind.HARDWARE, PluginKind.ACCELERATOR, PluginKind.ENGINE, PluginKind.NETWORK}
)
"""Kinds that always run in a process of their own."""


class FailurePolicy(StrEnum):
    """What the host does when the plugin fails."""

    FAIL_CLOSED = "fail-closed"
    """Stop using the plugin and what it offers until an operator looks."""
    RELOAD = "reload"
    """Restart it with growing pauses; quarantine after too many failures."""
    IGNORE = "ignore"
    """Note the failure and go on calling; for what nothing depends on."""


@dataclass(frozen=True, slots=True)
class MatchRule:
    """A condition on the machine; all parts given must hold.

    Parameters
    ----------
    pci : tuple of str
        Any of these PCI ids, ``vendor:device`` in lower-case hexadecimal,
        ``*`` for any device, and after a further colon a class prefix: ``10de:*:03``.
    device_nodes : tuple of str
        Any of these paths below ``/dev`` exists; may hold ``*``.
    files : tuple of str
        Any of these paths exists; may hold ``*``.
    environment : tuple of str
        Any of these environment variables is set.
    systems : tuple of str
        Any of these operating systems, as :data:`sys.platform` names them.
    """

    pci: tuple[str, ...] = ()
    device_nodes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeclaredCapability:
    """An ability that the plugin declares, and will be certified for.

    Parameters
    ----------
    name : str
    parameters : mapping of str to JsonValue
    """

    name: str
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Permissions:
    """What the plugin means to touch: a disclosure, not a fence.

    Parameters
    ----------
    network : tuple of str
        Hosts it talks to.
    paths : tuple of str
        Paths it reads or writes.
    subprocess : tuple of str
        Programs it starts.
    devices : tuple of str
        Device nodes it opens.
    """

    network: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    subprocess: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """A plugin's manifest.

    Parameters
    ----------
    schema : int
        :data:`MANIFEST_SCHEMA`.
    id : str
        Lower-case words joined by hyphens; equal to the entry point's name.
    kinds : tuple of PluginKind
        Families it serves.
    api : str
        Versions of this contract it works with, as in PEP 440: ``>=1.0,<2``.
    summary : str
        One sentence for listings.
    capabilities : tuple of DeclaredCapability
    match : tuple of MatchRule
        The plugin is loaded only where one of these holds; none means always.
    config : mapping
        JSON Schema of its table in the configuration; empty allows no options.
    permissions : Permissions
    failure_policy : FailurePolicy
    call_deadline_s : float
        Longest that a call may take, for kinds with a process of their own.
    """

    schema: int
    id: str
    kinds: tuple[PluginKind, ...]
    api: str
    summary: str
    capabilities: tuple[DeclaredCapability, ...] = ()
    match: tuple[MatchRule, ...] = ()
    config: Mapping[str, JsonValue] = field(default_factory=dict)
    permissions: Permissions = field(default_factory=Permissions)
    failure_policy: FailurePolicy = FailurePolicy.RELOAD
    call_deadline_s: float = 10.0


def parse_manifest(text: str, source: str = MANIFEST_NAME) -> Manifest:
    """Read a manifest from its TOML text.

    Raises
    ------
    ManifestError
        With every fault found, each with file, line and field.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ManifestError(Fault(f"is not TOML: {error}.", source=source)) from error
    manifest, faults = read_table(Manifest, table, source=source, text=text)
    if manifest is None:
        raise ManifestError(faults)
    faults = tuple(
        Fault(message, source=source, line=key_line(text, name), field=name, fix=fix)
        for name, message, fix in _check(manifest)
    )
    if faults:
        raise ManifestError(faults)
    return manifest


def _check(manifest: Manifest) -> list[tuple[str, str, str]]:
    """Return what the types alone cannot tell: field, message and fix."""
    found: list[tuple[str, str, str]] = []
    if manifest.schema != MANIFEST_SCHEMA:
        found.append(
            (
                "schema",
                f"found {manifest.schema}, expected {MANIFEST_SCHEMA}.",
                "Upgrade Forebay, or the plugin.",
            )
        )
    if not _ID.fullmatch(manifest.id):
        found.append(
            ("id", f"found {manifest.id!r}, expected lower-case words joined by hyphens.", "")
        )
    if not manifest.kinds:
        found.append(("kinds", "is empty, expected at least one kind.", ""))
    if len(set(manifest.kinds)) < len(manifest.kinds):
        found.append(("kinds", "names a kind twice.", ""))
    if not _RANGE.fullmatch(manifest.api):
        found.append(
            (
                "api",
                f"found {manifest.api!r}, expected a version range.",
                'Write for example api = ">=1.0,<2".',
            )
        )
    if not manifest.summary.strip():
        found.append(("summary", "is empty, expected one sentence.", ""))
    if manifest.call_deadline_s <= 0:
        found.append(
            ("call_deadline_s", f"found {manifest.call_deadline_s}, expected more than 0.", "")
        )
    for index, rule in enumerate(manifest.match):
        found += [
            (
                f"match[{index}].pci",
                f"found {pci!r}, expected vendor:device in lower-case hexadecimal.",
                "Write for example 10de:* or 10de:*:03.",
            )
            for pci in rule.pci
            if not _PCI.fullmatch(pci)
        ]
        if rule == MatchRule():
            found.append((f"match[{index}]", "is empty and would match every machine.", ""))
    return found
