"""What device and node selectors mean, as the filters that judge whole columns read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleets import Fleet
from forebay import (
    AttributeValue,
    Device,
    DeviceId,
    DeviceKind,
    Node,
    NodeId,
    Operator,
    Pool,
    Request,
    ResourceItem,
    Selector,
)
from forebay_builtin_plugins.filters.selection import AttributeFilter, NodeFilter
from forebay_core.scheduling import build_batch, build_snapshot

ITEM = ResourceItem(DeviceKind.GPU, 10)

# Values that Python takes for equal, or for ordered, are many among so few.
values = (
    st.booleans()
    | st.integers(-1, 2)
    | st.sampled_from(["0", "1", "2", "True", "", "0|1", "True|"])
)


def satisfies(value: object, operator: Operator, wanted: AttributeValue) -> bool:
    """Say the rule once more: equal in type and value, or as text; an order among numbers."""
    if operator in (Operator.AT_LEAST, Operator.AT_MOST):
        if isinstance(value, str | bool | None) or isinstance(wanted, str | bool):
            return False
        assert isinstance(value, int)
        return value >= wanted if operator is Operator.AT_LEAST else value <= wanted
    if operator is Operator.IN:
        return isinstance(value, str) and value in str(wanted).split("|")
    same_type = isinstance(value, bool) == isinstance(wanted, bool)
    equal = value == str(wanted) if isinstance(value, str) else same_type and value == wanted
    return equal is (operator is Operator.EQUAL)


def chosen_devices(attributes: list[AttributeValue | None], *selectors: Selector) -> list[bool]:
    """Return which GPUs are selected, each with attribute ``x`` or, for None, without."""
    node = Node(NodeId("n0"))
    devices = tuple(
        Device(
            DeviceId(f"g{index:02}"),
            DeviceKind.GPU,
            node=node.id,
            attributes={} if value is None else {"x": value},
        )
        for index, value in enumerate(attributes)
    )
    fleet = Fleet((node,), devices, (), Pool("default", "shares"))
    snapshot = build_snapshot(fleet.built(), nodes=fleet.nodes, usage={}, pool_used_millis={})
    batch = build_batch([Request((ITEM,), device_selectors=selectors)])
    return [not out for out in AttributeFilter().filter(snapshot, batch)[0, 0]]


def chosen_nodes(labels: list[str | None], *selectors: Selector) -> list[bool]:
    """Return which nodes are selected, each with label ``x`` or, for None, without."""
    nodes = tuple(
        Node(NodeId(f"n{index:02}"), {} if value is None else {"x": value})
        for index, value in enumerate(labels)
    )
    devices = tuple(Device(DeviceId(f"g-{n.id}"), DeviceKind.GPU, node=n.id) for n in nodes)
    fleet = Fleet(nodes, devices, (), Pool("default", "shares"))
    snapshot = build_snapshot(fleet.built(), nodes=nodes, usage={}, pool_used_millis={})
    batch = build_batch([Request((ITEM,), node_selectors=selectors)])
    return [not out for out in NodeFilter().filter(snapshot, batch)[0, 0]]


@given(
    st.lists(st.none() | values, min_size=1, max_size=8),
    st.lists(st.tuples(st.sampled_from(list(Operator)), values), max_size=3),
)
def test_a_device_is_selected_when_it_satisfies_every_selector(
    attributes: list[AttributeValue | None], conditions: list[tuple[Operator, AttributeValue]]
) -> None:
    selectors = [Selector("x", operator, wanted) for operator, wanted in conditions]
    assert chosen_devices(attributes, *selectors) == [
        all(satisfies(value, operator, wanted) for operator, wanted in conditions)
        for value in attributes
    ]


@given(
    st.lists(st.none() | st.sampled_from(["0", "1", "true", ""]), min_size=1, max_size=6),
    st.sampled_from(list(Operator)),
    values,
)
def test_a_node_is_selected_by_its_labels_which_are_text(
    labels: list[str | None], operator: Operator, wanted: AttributeValue
) -> None:
    assert chosen_nodes(labels, Selector("x", operator, wanted)) == [
        satisfies(label, operator, wanted) for label in labels
    ]


@pytest.mark.parametrize(
    ("operator", "wanted", "expected"),
    [
        (Operator.EQUAL, 1, [1, "1"]),
        (Operator.EQUAL, True, [True, "True"]),
        (Operator.EQUAL, "1", ["1"]),
        (Operator.NOT_EQUAL, 1, [True, 2, "True", None]),
        (Operator.AT_LEAST, 1, [1, 2]),
        (Operator.AT_MOST, 1, [1]),
        (Operator.AT_LEAST, True, []),
        (Operator.AT_LEAST, "1", []),
    ],
)
def test_true_is_not_one_an_order_holds_among_numbers_and_absence_satisfies_not_equal_alone(
    operator: Operator, wanted: AttributeValue, expected: list[AttributeValue | None]
) -> None:
    attributes: list[AttributeValue | None] = [True, 1, 2, "1", "True", None]
    chosen = chosen_devices(attributes, Selector("x", operator, wanted))
    selected = [value for value, is_chosen in zip(attributes, chosen, strict=True) if is_chosen]
    # As text, since a list that holds 1 equals one that holds True.
    assert repr(selected) == repr(expected)
