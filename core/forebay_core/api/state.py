"""What the handlers are handed."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Request

from forebay_core.runtime.host import Host


def _host(request: Request) -> Host:
    return cast("Host", request.app.state.host)


HostOf = Annotated[Host, Depends(_host)]
"""The host that an application was made for."""

NUMBER_MAX = 2**63 - 1
"""Largest number of a job, an event or a byte."""
