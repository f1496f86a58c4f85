"""Spans of model calls for an OpenTelemetry collector, over OTLP/HTTP (protobuf).

A call is a span `ask ROLE`, root of a trace of its own, with `scientist.*` attributes by which it is found in the
record: run, decision, attempt, role, ordinal, key and request_sha256; and tokens, USD, retries and model once it is
answered. pydantic-ai's spans (the exchange, each request to the provider) lie below it and carry the first of these
too. Without `content` neither prompts nor answers are in any of them, nor what an error says, which may quote them.

Spans wait in a bounded queue for a thread that sends them. A collector that is down, slow or silent costs spans, and
`CLOSING` seconds at the end of a run; the loss is told in one line.

What it does not guarantee: delivery. A `kill -9` loses what was not sent.
Source: OpenTelemetry specification, "Trace SDK", batching processor; "OTLP Specification", OTLP/HTTP.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.metadata import version

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import StatusCode
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings

from models.backend import CAPABILITIES
from models.errors import ModelConfigError
from record.events.running import Answered
from record.nouns.decisions import CallKey

LOG = logging.getLogger(__name__)
CLOSING = 5.0
"""Seconds that are waited for the last spans to be delivered, at most."""
SENDING = 3.0
"""Seconds that a batch gets, its retries included; then it is lost."""
DELAY = 1.0
"""Seconds between two batches."""
WAITING = 512
"""Spans that wait to be sent; the oldest are lost first."""
BATCH = 64
PATH = "/v1/traces"
PREFIX = "scientist."


def open_telemetry(collector: str, run: str, *, content: bool) -> Telemetry:
    """Spans of a run's calls for the collector at an address. Raises `ModelConfigError`."""
    endpoint = collector if collector.endswith(PATH) else collector + PATH
    try:
        exporter = OTLPSpanExporter(endpoint=endpoint, timeout=SENDING, meter_provider=NoOpMeterProvider())
    except (ValueError, OSError) as error:  # what the environment sets for it (OTEL_EXPORTER_OTLP_*)
        raise ModelConfigError(f"models.telemetry={collector} cannot be used: {error}") from None
    return Telemetry(exporter, collector, run, content=content)


class Telemetry:
    """`models.tracing.Tracing` that sends spans."""

    def __init__(self, exporter: SpanExporter, collector: str, run: str, *, content: bool) -> None:
        """`collector` is its name in words."""
        log = logging.getLogger("opentelemetry")  # what it logs of each failed batch stays off the terminal
        if not log.handlers:
            log.addHandler(logging.NullHandler())
        self._collector = collector
        self._run = run
        self._content = content
        self._counted = Counted(exporter)
        self._spans = Marked()
        self._provider = TracerProvider(
            sampler=ALWAYS_ON, shutdown_on_exit=False, meter_provider=NoOpMeterProvider(),
            resource=Resource.create({"service.name": "scientist", "service.version": version("scientist")}))
        self._provider.add_span_processor(self._spans)
        self._provider.add_span_processor(BatchSpanProcessor(
            self._counted, max_queue_size=WAITING, schedule_delay_millis=DELAY * 1000, max_export_batch_size=BATCH,
            meter_provider=NoOpMeterProvider()))
        self._tracer = self._provider.get_tracer("scientist", version("scientist"))
        self._below = Instrumentation(settings=InstrumentationSettings(
            tracer_provider=self._provider, meter_provider=NoOpMeterProvider(), include_content=content,
            include_binary_content=False, include_model_request_parameters=False))

    @contextmanager
    def call(self, key: CallKey, *, request_sha256: str, asked: str) -> Generator[Callable[[Answered], None]]:
        """A span around a call. What is raised in it is passed on, and noted by its kind."""
        marks = {"run": self._run, "decision": key.decision, "attempt": key.attempt, "role": key.role,
                 "ordinal": key.ordinal, "key": str(key), "request_sha256": request_sha256, "asked": asked}
        with self._tracer.start_as_current_span(
                f"ask {key.role}", attributes={PREFIX + name: mark for name, mark in marks.items()},
                record_exception=False, set_status_on_exception=False) as span:
            below = CAPABILITIES.set((self._below,))
            try:
                yield lambda answer: _answered(span, answer)
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(StatusCode.ERROR, str(error) if self._content else None)
                raise
            finally:
                CAPABILITIES.reset(below)

    def close(self) -> None:
        """Wait `CLOSING` seconds at most for what is left to be sent, and say what was lost. Once."""
        self._counted.hurried = True
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSING)
        self._counted.shutdown()
        lost = self._spans.ended - self._counted.delivered
        if lost:
            LOG.warning("%d of %d spans of model calls did not reach %s (models.telemetry)",
                        lost, self._spans.ended, self._collector)


class Marked(SpanProcessor):
    """Gives a span below a call what the call is found by, and counts spans."""

    def __init__(self) -> None:
        self.ended = 0

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        above = trace.get_current_span(parent_context)
        if isinstance(above, ReadableSpan):
            marks = (above.attributes or {}).items()
            span.set_attributes({name: one for name, one in marks if name.startswith(PREFIX)})

    def on_end(self, span: ReadableSpan) -> None:
        self.ended += 1


class Counted(SpanExporter):
    """An exporter that counts what it delivered. Once `hurried`, the first failure is its end."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.delivered = 0
        self.hurried = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.delivered += len(spans)
        elif self.hurried:
            self.shutdown()
        return result

    def shutdown(self) -> None:
        """From now on nothing is sent, and no failed batch is tried again."""
        self._exporter.shutdown()


def _answered(span: trace.Span, answer: Answered) -> None:
    span.set_attributes({
        PREFIX + "model": answer.model, PREFIX + "input_tokens": answer.usage.input_tokens,
        PREFIX + "output_tokens": answer.usage.output_tokens, PREFIX + "retries": answer.retries,
        PREFIX + "cached_tokens": answer.usage.cached_tokens,
        PREFIX + "cache_write_tokens": answer.usage.cache_write_tokens,
        **({PREFIX + "usd": answer.usage.usd} if answer.usage.usd is not None else {})})
