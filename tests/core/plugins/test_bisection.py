"""Bisection finds exactly the plugins that are to blame."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from forebay_core.plugins.bisection import find_culprits, minimise

PLUGINS = [f"p{number}" for number in range(12)]


@given(st.sets(st.sampled_from(PLUGINS), min_size=1, max_size=4))
def test_it_finds_those_that_fail_only_together(guilty: set[str]) -> None:
    def fails(enabled: Sequence[str]) -> bool:
        return guilty <= set(enabled)

    assert set(minimise(list(PLUGINS), fails)) == guilty


@given(st.sets(st.sampled_from(PLUGINS), min_size=1))
def test_of_several_each_of_which_is_enough_it_finds_one(guilty: set[str]) -> None:
    found = minimise(list(PLUGINS), lambda enabled: bool(guilty & set(enabled)))
    assert len(found) == 1
    assert set(found) <= guilty


def test_a_real_command_is_run_with_plugins_disabled() -> None:
    command = ["sh", "-c", 'case ",$FOREBAY_DISABLE_PLUGINS," in *,p7,*) exit 0;; esac; exit 1']
    told: list[str] = []
    result = find_culprits(command, PLUGINS, tell=told.append)
    assert result.culprits == ("p7",)
    assert result.runs == len(told) <= 12


def test_where_no_plugin_is_to_blame_it_says_so() -> None:
    always = find_culprits(["false"], PLUGINS, tell=lambda _message: None)
    assert (always.culprits, always.runs) == ((), 2)
    assert "with no plugin enabled" in always.verdict
    never = find_culprits(["true"], PLUGINS, tell=lambda _message: None)
    assert (never.culprits, never.runs) == ((), 1)
