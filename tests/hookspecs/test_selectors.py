"""What a selector matches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay import Operator, RequestError, Selector
from forebay_core.selectors import parse_selector

values = st.none() | st.booleans() | st.integers() | st.text()


@given(values, st.booleans() | st.integers() | st.text())
def test_not_equal_is_the_contrary_of_equal(value: object, wanted: bool | int | str) -> None:
    equal = Selector("x", Operator.EQUAL, wanted).matches(value)
    assert Selector("x", Operator.NOT_EQUAL, wanted).matches(value) is not equal


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("x==nvidia", "nvidia", True),
        ("x==nvidia", None, False),
        ("x!=nvidia", None, True),
        ("x==9", "9", True),
        ("x==1", True, False),
        ("x==true", True, True),
        ("x>=5", 5, True),
        ("x>=5", 4, False),
        ("x<=5", None, False),
        ("x>=1", True, False),
        ("x>=5", "9", False),
        ("vendor.example.com/x == 'a b'", "a b", True),
    ],
)
def test_what_is_typed_matches_as_one_would_expect(
    text: str, value: object, expected: bool
) -> None:
    assert parse_selector(text).matches(value) is expected


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_selector(text)
    except RequestError as error:
        assert error.faults[0].fix  # noqa: PT017 - both outcomes are allowed
