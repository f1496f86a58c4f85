"""The server of the page, on this machine's own address alone."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from inspector.web.app import make_app
from inspector.web.guard import Guard

HOST = "127.0.0.1"


class PortTakenError(Exception):
    """Something else listens on the port. The message says how to mend it."""


def bound(port: int) -> socket.socket:
    """A listening socket on the loopback address; port 0 takes a free one. Raises `PortTakenError`."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
        found.listen(128)  # whoever is given the address may come before the server does
    except (OSError, OverflowError) as error:
        found.close()
        said = error.strerror if isinstance(error, OSError) else "no port has this number"
        raise PortTakenError(f"cannot listen on {HOST}:{port} ({said}): give another port, or no --port") from None
    return found


def server_of(place: Path, listening: socket.socket, *, read_only: bool = False) -> tuple[uvicorn.Server, str]:
    """A server for a bound socket, and the address to open, which has the token. Run it with `sockets=[listening]`.

    `read_only`: nothing can be asked of a run through it.
    """
    token, port = secrets.token_urlsafe(24), int(listening.getsockname()[1])
    guarded = Guard(make_app(place, read_only=read_only), token=token, port=port, read_only=read_only)
    config = uvicorn.Config(
        guarded, http="h11", ws="none", lifespan="off", log_level="error", access_log=False, server_header=False,
        proxy_headers=False, timeout_graceful_shutdown=1)
    return uvicorn.Server(config), f"http://{HOST}:{port}/?token={token}"


def serve(place: Path, *, port: int, tell: Callable[[str], None], read_only: bool = False) -> None:
    """Serve until interrupted; `tell` is given the address. Raises `PortTakenError`."""
    with bound(port) as listening:
        server, address = server_of(place, listening, read_only=read_only)
        tell(address)
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:
            return
