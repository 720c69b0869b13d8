"""The Resource Descriptor: the document form of devices and their links.

One document describes the devices of one node, in YAML or JSON.
Quantities are written as people write them (``80GiB``, ``3.35TB/s``, ``200Gbps``);
see :mod:`forebay.units`.  Devices go to the document and back without loss.
"""

from __future__ import annotations

from forebay.descriptor.conversion import to_device_report, to_document
from forebay.descriptor.model import (
    API_VERSION,
    KIND,
    Descriptor,
    descriptor_schema,
    load_descriptor,
)

__all__ = [
    "API_VERSION",
    "KIND",
    "Descriptor",
    "descriptor_schema",
    "load_descriptor",
    "to_device_report",
    "to_document",
]
