"""Questions to catalogues over HTTP, within bounds: pace, retries, waits, size of an answer, and a breaker.

Each request ends within `timeout` seconds, whether the server says nothing or one byte a second; waits between tries
are bounded by `longest_wait`. A catalogue that fails `PATIENCE` tries in a row, or asks for a longer wait, is left
alone for `REST` seconds: further questions fail at once. The caller bounds the whole of a lookup.

Answers are kept on disk, each in a file under the hash of its question, without keys and addresses. A file that cannot
be read, holds another question or is too old is no answer. Two processes may share the folder. (An HTTP cache such as
hishel would keep what servers allow, which is not what `cache_days` promises, and keys with the question.)

What it does not guarantee: the pace over several processes, each keeps its own; that a kept answer is still what the
catalogue would say; that the folder never exceeds its size for a moment, while several processes write.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import random
import re
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import Self, TypeVar

import httpx
from pydantic import Field, ValidationError

from literature import SourceError
from literature.settings import ADDRESSES, INTERVALS, LiteratureSettings, SourceName
from record.nouns.frozen import Frozen

PATIENCE = 3
"""Tries that fail in a row before a catalogue is left alone."""
REST = 120.0
"""Seconds for which it is left alone."""
LARGEST = 8_000_000
"""Bytes of an answer at most."""
BUSY = frozenset({429, 500, 502, 503, 504})
AGENT = "scientist (a program that checks references)"
DAY = 86400.0
EMPTY = 0.1
"""Share of the days for which an answer without works is kept."""
_OURS = re.compile(r"[0-9a-f]{64}\.json")
"""Names of our files: the folder is of the user's choice, and may hold others."""
T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """What is asked of a catalogue. `private` (keys and addresses) goes with it and is neither kept nor shown.

    `lookup`: 404 means that there is no such work; else it is an error.
    """

    source: SourceName
    path: str
    parameters: Mapping[str, str]
    private: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    lookup: bool = False


@dataclass
class _Server:
    """What is known of one catalogue's server, and whose turn it is there."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_at: float = 0.0
    failures: int = 0
    closed_until: float = 0.0
    why: str = ""


class _RetryError(Exception):
    """The request may be made again, after so many seconds where the server says so."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


