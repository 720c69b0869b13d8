"""The tree of maxima is an argmax that remembers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forebay_core.scheduling.index import (
    count_highest,
    first_highest,
    level_starts,
    nth_highest,
    rebuild,
    set_score,
)

scores = st.sampled_from([-np.inf, -3.0, 0.0, 1.0, 2.0])


@given(st.integers(1, 600), st.lists(st.tuples(st.integers(0, 599), scores), max_size=60))
def test_the_highest_is_the_first_maximum_after_any_changes(
    count: int, changes: list[tuple[int, float]]
) -> None:
    starts = level_starts(count)
    tree = np.full(int(starts[-1]), -np.inf)
    plain = np.full(count, -np.inf)
    for leaf, score in changes:
        plain[leaf % count] = score
        set_score(tree, starts, leaf % count, score)
    rebuilt = np.full(int(starts[-1]), -np.inf)
    rebuilt[:count] = plain
    rebuild(rebuilt, starts)
    assert (tree == rebuilt).all()
    if plain.max() == -np.inf:
        assert first_highest(tree, starts) == -1
        assert count_highest(tree, starts, count) == 0
        return
    assert first_highest(tree, starts) == plain.argmax()
    ties = np.flatnonzero(plain == plain.max())
    assert count_highest(tree, starts, count) == len(ties)
    assert [nth_highest(tree, starts, count, nth) for nth in range(len(ties))] == ties.tolist()
