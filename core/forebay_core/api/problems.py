"""Every error as a problem document.

References
----------
RFC 9457, Problem Details for HTTP APIs.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from forebay import (
    CapacityError,
    DeviceError,
    EngineError,
    Fault,
    ForebayError,
    InputError,
    NotFoundError,
    PluginError,
    PluginQuarantinedError,
    PluginTimeoutError,
    StateError,
    UnsupportedError,
)
from forebay_core.api.answers import AsciiJSONResponse

MEDIA_TYPE = "application/problem+json"

_KINDS: tuple[tuple[type[ForebayError], str, str, HTTPStatus], ...] = (
    (InputError, "input", "The input has faults", HTTPStatus.UNPROCESSABLE_ENTITY),
    (NotFoundError, "not-found", "There is no such thing", HTTPStatus.NOT_FOUND),
    (CapacityError, "capacity", "More was asked for than exists", HTTPStatus.CONFLICT),
    (StateError, "state", "Not possible now", HTTPStatus.CONFLICT),
    (UnsupportedError, "unsupported", "Not offered", HTTPStatus.NOT_IMPLEMENTED),
    (PluginQuarantinedError, "plugin", "A plugin failed", HTTPStatus.SERVICE_UNAVAILABLE),
    (PluginTimeoutError, "plugin", "A plugin failed", HTTPStatus.SERVICE_UNAVAILABLE),
    (PluginError, "plugin", "A plugin failed", HTTPStatus.BAD_GATEWAY),
    (DeviceError, "device", "A device failed", HTTPStatus.BAD_GATEWAY),
    (EngineError, "engine", "An engine failed", HTTPStatus.BAD_GATEWAY),
    (ForebayError, "other", "It failed", HTTPStatus.INTERNAL_SERVER_ERROR),
)
"""Error, name in ``type``, title and status; the first that fits."""


class ProblemFault(BaseModel):
    """One thing that is wrong with the input."""

    message: str = Field(description="What was found and what was expected.")
    source: str = Field("", description="Part of the request: body, query, path, request.")
    field: str = ""
    fix: str = ""


class Problem(BaseModel):
    """What went wrong, after RFC 9457."""

    type: str = Field(description="Names the kind of problem; the same for every occurrence.")
    title: str
    status: int
    detail: str
    instance: str = Field(description="Path of the request.")
    fix: str = Field("", description="What to do about it.")
    faults: list[ProblemFault] = Field(default_factory=list)


def problem(
    path: str,
    status: HTTPStatus,
    detail: str,
    *,
    kind: str = "",
    title: str = "",
    fix: str = "",
    faults: tuple[Fault, ...] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the response that tells a problem.

    Parameters
    ----------
    path : str
        Of the request.
    status : HTTPStatus
    detail : str
        This occurrence, for a person.
    kind : str
        Last part of ``type``; empty where the status says it all.
    title : str
        The kind, for a person; empty means the status's own phrase.
    fix : str
    faults : tuple of Fault
    headers : mapping of str to str, optional
    """
    document = Problem(
        type=f"urn:forebay:problem:{kind}" if kind else "about:blank",
        title=title or status.phrase,
        status=status,
        detail=detail,
        instance=path,
        fix=fix,
        faults=[
            ProblemFault(
                message=fault.message, source=fault.source, field=fault.field, fix=fault.fix
            )
            for fault in faults
        ],
    )
    return AsciiJSONResponse(document.model_dump(), status, headers=headers, media_type=MEDIA_TYPE)


def add_handlers(app: FastAPI) -> None:
    """Make an application answer every error with a problem document."""
    # Starlette's signature takes handlers of Exception alone.
    app.add_exception_handler(ForebayError, _on_forebay_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_surprise)


def _on_forebay_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ForebayError)
    kind, title, status = next(
        (kind, title, status) for cls, kind, title, status in _KINDS if isinstance(error, cls)
    )
    return problem(
        request.url.path,
        status,
        str(error),
        kind=kind,
        title=title,
        fix=error.fix,
        faults=error.faults if isinstance(error, InputError) else (),
    )


def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = tuple(
        # What a validator of ours says begins in the library's words.
        Fault(f"is not JSON: {found['ctx']['error']}.", source="body")
        if found["type"] == "json_invalid"
        else _fault(found["loc"], found["msg"].removeprefix("Value error, "))
        for found in error.errors()
    )
    return _on_forebay_error(request, InputError(faults))


def _fault(location: tuple[str | int, ...], message: str) -> Fault:
    source, *path = location
    field = ""
    for part in path:
        if isinstance(part, int):
            field += f"[{part}]"
        else:
            field += f".{part}" if field else part
    return Fault(f"{message}.", source=str(source), field=field)


def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    details = {
        HTTPStatus.NOT_FOUND: f"there is nothing at {request.url.path}.",
        HTTPStatus.METHOD_NOT_ALLOWED: f"{request.method} does not apply to {request.url.path}.",
    }
    return problem(
        request.url.path,
        status,
        details.get(status, error.detail),
        fix="See what there is in /openapi.json.",
        headers=error.headers,
    )


def _on_surprise(request: Request, _error: Exception) -> Response:
    """Say no more than that it failed; the service's log has the rest."""
    return problem(
        request.url.path,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "Forebay itself is at fault.",
        fix="See the log of 'forebay up', and report it.",
    )
