"""Traces: recorded or drawn work, and the fleets that it is replayed on."""

from __future__ import annotations

from forebay_sdk.traces.fleet import DeviceShape, Fleet, NodeShape
from forebay_sdk.traces.reading import TraceError
from forebay_sdk.traces.trace import Trace

__all__ = ["DeviceShape", "Fleet", "NodeShape", "Trace", "TraceError"]
