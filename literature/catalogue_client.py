"""Questions to catalogues over HTTP, within bounds: pace, retries, waits, size of an answer, and a breaker.

Each request ends within `timeout` seconds, whether the server says nothing or one byte a second; waits between tries
are bounded by `LONGEST_WAIT`. A catalogue that fails `PATIENCE` tries in a row, or asks for a longer wait, is left
alone for `REST` seconds: further questions fail at once. The caller bounds the whole of a lookup. (tenacity would retry
as well, but has no breaker between tries, and its tries would not take turns.)

Answers are kept on disk, each in a file under the hash of its question, without keys and addresses. A file that cannot
be read or is too old is no answer. Two processes may share the folder. (An HTTP cache such as
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
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import Self, TypeVar

import httpx
from pydantic import Field, ValidationError

from labwright.literature import CatalogueAnswerError
from labwright.literature.settings import CatalogueCredentials, CatalogueName, LiteratureSettings
from labwright.record.errors import UsageError
from labwright.record.proxy_environment import format_connection_advice
from labwright.record.schema.frozen_model import FrozenModel

BASE_URLS: dict[CatalogueName, str] = {
    "openalex": "https://api.openalex.org",
    "crossref": "https://api.crossref.org",
    "semantic_scholar": "https://api.semanticscholar.org/graph/v1",
    "arxiv": "https://export.arxiv.org/api",
}
MIN_INTERVAL_SECONDS: dict[CatalogueName, float] = {
    "openalex": 0.15,
    "crossref": 0.25,
    "semantic_scholar": 1.1,
    "arxiv": 3.0,
}
"""Seconds between requests at least: what each catalogue asks of those without a contract."""
MAX_RETRIES = 2
"""Further tries at a request that failed or came too early: a catalogue that fails three times rests anyway."""
MAX_RETRY_WAIT_SECONDS = 20.0
"""Seconds to wait for a busy catalogue at most: a third of what one reference may take."""
MAX_CONSECUTIVE_FAILURES = 3
"""Tries that fail in a row before a catalogue is left alone."""
BREAKER_OPEN_SECONDS = 120.0
"""Seconds for which it is left alone."""
MAX_ANSWER_BYTES = 8_000_000
"""Bytes of an answer at most."""
TRANSIENT_STATUS_CODES = frozenset({429, 500, 502, 503, 504})
USER_AGENT = "scientist (a program that checks references)"
DAY_SECONDS = 86400.0
EMPTY_ANSWER_LIFETIME_SHARE = 0.1
"""Share of the days for which an answer without works is kept."""
MAX_CACHE_BYTES = 100_000_000
"""Room for kept answers; the oldest make room."""
_CACHE_FILE_PATTERN = re.compile(r"[0-9a-f]{64}\.json")
"""Names of our files: the folder is of the user's choice, and may hold others."""
T = TypeVar("T")


@dataclass(frozen=True)
class CatalogueRequest:
    """What is asked of a catalogue. `lookup`: 404 means that there is no such work; else it is an error. `binary`:
    each byte of the answer becomes a character, as in Latin-1."""

    source: CatalogueName
    path: str
    parameters: Mapping[str, str]
    is_lookup: bool = False
    is_binary: bool = False


@dataclass
class _ServerState:
    """What is known of one catalogue's server, and whose turn it is there."""

    turn_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_request_at: float = 0.0
    failures: int = 0
    closed_until: float = 0.0
    why: str = ""


