"""The observer ``event-file``: appends events to a file, once it is enabled."""

from __future__ import annotations

from forebay import Event, PluginContext, hookimpl


@hookimpl
def forebay_observe(context: PluginContext, event: Event) -> None:
    """Append the event, if the configuration enables that."""
    if context.config.get("enabled", False):
        from forebay_builtin_plugins.event_file.writer import append

        append(context, event)
