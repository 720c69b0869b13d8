"""The Resource Descriptor says everything a device holds, and nothing else is taken for one."""

from __future__ import annotations

import math
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from forebay import (
    Alias,
    DescriptorError,
    Device,
    DeviceId,
    DeviceKind,
    DeviceReport,
    FactState,
    HealthCondition,
    HealthStatus,
    Link,
    LinkKind,
    MemoryKind,
    MemoryRegion,
    MissingFact,
    NodeId,
    OffloadEngine,
    Port,
)
from forebay.descriptor import descriptor_schema, load_descriptor, to_device_report, to_document

text = st.text(max_size=20)
rates = st.none() | st.floats(0, 1e18).filter(math.isfinite)
whole = st.integers(0, 2**60)
identifiers = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,31}", fullmatch=True)
attribute_names = identifiers | st.builds(
    "{}/{}".format, st.from_regex(r"[a-z]{1,10}\.example\.com", fullmatch=True), identifiers
)
regions = st.builds(
    MemoryRegion,
    st.sampled_from(MemoryKind),
    whole,
    rates,
    rates,
    st.none() | st.integers(0, 64),
    st.lists(text.map(DeviceId), max_size=2).map(tuple),
)
ports = st.builds(
    Port,
    text,
    st.sampled_from(LinkKind),
    st.none() | whole,
    st.lists(st.sampled_from(LinkKind), min_size=1, max_size=2).map(tuple),
    text,
)


T = TypeVar("T")


def tuples(values: st.SearchStrategy[T], least: int = 0) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(values, min_size=least, max_size=2).map(tuple)


@st.composite
def devices(draw: st.DrawFn, index: int, node: str) -> Device:
    kind = draw(st.sampled_from(DeviceKind))
    return Device(
        id=DeviceId(f"d{index}"),
        kind=kind,
        node=NodeId(node),
        vendor=draw(text),
        model=draw(text),
        capacity_millis=draw(whole),
        architecture=draw(text),
        compute_capability=draw(text),
        driver_version=draw(text),
        memory=draw(tuples(regions, least=kind is DeviceKind.CXL_MEMORY)),
        numa_node=draw(st.none() | st.integers(0, 64)),
        pci_address=draw(st.sampled_from(["", "0000:17:00.0", "00010000:0a:1f.7"])),
        pcie_root=draw(st.sampled_from(["", "pci0000:15"])),
        interconnect=draw(tuples(st.sampled_from(LinkKind))),
        interconnect_bandwidth_bytes_per_s=draw(rates),
        offload_engines=draw(tuples(st.builds(OffloadEngine, text, text))),
        ports=draw(tuples(ports, least=kind is DeviceKind.RDMA_NIC)),
        aliases=draw(tuples(st.builds(Alias, text, text))),
        attributes=draw(st.dictionaries(attribute_names, st.booleans() | whole | text, max_size=3)),
        health=draw(
            tuples(st.builds(HealthCondition, text, st.sampled_from(HealthStatus), text, text))
        ),
        missing=draw(tuples(st.builds(MissingFact, text, st.sampled_from(FactState), text, text))),
    )


@st.composite
def reports(draw: st.DrawFn) -> DeviceReport:
    count = draw(st.integers(1, 3))
    node = draw(st.sampled_from(["", "n1"]))
    found = tuple(draw(devices(index, node)) for index in range(count))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    links = (
        draw(st.lists(pairs.filter(lambda pair: pair[0] != pair[1]), max_size=3))
        if count > 1
        else []
    )
    return DeviceReport(
        found,
        tuple(
            Link(
                found[a].id,
                found[b].id,
                draw(st.sampled_from(LinkKind)),
                draw(rates),
                draw(rates),
                draw(st.integers(1, 9)),
                draw(text),
            )
            for a, b in links
        ),
    )


@given(reports())
def test_devices_go_to_a_document_and_back_without_loss(report: DeviceReport) -> None:
    document = to_document(report.devices, report.links)
    assert to_device_report(load_descriptor(document)) == report


@given(reports())
def test_every_document_satisfies_the_published_schema(report: DeviceReport) -> None:
    Draft202012Validator(descriptor_schema()).validate(to_document(report.devices, report.links))


def test_the_schema_is_itself_valid() -> None:
    Draft202012Validator.check_schema(descriptor_schema())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
)


@given(json_values)
def test_anything_else_is_refused_with_its_faults(document: object) -> None:
    with pytest.raises(DescriptorError) as caught:
        load_descriptor(document)
    assert caught.value.faults
