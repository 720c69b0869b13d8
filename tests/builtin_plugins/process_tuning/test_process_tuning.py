"""Process tuning promises what was measured here, and does no harm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay import (
    GAIN_MIN,
    Device,
    DeviceId,
    DeviceKind,
    Draw,
    Estimate,
    JobId,
    Lease,
    LeaseId,
    NodeId,
    PluginContext,
    StateError,
    Subject,
    SubjectKind,
    Trial,
    UnsupportedError,
)
from forebay_builtin_plugins.process_tuning.accelerator import ProcessTuning, machine
from forebay_builtin_plugins.process_tuning.measure import THREAD_VARIABLES, measure


@pytest.fixture(autouse=True, scope="module")
def no_inherited_thread_counts() -> Iterator[None]:
    """Keep a variable of the tester's own shell from deciding what is tested."""
    with pytest.MonkeyPatch.context() as environment:
        for name in THREAD_VARIABLES:
            environment.delenv(name, raising=False)
        yield


CPU = Device(DeviceId("cpu"), DeviceKind.CPU, capacity_millis=64_000, numa_node=0)
PROCESS = Subject(SubjectKind.PROCESS, ("python3",), parameters={"cpus": "2,3"})


def tuning(directory: Path, **measured: float) -> ProcessTuning:
    if measured:
        kept = {"machine": machine(), "cpus": 8, "cores": 4, "plain_s": 2.0, "tuned_s": 1.0}
        (directory / "oversubscription.json").write_text(json.dumps({**kept, **measured}))
    return ProcessTuning(PluginContext("process-tuning", NodeId("n"), {}, str(directory)))


def lease(millis: int) -> Lease:
    draws = (Draw(CPU.id, millis),)
    return Lease(LeaseId(1), JobId(1), "default", NodeId("n"), draws, created_s=0.0)


def test_without_a_measurement_it_declines(tmp_path: Path) -> None:
    assert tuning(tmp_path).estimate(PROCESS, lease(1000), [CPU]) is None


@pytest.mark.parametrize("content", ["", "{", '{"machine": "x"}', "[]"])
def test_a_torn_measurement_is_as_good_as_none(content: str, tmp_path: Path) -> None:
    (tmp_path / "oversubscription.json").write_text(content)
    assert tuning(tmp_path).estimate(PROCESS, lease(1000), [CPU]) is None


def test_a_measurement_of_another_machine_is_not_used(tmp_path: Path) -> None:
    accelerator = tuning(tmp_path, plain_s=5.0)
    assert accelerator.estimate(PROCESS, lease(4000), [CPU]) is not None
    kept = json.loads((tmp_path / "oversubscription.json").read_text())
    (tmp_path / "oversubscription.json").write_text(json.dumps({**kept, "machine": "another"}))
    assert accelerator.estimate(PROCESS, lease(4000), [CPU]) is None


@given(plain_s=st.floats(0.1, 100), first=st.integers(1, 12), more=st.integers(0, 12))
def test_it_never_promises_too_little_and_never_more_for_more_cores(
    tmp_path_factory: pytest.TempPathFactory, plain_s: float, first: int, more: int
) -> None:
    accelerator = tuning(tmp_path_factory.mktemp("tuning"), plain_s=plain_s)
    few = accelerator.estimate(PROCESS, lease(first * 1000), [CPU])
    many = accelerator.estimate(PROCESS, lease((first + more) * 1000), [CPU])
    for estimate in (few, many):
        assert estimate is None or estimate.gain >= GAIN_MIN
    if many is not None:
        assert few is not None
        assert few.gain >= many.gain


@pytest.mark.parametrize(("cores", "gain"), [(1, 3.0), (4, 3.0), (6, 1 + 2 / 3), (7, 1 + 2 / 7)])
def test_the_gain_shrinks_with_the_excess_of_threads_and_never_passes_the_measured_one(
    cores: int, gain: float, tmp_path: Path
) -> None:
    """Three times slower was measured with 8 threads on 4 cores: an excess of one a core."""
    estimate = tuning(tmp_path, plain_s=3.0).estimate(PROCESS, lease(cores * 1000), [CPU])
    assert estimate is not None
    assert estimate.gain == pytest.approx(gain)


def test_with_all_the_cores_there_is_nothing_to_gain(tmp_path: Path) -> None:
    assert tuning(tmp_path, plain_s=9.0).estimate(PROCESS, lease(8000), [CPU]) is None


@pytest.mark.parametrize("name", THREAD_VARIABLES)
def test_what_the_user_has_set_is_left_alone(name: str, tmp_path: Path) -> None:
    subject = Subject(SubjectKind.PROCESS, ("python3",), {name: "3"})
    assert tuning(tmp_path, plain_s=9.0).estimate(subject, lease(1000), [CPU]) is None


