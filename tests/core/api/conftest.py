"""One service for most tests; what a test leaves running is ended after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from live_service import LiveService
from polling import wait_until


@pytest.fixture(scope="session")
def running_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    """Start the service."""
    directory = tmp_path_factory.mktemp("service")
    with LiveService(directory / "home", directory / "log") as running:
        yield running


@pytest.fixture
def service(running_service: LiveService) -> Iterator[LiveService]:
    """Return a running service with nothing queued or lent."""
    yield running_service
    if alive := running_service.alive():
        for number in alive:
            running_service.client.post(f"/v1/jobs/{number}/cancel")
        wait_until(lambda: not running_service.alive())
