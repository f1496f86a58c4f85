"""A small OpenAI-compatible server on a free loopback port that answers by a script, faults included.

    with OpenAIServer([status(429, retry_after="1"), tool({"value": 3})]) as server:
        ... base_url=server.url ...
    server.requests  # bodies, in order

Each request takes the next step; the last step answers all that come after it. Or a function of the request's number
(from 1) and body chooses the step: `OpenAIServer(choose)`.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Step = Callable[["Exchange"], None]
Choose = Callable[[int, dict[str, Any]], Step]


class Exchange(BaseHTTPRequestHandler):
    """One request and what a step may do with it."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        self.script.take(self.path, body)(self)

    @property
    def script(self) -> _Server:
        """The server, which holds the steps."""
        assert isinstance(self.server, _Server)
        return self.server

    def send(self, code: int, body: bytes, **headers: str) -> None:
        self.send_response(code)
        for name, value in {"content_type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, steps: Sequence[Step] | Choose) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.choose = steps if callable(steps) else answer_in_order(steps)
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()

    def take(self, path: str, body: dict[str, Any]) -> Step:
        with self._lock:
            self.paths.append(path)
            self.requests.append(body)
            number = len(self.requests)
        return self.choose(number, body)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is part of the script."""


class OpenAIServer:
    """Serves while entered. `url` is the base URL to configure."""

    def __init__(self, steps: Sequence[Step] | Choose) -> None:
        self._server = _Server(steps)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self._server.requests

    @property
    def paths(self) -> list[str]:
        return self._server.paths

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def answer_in_order(steps: Sequence[Step]) -> Choose:
    """One step after the other, the last one for ever."""
    return lambda number, body: steps[min(number, len(steps)) - 1]


def answer_by_tool(
    arguments: object, *, model: str = "served-model", finish: str = "tool_calls", name: str = "answer"
) -> Step:
    """Call the output tool; a string is sent as it stands, so that it need not be JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": text}}
    return _completion({"role": "assistant", "content": None, "tool_calls": [call]}, model, finish)


def answer_text(text: str, *, model: str = "served-model", finish: str = "stop") -> Step:
    """Answer with plain text."""
    return _completion({"role": "assistant", "content": text}, model, finish)


def answer_error(code: int, message: str = "a fault for the test", **headers: str) -> Step:
    """Answer with an error; `retry_after="1"` is the header Retry-After."""

    def step(exchange: Exchange) -> None:
        exchange.send(code, json.dumps({"error": {"message": message, "type": "test"}}).encode(), **headers)

    return step


def answer_html(html: str = "<html>gateway</html>") -> Step:
    """Answer 200 with something that is no completion."""

    def step(exchange: Exchange) -> None:
        exchange.send(200, html.encode(), content_type="text/html")

    return step


def drop_connection() -> Step:
    """Close the connection without an answer."""

    def step(exchange: Exchange) -> None:
        exchange.close_connection = True

    return step


def reset_connection() -> Step:
    """Reset the connection (RST) without an answer."""

    def step(exchange: Exchange) -> None:
        exchange.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        exchange.connection.close()
        exchange.close_connection = True

    return step


def answer_truncated() -> Step:
    """Announce a longer body than is sent, and close."""

    def step(exchange: Exchange) -> None:
        exchange.send_response(200)
        exchange.send_header("content-type", "application/json")
        exchange.send_header("content-length", "5000")
        exchange.end_headers()
        exchange.wfile.write(b'{"id": "chatcmpl-1", "object": "chat.compl')
        exchange.close_connection = True

    return step


def answer_cut_stream() -> Step:
    """Send a body in chunks, and close in the middle of one."""

    def step(exchange: Exchange) -> None:
        exchange.send_response(200)
        exchange.send_header("content-type", "application/json")
        exchange.send_header("transfer-encoding", "chunked")
        exchange.end_headers()
        exchange.wfile.write(b'10\r\n{"id": "chatcmpl\r\n400\r\n-1", "obj')
        exchange.close_connection = True

    return step


def stall(seconds: float) -> Step:
    """Say nothing for a while (or until the server closes), then close."""

    def step(exchange: Exchange) -> None:
        exchange.script.closing.wait(seconds)
        exchange.close_connection = True

    return step


def _completion(message: dict[str, object], model: str, finish: str) -> Step:
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }

    def step(exchange: Exchange) -> None:
        exchange.send(200, json.dumps(body).encode())

    return step
