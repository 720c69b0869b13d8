"""The host's cycle, with real plugins and processes and a clock of the test's own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay import (
    CapacityError,
    DeviceKind,
    FactState,
    JobSpec,
    JobState,
    JsonValue,
    NotFoundError,
    Pool,
)
from forebay_core.config import Config
from forebay_core.ledger import replay
from forebay_core.requests import parse_request
from forebay_core.runtime import Host
from forebay_core.runtime.host import PATIENCE_S
from forebay_core.runtime.readings import read
from polling import wait_until

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="a pool of two cores needs two cores"
)


class Clock:
    """The machine's time, moved on at will."""

    ahead_s = 0.0

    def now_s(self) -> float:
        return time.time() + self.ahead_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def host(forebay_home: Path, clock: Clock) -> Iterator[Host]:
    pool = Pool("default", "shares", quota_millis={DeviceKind.CPU: 2000})
    with Host(Config(pools=(pool,)), forebay_home, clock) as opened:
        opened.refresh()
        yield opened
        for entry in opened.ledger.active_leases():
            opened.engine("local").cancel(entry.lease.id, 0.0)
        wait_until(lambda: opened.settle() == ())


def spec(cores: float, *command: str) -> JobSpec:
    return JobSpec(command or ("true",), parse_request([f"cpu={cores}"]))


def ended(host: Host, job: int) -> bool:
    host.settle()
    return host.ledger.jobs()[job - 1].state.is_final


def test_small_jobs_pass_a_large_one_until_it_has_waited_long(host: Host, clock: Clock) -> None:
    gate = host.home / "gate"
    running = host.submit(spec(1, "sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done"))
    host.cycle()
    large = host.submit(spec(2))
    small = host.submit(spec(1))
    assert [lease.job for lease in host.cycle()] == [small.id]
    wait_until(lambda: ended(host, small.id))
    clock.ahead_s = PATIENCE_S + 1
    late = host.submit(spec(1))
    assert host.cycle() == ()
    gate.touch()
    wait_until(lambda: ended(host, running.id))
    assert [lease.job for lease in host.cycle()] == [large.id]
    wait_until(lambda: ended(host, large.id))
    assert [lease.job for lease in host.cycle()] == [late.id]
    wait_until(lambda: ended(host, late.id))
    assert replay(host.ledger.events()) == host.ledger.state()


def test_what_can_never_run_is_not_queued(host: Host) -> None:
    with pytest.raises(CapacityError, match="the quota of pool default is 2: 1 too much"):
        host.submit(spec(3))
    with pytest.raises(NotFoundError, match="no pool 'other'") as caught:
        host.submit(JobSpec(("true",), parse_request(["cpu=1"], pool="other")))
    assert "Pools: default." in caught.value.fix
    assert host.ledger.jobs() == ()


def test_work_whose_supervisor_was_killed_is_lost_and_its_cores_come_back(host: Host) -> None:
    import json
    import signal

    job = host.submit(spec(2, "sleep", "600"))
    (lease,) = host.cycle()
    started = host.home / f"plugins/local/leases/{lease.id}/started.json"
    os.kill(json.loads(started.read_text())["supervisor"], signal.SIGKILL)
    wait_until(lambda: ended(host, job.id))
    assert host.ledger.job(job.id).state is JobState.LOST
    assert set(host.ledger.usage().values()) == {(0, 0)}


def test_a_second_host_on_the_same_home_takes_nothing_twice(host: Host, forebay_home: Path) -> None:
    jobs = [host.submit(spec(1)) for _ in range(6)]
    with Host(host.config, forebay_home) as other:
        other.refresh()
        taken = []
        while not all(host.ledger.job(job.id).state.is_final for job in jobs):
            for each in (host, other):
                taken += [lease.job for lease in each.cycle()]
                each.settle()
    assert sorted(taken) == [job.id for job in jobs]
    assert replay(host.ledger.events()) == host.ledger.state()


def test_devices_and_network_are_read_with_their_states(host: Host) -> None:
    found = read(host)
    states = {reading.name: reading for reading in found.devices}
    load = states["hw.cpu.utilization"]
    assert load.state is FactState.OK
    assert 0 <= (load.value or 0) <= 1
    assert all(
        (reading.value is None) == (reading.state is not FactState.OK) for reading in found.devices
    )
    assert found.failures == ()


def test_where_power_is_not_read_a_model_that_knows_the_device_predicts_it(
    forebay_home: Path,
) -> None:
    with Host(Config(), forebay_home) as plain:
        (model, *_) = {device.model for device in plain.refresh().devices}
    if not model:
        pytest.skip("the kernel does not tell this CPU's model")
    options: dict[str, JsonValue] = {"models": {model: {"max_watts": 100, "idle_watts": 40}}}
    with Host(Config(plugin={"linear-power": options}), forebay_home) as host:
        host.refresh()
        (power,) = [found for found in read(host).devices if found.name == "hw.power"]
    assert 40 <= (power.value or 0) <= 100
    assert power.source == "model linear-power"
