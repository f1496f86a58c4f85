"""Who is told of model calls beside the record: a collector of OpenTelemetry spans, or nobody (`SILENT`).

A call has the same span whichever model answers; what pydantic-ai does for it (the exchange, each request) lies below
it. The parts that need OpenTelemetry's SDK are in `models.telemetry`, which is loaded when a collector is set.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Protocol
from urllib.parse import urlsplit

from pydantic import AfterValidator

from models.errors import ModelConfigError
from record.events.running import Answered
from record.nouns.decisions import CallKey

if TYPE_CHECKING:
    from models.settings import ModelSettings

Tell = Callable[[Answered], None]
BELOW: ContextVar[tuple[Any, ...]] = ContextVar("below", default=())
"""What a pydantic-ai agent is given while a traced call is under way, so that its own spans lie below the call's.

A variable of the context, as OpenTelemetry's current span is: who answers requests knows nothing of calls.
"""
_EXPORTER = "opentelemetry.exporter.otlp.proto.http"


class Tracing(Protocol):
    """Is told of every call that is made; an answer out of the ledger is none. Never raises, never waits."""

    def call(self, key: CallKey, *, request_sha256: str, asked: str) -> AbstractContextManager[Tell]:
        """Entered while a call is under way; the function it gives takes the answer once that is committed."""
        ...

    def close(self) -> None:
        """Deliver what is left, within a few seconds."""
        ...


class Silent:
    """Nobody is told."""

    def call(self, key: CallKey, *, request_sha256: str, asked: str) -> AbstractContextManager[Tell]:
        return nullcontext(_unheard)

    def close(self) -> None:
        """Nothing is left."""


def _unheard(answer: Answered) -> None:
    """Where nobody listens."""


SILENT: Tracing = Silent()


def open_tracing(settings: ModelSettings, run: str) -> Tracing:
    """Tracing of a run's calls, as set; `run` is its name, by which spans are found. Close it.

    Raises: `ModelConfigError`.
    """
    if settings.telemetry is None:
        return SILENT
    check_tracing(settings.telemetry)
    from models.telemetry import open_telemetry

    return open_telemetry(settings.telemetry, run, content=settings.telemetry_content)


def check_tracing(collector: str | None) -> None:
    """Refuse a collector without the packages that speak to it. Raises `ModelConfigError`."""
    if collector is not None and not _installed():
        raise ModelConfigError(f"models.telemetry={collector} needs packages that are not installed: "
                               "pip install 'scientist[otel]', or set models.telemetry=null")


def _installed() -> bool:
    try:
        return find_spec(_EXPORTER) is not None and find_spec("opentelemetry.sdk.trace") is not None
    except ModuleNotFoundError:
        return False


def _collector(given: str | None) -> str | None:
    if given is None:
        return None
    try:
        parts = urlsplit(given)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ValueError(f"is no address: {given!r}") from None
    if not whole or any(letter.isspace() for letter in given):
        raise ValueError(f"is the http(s) address of an OTLP collector, as http://127.0.0.1:4318, not {given!r}")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("is saved with the run, so it holds no user, password or query: give a key in the variable "
                         "OTEL_EXPORTER_OTLP_HEADERS of the environment")
    return given.rstrip("/")


Collector = Annotated[str | None, AfterValidator(_collector)]
"""The address of an OTLP/HTTP collector, without credentials; None: there is none."""
