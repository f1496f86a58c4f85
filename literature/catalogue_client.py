"""Query catalogues over HTTP with rate limits, retries, bounded waits and answers, and a circuit breaker.

Each request ends within `timeout` seconds, even if the server sends one byte per second; waits between retries are at
most `MAX_RETRY_WAIT_SECONDS`. A catalogue that fails `MAX_CONSECUTIVE_FAILURES` times in a row, or asks for a longer
wait, is not queried for `BREAKER_OPEN_SECONDS`: requests fail at once. The caller limits the whole lookup. (tenacity
retries too, but it has no breaker between tries and does not queue them.)

Limits: the rate limit applies per process; every lookup is asked anew.
"""

from __future__ import annotations

import asyncio
import random
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, Self, TypeVar, get_args

import httpx
from pydantic import Field

from labwright.literature import CatalogueAnswerError
from labwright.record.errors import UsageError
from labwright.record.machine import format_connection_advice
from labwright.record.schema import FrozenModel

# Settings of the catalogues: which ones to query, at which address and for how long.

CatalogueName = Literal["openalex", "crossref", "semantic_scholar", "arxiv"]
CATALOGUE_NAMES: tuple[CatalogueName, ...] = get_args(CatalogueName)


class LiteratureSettings(FrozenModel):
    """Settings of literature lookups. API keys are not settings and are never recorded (`CatalogueCredentials`)."""

    sources: tuple[CatalogueName, ...] = Field(
        default=CATALOGUE_NAMES,
        description="catalogues of published works to query; []: none, so no reference is newly verified",
    )
    addresses: dict[CatalogueName, str] = Field(
        default_factory=dict[CatalogueName, str], description="base URL of a catalogue, if not the public one"
    )
    timeout: float = Field(
        default=15.0, gt=0, le=120, allow_inf_nan=False, description="timeout of one request to a catalogue, in seconds"
    )


@dataclass(frozen=True)
class CatalogueCredentials:
    """Credentials from the environment, which are never recorded or shown."""

    semantic_scholar: str = ""
    """API key (S2_API_KEY), sent only to Semantic Scholar."""
    mail: str = ""
    """Mail address (OPENALEX_MAIL_ADDRESS), sent to OpenAlex and Crossref, which then answer faster."""

    def __repr__(self) -> str:
        return "Credentials()"


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
"""Minimum seconds between requests, as each catalogue requires of users without a contract."""
MAX_RETRIES = 2
"""Retries of a failed or rate-limited request; after three failures the breaker opens anyway."""
MAX_RETRY_WAIT_SECONDS = 20.0
"""Longest wait for a busy catalogue in seconds: a third of the limit for one reference."""
MAX_CONSECUTIVE_FAILURES = 3
"""Number of consecutive failures that open the breaker of a catalogue."""
BREAKER_OPEN_SECONDS = 120.0
"""Seconds that the breaker stays open."""
MAX_ANSWER_BYTES = 8_000_000
"""Size limit of an answer in bytes."""
TRANSIENT_STATUS_CODES = frozenset({429, 500, 502, 503, 504})
USER_AGENT = "scientist (a program that checks references)"
T = TypeVar("T")


@dataclass(frozen=True)
class CatalogueRequest:
    """A request to a catalogue. `is_lookup`: 404 means that the work does not exist, not an error. `is_binary`: each
    byte of the answer becomes one character (Latin-1)."""

    source: CatalogueName
    path: str
    parameters: Mapping[str, str]
    is_lookup: bool = False
    is_binary: bool = False


@dataclass
class _ServerState:
    """State of one catalogue's server: its queue, rate limit and breaker."""

    turn_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_request_at: float = 0.0
    failures: int = 0
    closed_until: float = 0.0
    why: str = ""


