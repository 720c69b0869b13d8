"""A real ``forebay up`` for tests, in a process of its own."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from forebay import JobState

FOREBAY = str(Path(sys.executable).with_name("forebay"))
"""The installed command."""

START_DEADLINE_S = 60.0


class LiveService:
    """Starts the service on a free port and ends it with the block.

    Parameters
    ----------
    home : Path
        What ``FOREBAY_HOME`` names for it; no other setting of Forebay is handed on.
    log : Path
        Takes what the service writes to standard error.
    options : sequence of str
        Options of ``forebay`` itself, before the command.
    """

    def __init__(self, home: Path, log: Path, options: Sequence[str] = ()) -> None:
        self.home = home
        self.log = log
        self._command = [FOREBAY, *options, "up", "--port", "0", "--json"]
        self.facts: dict[str, Any] = {}

    def __enter__(self) -> LiveService:
        settings = {
            name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")
        }
        settings["FOREBAY_HOME"] = str(self.home)
        settings["XDG_CONFIG_HOME"] = str(self.home.with_name("config-home"))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, env=settings
            )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], START_DEADLINE_S)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.process.stdout.close()
            self.end(signal.SIGKILL)
            raise AssertionError(f"no service: {self.log.read_text()}")
        self.facts = json.loads(line)
        self.client = httpx.Client(
            base_url=self.facts["url"],
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=30.0,
            trust_env=False,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.end(signal.SIGTERM)
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def token(self) -> str:
        """The token, as any program of the same user reads it."""
        return Path(self.facts["token_file"]).read_text().strip()

    def end(self, number: signal.Signals) -> int:
        """End the service by a signal; returns its exit status."""
        self.process.send_signal(number)
        return self.process.wait(30.0)

    def get(self, path: str, **query: str | int) -> Any:  # noqa: ANN401 - whatever JSON says
        """Return a document."""
        answer = self.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def alive(self) -> list[int]:
        """Return the numbers of the jobs that have not ended."""
        states = httpx.QueryParams(
            [("state", state.value) for state in JobState if not state.is_final]
        )
        answer = self.client.get("/v1/jobs", params=states)
        return [job["id"] for job in answer.json()["jobs"]]

    def submit(self, command: Sequence[str], **fields: object) -> int:
        """Submit a job; returns its number."""
        answer = self.client.post("/v1/jobs", json={"command": list(command), **fields})
        assert answer.status_code == 201, answer.text
        number: int = answer.json()["id"]
        return number
