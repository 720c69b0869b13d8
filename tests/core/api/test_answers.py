from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from forebay_core.api.answers import AsciiJSONResponse

TEXTS = st.text(st.characters(codec=None, exclude_categories=()))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=10,
)


@given(VALUES)
def test_whatever_json_can_say_arrives_whole(value: object) -> None:
    body = bytes(AsciiJSONResponse(value).body)

    assert json.loads(body.decode("ascii")) == value


def test_numbers_that_json_cannot_say_are_null() -> None:
    value = {"terms": [1.5, float("nan"), {"cost": float("inf")}]}

    assert json.loads(bytes(AsciiJSONResponse(value).body)) == {
        "terms": [1.5, None, {"cost": None}]
    }
