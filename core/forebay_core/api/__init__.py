"""The control API: what the command line can do, over HTTP."""

from __future__ import annotations

from forebay_core.api.app import create_app

__all__ = ["create_app"]
