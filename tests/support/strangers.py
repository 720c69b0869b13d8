"""Code of strangers' plugins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

HEADER = """
import pathlib
from forebay import *
pathlib.Path(__file__).with_name("imported").touch()
"""

ADAPTER = """
class Adapter(HardwareAdapter):
    name = NAME
    def discover(self):
        return DeviceReport(devices=(Device(DeviceId(NAME + "-0"), DeviceKind.NPU),))
    def prepare(self, lease):
        return DeviceAccess()
@hookimpl
def forebay_hardware_adapters(context):
    return [Adapter()]
"""

Make = Callable[..., Path]
"""Installs a plugin; see the fixture ``install``."""
