"""Reads Resource Descriptors from YAML or JSON files, and says where each fault stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebay import DescriptorError, Fault

if TYPE_CHECKING:
    from ruamel.yaml.nodes import MappingNode, Node

    from forebay.descriptor import Descriptor

FILE_BYTES_MAX = 16 * 2**20
DEPTH_MAX = 32


def read_descriptor(path: Path) -> Descriptor:
    """Read and check a file.

    YAML 1.2, of which JSON is a part; aliases are refused, since a few of them
    can stand for more than any memory holds.

    Raises
    ------
    DescriptorError
        With every fault found, each with file, line and field.
    """
    source = str(path)
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise DescriptorError(Fault(f"is larger than {FILE_BYTES_MAX} bytes.", source=source))
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DescriptorError(Fault(f"cannot be read: {error}.", source=source)) from error
    return parse_descriptor(text, source)


def parse_descriptor(text: str, source: str) -> Descriptor:
    """Read and check a document; see :func:`read_descriptor`."""
    from forebay.descriptor import load_descriptor

    root = _compose(text, source)
    reader = _Reader()
    document = reader.read(root, "")
    if reader.faults:
        raise DescriptorError(tuple(replace(fault, source=source) for fault in reader.faults))
    try:
        return load_descriptor(document)
    except DescriptorError as error:
        placed = (
            replace(fault, source=source, line=_line(reader.lines, fault.field))
            for fault in error.faults
        )
        raise DescriptorError(tuple(sorted(placed, key=lambda fault: fault.line or 0))) from error


def _compose(text: str, source: str) -> Node:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    if text.lstrip().startswith("{"):
        # JSON allows tabs between its parts, YAML does not; inside strings both escape them.
        text = text.replace("\t", " ")
    try:
        root: Node | None = YAML(typ="safe", pure=True).compose(text)
    except RecursionError:
        raise DescriptorError(Fault("is nested too deeply.", source=source)) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line = None if mark is None else mark.line + 1
        raise DescriptorError(
            Fault(f"is not YAML: {error.problem}.", source=source, line=line)
        ) from error
    except (YAMLError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise DescriptorError(Fault(f"is not YAML: {first}.", source=source)) from error
    if root is None:
        raise DescriptorError(
            Fault(
                "is empty.",
                source=source,
                fix="Begin with apiVersion: forebay.dev/v1",
            )
        )
    return root


@dataclass(slots=True)
class _Reader:
    """Turns nodes into plain data, noting the line of every path and all that is wrong."""

    lines: dict[str, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)

    def read(self, node: Node, path: str, depth: int = 0) -> Any:  # noqa: ANN401 - plain data
        from ruamel.yaml.nodes import MappingNode, SequenceNode

        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        if id(node) in self.seen:
            return self._fault("aliases are not allowed.", line, path)
        self.seen.add(id(node))
        if depth > DEPTH_MAX:
            return self._fault("is nested too deeply.", line, path)
        if isinstance(node, MappingNode):
            return self._read_mapping(node, path, depth)
        if isinstance(node, SequenceNode):
            return [
                self.read(item, f"{path}[{index}]", depth + 1)
                for index, item in enumerate(node.value)
            ]
        return self._read_scalar(node, path)

    def _read_mapping(self, node: MappingNode, path: str, depth: int) -> dict[str, Any]:
        from ruamel.yaml.nodes import ScalarNode

        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self._read_scalar(key_node, path) if isinstance(key_node, ScalarNode) else None
            if not isinstance(key, str):
                self._fault("the name of a field is not text.", line, path, "Put it in quotes.")
                continue
            below = f"{path}.{key}" if path else key
            if key in found:
                self._fault("is given twice.", line, below)
                continue
            self.lines[below] = line
            found[key] = self.read(value_node, below, depth + 1)
        return found

    def _read_scalar(self, node: Node, path: str) -> Any:  # noqa: ANN401 - plain data
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        yaml = YAML(typ="safe", pure=True)
        try:
            return yaml.constructor.construct_object(node, deep=True)
        except (ValueError, YAMLError) as error:
            return self._fault(f"cannot be read: {error}.", node.start_mark.line + 1, path)

    def _fault(self, message: str, line: int, path: str, fix: str = "") -> None:
        self.faults.append(Fault(message, line=line, field=path, fix=fix))


def _line(lines: Mapping[str, int], path: str) -> int | None:
    """Return the line of a path, or of the nearest part of it that has one."""
    while path:
        if path in lines:
            return lines[path]
        cut = max(path.rfind("."), path.rfind("["))
        path = path[:cut] if cut > 0 else ""
    return lines.get("")
