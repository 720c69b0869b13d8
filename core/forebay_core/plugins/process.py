"""The host's side of a plugin's own process: deadlines, restarts, quarantine."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from forebay import (
    PluginCrashedError,
    PluginError,
    PluginTimeoutError,
)
from forebay_core.plugins.wire import decode, decode_error, encode

ANSWER_BYTES_MAX = 64 * 2**20
"""A longer answer is taken for a flood."""

START_DEADLINE_S = 30.0
"""Longest that starting the process and loading the plugin may take."""

OUTPUT_BYTES_KEPT = 8192
"""How much of what the plugin prints is kept for error messages."""


class PluginProcess:
    """Starts a plugin's process, calls it, and ends it when it does not answer.

    One call at a time; further callers wait.

    Parameters
    ----------
    plugin : str
        Id of the plugin.
    load : mapping
        The message that loads the plugin; sent after each start.
    deadline_s : float
        Longest that a call may take.
    """

    def __init__(self, plugin: str, load: Mapping[str, object], deadline_s: float) -> None:
        self.plugin = plugin
        self._load = load
        self._deadline_s = deadline_s
        self._process: subprocess.Popen[bytes] | None = None
        self._requests = -1
        self._answers = -1
        self._output: deque[bytes] = deque(maxlen=OUTPUT_BYTES_KEPT // 512)

    @property
    def is_running(self) -> bool:
        """Whether the process is there to be called."""
        return self._process is not None

    def start(self) -> Any:  # noqa: ANN401 - the answer to the load message
        """Start the process and load the plugin; returns what it offers.

        Raises
        ------
        PluginError
            It could not be loaded, crashed, or took too long; the process is ended.
        """
        to_child, self._requests = os.pipe()
        self._answers, from_child = os.pipe()
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "forebay_core.plugins.child",
                    str(to_child),
                    str(from_child),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(to_child, from_child),
                # A group of its own, so that all of it can be ended, and Ctrl-C passes it by.
                start_new_session=True,
            )
        finally:
            os.close(to_child)
            os.close(from_child)
        threading.Thread(target=self._drain, args=(self._process,), daemon=True).start()
        try:
            return self._exchange(self._load, START_DEADLINE_S)
        except PluginError:
            self.stop()
            raise

    def call(self, message: Mapping[str, object]) -> Any:  # noqa: ANN401 - as the method
        """Send one call and return its result as plain data.

        Raises
        ------
        ForebayError
            What the plugin raised, where that is an error of the contract.
        PluginError
            It raised something else, crashed, or did not answer in time;
            in the last two cases the process is ended.
        """
        return self._exchange(message, self._deadline_s)

    def stop(self) -> None:
        """End the process and everything in its group; harmless when there is none."""
        process, self._process = self._process, None
        if process is None:
            return
        for descriptor in (self._requests, self._answers):
            os.close(descriptor)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _exchange(self, message: Mapping[str, object], deadline_s: float) -> Any:  # noqa: ANN401
        data = encode(message)
        try:
            self._write(data)
            line = self._read_line(time.monotonic() + deadline_s)
        except TimeoutError:
            self.stop()
            raise PluginTimeoutError(
                self.plugin,
                f"did not answer {message['call']} within {deadline_s:g} s.",
                fix="See what its library waits for; the process was ended.",
            ) from None
        except (EOFError, BrokenPipeError):
            raise PluginCrashedError(
                self.plugin, f"ended during {message['call']}: {self._how_it_ended()}"
            ) from None
        try:
            answer = decode(line)
        except ValueError as error:
            self.stop()
            raise PluginError(self.plugin, f"sent an answer that is not JSON: {error}.") from error
        if "error" in answer:
            raise decode_error(self.plugin, answer["error"])
        return answer["result"]

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._requests, view) :]

    def _read_line(self, until: float) -> bytes:
        parts = bytearray()
        while not parts.endswith(b"\n"):
            ready, _, _ = select.select([self._answers], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError
            part = os.read(self._answers, 1 << 20)
            if not part:
                raise EOFError
            parts += part
            if len(parts) > ANSWER_BYTES_MAX:
                raise TimeoutError
        return bytes(parts)

    def _how_it_ended(self) -> str:
        process = self._process
        assert process is not None
        try:
            status = process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            status = None
        self.stop()
        if status is None:
            how = "it closed its pipe."
        elif status < 0:
            how = f"killed by {signal.Signals(-status).name}."
        else:
            how = f"exit status {status}."
        printed = b"".join(self._output).decode("utf-8", "replace").strip()
        return f"{how} Last output: {printed[-500:]}" if printed else how

    def _drain(self, process: subprocess.Popen[bytes]) -> None:
        """Read what the plugin prints, keeping the end, so that a flood blocks nobody."""
        assert process.stdout is not None
        with process.stdout as stream:
            while part := os.read(stream.fileno(), 512):
                self._output.append(part)


class Backoff:
    """Pauses between restarts that grow with each failure in a row.

    Parameters
    ----------
    failures_max : int
        So many failures in a row end in quarantine.
    first_s, most_s : float
        First pause, doubled each time, and the longest.
    sleep : callable
    """

    def __init__(
        self,
        failures_max: int = 5,
        first_s: float = 0.1,
        most_s: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._failures_max = failures_max
        self._first_s = first_s
        self._most_s = most_s
        self._sleep = sleep
        self.failures = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether it is time for quarantine."""
        return self.failures >= self._failures_max

    def failed(self) -> None:
        """Count a failure."""
        self.failures += 1

    def succeeded(self) -> None:
        """Forget earlier failures."""
        self.failures = 0

    def wait(self) -> None:
        """Pause as long as the failures so far ask for."""
        if self.failures:
            self._sleep(min(self._first_s * 2 ** (self.failures - 1), self._most_s))
