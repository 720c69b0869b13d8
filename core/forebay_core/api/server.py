"""Serves the control API from a thread, so that the service keeps the main one."""

from __future__ import annotations

import socket
import threading
import time

import uvicorn
from fastapi import FastAPI

from forebay import ForebayError, StateError

START_DEADLINE_S = 10.0
END_DEADLINE_S = 3.0


def bind(host: str, port: int) -> socket.socket:
    """Take an address to serve on.

    Parameters
    ----------
    host : str
        Name or address.
    port : int
        0 means any that is free.

    Raises
    ------
    StateError
        It is taken by another program, or not one of this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            # Listening only now would let a second program bind as well.
            bound.listen()
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise StateError(
            f"the control API cannot listen on {host} port {port}: {error.strerror or error}.",
            fix="Choose another with --port (0 takes any that is free) or --host.",
        ) from error
    return bound


def url_of(bound: socket.socket) -> str:
    """Return the URL of the server on a bound socket."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class ApiServer:
    """Serves an application on a bound socket, for the length of a block.

    Parameters
    ----------
    app : FastAPI
    bound : socket.socket
        Closed at the end.
    """

    def __init__(self, app: FastAPI, bound: socket.socket) -> None:
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http="h11",
                loop="asyncio",
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="warning",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=1,
            )
        )
        self._bound = bound
        self._thread = threading.Thread(
            target=self._server.run, args=([bound],), name="control-api", daemon=True
        )

    def __enter__(self) -> ApiServer:
        """Start to serve; requests are answered once this returns."""
        self._thread.start()
        until = time.monotonic() + START_DEADLINE_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > until:
                raise ForebayError("the control API did not start; its log says why.")
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        """Finish what is being answered and end."""
        self._server.should_exit = True
        self._thread.join(END_DEADLINE_S)
        self._bound.close()
