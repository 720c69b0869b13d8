"""The event file holds each event once, in order, whatever is delivered again."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay import ConfigError, Event, EventKind, NodeId, PluginContext, StateError
from forebay_builtin_plugins.event_file import forebay_observe
from forebay_builtin_plugins.event_file.writer import TAIL_BYTES


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


@pytest.mark.parametrize("size", [TAIL_BYTES - 100, TAIL_BYTES, 3 * TAIL_BYTES])
def test_lines_longer_than_what_is_read_first_are_found_and_mended(
    size: int, tmp_path: Path
) -> None:
    file = tmp_path / "events.jsonl"
    long = {"text": "x" * size}
    for sequence in (1, 2, 2, 3):
        large = Event(sequence, float(sequence), EventKind.JOB_SUBMITTED, "1", long)
        forebay_observe(context(tmp_path, enabled=True), large)
    assert sequences(file) == [1, 2, 3]
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    forebay_observe(context(tmp_path, enabled=True), event(3))
    assert sequences(file) == [1, 2, 3]


def test_a_new_ledgers_events_are_not_lost_in_an_old_ones_file(tmp_path: Path) -> None:
    for sequence in (1, 2, 3):
        forebay_observe(context(tmp_path, enabled=True), event(sequence))
    newer = Event(1, 100.0, EventKind.NODE_ADDED, "n")
    with pytest.raises(StateError, match="of another ledger"):
        forebay_observe(context(tmp_path, enabled=True), newer)
    assert sequences(tmp_path / "events.jsonl") == [1, 2, 3]


@pytest.mark.parametrize("content", ["a letter", "a letter\nof two lines\n", "[]\n", "{}\n", "\n"])
def test_another_file_is_left_as_it_is(content: str, tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text(content)
    with pytest.raises(ConfigError, match="other than events"):
        forebay_observe(context(tmp_path, enabled=True, path=str(path)), event(1))
    assert path.read_text() == content
