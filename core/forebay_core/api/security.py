"""Who may use the control API.

Whoever may submit a job runs commands as the service's user.
So the token keeps out other users of the machine, and with it the scripts of web pages,
which cannot read it; the check of ``Host`` keeps out pages whose name was rebound to loopback.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import socket
import stat
from http import HTTPStatus
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from forebay import StateError
from forebay_core.api.problems import problem

TOKEN_NAME = "api-token"
"""File of the home directory that holds the token."""

GUARDED = "/v1"
"""Everything at and below this path needs the token."""


def read_or_make_token(home: Path) -> str:
    """Return the token of a home directory, made at the first call.

    Raises
    ------
    StateError
        Others than its owner may read the file.
    """
    path = home / TOKEN_NAME
    if path.exists():
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise StateError(
                f"the token {path} may be read by others than its owner.",
                fix="Remove it, a new one will be made; users of the API then need the new one.",
            )
        if token := path.read_text(encoding="ascii").strip():
            return token
    token = secrets.token_urlsafe(32)
    # Written apart and moved, so that no reader ever sees half a token.
    draft = path.with_suffix(f".{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    draft.replace(path)
    return token


def is_loopback(host: str) -> bool:
    """Tell whether an address is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Guard:
    """Lets through requests that name this host and, where needed, carry the token.

    It stands before everything else: no body is read of a request that it refuses.

    Parameters
    ----------
    app : ASGI application
    token : str
    host : str
        Address that the server is bound to.
    """

    def __init__(self, app: ASGIApp, *, token: str, host: str) -> None:
        self._app = app
        self._token = token.encode()
        self._names = {"localhost", host.lower()}
        # Nobody can rebind an address, so where others are let in any address will do.
        self._any_address = not is_loopback(host)
        if self._any_address:
            self._names.add(socket.gethostname().lower())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        refusal = None
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            path = scope["path"]
            if not self._names_us(headers.get("host", "")):
                refusal = problem(
                    path,
                    HTTPStatus.MISDIRECTED_REQUEST,
                    f"this service is not {headers.get('host', '')!r}.",
                    kind="host",
                    title="Wrong host",
                    fix="Use the address that 'forebay up' printed.",
                )
            elif _is_guarded(path) and not self._carries_token(headers):
                refusal = problem(
                    path,
                    HTTPStatus.UNAUTHORIZED,
                    "the request carries no valid token.",
                    kind="token",
                    title="Token needed",
                    fix=f"Send 'Authorization: Bearer TOKEN' with the content of {TOKEN_NAME} "
                    "in the home directory of the service.",
                    headers={"WWW-Authenticate": 'Bearer realm="forebay"'},
                )
        await (refusal or self._app)(scope, receive, send)

    def _names_us(self, header: str) -> bool:
        name = header.lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return address.is_loopback or self._any_address or name in self._names

    def _carries_token(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(
            token.strip().encode(), self._token
        )


def _is_guarded(path: str) -> bool:
    return path == GUARDED or path.startswith(f"{GUARDED}/")
