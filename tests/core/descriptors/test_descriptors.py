"""Files of Resource Descriptors: every fault is told, with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay import DescriptorError
from forebay.descriptor import to_device_report
from forebay_core.descriptors import parse_descriptor, read_descriptor

EXAMPLES = sorted((Path(__file__).parents[3] / "docs/examples").glob("*.yaml"))

FAULTY = """\
apiVersion: forebay.dev/v1
kind: ResourceDescriptor
devices:
  - id: a
    type: gpuu
    memory: [{capacity: 80G}]
    extra: 1
  - id: a
    type: gpu
    attributes: {"9x": 1}
    pciAddress: "17:00"
links:
  - {source: a, target: b, kind: pcie, bandwidth: 5}
  - {source: a, target: a, kind: warp}
"""

EXPECTED = [
    (5, "devices[0].type", "input should be 'cpu', 'gpu'"),
    (6, "devices[0].memory[0].capacity", "Write 80GB or 80GiB."),
    (7, "devices[0].extra", "unknown field"),
    (8, "devices[1].id", "is that of devices[0] already"),
    (10, "devices[1].attributes.9x", "no C identifier"),
    (11, "devices[1].pciAddress", "should match pattern"),
    (13, "links[0].bandwidth", "a number without a unit"),
    (13, "links[0].target", "no device of this document"),
    (14, "links[1].kind", "input should be 'pcie'"),
    (14, "links[1]", "joins a device to itself"),
]


def test_every_fault_is_told_with_its_line() -> None:
    with pytest.raises(DescriptorError) as caught:
        parse_descriptor(FAULTY, "node.yaml")
    faults = [(fault.line, fault.field, fault.message) for fault in caught.value.faults]
    assert [(line, field) for line, field, _ in faults] == [
        (line, field) for line, field, _ in EXPECTED
    ]
    for (_, _, message), (_, _, expected) in zip(faults, EXPECTED, strict=True):
        assert expected in message or expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty"),
        ("[1", "x.yaml:1: is not YAML"),
        ("a: &x [1]\nb: *x\n", "x.yaml:1: b: aliases are not allowed."),
        ("- 1\n", "x.yaml:1: input should be"),
        ("a: 1\na: 2\n", "x.yaml:2: a: is given twice."),
        ("1: a\n", "the name of a field is not text."),
        ("\x00", "is not YAML"),
        ("a: " + "[" * 100 + "]" * 100, "is nested too deeply."),
        ("a: 2020-13-45\n", "a"),
        ("a: !!python/object:os.system x\n", "a"),
    ],
)
def test_what_is_no_document_is_refused_in_a_sentence(text: str, expected: str) -> None:
    with pytest.raises(DescriptorError) as caught:
        parse_descriptor(text, "x.yaml")
    assert expected in str(caught.value)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_of_the_documentation_are_valid(path: Path) -> None:
    report = to_device_report(read_descriptor(path))
    assert report.devices


def test_json_with_tabs_is_read_too(tmp_path: Path) -> None:
    document = {
        "apiVersion": "forebay.dev/v1",
        "kind": "ResourceDescriptor",
        "devices": [{"id": "q", "type": "qpu"}],
    }
    path = tmp_path / "node.json"
    path.write_text(json.dumps(document, indent="\t"))
    assert read_descriptor(path).devices[0].id == "q"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DescriptorError, match=r"missing\.yaml: cannot be read"):
        read_descriptor(tmp_path / "missing.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DescriptorError, match=r"binary\.yaml: cannot be read"):
        read_descriptor(tmp_path / "binary.yaml")


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_descriptor(text, "x.yaml")
    except DescriptorError as error:
        assert error.faults  # noqa: PT017 - both outcomes are allowed
