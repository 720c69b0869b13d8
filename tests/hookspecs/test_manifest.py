"""The manifest: read without importing anything, every fault told at once."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forebay
from forebay import FailurePolicy, ManifestError, PluginKind, parse_manifest

GOOD = """
schema = 1
id = "my-npu"
kinds = ["hardware", "observer"]
api = ">=1.0,<2"
summary = "Finds the NPUs of Example."
failure_policy = "fail-closed"
call_deadline_s = 3

[[match]]
pci = ["10de:*:03", "1002:74a1"]

[[capabilities]]
name = "partition"
parameters = { profiles_max = 7 }

[config.properties.root]
type = "string"

[permissions]
devices = ["/dev/npu*"]
"""


def test_a_whole_manifest_is_read() -> None:
    manifest = parse_manifest(GOOD)
    assert manifest.kinds == (PluginKind.HARDWARE, PluginKind.OBSERVER)
    assert manifest.failure_policy is FailurePolicy.FAIL_CLOSED
    assert manifest.call_deadline_s == 3.0
    assert manifest.match[0].pci == ("10de:*:03", "1002:74a1")
    assert manifest.capabilities[0].parameters == {"profiles_max": 7}
    assert manifest.config == {"properties": {"root": {"type": "string"}}}
    assert manifest.permissions.devices == ("/dev/npu*",)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("schema = 1", "schema = 2", "forebay-plugin.toml:2: schema: found 2, expected 1."),
        ('id = "my-npu"', 'id = "My NPU"', "lower-case words joined by hyphens"),
        ('"observer"]', '"spy"]', "kinds[1]: found 'spy', expected one of: hardware,"),
        ('"observer"]', '"hardware"]', "names a kind twice"),
        ('">=1.0,<2"', '"1"', 'Write for example api = ">=1.0,<2".'),
        ("call_deadline_s = 3", "call_deadline_s = 0", "expected more than 0"),
        ("call_deadline_s = 3", 'call_deadline_s = "3"', "found '3', expected a number"),
        ('"10de:*:03"', '"10DE:*"', "match[0].pci: found '10DE:*'"),
        ('pci = ["10de:*:03", "1002:74a1"]', "", "match[0]: is empty"),
        ("summary =", "sumary =", "sumary: unknown field."),
        ("[permissions]", "[permission]", "permission: unknown field."),
        ("schema = 1", "schema 1", "is not TOML"),
    ],
)
def test_a_faulty_manifest_is_refused_with_the_reason(old: str, new: str, expected: str) -> None:
    assert old in GOOD
    with pytest.raises(ManifestError) as caught:
        parse_manifest(GOOD.replace(old, new))
    assert expected in str(caught.value)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ManifestError) as caught:
        parse_manifest('schema = 1\nid = 5\nkinds = "hardware"\nextra = true\n')
    assert len(caught.value.faults) >= 3
    assert [fault.line for fault in caught.value.faults[:3]] == [2, 3, 4]


@given(st.text())
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    try:
        parse_manifest(text)
    except ManifestError as error:
        assert error.faults  # noqa: PT017 - both outcomes are allowed


def test_importing_the_contract_loads_nothing_heavy() -> None:
    heavy = {"numpy", "pydantic", "sqlalchemy", "fastapi", "typer", "rich", "numba", "asyncio"}
    script = "import sys; from forebay import *; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & heavy


def test_every_public_name_exists() -> None:
    for name in forebay.__all__:
        assert hasattr(forebay, name)
