"""Questions to catalogues over HTTP, within bounds: pace, retries, waits, size of an answer, and a breaker.

Each request ends within `timeout` seconds, whether the server says nothing or one byte a second; waits between tries
are bounded by `longest_wait`. A catalogue that fails `PATIENCE` tries in a row, or asks for a longer wait, is left
alone for `REST` seconds: what would be asked fails at once. The caller bounds the whole of a lookup.

What it does not guarantee: the pace over several processes, each keeps its own.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from types import TracebackType

import httpx

from literature.cache import Cache
from literature.errors import SourceError
from literature.settings import ADDRESSES, INTERVALS, LiteratureSettings, SourceName

PATIENCE = 3
"""Tries that fail in a row before a catalogue is left alone."""
REST = 120.0
"""Seconds that it is left alone."""
LARGEST = 8_000_000
"""Bytes of an answer at most."""
BUSY = frozenset({429, 500, 502, 503, 504})
AGENT = "scientist (a program that checks references)"


@dataclass
class _Line:
    """What is known of one catalogue's server, and whose turn it is there."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_at: float = 0.0
    failures: int = 0
    closed_until: float = 0.0
    why: str = ""


class _Again(Exception):
    """The request may be made again, after so many seconds where the server says so."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


@dataclass(frozen=True)
class Question:
    """What is asked of a catalogue. `private` goes with it and is neither kept nor told: keys and addresses."""

    source: SourceName
    path: str
    parameters: Mapping[str, str]
    private: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class Web:
    """Answers as text, from the cache or from the network. Use it as an asynchronous context."""

    def __init__(self, settings: LiteratureSettings, *, clock: Callable[[], float] = time.monotonic,
                 rng: random.Random | None = None) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = rng or random.Random(0)  # spreads the tries of several runs; nothing recorded hangs on it
        self._lines: dict[SourceName, _Line] = {}
        self._cache = Cache(Path(settings.cache).expanduser(), settings.cache_days, int(settings.cache_mb * 1e6),
                            time.time)
        self._client = httpx.AsyncClient(timeout=settings.timeout, follow_redirects=False, verify=_tls(),
                                         headers={"user-agent": AGENT})

    async def __aenter__(self) -> Web:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(self, question: Question, check: Callable[[str], int]) -> str | None:
        """The text of an answer; None where the server says that there is no such thing.

        `check` gives the number of works in a text, and raises `SourceError` for one that is not understood: only what
        is understood is kept, and one without works for a tenth of the time. Raises: `SourceError`.
        """
        base = self._settings.addresses.get(question.source, ADDRESSES[question.source]).rstrip("/")
        address = f"{base}/{question.path.lstrip('/')}"
        name = json.dumps([address, sorted(question.parameters.items())])
        kept = self._cache.get(name)
        if kept is not None and (_usable(check, kept) or self._cache.get(name, 0.1) is not None):
            return kept or None
        text = await self._fetched(question, address)
        if text is not None:
            check(text)
        self._cache.put(name, text or "")
        return text

    async def _fetched(self, question: Question, address: str) -> str | None:
        line = self._lines.setdefault(question.source, _Line())
        async with line.turn:
            for left in range(self._settings.retries, -1, -1):
                if self._clock() < line.closed_until:
                    raise SourceError(f"{question.source} is left alone for a while: {line.why}")
                await self._pace(question.source, line)
                try:
                    text = await self._once(question, address)
                except _Again as again:
                    wait = self._after(question.source, line, again, left)
                    await asyncio.sleep(wait)
                except SourceError as error:
                    self._failed(line, str(error))
                    raise
                else:
                    line.failures = 0
                    return text
        raise AssertionError("the last try returns or raises")

    async def _pace(self, source: SourceName, line: _Line) -> None:
        interval = self._settings.intervals.get(source, INTERVALS[source])
        now = self._clock()
        if line.next_at > now:
            await asyncio.sleep(line.next_at - now)
        line.next_at = self._clock() + interval

    async def _once(self, question: Question, address: str) -> str | None:
        """The text, or None for 404. Raises `_Again`, `SourceError`."""
        source = question.source
        try:
            async with asyncio.timeout(self._settings.timeout), self._client.stream(
                    "GET", address, params={**question.parameters, **question.private},
                    headers=dict(question.headers)) as answer:
                if answer.status_code == 404:
                    return None
                if answer.status_code in BUSY:
                    wait = _asked(answer.headers.get("retry-after", ""))
                    raise _Again(f"{source} answers {answer.status_code}", wait)
                if answer.status_code != 200:
                    raise SourceError(f"{source} answers {answer.status_code}")
                return await _read(source, answer)
        except TimeoutError:
            raise _Again(f"{source} gave no answer within {self._settings.timeout:g} s") from None
        except httpx.HTTPError as error:
            raise _Again(f"{source} cannot be reached ({type(error).__name__})") from None
        except (httpx.InvalidURL, UnicodeError, ValueError) as error:
            raise SourceError(f"{source} cannot be asked: {type(error).__name__}") from None

    def _after(self, source: SourceName, line: _Line, again: _Again, left: int) -> float:
        """Seconds until the next try. Raises `SourceError` where there is none."""
        longest = self._settings.longest_wait
        self._failed(line, str(again))
        if again.wait is not None and again.wait > longest:
            line.closed_until, line.why = self._clock() + REST, f"it asks for a wait of {again.wait:.0f} s"
            raise SourceError(f"{again}, and asks for a wait of {again.wait:.0f} s, more than literature.longest_wait")
        if left == 0:
            raise SourceError(f"{again}, after {self._settings.retries} further tries")
        if again.wait is not None:
            return again.wait
        return min(longest, 2.0 ** (self._settings.retries - left) * (0.5 + self._rng.random()))

    def _failed(self, line: _Line, why: str) -> None:
        line.failures += 1
        if line.failures >= PATIENCE:
            line.closed_until, line.why, line.failures = self._clock() + REST, why, 0


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


def _usable(check: Callable[[str], int], text: str) -> bool:
    """Whether a kept text holds works. An empty one is what a 404 was kept as."""
    try:
        return bool(text) and check(text) > 0
    except SourceError:
        return False


def _asked(value: str) -> float | None:
    """Seconds of a Retry-After header, which holds seconds or a date; None where it holds neither."""
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
