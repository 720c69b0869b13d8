"""Runs the cycle from devices to ended work."""

from __future__ import annotations

from forebay_core.runtime.host import Host

__all__ = ["Host"]
