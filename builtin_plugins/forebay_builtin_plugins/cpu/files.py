"""Reads small files of ``/proc`` and ``/sys``; what is not there is None, never zero."""

from __future__ import annotations

from pathlib import Path


def read_text(path: Path) -> str | None:
    """Return the text of a file without surrounding blanks, None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """Return the whole number in a file, None if there is none."""
    text = read_text(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
