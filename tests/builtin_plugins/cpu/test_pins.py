"""Which lease is kept on which CPUs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpu_trees import Tree, adapter, lease
from forebay import DeviceAccess
from forebay_builtin_plugins.cpu.pins import PinRecord, choose_cpus


def load_of(pinned: dict[str, dict[int, int]]) -> Counter[int]:
    load: Counter[int] = Counter()
    for kept in pinned.values():
        load.update(kept)
    return load


PINNING = """
import sys
from pathlib import Path
from forebay_builtin_plugins.cpu.pins import PinRecord

record = PinRecord(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    record.pin(str(number), [(1000, [range(40)])])
    record.pin("gone" + str(number), [(500, [range(40)])])
    record.release("gone" + str(number))
"""
"""A process that pins leases once it is told to, and more that it releases again."""


def test_processes_that_pin_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    spans = [(first, first + 10) for first in range(0, 40, 10)]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", PINNING, str(tmp_path), str(first), str(end)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for first, end in spans
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.communicate("now\n")
            assert process.returncode == 0
    pinned = json.loads((tmp_path / "pins.json").read_text())
    assert set(pinned) == {str(number) for number in range(40)}
    # A lease that is there already is told its CPUs, and nothing else is pinned by asking.
    assert all(len(PinRecord(tmp_path).pin(name, [])) == 1 for name in pinned)


@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 4), st.integers(0, 4), st.booleans()),
        max_size=16,
    )
)
def test_whole_cores_are_nobody_elses_while_enough_are_free(
    steps: list[tuple[int, int, int, bool]],
) -> None:
    """Two sockets of four CPUs; leases draw whole cores of either, of both, or of neither."""
    with tempfile.TemporaryDirectory() as name:
        tree = Tree(Path(name) / "root")
        tree.cpus({cpu: cpu // 4 for cpu in range(8)})
        cpu = adapter(tree, Path(name))
        ids = [device.id for device in cpu.discover().devices]
        held: dict[int, tuple[int, ...]] = {}
        for number, first, second, ends in steps:
            draws = [
                (device, 1000 * cores)
                for device, cores in zip(ids, (first, second), strict=True)
                if cores
            ]
            asked = lease(number, *draws, ("some-gpu", 1000))
            cpus = cpu.prepare(asked).cpus
            assert cpu.prepare(asked).cpus == cpus
            if number not in held:
                used = {taken for others in held.values() for taken in others}
                for socket, cores in enumerate((first, second)):
                    of_socket = set(range(4 * socket, 4 * socket + 4))
                    assert len(of_socket & set(cpus)) == cores
                    if len(of_socket - used) >= cores:
                        assert not of_socket & set(cpus) & used
            elif draws:
                assert cpus == held[number]
            if draws:
                held.setdefault(number, cpus)
            if ends:
                cpu.release(asked)
                held.pop(number, None)


def test_what_other_adapters_lend_is_not_pinned(tmp_path: Path) -> None:
    cpu = adapter(None, tmp_path)
    assert cpu.prepare(lease(1, ("some-gpu", 1000))) == DeviceAccess()
    assert cpu.prepare(lease(2)) == DeviceAccess()
    assert not (tmp_path / "state/pins.json").exists()


class TestPinning:
    @given(
        st.lists(st.integers(1, 4), min_size=1, max_size=3),
        st.lists(st.tuples(st.integers(1, 3500), st.booleans()), max_size=12),
    )
    def test_cpus_in_use_are_shared_only_when_too_few_are_free(
        self, sizes: list[int], steps: list[tuple[int, bool]]
    ) -> None:
        numbers = iter(range(sum(sizes)))
        groups = [tuple(next(numbers) for _ in range(size)) for size in sizes]
        pinned: dict[str, dict[int, int]] = {}
        for number, (millis, ends) in enumerate(steps):
            load = load_of(pinned)
            chosen = choose_cpus(millis, groups, load)
            assert set(chosen) <= set(range(sum(sizes)))
            assert len(chosen) == min(-(-millis // 1000), sum(sizes))
            assert sum(chosen.values()) == min(millis, 1000 * sum(sizes))
            if sum(sizes) - len(load) >= len(chosen):
                assert not set(load) & set(chosen)
            if ends:
                continue
            pinned[str(number)] = chosen

    @given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 2500), st.booleans()), max_size=10))
    def test_releasing_every_lease_leaves_nothing_pinned(
        self, steps: list[tuple[int, int, bool]]
    ) -> None:
        with tempfile.TemporaryDirectory() as directory:
            record = PinRecord(Path(directory))
            held: dict[str, tuple[int, ...]] = {}
            for number, millis, ends in steps:
                name = str(number)
                cpus = record.pin(name, [(millis, [(0, 1), (2, 3)])])
                assert held.setdefault(name, cpus) == cpus
                if ends:
                    record.release(name)
                    del held[name]
            for name in held:
                record.release(name)
            assert json.loads((Path(directory) / "pins.json").read_text() if steps else "{}") == {}

    def test_parts_of_a_cpu_go_where_least_is_kept(self) -> None:
        # Two leases of a tenth are less than one of a half.
        assert choose_cpus(300, [(0, 1)], {0: 500, 1: 200}) == {1: 300}
        assert choose_cpus(1500, [(0, 1, 2)], {0: 300}) == {1: 1000, 2: 500}

    def test_a_lease_stays_in_one_numa_node_where_that_costs_nothing(self) -> None:
        nodes = [(0, 1), (2, 3, 4)]
        assert set(choose_cpus(2000, nodes, {0: 1000})) == {2, 3}
        # Free CPUs of two nodes are better than used ones of the same.
        assert set(choose_cpus(2000, [(0, 1), (2, 3)], {0: 1000, 2: 1000})) == {1, 3}

    def test_a_lease_stays_where_it_is_and_is_forgotten_when_released(self, tmp_path: Path) -> None:
        cpu = adapter(None, tmp_path)
        (device,) = cpu.discover().devices[:1]
        first = cpu.prepare(lease(1, (device.id, 1000), ("other", 1000)))
        assert len(first.cpus) == 1
        assert cpu.prepare(lease(1, (device.id, 1000))) == first
        assert first.enforced == ()
        cpu.release(lease(1))
        cpu.release(lease(1))
        assert cpu.prepare(lease(2, (device.id, 1000))) == first

    def test_without_pinning_work_goes_where_it_likes(self, tmp_path: Path) -> None:
        cpu = adapter(None, tmp_path, pin=False)
        (device,) = cpu.discover().devices[:1]
        assert cpu.prepare(lease(1, (device.id, 1000))).cpus == ()

    def test_pins_made_at_the_same_time_are_all_kept(self, tmp_path: Path) -> None:
        threads = [
            threading.Thread(
                target=lambda n=number: PinRecord(tmp_path).pin(str(n), [(1000, [range(16)])])
            )
            for number in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        pinned = {PinRecord(tmp_path).pin(str(number), []) for number in range(16)}
        assert pinned == {(cpu,) for cpu in range(16)}

    @pytest.mark.parametrize("text", ['{"1": [0', '{"1": [0]}', "[]", ""])
    def test_a_record_that_cannot_be_read_is_begun_anew(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "pins.json").write_text(text)
        assert PinRecord(tmp_path).pin("2", [(1000, [(0, 1)])]) == (0,)