class _TransientError(CatalogueAnswerError):
    """The request may be made again, after so many seconds where the server says so."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


class CatalogueClient:
    """Answers of catalogues, from the cache or from the network. Use it as an asynchronous context."""

    def __init__(
        self,
        settings: LiteratureSettings,
        credentials: CatalogueCredentials,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._credentials, self._clock = settings, credentials, clock
        self._rng = random.Random(0)  # spreads the tries of several runs; nothing recorded depends on it
        self._servers: dict[CatalogueName, _ServerState] = {}
        self._cache = AnswerCache(Path(settings.cache).expanduser(), settings.cache_days)
        try:
            self._client = httpx.AsyncClient(
                timeout=settings.timeout,
                follow_redirects=False,
                verify=_create_ssl_context(),
                headers={"user-agent": USER_AGENT, "accept-encoding": "gzip"},
            )
        except (httpx.InvalidURL, ImportError, ValueError, OSError) as error:
            raise UsageError(
                f"catalogues cannot be reached as the environment says: {error}{format_connection_advice(error)}"
            ) from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.aclose()

    async def ask(self, question: CatalogueRequest, read: Callable[[str], tuple[T, ...]]) -> tuple[T, ...]:
        """What `read` finds in the answer, which raises `SourceError` where it does not understand it.

        Only an answer that is understood is kept. Raises: `SourceError`.
        """
        base = self._settings.addresses.get(question.source, BASE_URLS[question.source]).rstrip("/")
        address = f"{base}/{question.path.lstrip('/')}"
        name = json.dumps([address, sorted(question.parameters.items())])
        kept = self._cache.get(name)
        if kept is not None:
            with contextlib.suppress(CatalogueAnswerError):
                return read(kept) if kept else ()
        text = await self._fetch(question, address)
        found = read(text) if text is not None else ()
        self._cache.put(name, text or "", empty=not found)
        return found

    async def _fetch(self, question: CatalogueRequest, address: str) -> str | None:
        """The text, at the catalogue's pace and after retries; None for the 404 of a lookup. Raises `SourceError`."""
        server = self._servers.setdefault(question.source, _ServerState())
        async with server.turn_lock:
            for tries in range(MAX_RETRIES + 1):
                if self._clock() < server.closed_until:
                    raise CatalogueAnswerError(f"{question.source} is left alone for a while: {server.why}")
                await asyncio.sleep(max(0.0, server.next_request_at - self._clock()))
                server.next_request_at = self._clock() + MIN_INTERVAL_SECONDS[question.source]
                try:
                    text = await self._request_once(question, address)
                except CatalogueAnswerError as error:
                    await asyncio.sleep(self._compute_wait(error, server, tries))
                else:
                    server.failures = 0
                    return text
        raise AssertionError("the last try returns or raises")

    async def _request_once(self, question: CatalogueRequest, address: str) -> str | None:
        source = question.source
        parameters = {**question.parameters, **self._credentials.build_parameters(source)}
        try:
            async with (
                asyncio.timeout(self._settings.timeout),
                self._client.stream(
                    "GET", address, params=parameters, headers=self._credentials.build_headers(source)
                ) as answer,
            ):
                if answer.status_code == 404 and question.is_lookup:
                    return None
                if answer.status_code in TRANSIENT_STATUS_CODES:
                    raise _TransientError(f"{source} answers {answer.status_code}", _parse_retry_after(answer.headers))
                if answer.status_code != 200:
                    raise CatalogueAnswerError(f"{source} answers {answer.status_code}")
                data = bytearray()
                unpacked = _build_decompressor(source, answer.headers.get("content-encoding", ""))
                async for part in answer.aiter_raw():
                    data += unpacked(part, MAX_ANSWER_BYTES + 1 - len(data))
                    if len(data) > MAX_ANSWER_BYTES:
                        raise CatalogueAnswerError(f"{source} answers with more than {MAX_ANSWER_BYTES} bytes")
                return data.decode("latin-1" if question.is_binary else "utf-8")
        except TimeoutError:
            raise _TransientError(f"{source} gave no answer within {self._settings.timeout:g} s") from None
        except httpx.HTTPError as error:
            raise _TransientError(f"{source} cannot be reached ({type(error).__name__})") from None
        except (UnicodeDecodeError, zlib.error):
            raise CatalogueAnswerError(f"{source} answers with what is not text") from None
        except (httpx.InvalidURL, ValueError) as error:
            raise CatalogueAnswerError(f"{source} cannot be asked: {type(error).__name__}") from None

    def _compute_wait(self, error: CatalogueAnswerError, server: _ServerState, tries: int) -> float:
        """Seconds until the next try. Raises `SourceError` where there is none."""
        server.failures += 1
        if server.failures >= MAX_CONSECUTIVE_FAILURES:
            server.closed_until, server.why, server.failures = self._clock() + BREAKER_OPEN_SECONDS, str(error), 0
        if not isinstance(error, _TransientError):
            raise error
        if error.wait is not None and error.wait > MAX_RETRY_WAIT_SECONDS:
            server.closed_until, server.why = (
                self._clock() + BREAKER_OPEN_SECONDS,
                f"it asks for a wait of {error.wait:.0f} s",
            )
            raise CatalogueAnswerError(
                f"{error}, and asks for a wait of {error.wait:.0f} s, more than {MAX_RETRY_WAIT_SECONDS:g} s"
            )
        if tries == MAX_RETRIES:
            raise CatalogueAnswerError(f"{error}, after {MAX_RETRIES} retries")
        if error.wait is not None:
            return error.wait
        return min(MAX_RETRY_WAIT_SECONDS, 2.0**tries * (0.5 + self._rng.random()))


