"""A small server on a free loopback port that answers JSON by a function: for wire formats other than OpenAI's.

with JsonServer(lambda method, path, body: (200, {...})) as server:
    ... base_url=server.url ...
server.requests  # (method, path, body), in order
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

Answer = Callable[[str, str, dict[str, Any]], tuple[int, Any]]
"""Method, path and body of a request -> the status and what is answered: bytes as they are, anything else as JSON."""


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        self._do("GET")

    def do_POST(self) -> None:
        self._do("POST")

    def _do(self, method: str) -> None:
        assert isinstance(self.server, _Server)
        data = self.rfile.read(int(self.headers.get("content-length", 0)))
        request = method, self.path, json.loads(data or b"{}")
        self.server.requests.append(request)
        code, answer = self.server.answer(*request)
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.answer = answer
        self.requests: list[tuple[str, str, dict[str, Any]]] = []


class JsonServer:
    """Serves while entered. `url` has no path."""

    def __init__(self, answer: Answer) -> None:
        self._server = _Server(answer)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> list[tuple[str, str, dict[str, Any]]]:
        return self._server.requests

    @property
    def posted(self) -> list[dict[str, Any]]:
        """The bodies of what was posted, in order."""
        return [body for method, _, body in self.requests if method == "POST"]

    def __enter__(self) -> JsonServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def make_completion(message: dict[str, Any], model: str = "served") -> dict[str, Any]:
    """A chat completion as OpenAI-compatible servers answer."""
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", **message},
                "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    }


def make_tool_call(arguments: object) -> dict[str, Any]:
    """The message that calls the output tool."""
    return {
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "answer", "arguments": json.dumps(arguments)}}
        ],
    }
