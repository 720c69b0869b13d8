"""Appends events to a file, each once, though they may be delivered again."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from forebay import ConfigError, Event, Fault, PluginContext, StateError

TAIL_BYTES = 4096
"""How much of the end of the file is read at first to find the last whole line."""


@dataclass(frozen=True, slots=True)
class Written:
    """The last event that the file holds whole.

    Parameters
    ----------
    sequence : int
        0 where the file holds none.
    time_s : float
    """

    sequence: int = 0
    time_s: float = 0.0


def append(context: PluginContext, event: Event) -> None:
    """Append an event, unless the file holds it already.

    A line that a crash has torn is removed first: its event is delivered again.
    The file grows without end; moving it away while Forebay runs is safe.

    Parameters
    ----------
    context : PluginContext
        Option ``path`` names the file.
    event : Event

    Raises
    ------
    ConfigError
        The file holds something other than events.
    StateError
        The file holds the events of another ledger.
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
        last, size_bytes = _end(file.fileno(), path)
        if event.sequence > last.sequence:
            file.truncate(size_bytes)
            file.seek(size_bytes)
            file.write(line.encode() + b"\n")
        elif event.time_s > last.time_s:
            # Delivered again it would be as old as the last one, or older,
            # unless the clock was set back: an alarm for nothing is better than events lost.
            raise StateError(
                f"{path} ends with event {last.sequence} of another ledger: "
                f"event {event.sequence} is newer and not in it.",
                fix="Move the file away, or configure another path.",
            )


def _end(descriptor: int, path: Path) -> tuple[Written, int]:
    """Return the last whole event, and the size of the file up to its end."""
    size_bytes = os.fstat(descriptor).st_size
    read_bytes = TAIL_BYTES
    while True:
        start = max(0, size_bytes - read_bytes)
        tail = os.pread(descriptor, size_bytes - start, start)
        end = tail.rfind(b"\n")
        before = tail.rfind(b"\n", 0, max(end, 0))
        if start == 0 or before >= 0:
            break
        read_bytes *= 2
    if end < 0:
        # All of it is one line: torn, or some other file that must not be cut.
        if tail and not b'{"sequence": '.startswith(tail[:13]):
            raise _not_events(path)
        return Written(), 0
    try:
        last = json.loads(tail[before + 1 : end])
        return Written(int(last["sequence"]), float(last["time_s"])), start + end + 1
    except (ValueError, KeyError, TypeError) as error:
        raise _not_events(path) from error


def _not_events(path: Path) -> ConfigError:
    return ConfigError(
        Fault(
            "holds something other than events.",
            source=str(path),
            field="plugin.event-file.path",
            fix="Configure another path.",
        )
    )
