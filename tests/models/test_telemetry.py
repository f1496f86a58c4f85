"""Spans of calls: found in the record by what they carry, free of what was said, and never in a run's way."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from agent.cli import main
from agent.settings import SettingsError, compose
from models import roles, telemetry, tracing
from models.backend import CAPABILITIES, Image
from models.client import Models
from models.errors import ModelConfigError, ModelOutputInvalid, ModelUnavailable
from models.failover import open_backend
from models.roles import ROLES
from models.roles.coding import Program
from models.scripted import ScriptedModel
from models.settings import ModelSettings
from models.tracing import SILENT, Tracing, open_tracing
from record.fold.apply import fold
from record.log import MemoryLog
from record.prompts import prompt_of
from record.reading import read_events
from tests.models.collector import Collector, Taken
from tests.models.examples import CODE, INPUTS, PROGRAM
from tests.models.openai_server import OpenAIServer, status, tool

CALLS = 100
"""More than wait in a queue that is made short."""
SECRET = "sk-planted-0123456789"
PICTURE = Image(b"\x89PNG\r\n\x1a\n planted picture")


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as found:
        yield found


def set_to(collector: str, **more: object) -> ModelSettings:
    return ModelSettings.model_validate({"telemetry": collector, "retries": 0, **more})


async def asked(settings: ModelSettings, ledger: MemoryLog, model: ScriptedModel | None = None) -> None:
    """One call of the role code, with its spans delivered."""
    with closing(open_tracing(settings, "a-run")) as tracing:
        models = Models(model or open_backend(settings), ledger, settings, time.monotonic, tracing=tracing)
        await models.at(7, 2).ask(roles.CODE, CODE)


def scripted(answer: Program | Exception = PROGRAM) -> ScriptedModel:
    def script(request: object) -> Program:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ScriptedModel(script)


def only(found: list[Taken], name: str) -> Taken:
    [one] = [span for span in found if span.name == name]
    return one


# --- what a span carries --------------------------------------------------------------------------------------------


async def test_a_call_is_found_in_the_record_by_its_span(collector: Collector) -> None:
    ledger = MemoryLog()
    await asked(set_to(collector.url), ledger, scripted())
    [event], [span] = ledger.answers, collector.spans
    assert collector.server.paths == ["/v1/traces"]
    assert span.name == "ask code" and not span.parent and not span.failed
    assert dict(span.attributes) == {
        "scientist.run": "a-run", "scientist.decision": 7, "scientist.attempt": 2, "scientist.role": "code",
        "scientist.ordinal": 0, "scientist.key": str(event.key), "scientist.request_sha256": event.request_sha256,
        "scientist.asked": event.asked, "scientist.model": "scripted", "scientist.retries": 0,
        "scientist.input_tokens": event.usage.input_tokens, "scientist.output_tokens": event.usage.output_tokens,
        "scientist.cached_tokens": event.usage.cached_tokens,
        "scientist.cache_write_tokens": event.usage.cache_write_tokens}
    assert CAPABILITIES.get() == (), "what comes after the call lies not below it"


@pytest.mark.usefixtures("local_requests")
@pytest.mark.parametrize("content", [False, True])
@pytest.mark.slow
async def test_a_providers_requests_lie_below_the_call_and_say_only_what_was_allowed(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, content: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    ledger = MemoryLog()
    with OpenAIServer([tool({"title": 3}), tool(PROGRAM.model_dump())]) as server:
        await asked(set_to(collector.url, name="openai:some-model", base_url=server.url, telemetry_content=content,
                           context_tokens=100_000), ledger)
    spans = collector.spans
    call = only(spans, "ask code")
    requests = [one for one in spans if one.name.startswith("chat")]
    assert len(requests) == 2, "the answer off its schema and the one that fits"
    assert {one.trace for one in spans} == {call.trace} and all(one.parent for one in spans if one is not call)
    assert all(one.attributes["scientist.key"] == "7.2.code.0" for one in spans)
    assert call.attributes["scientist.usd"] == 0.0
    assert call.attributes["scientist.input_tokens"] == ledger.answers[0].usage.input_tokens == 200
    said = [text.encode() in collector.sent for text in (CODE.goal[:30], PROGRAM.title, "valid string")]
    assert said == [content] * 3
    assert SECRET.encode() not in collector.sent


@pytest.mark.usefixtures("local_requests")
async def test_pictures_never_go_to_a_collector(collector: Collector) -> None:
    with OpenAIServer([tool({"reviews": []})]) as server:
        settings = set_to(collector.url, name="openai:some-model", base_url=server.url, telemetry_content=True,
                          context_tokens=100_000)
        with closing(open_tracing(settings, "a-run")) as tracing:
            models = Models(open_backend(settings), MemoryLog(), settings, time.monotonic, tracing=tracing)
            await models.at(1, 1).ask(ROLES["vision"], INPUTS["vision"], (PICTURE,))
    assert len(collector.spans) >= 2
    assert b"planted picture" not in collector.sent
    import base64

    assert base64.b64encode(PICTURE.data)[:20] not in collector.sent


@pytest.mark.parametrize("content", [False, True])
async def test_a_failed_call_says_its_kind_and_quotes_nothing(collector: Collector, content: bool) -> None:
    wrong = ModelOutputInvalid("the answer was: PLANTED words of the model")
    with pytest.raises(ModelOutputInvalid):
        await asked(set_to(collector.url, telemetry_content=content), MemoryLog(), scripted(wrong))
    [span] = collector.spans
    assert span.failed and span.attributes["error.type"] == "ModelOutputInvalid"
    assert ("PLANTED" in span.said) == content == (b"PLANTED" in collector.sent)


@pytest.mark.usefixtures("local_requests")
async def test_what_a_provider_says_in_an_error_is_not_sent(collector: Collector) -> None:
    with OpenAIServer([status(500, "PLANTED: your prompt was ...")]) as server, pytest.raises(ModelUnavailable):
        await asked(set_to(collector.url, name="openai:some-model", base_url=server.url, context_tokens=100_000),
                    MemoryLog())
    assert len(collector.spans) >= 2 and b"PLANTED" not in collector.sent


async def test_an_answer_out_of_the_ledger_is_no_call(collector: Collector) -> None:
    ledger = MemoryLog()
    await asked(set_to(collector.url), ledger, scripted())
    await asked(set_to(collector.url), ledger, scripted())
    assert len(collector.spans) == 1


async def test_calls_side_by_side_are_traces_of_their_own(collector: Collector) -> None:
    import asyncio

    settings = set_to(collector.url)
    with closing(open_tracing(settings, "a-run")) as tracing:
        desk = Models(scripted(), MemoryLog(), settings, time.monotonic, tracing=tracing).at(1, 1)
        await asyncio.gather(*(desk.ask(roles.CODE, CODE) for _ in range(5)))
    spans = collector.spans
    assert len({one.trace for one in spans}) == 5 and not any(one.parent for one in spans)


async def test_a_collectors_key_comes_from_the_environment(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=open-sesame")
    await asked(set_to(f"{collector.url}/otel/"), MemoryLog(), scripted())
    assert collector.server.paths == ["/otel/v1/traces"] and collector.server.headers[0]["x-key"] == "open-sesame"


# --- collectors that are not there ----------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.slow
@pytest.mark.parametrize("silent", [True, False])
async def test_a_collector_that_is_away_holds_up_no_call_and_the_end_a_moment(
    silent: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(telemetry, "WAITING", 16)
    monkeypatch.setattr(telemetry, "BATCH", 4)
    with Collector(silent=True) as quiet:
        url = quiet.url if silent else f"http://127.0.0.1:{free_port()}"
        working, tracing = await working_with(set_to(url))
        began = time.monotonic()
        tracing.close()
        assert time.monotonic() - began < telemetry.CLOSING + 1.0
    untraced, _ = await working_with(ModelSettings())
    assert working < 3 * untraced + 1.0, (working, untraced)
    assert [one.getMessage() for one in caplog.records if one.name == "models.telemetry"] == [
        f"{CALLS} of {CALLS} spans of model calls did not reach {url} (models.telemetry)"]


class Stuck(SpanExporter):
    """Never done with a batch until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.let_go.wait(30)
        return SpanExportResult.FAILURE


