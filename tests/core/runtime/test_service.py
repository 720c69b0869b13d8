from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forebay import Event, EventKind, JobSpec, JobState, StateError
from forebay_core.config import Config
from forebay_core.requests import parse_request
from forebay_core.runtime import Host
from forebay_core.runtime.service import Service, service_is_running
from polling import wait_until

ONE_CORE = JobSpec(("true",), parse_request(["cpu=1"]))


@pytest.fixture
def host(forebay_home: Path) -> Iterator[Host]:
    with Host(Config(), forebay_home) as opened:
        yield opened


@contextmanager
def running(service: Service) -> Iterator[None]:
    """Run a service in a thread for the length of a block."""
    with service:
        service.start()
        thread = threading.Thread(target=service.run)
        thread.start()
        try:
            yield
        finally:
            service.stop()
            thread.join(30.0)
            assert not thread.is_alive()


def test_a_service_is_seen_while_it_holds_its_lock_alone(host: Host) -> None:
    assert not service_is_running(host.home)
    with Service(host):
        assert service_is_running(host.home)
        with pytest.raises(StateError, match="already"), Service(host):
            pass
        assert service_is_running(host.home)
    assert not service_is_running(host.home)


def test_looking_for_a_service_never_keeps_one_from_starting(host: Host) -> None:
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            service_is_running(host.home)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(20):
            with Service(host):
                pass
    finally:
        done.set()
        for looker in lookers:
            looker.join()


def test_a_step_that_fails_is_logged_once_and_the_others_go_on(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    # With a directory in its place the lock of the observers cannot be opened.
    (host.home / "observers.lock").mkdir()
    with running(Service(host)):
        jobs = [host.submit(ONE_CORE).id for _ in range(3)]
        wait_until(lambda: all(host.ledger.job(job).state.is_final for job in jobs))
        failed = [record.message for record in caplog.records if "observing" in record.message]
        (host.home / "observers.lock").rmdir()
        wait_until(lambda: any("works again" in record.message for record in caplog.records))

    assert {host.ledger.job(job).state for job in jobs} == {JobState.COMPLETED}
    assert len(failed) == 1
    assert "observing failed: IsADirectoryError" in failed[0]


def test_only_events_newer_than_the_start_are_told_each_once(host: Host) -> None:
    host.refresh()
    host.submit(ONE_CORE)
    known = host.ledger.last_sequence()
    told: list[Event] = []

    with running(Service(host, on_event=told.append)):
        wait_until(lambda: any(event.kind is EventKind.JOB_ENDED for event in told))

    assert told == list(host.ledger.events(known))


def test_devices_are_looked_for_again_and_again(host: Host) -> None:
    service = Service(host, refresh_every_s=0.01)
    with running(service):
        first = host.inventory
        wait_until(lambda: host.inventory is not first)
