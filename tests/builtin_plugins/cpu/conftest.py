"""What the tests of the CPU adapter share."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpu_trees import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "root")
