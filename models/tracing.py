"""Who is told of model calls beside the record: a collector of OpenTelemetry spans, or nobody (`SILENT`).

A call has the same span whichever model answers; what pydantic-ai does for it (the exchange, each request) lies below
it, by pydantic-ai's own instrumentation. Ours stays, since the offline model, a recording and a script are no models of
pydantic-ai, and none of its spans has the call's key in the record. What needs OpenTelemetry's SDK is in
`models.telemetry`, which is loaded when a collector is set.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from typing import Protocol

from models.errors import ModelConfigError
from models.settings import ModelSettings
from record.events.running import Answered
from record.nouns.decisions import CallKey

Tell = Callable[[Answered], None]
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
        return nullcontext(lambda answer: None)

    def close(self) -> None:
        """Nothing is left."""


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
    if collector is None:
        return
    try:
        installed = bool(find_spec(_EXPORTER) and find_spec("opentelemetry.sdk.trace"))
    except ModuleNotFoundError:
        installed = False
    if not installed:
        raise ModelConfigError(f"models.telemetry={collector} needs packages that are not installed: "
                               "pip install 'scientist[otel]', or set models.telemetry=null")
