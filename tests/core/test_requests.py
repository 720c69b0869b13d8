"""Requests as people type them; the mistakes are in the tests of the command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay import DeviceKind, Request, RequestError, ResourceItem
from forebay_core.requests import format_amount, format_request, parse_request


@st.composite
def requests(draw: st.DrawFn) -> Request:
    items = []
    for kind in DeviceKind:
        if not draw(st.booleans()):
            continue
        memory = draw(st.none() | st.integers(1, 2**50))
        whole = st.integers(1, 1000).map(lambda count: count * 1000)
        millis = st.integers(1, 100_000) if kind is DeviceKind.CPU else st.integers(1, 999) | whole
        items.append(ResourceItem(kind, draw(millis | st.just(0) if memory else millis), memory))
    return Request(tuple(items) or (ResourceItem(DeviceKind.CPU, 1000),))


@given(requests())
def test_what_is_written_is_read_again(request: Request) -> None:
    assert parse_request([format_request(request)]) == request


@given(st.integers(0, 10**9))
def test_amounts_are_written_without_loss(millis: int) -> None:
    whole, _, part = format_amount(millis).partition(".")
    assert int(whole) * 1000 + int(part.ljust(3, "0") or 0) == millis


def test_nothing_asked_for_is_one_core() -> None:
    assert parse_request([]).items == (ResourceItem(DeviceKind.CPU, 1000),)


def test_memory_alone_is_memory_of_the_host() -> None:
    assert parse_request(["memory=1GiB"]).items == (ResourceItem(DeviceKind.CPU, 0, 2**30),)


def test_linked_is_asked_of_every_kind_but_cpus() -> None:
    cpu, gpu = parse_request(["cpu=8,gpu=4"], linked=True).items
    assert (cpu.linked, gpu.linked) == (False, True)


@given(st.lists(st.text(max_size=12), min_size=1, max_size=3))
def test_any_text_is_read_or_refused_with_every_fault(texts: list[str]) -> None:
    try:
        parse_request(texts)
    except RequestError as error:
        assert error.faults  # noqa: PT017 - both outcomes are allowed


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(RequestError) as caught:
        parse_request(["cpu=x,tpu=1", "gpu=1.5"], device_selectors=["vendor"])
    assert len(caught.value.faults) == 4
