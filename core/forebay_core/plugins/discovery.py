"""Finds plugins by entry point and manifest, without importing anything of theirs."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from forebay import ENTRY_POINT_GROUP, MANIFEST_NAME, Manifest, ManifestError, parse_manifest


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of a plugin before it is loaded.

    Parameters
    ----------
    id : str
        Name of the entry point.
    distribution : str
        Name of the wheel it came in.
    version : str
    package : str
        Dotted name of the package that holds manifest and hooks.
    manifest : Manifest, optional
        None when it is missing or faulty.
    error : str
        Why there is no manifest; empty when there is one.
    """

    id: str
    distribution: str
    version: str
    package: str
    manifest: Manifest | None = None
    error: str = ""


def find_plugins(path: Sequence[str] | None = None) -> tuple[Found, ...]:
    """Find every plugin installed, in order of id.

    Of two with the same id only the first is used, in order of distribution name.

    Parameters
    ----------
    path : sequence of str, optional
        Directories to look in; those of the interpreter by default.
    """
    found = sorted(
        (_read(entry, path) for entry in _entries(path)),
        key=lambda plugin: (plugin.id, plugin.distribution),
    )
    first: dict[str, Found] = {}
    for plugin in found:
        first.setdefault(plugin.id, plugin)
    return tuple(
        plugin if plugin is first[plugin.id] else _refused(plugin, first[plugin.id])
        for plugin in found
    )


def _entries(path: Sequence[str] | None) -> Iterator[metadata.EntryPoint]:
    seen: set[str] = set()
    everywhere = metadata.distributions()
    for distribution in everywhere if path is None else metadata.distributions(path=list(path)):
        # Reading a distribution's name parses its whole metadata, so only those in question are.
        if ENTRY_POINT_GROUP not in (distribution.read_text("entry_points.txt") or ""):
            continue
        # An editable install shows its distribution twice; the one first on the path counts.
        name = distribution.metadata["Name"] or ""
        if name not in seen:
            seen.add(name)
            yield from distribution.entry_points.select(group=ENTRY_POINT_GROUP)


def _refused(plugin: Found, first: Found) -> Found:
    return Found(
        plugin.id,
        plugin.distribution,
        plugin.version,
        plugin.package,
        error=f"the id {plugin.id} is already taken by distribution {first.distribution}.",
    )


def _read(entry: metadata.EntryPoint, path: Sequence[str] | None) -> Found:
    package = entry.value.partition(":")[0].strip()
    distribution = entry.dist.name if entry.dist else ""
    version = entry.dist.version if entry.dist else ""
    manifest, error = None, ""
    try:
        file = _locate(package, path)
        manifest = parse_manifest(file.read_text(encoding="utf-8"), str(file))
        if manifest.id != entry.name:
            error = (
                f"{file}: id: found {manifest.id!r}, expected {entry.name!r}, "
                "the name of the entry point."
            )
    except (ManifestError, OSError, UnicodeDecodeError) as failure:
        error = str(failure)
    return Found(entry.name, distribution, version, package, None if error else manifest, error)


def _locate(package: str, path: Sequence[str] | None) -> Path:
    """Return where the package's manifest lies.

    Asking for a module's place imports the packages above it, so only the topmost is asked for
    and the rest is taken as directories.
    """
    top, *rest = package.split(".")
    try:
        spec = (
            importlib.util.find_spec(top) if path is None else PathFinder.find_spec(top, list(path))
        )
    except (ImportError, ValueError) as error:
        raise FileNotFoundError(f"package {package} cannot be found: {error}.") from error
    if spec is None:
        raise FileNotFoundError(f"package {package} is not installed.")
    for directory in spec.submodule_search_locations or ():
        file = Path(directory, *rest, MANIFEST_NAME)
        if file.is_file():
            return file
    raise FileNotFoundError(f"package {package} has no {MANIFEST_NAME}.")