class Web:
    """Answers of catalogues, from the cache or from the network. Use it as an asynchronous context."""

    def __init__(self, settings: LiteratureSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = random.Random(0)  # spreads the tries of several runs; nothing recorded depends on it
        self._servers: dict[SourceName, _Server] = {}
        self._cache = Cache(Path(settings.cache).expanduser(), settings.cache_days, int(settings.cache_mb * 1e6),
                            time.time)
        self._client = httpx.AsyncClient(timeout=settings.timeout, follow_redirects=False, verify=_tls(),
                                         headers={"user-agent": AGENT})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.aclose()

    async def ask(self, question: Question, read: Callable[[str], tuple[T, ...]]) -> tuple[T, ...]:
        """What `read` finds in the answer, which raises `SourceError` where it does not understand it.

        Only an answer that is understood is kept. Raises: `SourceError`.
        """
        base = self._settings.addresses.get(question.source, ADDRESSES[question.source]).rstrip("/")
        address = f"{base}/{question.path.lstrip('/')}"
        name = json.dumps([address, sorted(question.parameters.items())])
        kept = self._cache.get(name)
        if kept is not None:
            with contextlib.suppress(SourceError):
                found = read(kept) if kept else ()
                if found or self._cache.get(name, EMPTY) is not None:
                    return found
        text = await self._fetched(question, address)
        found = read(text) if text is not None else ()
        self._cache.put(name, text or "")
        return found

    async def _fetched(self, question: Question, address: str) -> str | None:
        server = self._servers.setdefault(question.source, _Server())
        async with server.turn:
            for left in range(self._settings.retries, -1, -1):
                if self._clock() < server.closed_until:
                    raise SourceError(f"{question.source} is left alone for a while: {server.why}")
                await self._pace(question.source, server)
                try:
                    text = await self._once(question, address)
                except _RetryError as error:
                    await asyncio.sleep(self._wait(server, error, left))
                except SourceError as error:
                    self._failed(server, str(error))
                    raise
                else:
                    server.failures = 0
                    return text
        raise AssertionError("the last try returns or raises")

    async def _pace(self, source: SourceName, server: _Server) -> None:
        interval = self._settings.intervals.get(source, INTERVALS[source])
        await asyncio.sleep(max(0.0, server.next_at - self._clock()))
        server.next_at = self._clock() + interval

    async def _once(self, question: Question, address: str) -> str | None:
        """The text; None for the 404 of a lookup. Raises `_RetryError`, `SourceError`."""
        source = question.source
        try:
            async with asyncio.timeout(self._settings.timeout), self._client.stream(
                    "GET", address, params={**question.parameters, **question.private},
                    headers=dict(question.headers)) as answer:
                if answer.status_code == 404 and question.lookup:
                    return None
                if answer.status_code in BUSY:
                    raise _RetryError(f"{source} answers {answer.status_code}", _retry_after(answer.headers))
                if answer.status_code != 200:
                    raise SourceError(f"{source} answers {answer.status_code}")
                return await _read(source, answer)
        except TimeoutError:
            raise _RetryError(f"{source} gave no answer within {self._settings.timeout:g} s") from None
        except httpx.HTTPError as error:
            raise _RetryError(f"{source} cannot be reached ({type(error).__name__})") from None
        except (httpx.InvalidURL, UnicodeError, ValueError) as error:
            raise SourceError(f"{source} cannot be asked: {type(error).__name__}") from None

    def _wait(self, server: _Server, error: _RetryError, left: int) -> float:
        """Seconds until the next try. Raises `SourceError` where there is none."""
        longest = self._settings.longest_wait
        self._failed(server, str(error))
        if error.wait is not None and error.wait > longest:
            server.closed_until, server.why = self._clock() + REST, f"it asks for a wait of {error.wait:.0f} s"
            raise SourceError(f"{error}, and asks for a wait of {error.wait:.0f} s, more than literature.longest_wait")
        if left == 0:
            raise SourceError(f"{error}, after {self._settings.retries} retries")
        if error.wait is not None:
            return error.wait
        return min(longest, 2.0 ** (self._settings.retries - left) * (0.5 + self._rng.random()))

    def _failed(self, server: _Server, why: str) -> None:
        server.failures += 1
        if server.failures >= PATIENCE:
            server.closed_until, server.why, server.failures = self._clock() + REST, why, 0


@cache
def _tls() -> ssl.SSLContext:
    """Reading the certificates takes a tenth of a second: once a process."""
    return httpx.create_ssl_context()


async def _read(source: SourceName, answer: httpx.Response) -> str:
    data = bytearray()
    async for part in answer.aiter_bytes():
        data += part
        if len(data) > LARGEST:
            raise SourceError(f"{source} answers with more than {LARGEST} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise SourceError(f"{source} answers with what is not text") from None


def _retry_after(headers: httpx.Headers) -> float | None:
    """Seconds of a Retry-After header, which holds seconds or a date; None where it holds neither."""
    value = headers.get("retry-after", "")
    with contextlib.suppress(ValueError):
        return max(0.0, float(value))
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    return None


# --- the cache ------------------------------------------------------------------------------------------------------


class _Kept(Frozen):
    question: str
    at: float = Field(description="seconds since the epoch")
    text: str


@dataclass(frozen=True)
class Cache:
    """Texts by question. `clock` gives seconds since the epoch; `days` of 0 keeps nothing, `size` is in bytes."""

    folder: Path
    days: float
    size: int
    clock: Callable[[], float]

    def get(self, question: str, share: float = 1.0) -> str | None:
        """The kept answer that is younger than `share` of the days; None where there is none."""
        try:
            kept = _Kept.model_validate_json(self._path(question).read_bytes())
        except (OSError, ValidationError):
            return None
        age = self.clock() - kept.at
        return kept.text if kept.question == question and 0 <= age < share * self.days * DAY else None

    def put(self, question: str, text: str) -> None:
        """Keep an answer, if the folder can be written to; the oldest make room for it."""
        if not self.days:
            return
        with contextlib.suppress(OSError):  # without a place to keep answers, they are asked for again
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("wb", dir=self.folder, suffix=".part", delete=False) as file:
                file.write(_Kept(question=question, at=self.clock(), text=text).model_dump_json().encode())
            os.replace(file.name, self._path(question))
            found = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in self.folder.glob("*.json")
                           if _OURS.fullmatch(path.name))
            total = sum(size for _, size, _ in found)
            for _, size, path in found[:-1]:
                if total > self.size:
                    path.unlink(missing_ok=True)
                    total -= size

    def _path(self, question: str) -> Path:
        return self.folder / f"{hashlib.sha256(question.encode()).hexdigest()}.json"
