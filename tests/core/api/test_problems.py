"""Every error is a problem document; here each one that a client can cause."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from fastapi import FastAPI

from forebay import (
    CapacityError,
    DeviceLostError,
    EngineError,
    Fault,
    ForebayError,
    NotFoundError,
    PluginCrashedError,
    PluginQuarantinedError,
    PluginTimeoutError,
    RequestError,
    StateError,
    UnsupportedError,
)
from forebay_core.api.problems import add_handlers
from live_service import LiveService


def check_problem(answer: httpx.Response, status: int, kind: str) -> dict[str, object]:
    """Check what all problem documents have; returns the document."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, object] = answer.json()
    assert document["type"] == (f"urn:forebay:problem:{kind}" if kind else "about:blank")
    assert document["status"] == status
    assert document["title"]
    assert document["detail"]
    assert document["instance"] == answer.request.url.path
    assert "Traceback" not in answer.text
    return document


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/v1/nothing", 404, ""),
        ("GET", "/nothing", 404, ""),
        ("GET", "/v1/jobs/", 404, ""),
        ("DELETE", "/v1/jobs", 405, ""),
        ("GET", "/v1/jobs/999999", 404, "not-found"),
        ("GET", "/v1/jobs/999999/logs", 404, "not-found"),
        ("GET", "/v1/jobs/999999/explain", 404, "not-found"),
        ("POST", "/v1/jobs/999999/cancel", 404, "not-found"),
        ("GET", "/v1/jobs/first", 422, "input"),
        ("GET", "/v1/jobs/0", 422, "input"),
        ("GET", f"/v1/jobs/{2**63}", 422, "input"),
        ("GET", "/v1/jobs?state=happy", 422, "input"),
        ("GET", "/v1/jobs?limit=0", 422, "input"),
        ("GET", "/v1/events?after=-1", 422, "input"),
        ("GET", f"/v1/events?after={2**64}", 422, "input"),
    ],
)
def test_a_wrong_path_or_query_is_a_problem(
    service: LiveService, method: str, path: str, status: int, kind: str
) -> None:
    check_problem(service.client.request(method, path), status, kind)


@pytest.mark.parametrize(
    ("body", "status", "kind", "said"),
    [
        ({}, 422, "input", "command"),
        ({"command": []}, 422, "input", "command"),
        ({"command": "ls"}, 422, "input", "command"),
        ({"command": ["a\0b"]}, 422, "input", "command[0]"),
        ({"command": ["true"], "environment": {"A=B": "x"}}, 422, "input", "environment"),
        ({"command": ["true"], "colour": "red"}, 422, "input", "colour"),
        ({"command": ["true"], "priority": 2**40}, 422, "input", "priority"),
        ({"command": ["true"], "time_limit": "10 parsecs"}, 422, "input", "time_limit"),
        ({"command": ["true"], "time_limit": "0s"}, 422, "input", "time_limit"),
        ({"command": ["true"], "directory": "here"}, 422, "input", "directory"),
        ({"command": ["true"], "directory": "/nowhere/at/all"}, 422, "input", "directory"),
        ({"command": ["true"], "request": "cpu=lots"}, 422, "input", "lots"),
        ({"command": ["true"], "request": "tpu=1"}, 422, "input", "tpu"),
        ({"command": ["true"], "device": ["vendor~nvidia"]}, 422, "input", "vendor~nvidia"),
        ({"command": ["true"], "pool": "nowhere"}, 404, "not-found", "nowhere"),
        ({"command": ["true"], "request": "cpu=100000"}, 409, "capacity", "100000"),
    ],
)
def test_a_wrong_submission_is_a_problem_and_queues_nothing(
    service: LiveService, body: dict[str, object], status: int, kind: str, said: str
) -> None:
    before = service.get("/v1/jobs", limit=1)["jobs"]

    answer = service.client.post("/v1/jobs", json=body)

    check_problem(answer, status, kind)
    assert said in answer.text
    assert [job["id"] for job in service.get("/v1/jobs", limit=1)["jobs"]] == [
        job["id"] for job in before
    ]


def test_all_faults_of_a_request_are_told_at_once(service: LiveService) -> None:
    answer = service.client.post(
        "/v1/jobs", json={"command": ["true"], "request": "cpu=-1,tpu=1,gpu=1.5"}
    )

    faults = check_problem(answer, 422, "input")["faults"]

    assert isinstance(faults, list)
    assert [fault["field"] for fault in faults] == ["cpu", "tpu", "gpu"]


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b'{"command": ["\\ud800"]}', b""])
def test_a_body_that_cannot_be_read_is_a_problem(service: LiveService, body: bytes) -> None:
    answer = service.client.post(
        "/v1/jobs", content=body, headers={"Content-Type": "application/json"}
    )

    assert answer.status_code in {400, 422}
    check_problem(answer, answer.status_code, "input" if answer.status_code == 422 else "")


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (RequestError(Fault("found x.", field="cpu", fix="Write y.")), 422, "input"),
        (NotFoundError("there is no job 7."), 404, "not-found"),
        (CapacityError("too much."), 409, "capacity"),
        (StateError("too late."), 409, "state"),
        (UnsupportedError("not offered."), 501, "unsupported"),
        (PluginCrashedError("acme", "ended."), 502, "plugin"),
        (PluginTimeoutError("acme", "did not answer."), 503, "plugin"),
        (PluginQuarantinedError("acme", "is not called any more."), 503, "plugin"),
        (DeviceLostError("gone."), 502, "device"),
        (EngineError("no answer."), 502, "engine"),
        (ForebayError("failed."), 500, "other"),
        (ZeroDivisionError("secret of the code"), 500, ""),
    ],
)
def test_each_error_has_its_status_and_type(error: Exception, status: int, kind: str) -> None:
    app = FastAPI()
    add_handlers(app)

    @app.get("/it")
    def fail() -> None:
        raise error

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/it")

    answer = asyncio.run(ask())

    document = check_problem(answer, status, kind)
    if isinstance(error, ForebayError):
        assert document["detail"] == str(error)
        assert document["fix"] == error.fix
    else:
        assert "secret" not in answer.text
