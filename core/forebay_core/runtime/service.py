"""The service's lock, by which other processes know that one runs."""

from __future__ import annotations

from pathlib import Path

from forebay_core.runtime.host import try_lock


def service_is_running(home: Path) -> bool:
    """Tell whether a service works on this home directory."""
    with try_lock(home / "service.lock") as free:
        return not free
