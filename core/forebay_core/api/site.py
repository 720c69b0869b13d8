"""Devices, pools, plugins, leases and events."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from forebay_core.api.models import (
    Absence,
    DevicesAnswer,
    EventsAnswer,
    FoundFailure,
    LeasesAnswer,
    PluginsAnswer,
    PoolsAnswer,
)
from forebay_core.api.state import NUMBER_MAX, HostOf
from forebay_core.runtime.amounts import pool_amounts

router = APIRouter(tags=["site"])


@router.get("/devices")
def list_devices(host: HostOf) -> DevicesAnswer:
    """List the devices, and what the adapters could not read."""
    found = host.inventory
    return DevicesAnswer(
        nodes=list(found.nodes),
        devices=list(found.devices),
        links=list(found.links),
        failures=[
            FoundFailure(plugin=plugin, failure=failure) for plugin, failure in found.failures
        ],
        absent=[Absence(plugin=plugin, reason=reason) for plugin, reason in found.absent],
    )


@router.get("/pools")
def list_pools(host: HostOf) -> PoolsAnswer:
    """List what each pool has of each kind, and has lent."""
    return PoolsAnswer(pools=pool_amounts(host))


@router.get("/plugins")
def list_plugins(host: HostOf) -> PluginsAnswer:
    """List the plugins, and how each fares."""
    return PluginsAnswer(plugins=list(host.plugins.records()))


@router.get("/leases")
def list_leases(host: HostOf) -> LeasesAnswer:
    """List the leases in force."""
    return LeasesAnswer(leases=[entry.lease for entry in host.ledger.active_leases()])


@router.get("/events")
def list_events(
    host: HostOf,
    after: Annotated[
        int, Query(ge=0, le=NUMBER_MAX, description="Only events with a higher sequence.")
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> EventsAnswer:
    """List changes of state in the order they happened."""
    events = list(host.ledger.events(after, limit=limit))
    return EventsAnswer(events=events, next_after=events[-1].sequence if events else after)