@pytest.mark.parametrize("name", THREAD_VARIABLES)
def test_what_work_inherits_from_the_hosts_environment_is_left_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "3")
    assert tuning(tmp_path, plain_s=9.0).estimate(PROCESS, lease(1000), [CPU]) is None


@pytest.mark.parametrize("wrong", [{"tuned_s": 0}, {"cores": 0}, {"plain_s": float("nan")}])
def test_a_measurement_that_cannot_be_is_as_good_as_none(
    wrong: dict[str, float], tmp_path: Path
) -> None:
    assert tuning(tmp_path, **wrong).estimate(PROCESS, lease(1000), [CPU]) is None


def test_where_nothing_can_be_kept_it_says_so_and_declines(tmp_path: Path) -> None:
    accelerator = tuning(tmp_path / "absent")
    threads = accelerator.probe()[0]
    assert not threads.available
    assert threads.reason
    assert accelerator.estimate(PROCESS, lease(1000), [CPU]) is None


def test_work_without_cores_or_of_another_kind_is_declined(tmp_path: Path) -> None:
    accelerator = tuning(tmp_path, plain_s=9.0)
    gpu = Device(DeviceId("cpu"), DeviceKind.GPU)
    assert accelerator.estimate(PROCESS, lease(1000), [gpu]) is None
    assert accelerator.estimate(Subject(SubjectKind.GRAPH), lease(1000), [CPU]) is None


def test_a_plan_sets_threads_and_cpus_to_match_the_lease(tmp_path: Path) -> None:
    accelerator = tuning(tmp_path, plain_s=9.0)
    estimate = accelerator.estimate(PROCESS, lease(1500), [CPU])
    assert estimate is not None
    plan = accelerator.plan(PROCESS, lease(1500), [CPU], estimate)
    (artifact,) = accelerator.render(plan, "local")
    assert artifact.environment == dict.fromkeys(THREAD_VARIABLES, "2")
    assert artifact.cpus == (2, 3)
    with pytest.raises(UnsupportedError, match="cannot render for slurm"):
        accelerator.render(plan, "slurm")


@given(
    st.dictionaries(st.sampled_from([*THREAD_VARIABLES, "PATH", "HOME"]), st.just("user")),
    st.integers(1, 64_000),
)
def test_what_is_rendered_never_replaces_what_the_user_has_set(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str], millis: int
) -> None:
    accelerator = tuning(tmp_path_factory.mktemp("tuning"))
    subject = Subject(SubjectKind.PROCESS, ("python3",), environment)
    plan = accelerator.plan(subject, lease(millis), [CPU], Estimate(2.0, 1.0, "for the test"))
    (artifact,) = accelerator.render(plan, "local")
    assert set(artifact.environment) == set(THREAD_VARIABLES) - set(environment)
    assert set(artifact.environment.values()) <= {str(-(-millis // 1000))}


def test_trials_of_both_sorts_become_evidence(tmp_path: Path) -> None:
    accelerator = tuning(tmp_path, plain_s=9.0)
    estimate = accelerator.estimate(PROCESS, lease(1000), [CPU])
    assert estimate is not None
    plan = accelerator.plan(PROCESS, lease(1000), [CPU], estimate)
    plain = [Trial(False, seconds) for seconds in (4.0, 2.0, 3.0)]
    quick = [Trial(True, seconds) for seconds in (1.0, 1.5, 9.0)]
    evidence = accelerator.verify(plan, [*plain, *quick])
    assert (evidence.value, evidence.baseline, evidence.gain) == (1.5, 3.0, 2.0)
    for one_sort in (plain, quick):
        with pytest.raises(StateError, match="trial"):
            accelerator.verify(plan, one_sort)


def test_this_machine_is_really_measured_and_once(tmp_path: Path) -> None:
    accelerator = tuning(tmp_path)
    threads = accelerator.probe()[0]
    if not threads.available:
        pytest.skip(threads.reason)
    assert float(threads.parameters["plain_s"]) > 0
    assert float(threads.parameters["tuned_s"]) > 0
    before = (tmp_path / "oversubscription.json").read_text()
    assert accelerator.probe()[0].parameters == threads.parameters
    assert (tmp_path / "oversubscription.json").read_text() == before
    again = measure(rounds=1)
    assert again.cpus == threads.parameters["cpus"]
    # Shown by ``pytest -s``: what this machine gains, which no test can promise.
    print(f"\n{again.cores} of {again.cpus} CPUs: {threads.parameters}, again {again}")
