"""The process of one plugin: reads calls from a pipe, answers on another, until the pipe ends."""

from __future__ import annotations

import os
import select
import sys
import threading
from typing import Any

from forebay import PluginContext, PluginError, PluginKind
from forebay_core.plugins.hooks import INTERFACES, PluginHooks
from forebay_core.plugins.wire import (
    attributes_of,
    decode,
    encode,
    encode_error,
    methods_of,
    read,
)


def main() -> None:
    """Serve the plugin that the first line describes."""
    requests, answers = int(sys.argv[1]), int(sys.argv[2])
    # What the plugin starts, work of an engine above all, must not hold the host's pipes.
    for descriptor in (requests, answers):
        os.set_inheritable(descriptor, False)
    threading.Thread(target=_leave_with_host, args=(answers,), daemon=True).start()
    objects: dict[tuple[str, int], Any] = {}
    with os.fdopen(requests, "rb") as incoming, os.fdopen(answers, "wb", buffering=0) as outgoing:
        for line in incoming:
            try:
                answer: dict[str, object] = {"result": _serve(decode(line), objects)}
                data = encode(answer)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's code
                data = encode({"error": encode_error(error)})
            outgoing.write(data)


def _serve(message: dict[str, Any], objects: dict[tuple[str, int], Any]) -> object:
    if message["call"] == "load":
        return _load(message, objects)
    target = objects[message["kind"], message["index"]]
    interface = INTERFACES[PluginKind(message["kind"])]
    signature = methods_of(interface)[message["call"]]
    arguments = {
        name: read(annotation, message["arguments"][name], "forebay")
        for name, annotation in signature.parameters.items()
    }
    return getattr(target, message["call"])(**arguments)


def _load(message: dict[str, Any], objects: dict[tuple[str, int], Any]) -> object:
    kinds = [PluginKind(kind) for kind in message["declared"]]
    hooks = PluginHooks(message["plugin"], message["package"], kinds)
    context = read(PluginContext, message["context"], "forebay")
    described: dict[str, list[dict[str, object]]] = {}
    for name in message["serve"]:
        kind = PluginKind(name)
        described[name] = []
        for index, item in enumerate(hooks.offers(kind, context)):
            objects[name, index] = item
            described[name].append(
                {
                    attribute: _attribute(hooks.plugin, item, attribute)
                    for attribute in attributes_of(INTERFACES[kind])
                }
            )
    return described


def _attribute(plugin: str, item: object, name: str) -> object:
    try:
        return getattr(item, name)
    except AttributeError as error:
        raise PluginError(plugin, f"{type(item).__name__} has no attribute {name}.") from error


def _leave_with_host(answers: int) -> None:
    """End this process when nobody reads its answers any more, whatever it is doing."""
    poll = select.poll()
    poll.register(answers, select.POLLERR)
    poll.poll()
    os._exit(0)


if __name__ == "__main__":
    main()
