"""The web server of the inspector, which listens on the loopback address only."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from labwright.inspector.web.app import EstimateRemaining, make_app
from labwright.inspector.web.page_renderer import MAX_FORM_BYTES
from labwright.record.errors import UsageError

HOST = "127.0.0.1"


def bind_socket(port: int) -> socket.socket:
    """Return a listening socket on the loopback address; port 0 selects a free port. Raises `UsageError`."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
        found.listen(128)  # clients may connect before the server starts
    except (OSError, OverflowError) as error:
        found.close()
        why = error.strerror if isinstance(error, OSError) else "invalid port number"
        raise UsageError(f"cannot listen on {HOST}:{port} ({why}): choose another --port or omit it") from None
    return found


def create_server(
    place: Path, listening: socket.socket, *, read_only: bool = False, estimate: EstimateRemaining | None = None
) -> tuple[uvicorn.Server, str]:
    """Create a server for a bound socket, and return it with the address to open, which contains the token. Run it with
    `sockets=[listening]`.

    With `read_only`, no commands can be sent through it.
    """
    token, port = secrets.token_urlsafe(24), int(listening.getsockname()[1])
    guarded = RequestGuard(make_app(place, read_only=read_only, estimate=estimate), token=token, port=port)
    config = uvicorn.Config(
        guarded,
        http="h11",
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config), f"http://{HOST}:{port}/?token={token}"


def serve_pages(
    place: Path,
    *,
    port: int,
    on_address: Callable[[str], None],
    read_only: bool = False,
    estimate: EstimateRemaining | None = None,
) -> None:
    """Serve until interrupted; `on_address` receives the address. Raises `UsageError`."""
    with bind_socket(port) as listening:
        server, address = create_server(place, listening, read_only=read_only, estimate=estimate)
        on_address(address)
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:
            return


PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
"""Default headers of responses. (Under `no-referrer`, forms would be sent with `Origin: null`.)"""
FORM_CONTENT_TYPE = "application/x-www-form-urlencoded"


class RequestGuard:
    """ASGI middleware that rejects requests that are not allowed."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._cookie = f"scientist-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = self._check_request(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await (answer or self._app)(scope, receive, send_with_headers)

    def _check_request(self, scope: Scope) -> Response | None:
        """Return the refusal, or the redirect that exchanges the token for a cookie; None if the request may pass."""
        headers = Headers(scope=scope)
        if headers.get("host", "") not in self._hosts:
            return _refuse("this server only accepts 127.0.0.1 and localhost", 421)
        origin = f"http://{headers['host']}"
        if headers.get("origin", origin) != origin:
            return _refuse("requests from other pages are not allowed")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _refuse("this method is not allowed", 405)
        if scope["method"] == "POST" and (refusal := _check_form(headers, origin)) is not None:
            return refusal
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if "token" in query and scope["method"] != "POST":
            if not self._is_token(query.pop("token")[0]):
                return _refuse("this token is from an earlier server: open the address printed by 'scientist view'")
            rest = urlencode(query, doseq=True)
            path = "/" + scope["path"].lstrip("/\\")
            answer = RedirectResponse(path + (f"?{rest}" if rest else ""), status_code=303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
            return answer
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _refuse("requests from other pages are not allowed")
        cookie = cookie_parser(headers.get("cookie", "")).get(self._cookie, "")
        if not self._is_token(cookie):
            return _refuse("open the address printed by 'scientist view', which contains the token")
        return None

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())


def _check_form(headers: Headers, origin: str) -> Response | None:
    """Return the refusal of a POST that cannot come from a form on these pages. h11 truncates a body that is longer
    than declared.
    """
    if headers.get("origin") != origin or headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return _refuse("only forms of this page are accepted")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_CONTENT_TYPE:
        return _refuse(f"only {FORM_CONTENT_TYPE} is accepted", 415)
    size = headers.get("content-length", "")
    if not (size.isascii() and size.isdigit()):
        return _refuse("content-length is required", 411)
    if len(size) > 9 or int(size) > MAX_FORM_BYTES:
        return _refuse(f"forms are limited to {MAX_FORM_BYTES} bytes", 413)
    return None


def _refuse(why: str, status: int = 403) -> Response:
    return PlainTextResponse(f"refused: {why}\n", status_code=status)
