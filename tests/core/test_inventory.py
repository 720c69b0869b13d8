"""The inventory: what one adapter does wrong costs its own devices, and forgets none."""

from __future__ import annotations

from collections.abc import Sequence

from forebay import (
    Device,
    DeviceAccess,
    DeviceError,
    DeviceId,
    DeviceKind,
    DeviceReport,
    DiscoveryFailure,
    Engine,
    HardwareAdapter,
    Lease,
    Link,
    LinkKind,
    NodeId,
)
from forebay_core.inventory import discover
from forebay_core.plugins import Offered

HERE = NodeId("here")


class Adapter(HardwareAdapter):
    """Reports what it is given."""

    def __init__(self, name: str, answer: DeviceReport | Exception) -> None:
        self.name = name
        self.answer = answer

    def discover(self) -> DeviceReport:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def prepare(self, lease: Lease) -> DeviceAccess:
        return DeviceAccess()


def offered(*adapters: Adapter) -> list[Offered[HardwareAdapter]]:
    return [Offered(f"plugin-{adapter.name}", adapter.name, adapter) for adapter in adapters]


def gpu(name: str, node: str = "") -> Device:
    return Device(DeviceId(name), DeviceKind.GPU, node=NodeId(node))


NO_ENGINES: Sequence[Offered[Engine]] = ()


def test_devices_of_all_adapters_are_joined_in_order_and_placed_here() -> None:
    found = discover(
        offered(
            Adapter("b", DeviceReport((gpu("2"), gpu("1")))),
            Adapter("a", DeviceReport(absent="no such hardware")),
        ),
        NO_ENGINES,
        HERE,
    )
    assert [(device.id, device.node) for device in found.devices] == [("1", HERE), ("2", HERE)]
    assert found.adapters == {"1": "b", "2": "b"}
    assert found.absent == (("plugin-a", "no such hardware"),)


def test_a_failure_beside_devices_hides_none_of_them() -> None:
    report = DeviceReport((gpu("1"),), failures=(DiscoveryFailure("card 2", "lost"),))
    found = discover(offered(Adapter("a", report)), NO_ENGINES, HERE)
    assert len(found.devices) == 1
    assert found.failures == (("plugin-a", DiscoveryFailure("card 2", "lost")),)


def test_what_a_silent_adapter_reported_before_is_kept_and_not_lent() -> None:
    found = discover(
        offered(
            Adapter("a", DeviceError("the library hangs.")),
            Adapter("b", DeviceReport((gpu("2"),))),
        ),
        NO_ENGINES,
        HERE,
        {"a": [gpu("1", "here")], "b": [gpu("2", "here"), gpu("3", "here")]},
    )
    states = {device.id: device.is_failed for device in found.devices}
    # Device 3 is gone by the word of its adapter, device 1 by nobody's.
    assert states == {"1": True, "2": False}
    assert found.devices[0].health[0].reason == "forebay:adapter-silent"
    assert found.failures[0][1].reason == "the library hangs."


def test_the_same_device_twice_is_the_first_adapters() -> None:
    found = discover(
        offered(Adapter("a", DeviceReport((gpu("1"),))), Adapter("b", DeviceReport((gpu("1"),)))),
        NO_ENGINES,
        HERE,
    )
    assert found.adapters == {"1": "a"}
    assert "already reported by adapter a" in found.failures[0][1].reason


def test_what_cannot_be_is_a_failure_of_its_adapter() -> None:
    report = DeviceReport(
        (
            gpu(""),
            gpu("1", "elsewhere"),
            Device(DeviceId("2"), DeviceKind.GPU, capacity_millis=-1),
            gpu("3"),
        ),
        links=(Link(DeviceId("3"), DeviceId("9"), LinkKind.PCIE),),
    )
    found = discover(offered(Adapter("a", report)), NO_ENGINES, HERE)
    assert [device.id for device in found.devices] == ["3"]
    assert found.links == ()
    reasons = " ".join(failure.reason for _, failure in found.failures)
    for part in ("has no id", "node elsewhere, which no engine can reach", "negative capacity"):
        assert part in reasons
