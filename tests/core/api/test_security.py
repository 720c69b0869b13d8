from __future__ import annotations

import stat
from pathlib import Path

import httpx
import pytest

from forebay import StateError
from forebay_core.api.security import is_loopback, read_or_make_token
from live_service import LiveService

GUARDED = [
    ("GET", "/v1/devices"),
    ("GET", "/v1/pools"),
    ("GET", "/v1/plugins"),
    ("GET", "/v1/jobs"),
    ("POST", "/v1/jobs"),
    ("GET", "/v1/jobs/1"),
    ("GET", "/v1/jobs/1/logs"),
    ("GET", "/v1/jobs/1/explain"),
    ("POST", "/v1/jobs/1/cancel"),
    ("GET", "/v1/events"),
    ("GET", "/v1/leases"),
    ("GET", "/v1"),
    ("GET", "/v1/nothing"),
]


def ask(service: LiveService, method: str, path: str, **headers: str | bytes) -> httpx.Response:
    """Send a request without the token that the shared client has."""
    raw = {
        name.encode(): value.encode() if isinstance(value, str) else value
        for name, value in headers.items()
    }
    with httpx.Client(base_url=service.facts["url"], trust_env=False) as client:
        return client.request(method, path, headers=raw)


@pytest.mark.parametrize(("method", "path"), GUARDED)
@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer wrong", "Basic dTpw", b"Bearer wr\xf6ng"],
)
def test_nothing_below_v1_answers_without_the_token(
    service: LiveService, method: str, path: str, authorization: str | bytes | None
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}

    answer = ask(service, method, path, **headers)

    assert answer.status_code == 401
    assert answer.json()["type"] == "urn:forebay:problem:token"
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_the_list_of_guarded_paths_is_whole(service: LiveService) -> None:
    listed = {path.replace("/1", "/{job}") for _, path in GUARDED}

    described = {path for path in service.get("/openapi.json")["paths"] if path.startswith("/v1")}

    assert described <= listed


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/openapi.json"])
def test_what_tells_nothing_secret_needs_no_token(service: LiveService, path: str) -> None:
    assert ask(service, "GET", path).status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/openapi.json", "/v1/jobs", "/"])
@pytest.mark.parametrize(
    "host", ["example.com", "localhost.example.com", "8.8.8.8", "", "127.0.0.1.example.com:80"]
)
def test_a_request_for_another_host_is_refused_even_with_the_token(
    service: LiveService, path: str, host: str
) -> None:
    answer = ask(service, "GET", path, Host=host, Authorization=f"Bearer {service.token}")

    assert answer.status_code == 421
    assert answer.json()["type"] == "urn:forebay:problem:host"


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8470", "127.0.0.1", "[::1]:8470", "[::1]"]
)
def test_every_name_of_loopback_is_accepted(service: LiveService, host: str) -> None:
    assert ask(service, "GET", "/healthz", Host=host).status_code == 200


def test_no_web_page_of_another_origin_may_read_or_write(service: LiveService) -> None:
    answer = ask(
        service,
        "OPTIONS",
        "/healthz",
        Origin="http://example.com",
        **{"Access-Control-Request-Method": "GET"},
    )

    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_nobody_else_may_look_into_a_home_that_the_service_made(service: LiveService) -> None:
    assert stat.S_IMODE(service.home.stat().st_mode) == 0o700


def test_a_token_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    token = read_or_make_token(tmp_path)

    assert len(token) >= 32
    assert stat.S_IMODE((tmp_path / "api-token").stat().st_mode) == 0o600
    assert read_or_make_token(tmp_path) == token
    assert [path.name for path in tmp_path.iterdir()] == ["api-token"]


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    read_or_make_token(tmp_path)
    (tmp_path / "api-token").chmod(0o644)

    with pytest.raises(StateError, match="others"):
        read_or_make_token(tmp_path)


def test_an_empty_token_is_never_used(tmp_path: Path) -> None:
    (tmp_path / "api-token").touch(mode=0o600)

    assert len(read_or_make_token(tmp_path)) >= 32


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.com", False),
    ],
)
def test_loopback_is_told_from_what_others_can_reach(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