def _build_decompressor(source: CatalogueName, encoding: str) -> Callable[[bytes, int], bytes]:
    """What unpacks the parts of an answer, to so many bytes at most: httpx has no bound, and a small part may grow to
    gigabytes. Raises `SourceError` for an encoding that was not asked for."""
    if encoding.strip().lower() in ("", "identity"):
        return lambda part, most: part
    if encoding.strip().lower() not in ("gzip", "x-gzip"):
        raise CatalogueAnswerError(f"{source} answers in an encoding that was not asked for")
    return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress


_create_ssl_context = cache(httpx.create_ssl_context)
"""Reading them takes a tenth of a second: once a process."""


def _parse_retry_after(headers: httpx.Headers) -> float | None:
    """Seconds of a Retry-After header, which holds seconds or a date; None where it holds neither."""
    value = headers.get("retry-after", "")
    with contextlib.suppress(ValueError):
        return max(0.0, float(value))
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    return None


# --- the cache ------------------------------------------------------------------------------------------------------


class _CachedAnswer(FrozenModel):
    at: float = Field(description="seconds since the epoch")
    text: str
    empty: bool = False


@dataclass(frozen=True)
class AnswerCache:
    """Texts by question. `days` of 0 keeps nothing; `clock` gives seconds since the epoch."""

    folder: Path
    days: float
    clock: Callable[[], float] = time.time

    def get(self, question: str) -> str | None:
        """The kept answer; None where there is none, or it is too old."""
        try:
            kept = _CachedAnswer.model_validate_json(self._get_path(question).read_bytes())
        except (OSError, ValidationError):
            return None
        days = self.days * EMPTY_ANSWER_LIFETIME_SHARE if kept.empty else self.days
        return kept.text if 0 <= self.clock() - kept.at < days * DAY_SECONDS else None

    def put(self, question: str, text: str, *, empty: bool) -> None:
        """Keep an answer, if the folder can be written to; the oldest make room for it."""
        if not self.days:
            return
        kept = _CachedAnswer(at=self.clock(), text=text, empty=empty)
        with contextlib.suppress(OSError):  # without a place to keep answers, they are asked for again
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("wb", dir=self.folder, suffix=".part", delete=False) as file:
                file.write(kept.model_dump_json().encode())
            os.replace(file.name, self._get_path(question))
            files = sorted(
                (path.stat().st_mtime, path.stat().st_size, path)
                for path in self.folder.glob("*.json")
                if _CACHE_FILE_PATTERN.fullmatch(path.name)
            )
            total = sum(size for _, size, _ in files)
            for _, size, path in files[:-1]:
                if total > MAX_CACHE_BYTES:
                    path.unlink(missing_ok=True)
                    total -= size

    def _get_path(self, question: str) -> Path:
        return self.folder / f"{hashlib.sha256(question.encode()).hexdigest()}.json"
