"""A small collector of OpenTelemetry spans on a free loopback port: OTLP over HTTP, decoded as it comes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

Value = str | int | float | bool


@dataclass(frozen=True)
class Taken:
    """A span as it arrived, with the attributes that are single values."""

    name: str
    id: bytes
    parent: bytes
    trace: bytes
    failed: bool
    said: str
    attributes: Mapping[str, Value]


class _Taker(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def do_POST(self) -> None:
        assert isinstance(self.server, _Server)
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.server.silent:
            self.server.closing.wait(30)
            return
        self.server.bodies.append(body)
        self.server.paths.append(self.path)
        self.server.headers.append(dict(self.headers))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *, silent: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Taker)
        self.silent = silent
        self.closing = threading.Event()
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []


class Collector:
    """Takes spans while entered. A silent one accepts a connection and never answers."""

    def __init__(self, *, silent: bool = False) -> None:
        self.server = _Server(silent=silent)
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def sent(self) -> bytes:
        """All that arrived, as it came."""
        return b"".join(self.server.bodies)

    @property
    def spans(self) -> list[Taken]:
        """All spans, in the order in which they ended."""
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.server.bodies]
        return [
            Taken(name=span.name, id=span.span_id, parent=span.parent_span_id, trace=span.trace_id,
                  failed=span.status.code == 2, said=span.status.message,
                  attributes={one.key: _value(one.value) for one in span.attributes})
            for request in requests for group in request.resource_spans for scope in group.scope_spans
            for span in scope.spans]

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.closing.set()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join(5)


def _value(given: AnyValue) -> Value:
    kind = given.WhichOneof("value")
    found: Value = getattr(given, kind) if kind in ("string_value", "int_value", "double_value", "bool_value") else ""
    return found
