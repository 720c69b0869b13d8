"""Lists of CPUs, as the kernel writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay_builtin_plugins.cpu.cpulist import format_cpu_list, parse_cpu_list

cpu_sets = st.sets(st.integers(0, 300))


class TestCpuLists:
    @given(cpu_sets)
    def test_what_is_written_is_read_again(self, cpus: set[int]) -> None:
        assert parse_cpu_list(format_cpu_list(cpus)) == tuple(sorted(cpus))

    @pytest.mark.parametrize(
        ("text", "cpus"),
        [("", ()), ("0", (0,)), ("0-2,7\n", (0, 1, 2, 7)), ("3,1", (1, 3))],
    )
    def test_the_kernels_form_is_read(self, text: str, cpus: tuple[int, ...]) -> None:
        assert parse_cpu_list(text) == cpus
