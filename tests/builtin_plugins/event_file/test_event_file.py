"""The event file holds each event once, in order, whatever is delivered again."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from forebay import Event, EventKind, NodeId, PluginContext
from forebay_builtin_plugins.event_file import forebay_observe


def context(directory: Path, **options: object) -> PluginContext:
    return PluginContext("event-file", NodeId("n"), options, str(directory))  # type: ignore[arg-type]  # as a site writes it


def event(sequence: int) -> Event:
    return Event(sequence, float(sequence), EventKind.JOB_SUBMITTED, str(sequence), {"n": "ä\n"})


def sequences(path: Path) -> list[int]:
    return [json.loads(line)["sequence"] for line in path.read_text().splitlines()]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), max_size=12))
def test_each_event_is_written_once_though_crashes_repeat_and_tear(
    deliveries: list[tuple[int, int]],
) -> None:
    """Deliver in pieces; each begins a little before the last one ended, after a torn line."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        file = directory / "events.jsonl"
        delivered = 0
        for again, torn in deliveries:
            for sequence in range(max(delivered - again, 0) + 1, delivered + 4):
                forebay_observe(context(directory, enabled=True), event(sequence))
            delivered += 3
            assert sequences(file) == list(range(1, delivered + 1))
            with file.open("a") as tail:
                tail.write('{"sequence": 999, "time_s": 1.0, "kind": "job_su'[:torn])
        if deliveries:
            forebay_observe(context(directory, enabled=True), event(delivered + 1))
            assert sequences(file) == list(range(1, delivered + 2))


def test_until_it_is_enabled_nothing_is_written(tmp_path: Path) -> None:
    forebay_observe(context(tmp_path), event(1))
    assert list(tmp_path.iterdir()) == []


def test_the_file_can_lie_anywhere_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.jsonl"
    forebay_observe(context(tmp_path, enabled=True, path=str(path)), event(1))
    assert sequences(path) == [1]
    assert path.stat().st_mode & 0o077 == 0
