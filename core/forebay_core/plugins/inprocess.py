"""One plugin in the host's own process: pool strategies, filters, policies, models, observers."""

from __future__ import annotations

import time
from typing import Any

from forebay import (
    Event,
    Manifest,
    PluginContext,
    PluginError,
    PluginKind,
    PluginQuarantinedError,
)
from forebay_core.plugins.hooks import PluginHooks
from forebay_core.plugins.isolated import note_failure
from forebay_core.plugins.records import Offered, PluginRecord, PluginState

FAILURES_MAX = 5
"""So many failures in a row end in quarantine."""

OBSERVER_MEAN_S = 0.05
"""An observer whose calls take longer than this on average is quarantined."""

OBSERVER_CALLS_MIN = 20
"""Calls before an observer's mean is judged."""


class InProcessPlugin:
    """Loads a plugin on demand and keeps its record.

    Parameters
    ----------
    record : PluginRecord
        Changed as the plugin fares.
    manifest : Manifest
    context : PluginContext
    """

    def __init__(self, record: PluginRecord, manifest: Manifest, context: PluginContext) -> None:
        self._record = record
        self._manifest = manifest
        self._context = context
        self._hooks: PluginHooks | None = None
        self._row = 0
        self._observed = 0
        self._observing_s = 0.0

    def load(self) -> None:
        """Import the plugin and check its hooks, unless that has been done.

        Raises
        ------
        PluginError
            It cannot be loaded, or is quarantined.
        """
        self._refuse_quarantined()
        try:
            self._load()
        except PluginError as error:
            raise self.failed(error) from error

    def offers(self, kind: PluginKind) -> list[Offered[Any]]:
        """Return what the plugin offers of one kind, loading it if need be.

        Raises
        ------
        PluginError
            It cannot be loaded, its hook failed, or it is quarantined.
        """
        self._refuse_quarantined()
        try:
            offered = self._load().offers(kind, self._context)
        except (Exception, SystemExit) as error:
            raise self.failed(error) from error
        return [Offered(self._record.id, item.name, item) for item in offered]

    def observe(self, event: Event) -> None:
        """Hand an event to an observer; what it does wrong is noted and goes no further."""
        if not self._record.may_load:
            return
        began = time.perf_counter()
        try:
            self._load().call(PluginKind.OBSERVER, context=self._context, event=event)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's code
            self.failed(error)
        else:
            self._row = 0
            self._record.state = PluginState.LOADED
        duration_s = time.perf_counter() - began
        self._record.calls += 1
        self._record.call_s += duration_s
        self._observed += 1
        self._observing_s += duration_s
        if (
            self._observed >= OBSERVER_CALLS_MIN
            and self._observing_s / self._observed > OBSERVER_MEAN_S
        ):
            self._record.state = PluginState.QUARANTINED
            self._record.reason = self._record.last_error = (
                f"observing takes {self._observing_s / self._observed * 1e3:.0f} ms on average, "
                f"at most {OBSERVER_MEAN_S * 1e3:.0f} ms is allowed."
            )

    def failed(self, error: BaseException) -> PluginError:
        """Note a failure and return it as the plugin's."""
        self._row += 1
        if not isinstance(error, PluginError):
            error = PluginError(self._record.id, f"raised {type(error).__name__}: {error}")
        note_failure(
            self._record,
            error,
            self._manifest.failure_policy,
            exhausted=self._row >= FAILURES_MAX,
        )
        return error

    def _load(self) -> PluginHooks:
        if self._hooks is None:
            began = time.perf_counter()
            self._hooks = PluginHooks(self._record.id, self._record.package, self._manifest.kinds)
            self._record.load_s = time.perf_counter() - began
            self._record.state = PluginState.LOADED
        return self._hooks

    def _refuse_quarantined(self) -> None:
        if self._record.state is PluginState.QUARANTINED:
            raise PluginQuarantinedError(
                self._record.id, f"is not called any more: {self._record.last_error}"
            )
