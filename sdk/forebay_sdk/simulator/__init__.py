"""The simulator: a trace replayed by the engine itself, on a clock of its own."""

from __future__ import annotations

from forebay_sdk.simulator.simulation import NodeEvents, Run, Simulation

__all__ = ["NodeEvents", "Run", "Simulation"]
