"""The service: one process on a home directory that places, starts and settles all work."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from forebay import Accelerator, Event, ForebayError, StateError
from forebay_core.plugins import Offered
from forebay_core.runtime.host import Host, try_lock

log = logging.getLogger(__name__)

T = TypeVar("T")

BUSY_PAUSE_S = 0.03
"""Pause between steps while leases are in force: how late the end of work is seen."""

IDLE_PAUSE_S = 0.1
"""Pause between steps while nothing runs: how late a new job is seen."""

LOCK_PATIENCE_S = 2.0
"""How long to try for the lock; others take it for an instant to see whether it is free."""

PROBE_AFTER_S = 1.0
"""How long nothing must have run before accelerators measure: neither must disturb the other."""

_LOCK = "service.lock"


def service_is_running(home: Path) -> bool:
    """Tell whether a service works on this home directory."""
    with try_lock(home / _LOCK) as free:
        return not free


class Service:
    """Repeats the host's cycle until told to stop.

    Used as a context manager, which holds the home directory's lock.
    Work goes on when the service ends, however it ends, and the next one finds it again.

    Parameters
    ----------
    host : Host
    refresh_every_s : float
        Time between two looks at the devices.
    on_event : callable, optional
        Takes each event of the ledger that is newer than the start.

    Attributes
    ----------
    is_stopping : bool
        Whether somebody called :meth:`stop`.
    """

    def __init__(
        self,
        host: Host,
        *,
        refresh_every_s: float = 5.0,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self.host = host
        self._refresh_every_s = refresh_every_s
        self._on_event = on_event
        self._seen = 0
        self._placed_at = -1
        self.is_stopping = False
        self._lock = ExitStack()
        self._told: dict[str, str] = {}
        self._stepped_s = time.monotonic()

    def __enter__(self) -> Service:
        """Take the lock.

        Raises
        ------
        StateError
            Another service has it; the message names its process.
        """
        path = self.host.home / _LOCK
        until = time.monotonic() + LOCK_PATIENCE_S
        while not self._lock.enter_context(try_lock(path)):
            self._lock.close()
            if time.monotonic() > until:
                owner = path.read_text(encoding="ascii").strip() or "unknown"
                raise StateError(
                    f"a service works on {self.host.home} already, its process is {owner}.",
                    fix="End that one first, or set FOREBAY_HOME to another directory.",
                )
            time.sleep(0.05)
        path.write_text(f"{os.getpid()}\n", encoding="ascii")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the lock go."""
        self._lock.close()

    def start(self) -> None:
        """Find the devices, and settle what an earlier service left behind.

        Raises
        ------
        ConfigError
            The configured policy or engine is not offered by any plugin.
        """
        self.host.refresh()
        # They are looked up once here, since a service without them could only wait.
        _ = self.host.scheduling
        _ = self.host.queue_policy
        self.host.engine(self.host.config.engine)
        self._seen = self.host.ledger.last_sequence()
        self.host.settle()

    def run(self) -> None:
        """Repeat the cycle until :meth:`stop`."""
        refresh_due_s = time.monotonic() + self._refresh_every_s
        idle_s, probed = time.monotonic(), False
        while not self.is_stopping:
            active = self._attempt("settling", self.host.settle)
            taken = self._attempt("placing", self._place)
            self._attempt("observing", self.host.dispatch_events)
            self._attempt("telling", self._tell_events)
            if time.monotonic() >= refresh_due_s:
                self._attempt("discovery", self.host.refresh)
                self._placed_at = -1
                refresh_due_s = time.monotonic() + self._refresh_every_s
            self._stepped_s = time.monotonic()
            if active or taken:
                idle_s = self._stepped_s
            elif not probed and self._stepped_s - idle_s > PROBE_AFTER_S:
                probed = True
                self._attempt("probing", self._probe)
            time.sleep(BUSY_PAUSE_S if active or taken else IDLE_PAUSE_S)

    def stop(self) -> None:
        """Make :meth:`run` return soon; may be called from a signal handler."""
        # An event object's lock could be held by the very thread that the signal interrupts.
        self.is_stopping = True

    @property
    def silent_s(self) -> float:
        """Seconds since the last step was done; grows while a plugin does not answer."""
        return time.monotonic() - self._stepped_s

    def _probe(self) -> None:
        """Let the accelerators look at the machine, beside the cycle since it may take seconds."""
        accelerators = self.host.plugins.accelerators()
        threading.Thread(target=_probe, args=(accelerators,), daemon=True).start()

    def _place(self) -> bool:
        """Place what can be, where anything has changed; tells whether something was.

        Looking through a thousand jobs that wait takes 0.2 s, and would be done all the time.
        """
        latest = self.host.ledger.last_sequence()
        if latest == self._placed_at:
            return False
        taken = self.host.cycle()
        self._placed_at = latest
        return bool(taken)

    def _attempt(self, what: str, step: Callable[[], T]) -> T | None:
        """Do one step; what it raises is logged when it is new, and never ends the service."""
        try:
            result = step()
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            if self._told.get(what) != message:
                self._told[what] = message
                known = isinstance(error, ForebayError)
                log.error("%s failed: %s", what, message, exc_info=None if known else error)
            return None
        if self._told.pop(what, None):
            log.warning("%s works again.", what)
        return result

    def _tell_events(self) -> None:
        if self._on_event is None:
            return
        for event in self.host.ledger.events(self._seen, limit=1000):
            self._seen = event.sequence
            self._on_event(event)


def _probe(accelerators: tuple[Offered[Accelerator], ...]) -> None:
    """Let each accelerator look at the machine, and log what it cannot do here."""
    for offered in accelerators:
        try:
            capabilities = offered.object.probe()
        except ForebayError as error:
            log.warning("accelerator %s cannot tell what it can do: %s", offered.name, error)
            continue
        for capability in capabilities:
            if not capability.available:
                log.info("%s: no %s: %s", offered.name, capability.name, capability.reason)
