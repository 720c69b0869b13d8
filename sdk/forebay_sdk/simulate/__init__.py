"""The command ``forebay simulate``: policies on a trace, as tables, files and a report."""

from __future__ import annotations

from forebay_sdk.simulate.command import simulate

__all__ = ["simulate"]
