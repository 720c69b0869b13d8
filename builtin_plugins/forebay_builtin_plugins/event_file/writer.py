"""Appends events to a file, each once, though they may be delivered again."""

from __future__ import annotations

import json
import os
from pathlib import Path

from forebay import Event, PluginContext

TAIL_BYTES = 1 << 20
"""How much of the end of the file is searched for the last whole line."""


def append(context: PluginContext, event: Event) -> None:
    """Append an event, unless the file holds it already.

    A line that a crash has torn is removed first: its event is delivered again.

    Parameters
    ----------
    context : PluginContext
        Option ``path`` names the file.
    event : Event
    """
    path = Path(str(context.config.get("path") or Path(context.state_directory, "events.jsonl")))
    line = json.dumps(
        {
            "sequence": event.sequence,
            "time_s": event.time_s,
            "kind": event.kind,
            "subject": event.subject,
            "facts": dict(event.facts),
        }
    )
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        if event.sequence > last_sequence(file.fileno()):
            file.seek(0, os.SEEK_END)
            file.write(line.encode() + b"\n")


def last_sequence(descriptor: int) -> int:
    """Return the sequence of the last whole line, 0 if there is none; cuts off a torn line."""
    size = os.fstat(descriptor).st_size
    start = max(0, size - TAIL_BYTES)
    tail = os.pread(descriptor, size - start, start)
    whole = tail.rfind(b"\n") + 1
    if whole < len(tail):
        os.ftruncate(descriptor, start + whole)
    lines = tail[:whole].splitlines()
    return int(json.loads(lines[-1])["sequence"]) if lines else 0
