"""The contract's docstrings are its specification, so none may be missing or incomplete."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import forebay
from forebay import PluginKind, hookspecs

DOCS = Path(__file__).parents[2] / "docs"

HOOKS = {
    name: function
    for name, function in vars(hookspecs).items()
    if name.startswith("forebay_") and inspect.isfunction(function)
}

INTERFACES = (
    forebay.HardwareAdapter,
    forebay.PoolStrategy,
    forebay.Filter,
    forebay.Policy,
    forebay.ScorePolicy,
    forebay.QueuePolicy,
    forebay.Accelerator,
    forebay.Engine,
    forebay.EnergyModel,
    forebay.NetworkState,
)

METHODS = {
    f"{interface.__name__}.{name}": method
    for interface in INTERFACES
    for name, method in vars(interface).items()
    if inspect.isfunction(method) and not name.startswith("_")
}


def sections(function: Callable[..., object]) -> dict[str, str]:
    """Return the numpydoc sections of a docstring; the text before them under ``''``."""
    text = inspect.getdoc(function) or ""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def test_there_are_at_most_twelve_hooks_and_one_for_each_kind() -> None:
    assert len(HOOKS) <= 12
    assert {kind.hook for kind in PluginKind} == set(HOOKS)


@pytest.mark.parametrize("name", sorted(HOOKS))
def test_every_hook_tells_when_it_is_called_and_what_each_argument_is(name: str) -> None:
    found = sections(HOOKS[name])
    assert "Called" in found[""], "says when and how often it is called"
    for argument in inspect.signature(HOOKS[name]).parameters:
        assert re.search(rf"^{argument} : ", found["Parameters"], re.MULTILINE), argument


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_of_an_interface_is_specified(name: str) -> None:
    method = METHODS[name]
    found = sections(method)
    assert found[""].strip(), "has a docstring"
    arguments = [
        argument for argument in inspect.signature(method).parameters if argument != "self"
    ]
    documented = found.get("Parameters", "")
    for argument in arguments:
        assert re.search(rf"^{argument}\b.* : ", documented, re.MULTILINE), argument


@pytest.mark.parametrize("name", sorted(HOOKS))
def test_every_hook_has_a_page_that_shows_its_specification(name: str) -> None:
    pages = [page.read_text() for page in (DOCS / "hooks").glob("*.md")]
    assert sum(f"autofunction:: forebay.hookspecs.{name}\n" in page for page in pages) == 1


@pytest.mark.parametrize("interface", INTERFACES, ids=lambda interface: interface.__name__)
def test_every_interface_has_a_page_that_shows_its_methods(interface: type) -> None:
    pages = [page.read_text() for page in (DOCS / "hooks").glob("*.md")]
    directive = f"autoclass:: {interface.__module__}.{interface.__name__}\n"
    assert sum(directive in page for page in pages) == 1


@pytest.mark.parametrize("name", forebay.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    value = getattr(forebay, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert (inspect.getdoc(value) or "").strip()
