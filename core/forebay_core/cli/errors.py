"""How an error reaches a person."""

from __future__ import annotations

import sys

from forebay.errors import ForebayError


def print_error(error: ForebayError) -> None:
    """Print an error: each fault on a line, then what to do."""
    for line in str(error).splitlines():
        print(f"error: {line}", file=sys.stderr)
    if error.fix:
        print(f"  fix: {error.fix}", file=sys.stderr)
