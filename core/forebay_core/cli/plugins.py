"""``forebay plugins``: what is installed, what is wrong with it, and which one is to blame."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from forebay_core.cli.output import note, print_json, print_table
from forebay_core.cli.settings import settings_of

if TYPE_CHECKING:
    from forebay_core.plugins import PluginRecord
    from forebay_core.plugins.manager import PluginManager

app = typer.Typer(no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_plugins(context: typer.Context, json: Json = False) -> None:
    """List the plugins installed, from their manifests alone."""
    manager = _manager(context)
    records = manager.records()
    if json:
        print_json([_summary(record) for record in records])
        return
    print_table(
        ["plugin", "version", "kinds", "state", "reason"],
        [
            (
                record.id,
                record.version,
                ", ".join(record.manifest.kinds) if record.manifest else "",
                record.state,
                _first_line(record.reason),
            )
            for record in records
        ],
    )
    for name in manager.unknown_names():
        note(f"the configuration names {name!r}, and no plugin has that name.")


@app.command()
def info(
    context: typer.Context,
    plugin: Annotated[str, typer.Argument(help="Id of the plugin.")],
    load: Annotated[bool, typer.Option("--load", help="Load it, and tell how that went.")] = False,
    json: Json = False,
) -> None:
    """Show everything that a plugin says of itself."""
    from forebay import PluginError

    with _manager(context) as manager:
        record = _find(manager, plugin)
        if load:
            try:
                manager.load(record)
            except PluginError as error:
                note(str(error))
    if json:
        print_json({**_summary(record), "manifest": record.manifest})
        return
    for name, value in _summary(record).items():
        if value not in (None, "", []):
            print(f"{name:<18}{value}")
    if record.manifest is not None:
        _print_manifest(record)


@app.command()
def doctor(context: typer.Context, json: Json = False) -> None:
    """Load each plugin, one at a time, and tell what is wrong; exit status 1 if anything is."""
    from forebay import PluginError

    findings = []
    with _manager(context) as manager:
        for record in manager.records():
            fix = ""
            if record.may_load:
                if sys.stderr.isatty():
                    print(f"loading {record.id} ...\033[K", end="\r", file=sys.stderr)
                try:
                    manager.load(record)
                except PluginError as error:
                    fix = error.fix
            findings.append({**_summary(record), "fix": fix, "broken": is_broken(record)})
        unknown = manager.unknown_names()
    broken = [finding for finding in findings if finding["broken"]]
    if json:
        print_json({"plugins": findings, "unknown_names": unknown})
    else:
        print_table(
            ["plugin", "state", "loaded in", "finding"],
            [
                (
                    finding["plugin"],
                    finding["state"],
                    "" if finding["load_s"] is None else f"{finding['load_s']:.3f} s",
                    " ".join(f"{finding['reason']} {finding['fix']}".split()) or "ok",
                )
                for finding in findings
            ],
        )
        for name in unknown:
            note(f"the configuration names {name!r}, and no plugin has that name.")
        print(f"{len(broken)} of {len(findings)} plugin(s) broken")
    if broken:
        raise typer.Exit(1)


@app.command(context_settings={"allow_interspersed_args": False})
def bisect(
    context: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="Fails while a plugin is enabled.")
    ],
    json: Json = False,
) -> None:
    """Find the plugins that make a command fail, by running it with fewer and fewer of them.

    The command is run with FOREBAY_DISABLE_PLUGINS set; its exit status tells.
    Exit status 0 when the culprits are found, 1 when no plugin is to blame.
    """
    from forebay_core.plugins.bisection import find_culprits

    plugins = [record.id for record in _manager(context).records() if record.may_load]
    result = find_culprits(command, plugins, tell=note if not json else lambda _message: None)
    if json:
        print_json(result)
    else:
        print(result.verdict)
    if not result.culprits:
        raise typer.Exit(1)


def is_broken(record: PluginRecord) -> bool:
    """Tell whether something is wrong with a plugin that its owner should mend."""
    from forebay_core.plugins import PluginState

    bad = {PluginState.INCOMPATIBLE, PluginState.DEGRADED, PluginState.QUARANTINED}
    return record.state in bad or bool(record.last_error)


def _manager(context: typer.Context) -> PluginManager:
    import socket

    from forebay import NodeId
    from forebay_core.paths import home_directory
    from forebay_core.plugins.manager import PluginManager

    return PluginManager(
        settings_of(context).config(),
        node=NodeId(socket.gethostname()),
        state_directory=home_directory() / "plugins",
    )


def _find(manager: PluginManager, plugin: str) -> PluginRecord:
    from forebay import NotFoundError

    for record in manager.records():
        if record.id == plugin:
            return record
    raise NotFoundError(
        f"there is no plugin {plugin!r}.", fix="List plugins with: forebay plugins list"
    )


def _summary(record: PluginRecord) -> dict[str, object]:
    return {
        "plugin": record.id,
        "distribution": record.distribution,
        "version": record.version,
        "package": record.package,
        "kinds": list(record.manifest.kinds) if record.manifest else [],
        "state": record.state,
        "reason": record.reason,
        "load_s": record.load_s,
        "last_error": record.last_error,
    }


def _print_manifest(record: PluginRecord) -> None:
    manifest = record.manifest
    assert manifest is not None
    print(f"{'summary':<18}{manifest.summary}")
    print(f"{'contract':<18}{manifest.api}")
    print(f"{'on failure':<18}{manifest.failure_policy}")
    for rule in manifest.match:
        parts = {
            "pci": rule.pci,
            "device node": rule.device_nodes,
            "file": rule.files,
            "environment": rule.environment,
            "system": rule.systems,
        }
        shown = "; ".join(
            f"{name} {' or '.join(any_of)}" for name, any_of in parts.items() if any_of
        )
        print(f"{'loaded where':<18}{shown}")
    for capability in manifest.capabilities:
        print(f"{'capability':<18}{capability.name} {dict(capability.parameters) or ''}".rstrip())
    for name, touched in (
        ("network", manifest.permissions.network),
        ("paths", manifest.permissions.paths),
        ("programs", manifest.permissions.subprocess),
        ("devices", manifest.permissions.devices),
    ):
        if touched:
            print(f"{'touches ' + name:<18}{', '.join(touched)}")
    properties = manifest.config.get("properties")
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        print(f"{'option':<18}{name}: {schema.get('description', schema.get('type', ''))}")


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""
