"""Fifty jobs at once over two cores, also when the service is killed in the middle."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from forebay import Event, EventKind
from forebay_core.ledger import Ledger, LedgerState, replay
from live_service import LiveService
from polling import wait_until

JOBS = 50
QUOTA_MILLIS = 2000


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    """Return options for a pool that lends two cores, however many the machine has."""
    path = tmp_path / "two-cores.toml"
    path.write_text('[[pool]]\nname = "default"\nquota = { cpu = 2 }\n')
    return ["--config", str(path)]


def submit_all(service: LiveService, ran: Path) -> list[int]:
    """Submit all jobs at once; each adds a line to a file."""

    def submit(index: int) -> int:
        command = ["sh", "-c", f"echo {index} >>'{ran}'; sleep 0.05"]
        return service.submit(command, request="cpu=1")

    with ThreadPoolExecutor(10) as threads:
        return list(threads.map(submit, range(JOBS)))


def states(service: LiveService) -> Counter[str]:
    return Counter(job["state"] for job in service.get("/v1/jobs", limit=JOBS)["jobs"])


def all_completed(service: LiveService) -> Callable[[], bool]:
    """Return a condition that also looks, each time, at what is lent."""

    def condition() -> bool:
        leases = service.get("/v1/leases")["leases"]
        lent = sum(draw["millis"] for lease in leases for draw in lease["draws"])
        assert lent <= QUOTA_MILLIS
        found = states(service)
        assert set(found) <= {"pending", "starting", "running", "completed"}
        return found["completed"] == JOBS

    return condition


def check_never_over_capacity(events: tuple[Event, ...]) -> int:
    """Check the state after each event; returns the most that was ever lent."""
    most = 0
    for end in range(1, len(events) + 1):
        if events[end - 1].kind is not EventKind.LEASE_CREATED:
            continue
        state = replay(events[:end])
        for device in state.devices.values():
            assert device.used_millis <= device.capacity_millis
            assert device.used_memory_bytes <= device.memory_bytes
        for pool in state.pools.values():
            assert pool.quota_millis is None or pool.used_millis <= pool.quota_millis
        most = max(most, sum(device.used_millis for device in state.devices.values()))
    return most


def check_after(home: Path, ran: Path) -> LedgerState:
    """Check that each job ran once, nothing is lent, and the events tell the same."""
    assert sorted(map(int, ran.read_text().split())) == list(range(JOBS))
    ledger = Ledger(home / "ledger.db")
    try:
        events = ledger.events()
        state = ledger.state()
        assert ledger.active_leases() == ()
    finally:
        ledger.close()
    assert 0 < check_never_over_capacity(events) <= QUOTA_MILLIS
    assert replay(events) == state
    assert len(state.leases) == JOBS
    assert not any(lease.in_force for lease in state.leases.values())
    assert not any(device.used_millis for device in state.devices.values())
    return state


def test_fifty_jobs_at_once_never_take_more_than_the_pool_has(
    forebay_home: Path, tmp_path: Path, options: list[str]
) -> None:
    ran = tmp_path / "ran"
    with LiveService(forebay_home, tmp_path / "log", options) as service:
        submit_all(service, ran)
        wait_until(all_completed(service))
        assert service.get("/v1/leases")["leases"] == []

    check_after(forebay_home, ran)


def test_killing_the_service_loses_no_job_and_runs_none_twice(
    forebay_home: Path, tmp_path: Path, options: list[str]
) -> None:
    ran = tmp_path / "ran"
    with LiveService(forebay_home, tmp_path / "log", options) as service:
        submit_all(service, ran)
        wait_until(lambda: states(service)["completed"] >= JOBS // 4)
        service.end(signal.SIGKILL)
    with LiveService(forebay_home, tmp_path / "log", options) as service:
        wait_until(lambda: states(service)["completed"] >= JOBS // 2)
        service.end(signal.SIGKILL)
    assert len(ran.read_text().split()) < JOBS

    with LiveService(forebay_home, tmp_path / "log", options) as service:
        wait_until(all_completed(service))

    check_after(forebay_home, ran)
