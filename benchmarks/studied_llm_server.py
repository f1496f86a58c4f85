"""A scripted model to study: an OpenAI-compatible server on a loopback port with deterministic answers.

with StudiedLlmServer(rule) as server: ... base_url=server.url ...; server.counts() -> {question: count}

`rule(model, text, draw)` returns the text of an answer; `draw` counts earlier occurrences of the same question.
`delay` is the seconds per answer. It runs in its own process and answers as fast as Python can.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import multiprocessing
import socket
import urllib.request
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any

AnswerRule = Callable[[str, str, int], str]


class StudiedLlmServer:
    """Serves while entered; `rule` must be a module-level function."""

    def __init__(self, rule: AnswerRule, *, delay: float = 0.0, key: str = "", port: int = 0) -> None:
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", port))
        self._listener.listen(1024)
        self.port: int = self._listener.getsockname()[1]
        self._process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(self._listener, rule, delay, key), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def counters(self) -> dict[str, Any]:
        """Return `counts`: calls by question; `open`: calls waiting; `most`: maximum concurrent calls."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/counts", timeout=30) as reply:
            return json.load(reply)

    def counts(self) -> dict[str, int]:
        return self.counters()["counts"]

    def __enter__(self) -> StudiedLlmServer:
        self._process.start()
        self._listener.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.join()


def find_question(body: dict[str, Any]) -> str:
    """Return the key under which a request is counted."""
    return hashlib.sha256(json.dumps([body["model"], body["messages"]]).encode()).hexdigest()[:24]


def _serve(listener: socket.socket, rule: AnswerRule, delay: float, key: str) -> None:
    asyncio.run(_StudiedLlmHandler(rule, delay, key).run(listener))


class _StudiedLlmHandler:
    def __init__(self, rule: AnswerRule, delay: float, key: str) -> None:
        self.rule, self.delay, self.key = rule, delay, key
        self.counts: Counter[str] = Counter()
        self.open = self.most = 0

    async def run(self, listener: socket.socket) -> None:
        server = await asyncio.start_server(self.serve, sock=listener)
        await server.serve_forever()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                length, allowed = 0, not self.key
                while (header := await reader.readline()).strip():
                    name, _, value = header.decode().partition(":")
                    length = int(value) if name.lower() == "content-length" else length
                    allowed = allowed or (name.lower() == "authorization" and value.strip() == f"Bearer {self.key}")
                body = await reader.readexactly(length)
                status, answer = (
                    (200, {"counts": self.counts, "open": self.open, "most": self.most})
                    if line.startswith(b"GET /counts")
                    else await self.answer(json.loads(body), allowed)
                )
                text = json.dumps(answer).encode()
                writer.write(
                    f"HTTP/1.1 {status} OK\r\ncontent-type: application/json\r\ncontent-length: {len(text)}"
                    "\r\n\r\n".encode()
                    + text
                )
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            writer.close()

    async def answer(self, body: dict[str, Any], allowed: bool) -> tuple[int, dict[str, Any]]:
        if not allowed:
            return 401, {"error": {"message": "the key is wrong"}}
        question = find_question(body)
        draw = self.counts[question]
        self.counts[question] += 1
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            if self.delay:
                await asyncio.sleep(self.delay)
        finally:
            self.open -= 1
        text = self.rule(body["model"], body["messages"][-1]["content"], draw)
        choice: dict[str, Any] = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": text},
        }
        if body.get("logprobs"):
            choice["logprobs"] = {
                "content": [
                    {
                        "token": text,
                        "logprob": -0.1,
                        "bytes": None,
                        "top_logprobs": [{"token": text, "logprob": -0.1, "bytes": None}],
                    }
                ]
            }
        size = sum(len(one["content"]) for one in body["messages"]) // 4 + 1
        return 200, {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": f"{body['model']}-2026-11-01",
            "choices": [choice],
            "usage": {
                "prompt_tokens": size,
                "completion_tokens": len(text) // 4 + 1,
                "total_tokens": size + len(text) // 4 + 1,
            },
        }
