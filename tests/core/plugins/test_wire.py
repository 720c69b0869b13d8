"""Every value that travels between host and plugin arrives as it was sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay import (
    Accelerator,
    Engine,
    HardwareAdapter,
    NetworkState,
    PluginError,
    hookspecs,
)
from forebay_core.plugins.wire import decode, encode, methods_of, read

INTERFACES = (HardwareAdapter, Accelerator, Engine, NetworkState)
ANNOTATIONS = {
    f"{interface.__name__}.{method}.{name}": annotation
    for interface in INTERFACES
    for method, signature in methods_of(interface).items()
    for name, annotation in {**signature.parameters, "returns": signature.result}.items()
}


def strategy(annotation: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401 - a type hint has no type
    """Draw values of an annotated type; sequences as tuples, as they arrive."""
    values: st.SearchStrategy[Any] = st.from_type(annotation)
    return values.map(lambda value: tuple(value) if isinstance(value, list) else value)


@pytest.fixture(scope="module", autouse=True)
def finite_numbers() -> None:
    """NaN equals nothing, not even itself after the journey."""
    st.register_type_strategy(float, st.floats(allow_nan=False))


@pytest.mark.parametrize("name", sorted(ANNOTATIONS))
@given(data=st.data())
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
def test_what_is_sent_arrives(name: str, data: st.DataObject) -> None:
    annotation = ANNOTATIONS[name]
    value = None if annotation in (None, type(None)) else data.draw(strategy(annotation))
    line = encode({"result": value})
    assert line.count(b"\n") == 1
    assert read(annotation, decode(line)["result"], "stranger") == value


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=4))
def test_whatever_else_arrives_is_charged_to_its_sender(value: object) -> None:
    for annotation in (hookspecs.PluginContext, ANNOTATIONS["Engine.submit.returns"]):
        with pytest.raises(PluginError, match="plugin stranger: sent a value"):
            read(annotation, value, "stranger")
