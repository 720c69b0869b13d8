"""Small random fleets and requests for them: shapes that real sites have, in miniature."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from forebay import (
    Device,
    DeviceId,
    DeviceKind,
    HealthCondition,
    HealthStatus,
    Link,
    LinkKind,
    MemoryKind,
    MemoryRegion,
    Node,
    NodeId,
    Operator,
    Pool,
    PoolStrategy,
    Request,
    ResourceItem,
    Selector,
)
from forebay_builtin_plugins.best_fit.policy import BestFit
from forebay_builtin_plugins.filters.health import HealthFilter
from forebay_builtin_plugins.filters.resources import ResourceFilter
from forebay_builtin_plugins.filters.selection import AttributeFilter, NodeFilter
from forebay_builtin_plugins.pool_strategies.gangs import Gangs
from forebay_builtin_plugins.pool_strategies.slices import Shares, Whole
from forebay_core.plugins import Offered
from forebay_core.pools import BuiltPool, build_pools
from forebay_core.scheduling import SchedulingEngine

STRATEGIES: tuple[Offered[PoolStrategy], ...] = tuple(
    Offered("pool-strategies", strategy.name, strategy) for strategy in (Whole(), Shares(), Gangs())
)
FILTERS = tuple(
    Offered("filters", found.name, found)
    for found in (AttributeFilter(), HealthFilter(), NodeFilter(), ResourceFilter())
)
BEST_FIT = Offered("best-fit", "best-fit", BestFit())


@dataclass(frozen=True)
class Fleet:
    """Nodes with CPUs and GPUs, and one pool of them all."""

    nodes: tuple[Node, ...]
    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    pool: Pool

    def built(self) -> BuiltPool:
        (built,) = build_pools([self.pool], self.devices, self.links, STRATEGIES)
        assert not built.error
        return built


def scheduling(policy: Offered[BestFit] = BEST_FIT) -> SchedulingEngine:
    """Return the engine with the builtin filters and policy."""
    return SchedulingEngine(FILTERS, policy, charge=fail)


def fail(plugin: str, error: Exception) -> None:
    """Take no excuse from a builtin plugin."""
    raise AssertionError(f"{plugin}: {error}") from error


@st.composite
def fleets(draw: st.DrawFn, max_nodes: int = 3, max_gpus: int = 4) -> Fleet:
    nodes, devices, links = [], [], []
    for number in range(draw(st.integers(1, max_nodes))):
        node = NodeId(f"n{number}")
        nodes.append(Node(node, {"hostname": node, "zone": draw(st.sampled_from(["a", "b"]))}))
        for socket in range(draw(st.integers(0, 2))):
            cores = draw(st.integers(1, 4))
            memory = MemoryRegion(MemoryKind.DDR, draw(st.integers(0, 8)))
            devices.append(
                Device(
                    DeviceId(f"{node}-cpu{socket}"),
                    DeviceKind.CPU,
                    node=node,
                    capacity_millis=cores * 1000,
                    memory=(memory,),
                )
            )
        gpus = [DeviceId(f"{node}-gpu{index}") for index in range(draw(st.integers(0, max_gpus)))]
        for gpu in gpus:
            sick = draw(st.integers(0, 9)) == 0
            devices.append(
                Device(
                    gpu,
                    DeviceKind.GPU,
                    node=node,
                    vendor=draw(st.sampled_from(["nvidia", "amd"])),
                    memory=(MemoryRegion(MemoryKind.HBM, draw(st.sampled_from([8, 16]))),),
                    health=(HealthCondition("driver", HealthStatus.FAILED),) if sick else (),
                )
            )
        for index, one in enumerate(gpus):
            links += [
                Link(one, other, LinkKind.NVLINK, draw(st.sampled_from([50e9, 100e9])))
                for other in gpus[index + 1 :]
                if draw(st.booleans())
            ]
    strategy = draw(st.sampled_from(["whole", "shares", "gangs"]))
    quota = {DeviceKind.GPU: draw(st.integers(0, 4)) * 1000} if draw(st.booleans()) else {}
    return Fleet(
        tuple(nodes),
        tuple(sorted(devices, key=lambda device: device.id)),
        tuple(links),
        Pool("default", strategy, quota_millis=quota),
    )


@st.composite
def requests(draw: st.DrawFn) -> Request:
    items = []
    if draw(st.booleans()):
        memory = draw(st.none() | st.integers(1, 8))
        least = 0 if memory else 1
        items.append(ResourceItem(DeviceKind.CPU, draw(st.integers(least, 60)) * 100, memory))
    if not items or draw(st.booleans()):
        linked = draw(st.booleans())
        millis = draw(
            st.sampled_from([2000, 4000])
            if linked
            else st.sampled_from([50, 250, 333, 500, 1000, 2000, 3000])
        )
        items.append(
            ResourceItem(DeviceKind.GPU, millis, draw(st.none() | st.integers(0, 16)), linked)
        )
    vendor = Selector("vendor", Operator.EQUAL, draw(st.sampled_from(["nvidia", "amd"])))
    zone = Selector("zone", Operator.NOT_EQUAL, draw(st.sampled_from(["a", "b"])))
    return Request(
        tuple(items),
        device_selectors=(vendor,) if draw(st.integers(0, 3)) == 0 else (),
        node_selectors=(zone,) if draw(st.integers(0, 3)) == 0 else (),
    )
