"""The service's state as Prometheus metrics, read afresh at every scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from forebay import Device, HealthStatus, JobState
from forebay_core.plugins import PluginState
from forebay_core.runtime.amounts import pool_amounts
from forebay_core.runtime.host import Host

_WORST_FIRST = (
    HealthStatus.FAILED,
    HealthStatus.DEGRADED,
    HealthStatus.UNKNOWN,
    HealthStatus.OK,
)


def make_registry(host: Host) -> CollectorRegistry:
    """Return a registry of one host's metrics."""
    registry = CollectorRegistry()
    registry.register(_HostCollector(host))
    return registry


class _HostCollector:
    """Turns a host's state into metric families."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def describe(self) -> Iterator[Metric]:
        """Name no family ahead, so that registering asks the host nothing."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        build = GaugeMetricFamily("forebay_build", "Version of Forebay.", labels=["version"])
        build.add_metric([version("forebay")], 1)
        yield build
        yield self._devices()
        yield from self._pools()
        yield self._jobs()
        yield GaugeMetricFamily(
            "forebay_leases", "Leases in force.", value=len(self._host.ledger.active_leases())
        )
        yield from self._plugins()

    def _devices(self) -> Metric:
        family = GaugeMetricFamily("forebay_devices", "Devices found.", labels=["kind", "health"])
        found = Counter((device.kind, health_of(device)) for device in self._host.inventory.devices)
        for (kind, health), count in found.items():
            family.add_metric([kind, health], count)
        return family

    def _pools(self) -> Iterator[Metric]:
        labels = ["pool", "kind"]
        capacity = GaugeMetricFamily(
            "forebay_pool_capacity_millis",
            "Thousandths of a core or device that a pool has.",
            labels=labels,
        )
        lent = GaugeMetricFamily(
            "forebay_pool_lent_millis",
            "Thousandths of a core or device that a pool has lent.",
            labels=labels,
        )
        for amounts in pool_amounts(self._host):
            values = [amounts.pool, amounts.kind]
            capacity.add_metric(values, amounts.capacity_millis)
            lent.add_metric(values, amounts.used_by_pool_millis)
        yield capacity
        yield lent

    def _jobs(self) -> Metric:
        family = GaugeMetricFamily("forebay_jobs", "Jobs ever submitted.", labels=["state"])
        counts = self._host.ledger.job_counts()
        for state in JobState:
            family.add_metric([state], counts.get(state, 0))
        return family

    def _plugins(self) -> Iterator[Metric]:
        labels = ["plugin"]
        state = GaugeMetricFamily(
            "forebay_plugin_state",
            "1 for the state that a plugin is in.",
            labels=["plugin", "state"],
        )
        calls = CounterMetricFamily("forebay_plugin_calls", "Calls of a plugin.", labels=labels)
        failures = CounterMetricFamily(
            "forebay_plugin_failures", "Failures of a plugin.", labels=labels
        )
        seconds = CounterMetricFamily(
            "forebay_plugin_call_seconds", "Time spent in calls of a plugin.", labels=labels
        )
        for record in self._host.plugins.records():
            for known in PluginState:
                state.add_metric([record.id, known], float(record.state is known))
            calls.add_metric([record.id], record.calls)
            failures.add_metric([record.id], record.failures)
            seconds.add_metric([record.id], record.call_s)
        yield state
        yield calls
        yield failures
        yield seconds


def health_of(device: Device) -> str:
    """Return a device's worst health, ``not_judged`` where nobody looked."""
    found = {condition.status for condition in device.health}
    return next((status.value for status in _WORST_FIRST if status in found), "not_judged")
