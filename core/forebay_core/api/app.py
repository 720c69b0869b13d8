"""Puts the control API together."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response, Security
from fastapi.openapi.utils import get_openapi
from fastapi.security import HTTPBearer
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from forebay_core.api import jobs, site
from forebay_core.api.answers import AsciiJSONResponse
from forebay_core.api.metrics import make_registry
from forebay_core.api.models import Health
from forebay_core.api.problems import MEDIA_TYPE, Problem, add_handlers, problem
from forebay_core.api.security import GUARDED, Guard
from forebay_core.runtime.host import Host

SILENCE_MAX_S = 120.0
"""A service whose cycle stood still for longer is not healthy; plugins have 30 s for a call."""


def create_app(
    host: Host,
    token: str,
    *,
    address: str = "127.0.0.1",
    silent_s: Callable[[], float] = lambda: 0.0,
) -> FastAPI:
    """Make the application.

    Parameters
    ----------
    host : Host
        Its devices have been discovered.
    token : str
        Needed for everything below ``/v1``.
    address : str
        What the server is bound to; requests must name it or loopback as their host.
    silent_s : callable
        Returns the seconds since the service last did a step.
    """
    app = FastAPI(
        title="Forebay control API",
        version=version("forebay"),
        # Pages of documentation would load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        # A redirect would answer a wrong path with something else than a problem.
        redirect_slashes=False,
        default_response_class=AsciiJSONResponse,
        # A function's name is unique here, and a better method name for clients.
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.host = host
    # The guard enforces the token; this tells OpenAPI so.
    bearer = HTTPBearer(auto_error=False, description="Content of api-token in Forebay's home.")
    guarded = APIRouter(prefix=GUARDED, dependencies=[Security(bearer)])
    guarded.include_router(site.router)
    guarded.include_router(jobs.router)
    app.include_router(guarded)
    app.include_router(_open_routes(host, silent_s))
    add_handlers(app)
    app.add_middleware(Guard, token=token, host=address)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign] # FastAPI's documented way
    return app


def _open_routes(host: Host, silent_s: Callable[[], float]) -> APIRouter:
    router = APIRouter(tags=["service"])
    registry = make_registry(host)

    @router.get("/healthz", response_model=Health)
    def show_health(request: Request) -> Health | Response:
        """Tell whether the service works."""
        silent = silent_s()
        if silent > SILENCE_MAX_S:
            return problem(
                request.url.path,
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"the cycle has stood still for {silent:.0f} s.",
                fix="See which plugin does not answer in the log of 'forebay up'.",
            )
        return Health(status="ok", silent_s=silent)

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    def show_metrics() -> Response:
        """Return the metrics that Prometheus scrapes."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Describe the API, with the problem document as the answer to every error."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        schemas = document["components"]["schemas"]
        problem_schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= problem_schema.pop("$defs")
        schemas["Problem"] = problem_schema
        answer = {
            "description": "A problem, after RFC 9457.",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for operations in document["paths"].values():
            for operation in operations.values():
                operation["responses"].pop("422", None)
                operation["responses"]["default"] = answer
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        app.openapi_schema = document
    return app.openapi_schema