async def test_an_exporter_that_is_stuck_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "CLOSING", 0.2)
    stuck = Stuck()
    tracing = telemetry.Telemetry(stuck, "nowhere", "a-run", content=False)
    await Models(scripted(), MemoryLog(), ModelSettings(), time.monotonic, tracing=tracing).at(1, 1).ask(
        roles.CODE, CODE)
    began = time.monotonic()
    tracing.close()
    took = time.monotonic() - began
    stuck.let_go.set()
    assert took < 5.0


async def working_with(settings: ModelSettings) -> tuple[float, Tracing]:
    """Seconds that many calls took, and their tracing, which is not closed yet."""
    tracing = open_tracing(settings, "a-run")
    desk = Models(scripted(), MemoryLog(), settings, time.monotonic, tracing=tracing).at(1, 1)
    began = time.monotonic()
    for _ in range(CALLS):
        await desk.ask(roles.CODE, CODE)
    return time.monotonic() - began, tracing


@pytest.mark.slow
def test_a_command_whose_collector_is_away_ends_as_ever_with_one_line_more(tmp_path: Path) -> None:
    (tmp_path / "topic.md").write_text("Label noise and calibration: what do wrong labels do to confidence?\n")
    url = f"http://127.0.0.1:{free_port()}"
    done = subprocess.run(
        [sys.executable, "-m", "agent.cli", "ideate", "--topic", "topic.md", "--out", "found",
         "--set", "literature.sources=[]", "--set", f"models.telemetry={url}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and "1 of 1 ideas" in done.stdout
    assert done.stderr.splitlines() == [f"2 of 2 spans of model calls did not reach {url} (models.telemetry)"]


@pytest.mark.slow
def test_what_ideation_asked_is_kept_and_told(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("topic.md").write_text("Label noise and calibration: what do wrong labels do to confidence?\n")
    assert main(["ideate", "--topic", "topic.md", "--out", "found", "--set", "literature.sources=[]",
                 "--set", f"models.telemetry={collector.url}"]) == 0
    state = fold(read_events(Path("found/ideas.db")))
    assert {one.attributes["scientist.key"] for one in collector.spans} == {str(key) for key in state.answers}
    assert {one.attributes["scientist.run"] for one in collector.spans} == {"found"}
    for one in state.answers.values():
        kept = prompt_of(Path("found"), one)
        assert kept is not None and kept.asked is not None and not kept.changed


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "words"), [
    ("localhost:4318", "is the http"), ("ftp://there", "is the http"), ("http://", "is the http"), ("", "is the http"),
    ("http://a b", "is the http"), ("http://there:99999", "no address"), ("http://[::1", "no address"),
    ("http://me:word@there", "no user, password or query"), ("https://there/?key=1", "no user, password or query"),
])
def test_a_bad_address_is_one_line(given: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        compose(flags={"models.telemetry": given}, environment={})
    assert "models.telemetry" in str(caught.value) and "\n" not in str(caught.value)


def test_without_the_packages_one_line_says_what_to_install_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tracing, "_EXPORTER", "opentelemetry.exporter.that_is_not_there.http")
    idea = Path(__file__).parents[2] / "examples" / "ideas" / "label_noise_calibration.json"
    code = main(["run", "--idea", str(idea), "--runs", str(tmp_path / "runs"), "--set",
                 "models.telemetry=http://127.0.0.1:4318"])
    [line] = capsys.readouterr().err.splitlines()
    assert code == 2 and "pip install 'scientist[otel]'" in line
    assert list(tmp_path.iterdir()) == []


def test_without_a_collector_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_EXPORTER", "opentelemetry.exporter.that_is_not_there.http")
    assert open_tracing(ModelSettings(), "a-run") is SILENT
    with pytest.raises(ModelConfigError, match="scientist"):
        open_tracing(set_to("http://127.0.0.1:4318"), "a-run")
