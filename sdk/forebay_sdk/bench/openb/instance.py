"""The benchmark's input in the form that the linear program takes."""

from __future__ import annotations

import numpy as np

from forebay import KIND_INDEX, MILLIS_PER_UNIT, DeviceKind
from forebay_core.scheduling import build_batch
from forebay_sdk.bench.openb.bound import Nodes, Tasks
from forebay_sdk.bench.openb.data import Openb

CPU = KIND_INDEX[DeviceKind.CPU]
GPU = KIND_INDEX[DeviceKind.GPU]


def instance_of(openb: Openb) -> tuple[Nodes, Tasks]:
    """Return nodes and tasks; a node's devices are all of one model."""
    shapes = openb.fleet.shapes
    models = sorted({device.model for shape in shapes for device in shape.devices})
    of_shape = openb.fleet.node_shape
    nodes = Nodes(
        cpu_millis=np.array([shape.cpu_millis for shape in shapes], np.int64)[of_shape],
        memory_bytes=np.array([shape.memory_bytes for shape in shapes], np.int64)[of_shape],
        gpus=np.array(
            [sum(device.count for device in shape.devices) for shape in shapes], np.int64
        )[of_shape],
        model=np.array(
            [models.index(shape.devices[0].model) if shape.devices else 0 for shape in shapes],
            np.int64,
        )[of_shape],
    )
    batch = build_batch(openb.trace.requests)
    asked = batch.millis[:, GPU]
    allowed = np.array(
        [
            [
                all(selector.matches(model) for selector in request.device_selectors)
                for model in models
            ]
            for request in openb.trace.requests
        ],
        np.bool_,
    )
    of_task = openb.trace.task_request
    tasks = Tasks(
        cpu_millis=batch.millis[of_task, CPU],
        memory_bytes=np.maximum(batch.memory_bytes[of_task, CPU], 0),
        gpu_count=np.maximum(asked // MILLIS_PER_UNIT, asked > 0)[of_task],
        gpu_millis=np.minimum(asked, MILLIS_PER_UNIT)[of_task],
        allowed=allowed[of_task],
    )
    return nodes, tasks
