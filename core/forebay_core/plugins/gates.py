"""Match rules: on which machines a plugin is loaded at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from forebay import MatchRule


class Machine:
    """What match rules look at; nothing here loads a library or opens a device.

    Parameters
    ----------
    root : Path
        Where the file system begins.
    environment : mapping of str to str, optional
    system : str
        As :data:`sys.platform`.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        environment: Mapping[str, str] | None = None,
        system: str = sys.platform,
    ) -> None:
        self._root = root
        self._environment = os.environ if environment is None else environment
        self._system = system
        self._pci = cache(self._read_pci)

    def matches(self, rules: Iterable[MatchRule]) -> bool:
        """Tell whether any rule holds; no rules at all always hold."""
        rules = tuple(rules)
        return not rules or any(self._holds(rule) for rule in rules)

    def _holds(self, rule: MatchRule) -> bool:
        return (
            (not rule.systems or self._system in rule.systems)
            and (
                not rule.environment or any(name in self._environment for name in rule.environment)
            )
            and (not rule.device_nodes or any(map(self._exists, rule.device_nodes)))
            and (not rule.files or any(map(self._exists, rule.files)))
            and (not rule.pci or any(map(self._has_pci, rule.pci)))
        )

    def _exists(self, pattern: str) -> bool:
        return next(self._root.glob(pattern.lstrip("/")), None) is not None

    def _has_pci(self, wanted: str) -> bool:
        vendor, device, class_prefix = (*wanted.split(":"), "")[:3]
        return any(
            found[0] == vendor and device in ("*", found[1]) and found[2].startswith(class_prefix)
            for found in self._pci()
        )

    def _read_pci(self) -> frozenset[tuple[str, str, str]]:
        """Return vendor, device and class of every PCI function, in lower-case hexadecimal."""
        found = set()
        for function in (self._root / "sys/bus/pci/devices").glob("*"):
            try:
                vendor, device, class_ = (
                    (function / name).read_text().strip().removeprefix("0x").lower()
                    for name in ("vendor", "device", "class")
                )
            except OSError:
                # A function that goes away while it is read is not there.
                continue
            found.add((vendor, device, class_))
        return frozenset(found)
