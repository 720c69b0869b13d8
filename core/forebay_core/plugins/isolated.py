"""One plugin in a process of its own: loaded on demand, restarted, quarantined."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from forebay import (
    FailurePolicy,
    ForebayError,
    Manifest,
    PluginContext,
    PluginError,
    PluginKind,
    PluginQuarantinedError,
)
from forebay_core.plugins.process import Backoff, PluginProcess
from forebay_core.plugins.proxies import make_proxy
from forebay_core.plugins.records import Offered, PluginRecord, PluginState
from forebay_core.plugins.wire import read


class IsolatedPlugin:
    """Keeps a plugin's process and its record.

    Parameters
    ----------
    record : PluginRecord
        Changed as the plugin fares.
    manifest : Manifest
    context : PluginContext
    kinds : sequence of PluginKind
        Those of the plugin's kinds that run in its own process.
    backoff : Backoff, optional
    """

    def __init__(
        self,
        record: PluginRecord,
        manifest: Manifest,
        context: PluginContext,
        kinds: Sequence[PluginKind],
        backoff: Backoff | None = None,
    ) -> None:
        self._record = record
        self._policy = manifest.failure_policy
        self._backoff = backoff or Backoff()
        self._lock = threading.RLock()
        self._described: Mapping[str, list[dict[str, object]]] | None = None
        self._process = PluginProcess(
            record.id,
            {
                "call": "load",
                "plugin": record.id,
                "package": record.package,
                "declared": list(manifest.kinds),
                "serve": list(kinds),
                "context": context,
            },
            manifest.call_deadline_s,
        )

    def offers(self, kind: PluginKind) -> list[Offered[Any]]:
        """Return proxies of what the plugin offers of one kind, loading it if need be.

        Raises
        ------
        PluginError
            It cannot be loaded, or is quarantined.
        """
        with self._lock:
            if self._described is None:
                self._attempt(lambda: None)
            assert self._described is not None
            return [
                Offered(
                    self._record.id,
                    str(described["name"]),
                    make_proxy(kind, index, described, self._call, self._record.id),
                )
                for index, described in enumerate(self._described[kind])
            ]

    def stop(self) -> None:
        """End the process."""
        with self._lock:
            self._process.stop()

    def _call(self, message: Mapping[str, object], result: Any) -> Any:  # noqa: ANN401 - as annotated
        with self._lock:
            return self._attempt(lambda: read(result, self._process.call(message), self._record.id))

    def _attempt(self, action: Any) -> Any:  # noqa: ANN401 - as the action
        """Run an action with the process there; count what the plugin does wrong."""
        self._refuse_quarantined()
        began = time.perf_counter()
        try:
            if not self._process.is_running:
                self._start()
            result = action()
        except PluginError as error:
            self._failed(error)
            raise
        except ForebayError:
            # An error of the contract is an answer, not a failure of the plugin.
            self._succeeded()
            raise
        else:
            self._succeeded()
            return result
        finally:
            self._record.calls += 1
            self._record.call_s += time.perf_counter() - began

    def _start(self) -> None:
        self._backoff.wait()
        began = time.perf_counter()
        described = self._process.start()
        self._described = described
        self._record.load_s = time.perf_counter() - began

    def _refuse_quarantined(self) -> None:
        if self._record.state is PluginState.QUARANTINED:
            raise PluginQuarantinedError(
                self._record.id,
                f"is not called any more: {self._record.last_error}",
                fix="Mend or disable it, then start Forebay again.",
            )

    def _succeeded(self) -> None:
        self._backoff.succeeded()
        self._record.state = PluginState.LOADED
        self._record.reason = ""

    def _failed(self, error: PluginError) -> None:
        self._backoff.failed()
        note_failure(self._record, error, self._policy, exhausted=self._backoff.is_exhausted)
        if self._record.state is PluginState.QUARANTINED:
            self._process.stop()


def note_failure(
    record: PluginRecord, error: Exception, policy: FailurePolicy, *, exhausted: bool
) -> None:
    """Enter a failure in a plugin's record and move its state as its policy says."""
    record.failures += 1
    record.last_error = str(error)
    match policy:
        case FailurePolicy.FAIL_CLOSED:
            record.state = PluginState.QUARANTINED
        case FailurePolicy.RELOAD:
            record.state = PluginState.QUARANTINED if exhausted else PluginState.DEGRADED
        case FailurePolicy.IGNORE:
            record.state = PluginState.DEGRADED
    record.reason = record.last_error
