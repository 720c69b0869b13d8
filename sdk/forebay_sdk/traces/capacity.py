"""What an empty fleet could hold, by the shapes of its nodes.

Axis ``C``: requests.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from forebay import MILLIS_PER_UNIT, DeviceKind, Request
from forebay_sdk.traces.fleet import Fleet, NodeShape


def hosting_nodes(fleet: Fleet, requests: Sequence[Request]) -> NDArray[np.int64]:
    """Return how many empty nodes can hold each request: (C,); O(C * shapes)."""
    nodes = np.bincount(fleet.node_shape, minlength=len(fleet.shapes))
    fitting = [[_holds(shape, one) for shape in fleet.shapes] for one in requests]
    return np.array(fitting, dtype=np.int64).reshape(len(requests), len(nodes)) @ nodes


def scarce_demand(fleet: Fleet, requests: Sequence[Request]) -> tuple[NDArray[np.int64], int]:
    """Return what each request asks for of what is scarce (C,), and how much of it there is.

    Scarce are all kinds that are asked for but cores; cores where nothing else is.  In
    thousandths of a device.
    """
    kinds = {item.kind for one in requests for item in one.items}
    scarce = kinds - {DeviceKind.CPU} or kinds
    asked = [sum(item.millis for item in one.items if item.kind in scarce) for one in requests]
    held = [
        sum(device.count * MILLIS_PER_UNIT for device in shape.devices if device.kind in scarce)
        + (shape.cpu_millis if DeviceKind.CPU in scarce else 0)
        for shape in fleet.shapes
    ]
    nodes = np.bincount(fleet.node_shape, minlength=len(fleet.shapes))
    return np.array(asked, np.int64), int(nodes @ np.array(held, np.int64))


def _holds(shape: NodeShape, request: Request) -> bool:
    for item in request.items:
        if item.kind is DeviceKind.CPU:
            if item.millis > shape.cpu_millis or (item.memory_bytes or 0) > shape.memory_bytes:
                return False
            continue
        fitting = sum(
            device.count
            for device in shape.devices
            if device.kind is item.kind
            and all(selector.matches(device.model) for selector in request.device_selectors)
        )
        if item.millis > fitting * MILLIS_PER_UNIT:
            return False
    return True
