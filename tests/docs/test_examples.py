"""What the documentation shows is run, and must do what it says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from forebay import parse_manifest
from forebay_core.config import parse_config

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of one language, in order."""
    return [body for name, body in FENCE.findall(page.read_text()) if name == language]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=name_of)
def test_python_examples_run(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "example"}
    for body in blocks(page, "python"):
        exec(compile(body, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "toml")], ids=name_of)
def test_toml_examples_are_valid_manifests_or_configurations(page: Path) -> None:
    for body in blocks(page, "toml"):
        if "schema" in tomllib.loads(body):
            parse_manifest(body, str(page))
        else:
            parse_config(body, str(page))
