"""Objects that stand for those in a plugin's own process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from forebay import PluginKind
from forebay_core.plugins.hooks import INTERFACES
from forebay_core.plugins.wire import attributes_of, methods_of, read

Call = Callable[[Mapping[str, object], Any], Any]
"""Sends a message to the plugin's process and reads the result as the annotation says."""


def make_proxy(
    kind: PluginKind, index: int, described: Mapping[str, object], call: Call, plugin: str
) -> Any:  # noqa: ANN401 - an instance of the kind's interface
    """Make an object of a kind's interface whose every method is called in the other process.

    Parameters
    ----------
    kind : PluginKind
    index : int
        Position among what the plugin offers of that kind.
    described : mapping
        The object's data attributes, as plain data.
    call : callable
    plugin : str
        Id of the plugin, for errors.
    """
    interface = INTERFACES[kind]
    proxy = _proxy_class(kind)()
    proxy._call = call
    proxy._index = index
    for name, annotation in attributes_of(interface).items():
        setattr(proxy, name, read(annotation, described.get(name), plugin))
    return proxy


@cache
def _proxy_class(kind: PluginKind) -> type:
    interface = INTERFACES[kind]
    methods = {name: _forward(kind, interface, name) for name in methods_of(interface)}
    return type(f"{interface.__name__}Proxy", (interface,), methods)


def _forward(kind: PluginKind, interface: type, name: str) -> Callable[..., Any]:
    signature = methods_of(interface)[name]
    names = tuple(signature.parameters)

    def forward(self: Any, *arguments: object, **named: object) -> Any:  # noqa: ANN401
        given = {**dict(zip(names, arguments, strict=False)), **named}
        message = {"call": name, "kind": kind, "index": self._index, "arguments": given}
        return self._call(message, signature.result)

    forward.__name__ = name
    forward.__doc__ = getattr(interface, name).__doc__
    return forward
