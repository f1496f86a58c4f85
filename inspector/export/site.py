"""The pages of the inspector, asked for without a server: what a browser would be sent, by address."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from inspector.web.app import make_app


class Answer(NamedTuple):
    """`kind` is the media type, without parameters."""

    status: int
    kind: str
    body: bytes


class Site:
    """The pages of one run. They only show: there is nothing to steer with."""

    def __init__(self, run: Path) -> None:
        self._app = make_app(run, read_only=True)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.close()

    def get(self, address: str, *, most: int) -> Answer:
        """What stands at an address; of more than `most` bytes nothing but the status 413."""
        return self._runner.run(self._get(address, most))

    async def _get(self, address: str, most: int) -> Answer:
        parts = urlsplit(address)
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": unquote(parts.path), "raw_path": parts.path.encode(), "query_string": parts.query.encode(),
            "root_path": "", "headers": [(b"host", b"localhost")], "client": None, "server": ("localhost", 80)}
        status, kind, body, size = 500, "", list[bytes](), 0

        asked = False

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if asked:  # whoever streams waits here for a browser that leaves: this one never does
                await asyncio.Event().wait()
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status, kind, size
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = {name.lower(): value for name, value in message["headers"]}
                kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0]
            else:
                size += len(message.get("body", b""))
                if size <= most:
                    body.append(message.get("body", b""))

        await self._app(scope, receive, send)
        return Answer(status, kind, b"".join(body)) if size <= most else Answer(413, kind, b"")