class _TransientError(CatalogueAnswerError):
    """Raised if the request may be retried, after `wait` seconds if the server specifies them."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


class CatalogueClient:
    """Gets catalogues' answers. Use as an async context manager."""

    def __init__(
        self,
        settings: LiteratureSettings,
        credentials: CatalogueCredentials,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._credentials, self._clock = settings, credentials, clock
        self._rng = random.Random(0)  # spreads the retries of several runs; no recorded value depends on it
        self._servers: dict[CatalogueName, _ServerState] = {}
        try:
            self._client = httpx.AsyncClient(
                timeout=settings.timeout,
                follow_redirects=False,
                verify=_create_ssl_context(),
                headers={"user-agent": USER_AGENT, "accept-encoding": "gzip"},
            )
        except (httpx.InvalidURL, ImportError, ValueError, OSError) as error:
            raise UsageError(
                f"the network settings of the environment are invalid: {error}{format_connection_advice(error)}"
            ) from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.aclose()

    async def ask(self, question: CatalogueRequest, read: Callable[[str], tuple[T, ...]]) -> tuple[T, ...]:
        """Return the result of `read` on the answer; `read` raises `CatalogueAnswerError` for an unknown format.

        Raises `CatalogueAnswerError`.
        """
        base = self._settings.addresses.get(question.source, BASE_URLS[question.source]).rstrip("/")
        text = await self._fetch(question, f"{base}/{question.path.lstrip('/')}")
        return read(text) if text is not None else ()

    async def _fetch(self, question: CatalogueRequest, address: str) -> str | None:
        """Fetch the text with rate limit and retries; None if a lookup gets a 404. Raises `CatalogueAnswerError`."""
        server = self._servers.setdefault(question.source, _ServerState())
        async with server.turn_lock:
            for tries in range(MAX_RETRIES + 1):
                if self._clock() < server.closed_until:
                    raise CatalogueAnswerError(f"{question.source} is not queried for a while: {server.why}")
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
        parameters, headers = dict(question.parameters), dict[str, str]()
        if self._credentials.mail and source in ("openalex", "crossref"):
            parameters["mailto"] = self._credentials.mail
        if self._credentials.semantic_scholar and source == "semantic_scholar":
            headers["x-api-key"] = self._credentials.semantic_scholar
        try:
            async with (
                asyncio.timeout(self._settings.timeout),
                self._client.stream("GET", address, params=parameters, headers=headers) as answer,
            ):
                if answer.status_code == 404 and question.is_lookup:
                    return None
                if answer.status_code in TRANSIENT_STATUS_CODES:
                    raise _TransientError(
                        f"{source} returned status {answer.status_code}", _parse_retry_after(answer.headers)
                    )
                if answer.status_code != 200:
                    raise CatalogueAnswerError(f"{source} returned status {answer.status_code}")
                data = bytearray()
                unpacked = _build_decompressor(source, answer.headers.get("content-encoding", ""))
                async for part in answer.aiter_raw():
                    data += unpacked(part, MAX_ANSWER_BYTES + 1 - len(data))
                    if len(data) > MAX_ANSWER_BYTES:
                        raise CatalogueAnswerError(f"{source} returned more than {MAX_ANSWER_BYTES} bytes")
                return data.decode("latin-1" if question.is_binary else "utf-8")
        except TimeoutError:
            raise _TransientError(f"{source} gave no answer within {self._settings.timeout:g} s") from None
        except httpx.HTTPError as error:
            raise _TransientError(f"{source} cannot be reached ({type(error).__name__})") from None
        except (UnicodeDecodeError, zlib.error):
            raise CatalogueAnswerError(f"{source} returned something other than text") from None
        except (httpx.InvalidURL, ValueError) as error:
            raise CatalogueAnswerError(f"{source} cannot be queried: {type(error).__name__}") from None

    def _compute_wait(self, error: CatalogueAnswerError, server: _ServerState, tries: int) -> float:
        """Return the seconds until the next try. Raises `CatalogueAnswerError` after the last one."""
        server.failures += 1
        if server.failures >= MAX_CONSECUTIVE_FAILURES:
            server.closed_until, server.why, server.failures = self._clock() + BREAKER_OPEN_SECONDS, str(error), 0
        if not isinstance(error, _TransientError):
            raise error
        if error.wait is not None and error.wait > MAX_RETRY_WAIT_SECONDS:
            wish = f"asks for a wait of {error.wait:.0f} s, more than {MAX_RETRY_WAIT_SECONDS:g} s"
            server.closed_until, server.why = self._clock() + BREAKER_OPEN_SECONDS, f"it {wish}"
            raise CatalogueAnswerError(f"{error}, and {wish}")
        if tries == MAX_RETRIES:
            raise CatalogueAnswerError(f"{error}, after {MAX_RETRIES} retries")
        if error.wait is not None:
            return error.wait
        return min(MAX_RETRY_WAIT_SECONDS, 2.0**tries * (0.5 + self._rng.random()))


def _build_decompressor(source: CatalogueName, encoding: str) -> Callable[[bytes, int], bytes]:
    """Return a decompressor with an output limit, which httpx lacks; a small answer may expand to
    gigabytes. Raises `CatalogueAnswerError` for an encoding that was not requested.
    """
    if encoding.strip().lower() in ("", "identity"):
        return lambda part, most: part
    if encoding.strip().lower() not in ("gzip", "x-gzip"):
        raise CatalogueAnswerError(f"{source} used an encoding that was not requested")
    return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress


_create_ssl_context = cache(httpx.create_ssl_context)
"""Loading the certificates takes 0.1 s, so it is done once per process."""


def _parse_retry_after(headers: httpx.Headers) -> float | None:
    """Return the seconds of a Retry-After header, or None."""
    value = headers.get("retry-after", "")
    return float(value) if value.isdecimal() else None
