"""An author: every step is paid once, every tool runs once, its work is bounded and reaches providers as tool calls."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from labwright.models.author import Author, AuthorLimits, AuthorWork
from labwright.models.client import Models, format_request
from labwright.models.conversation import Conversation, ToolCall, ToolExchange
from labwright.models.errors import ModelOutputInvalid
from labwright.models.replay import ReplayModel, ScriptedModel, extract_exchange
from labwright.models.retry import open_backend
from labwright.models.roles.experiment_code import CODER, CoderFact, CoderInputs, HandIn
from labwright.models.settings import ModelSettings
from labwright.record.event_log import EventLog, MemoryLog, Recorder
from labwright.record.events.run_events import CallAnswered, ToolUsed
from labwright.record.llm_calls import find_prompt, store_prompt
from labwright.record.schema.decisions import ToolResult, ToolSpec
from tests.models.openai_server import OpenAIServer, answer_by_tool, answer_error, answer_text


class Found(HandIn):
    """What the author of these tests hands in."""

    command: str


class Inputs(CoderInputs):
    """A task of these tests."""


INPUTS = Inputs(task="prepare", known=(CoderFact(title="README", text="Run it."),))
CALLS = (
    ToolCall(tool="list", note="What is there?"),
    ToolCall(tool="write", arguments={"text": "seed = 3"}),
    ToolCall(tool="hand_in", arguments={"command": "python wrong.py", "reasons": "a guess"}),
    ToolCall(tool="list"),
    ToolCall(tool="hand_in", arguments={"command": "python run.py", "reasons": "it ran"}),
)


class Killed(BaseException):
    """The process dies."""


def make_spec(name: str) -> ToolSpec:
    return ToolSpec(name, "A tool.", {"type": "object", "properties": {}})


@dataclass
class Tools:
    """Files that are one text, whose tree is the text itself."""

    tree: str = "start"
    before_call: Callable[[str], None] = lambda name: None
    calls: list[str] = field(default_factory=list[str])
    restored: list[str] = field(default_factory=list[str])
    specs: tuple[ToolSpec, ...] = (make_spec("list"), make_spec("write"))

    def restore(self, tree: str) -> None:
        self.tree = tree
        self.restored.append(tree)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        self.before_call(name)
        self.calls.append(name)
        if name == "write":
            self.tree += f" {arguments['text']}"
        return ToolResult(f"{name}: {self.tree}", self.tree, 2.0)


@dataclass
class Checks:
    count: int = 0

    async def check(self, found: Found, tree: str) -> str:
        self.count += 1
        return "" if found.command == "python run.py" else f"{found.command} does not run"


def script(*calls: ToolCall) -> ScriptedModel:
    """A model that makes its n-th call when the transcript has n calls."""

    def answer(request: Any) -> ToolCall:
        return calls[min(len(request.conversation.exchanges), len(calls) - 1)]

    return ScriptedModel(answer)


def work(
    model: Any, log: Recorder, tools: Tools, checks: Checks, limits: AuthorLimits | None = None, **more: Any
) -> AuthorWork[Found]:
    models = Models(model, log, ModelSettings(), itertools.count(0.0, 1.0).__next__, **more)
    author = Author(models.make_client(4, 0), tools, Found, checks.check, limits or AuthorLimits())
    return asyncio.run(author.work(INPUTS))


def test_an_author_works_until_its_result_is_accepted() -> None:
    log, tools, checks, model = MemoryLog(), Tools(), Checks(), script(*CALLS)
    made = work(model, log, tools, checks)
    assert made.result is not None and made.result.command == "python run.py"
    assert (made.tree, made.steps) == ("start seed = 3", 5)
    assert [str(one.key) for one in log.answers] == [f"4.0.coder.{n}" for n in range(5)]
    used = [one for one in log.events if isinstance(one, ToolUsed)]
    assert [(one.tool, one.failed) for one in used] == [
        ("list", False), ("write", False), ("hand_in", True), ("list", False), ("hand_in", False),
    ]  # fmt: skip
    last = model.requests[-1].conversation
    assert last is not None and last.exchanges[2].result == "python wrong.py does not run"


@pytest.mark.parametrize("dies_at", range(1, 11))
def test_a_killed_author_repeats_no_answer_and_no_tool(tmp_path: Path, dies_at: int) -> None:
    """The process dies after each event in turn: of five answers and five results of tools."""

    def open_log() -> EventLog:
        return EventLog(tmp_path / "a.db")

    log, counts = open_log(), itertools.count(1)
    append = log.append

    def append_and_die(event: Any) -> Any:
        append(event)
        if next(counts) == dies_at:
            raise Killed

    log.append = append_and_die  # pyrefly: ignore
    tools, checks, model = Tools(), Checks(), script(*CALLS)
    with pytest.raises(Killed):
        work(model, log, tools, checks)
    log.close()
    again, more, other = Tools(), Checks(), script(*CALLS)
    made = work(other, open_log(), again, more)
    assert made.result is not None and made.tree == "start seed = 3"
    assert len(model.requests) + len(other.requests) == 5
    assert [*tools.calls, *again.calls] == ["list", "write", "list"]
    assert checks.count + more.count == 2
    assert again.restored in ([], ["start seed = 3"])


def test_a_tool_whose_result_was_not_recorded_runs_again() -> None:
    log, counts = MemoryLog(), itertools.count(1)

    def die(name: str) -> None:
        if next(counts) == 2:
            tools.tree = "half written"
            raise Killed

    tools = Tools(before_call=die)
    with pytest.raises(Killed):
        work(script(*CALLS), log, tools, Checks())
    again = Tools()
    assert work(script(*CALLS), log, again, Checks()).tree == "start seed = 3"
    assert again.calls == ["write", "list"] and not again.restored


def test_another_task_reuses_no_answer_and_other_files_no_result() -> None:
    log = MemoryLog()
    work(script(*CALLS), log, Tools(), Checks())
    models = Models(model := script(*CALLS), log, ModelSettings(), itertools.count(0.0).__next__)
    author = Author(models.make_client(4, 0), tools := Tools(tree="other"), Found, Checks().check)
    made = asyncio.run(author.work(INPUTS.model_copy(update={"steps": 39})))
    assert len(model.requests) == 5
    assert tools.calls == ["list", "write", "list"] and made.tree == "other seed = 3"


@pytest.mark.parametrize(
    "limits",
    [AuthorLimits(steps=6), AuthorLimits(seconds=15.0), AuthorLimits(characters=500), AuthorLimits(tokens=4500)],
)
def test_an_author_is_warned_once_and_can_only_hand_in_at_the_bound(limits: AuthorLimits) -> None:
    log, model = MemoryLog(), ScriptedModel(
        lambda request: CALLS[-1] if len(request.conversation.tools) == 1 else CALLS[3]  # pyrefly: ignore
    )  # fmt: skip
    made = work(model, log, Tools(), Checks(), limits)
    assert made.result is not None and made.steps < 12
    results = [one.result for one in log.events if isinstance(one, ToolUsed)]
    assert sum("close to its limit" in one for one in results) == 1
    assert [len(one.conversation.tools) for one in model.requests if one.conversation][-2:] == [3, 1]


def test_work_without_an_accepted_result_ends_with_the_tree_that_it_has() -> None:
    made = work(script(CALLS[1], CALLS[2]), MemoryLog(), Tools(), Checks(), AuthorLimits(steps=3))
    assert (made.result, made.tree) == (None, "start seed = 3")
    assert made.ended == "python wrong.py does not run"


def test_a_model_that_answers_nothing_usable_ends_the_work() -> None:
    def fail(request: Any) -> ToolCall:
        if request.conversation.exchanges:
            raise ModelOutputInvalid("no call")
        return CALLS[1]

    log = MemoryLog()
    made = work(ScriptedModel(fail), log, Tools(), Checks())
    assert (made.result, made.tree, made.ended) == (None, "start seed = 3", "no call")
    assert work(ScriptedModel(fail), log, Tools(), Checks()) == made


def test_a_call_of_no_tool_is_no_answer() -> None:
    log = MemoryLog()
    assert "there is no tool 'delete' now" in work(script(ToolCall(tool="delete")), log, Tools(), Checks()).ended
    assert not log.answers


UNFIT = ToolCall(tool="hand_in", arguments={"reasons": "none"})


def test_a_result_that_does_not_fit_the_schema_is_refused_like_any_other() -> None:
    log, checks = MemoryLog(), Checks()
    made = work(script(UNFIT, CALLS[-1]), log, Tools(), checks)
    assert made.result is not None and made.steps == 2 and checks.count == 1
    used = next(one for one in log.events if isinstance(one, ToolUsed))
    assert used.failed and used.result == "command: Field required"


def test_at_the_bound_it_does_not_end_the_work_at_once() -> None:
    checks, limits = Checks(), AuthorLimits(steps=2)
    made = work(script(CALLS[0], UNFIT, UNFIT, CALLS[-1]), MemoryLog(), Tools(), checks, limits)
    assert made.result is not None and (made.steps, checks.count) == (4, 1)
    made = work(script(CALLS[0], UNFIT), MemoryLog(), Tools(), checks, limits)
    assert made.result is None and (made.steps, made.ended) == (3, "command: Field required")


def test_an_exchange_of_an_author_is_replayed() -> None:
    log = MemoryLog()
    work(script(*CALLS), log, Tools(), Checks())
    other, tools = MemoryLog(), Tools()
    made = work(ReplayModel(extract_exchange(log.events)), other, tools, Checks())
    assert made.result is not None and tools.calls == ["list", "write", "list"]


def test_the_prompt_store_grows_by_what_is_new(tmp_path: Path) -> None:
    log, rounds = MemoryLog(), 30
    calls = [ToolCall(tool="write", arguments={"text": f"{n}" * 200}) for n in range(rounds)]
    work(
        script(*calls, CALLS[-1]), log, Tools(), Checks(), AuthorLimits(steps=60), keep=partial(store_prompt, tmp_path)
    )
    answers = [one for one in log.events if isinstance(one, CallAnswered)]
    kept = [find_prompt(tmp_path, one) for one in answers]
    assert all(one is not None and one.asked is not None and not one.changed for one in kept)
    first, later = kept[0].asked, kept[9].asked  # pyrefly: ignore
    assert "Run it." in first.user and len(first.step["tools"]) == 3  # pyrefly: ignore
    assert later.user.startswith("write: start") and later.step["call"]["arguments"]["text"] == "8" * 200
    files = [gzip.decompress(one.read_bytes()) for one in (tmp_path / "prompts").iterdir()]
    results = sum(len(one.result) for one in log.events if isinstance(one, ToolUsed))
    assert sum(map(len, files)) < 2 * results + 1500 * rounds


def test_a_question_is_identified_by_its_whole_transcript() -> None:
    models = Models(script(*CALLS), MemoryLog(), ModelSettings(), lambda: 0.0)
    texts: set[str] = set()
    for first in ("one", "another"):
        steps = (ToolExchange(CALLS[0], first), ToolExchange(CALLS[3], "same"))
        texts.add(format_request(models.make_request(CODER, INPUTS, (), Conversation((make_spec("list"),), steps)), ""))
    assert len(texts) == 2


# --- providers --------------------------------------------------------------------------------------------------------


def provide(server: OpenAIServer) -> tuple[AuthorWork[Found], Tools, MemoryLog]:
    settings = ModelSettings(name="openai:some-model", base_url=server.url, context_tokens=100_000)
    log, tools = MemoryLog(), Tools()
    return work(open_backend(settings), log, tools, Checks()), tools, log


@pytest.mark.slow
@pytest.mark.usefixtures("local_requests")
def test_calls_reach_a_provider_as_its_own_tools() -> None:
    steps = [
        answer_by_tool({}, name="list"),
        answer_text("I think it is python run.py"),
        answer_by_tool({"reasons": "r"}, name="hand_in"),
        answer_by_tool({"command": "python run.py", "reasons": "r"}, name="hand_in"),
    ]
    with OpenAIServer(steps) as server:
        made, tools, log = provide(server)
    assert made.result is not None and tools.calls == ["list"]
    assert [one.retries for one in log.answers] == [0, 1, 0]
    first, second, third, fourth = server.requests
    assert [one["function"]["name"] for one in first["tools"]] == ["list", "write", "hand_in"]
    assert first["tools"][2]["function"]["parameters"]["properties"]["command"]["type"] == "string"
    assert [one["role"] for one in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert second["messages"][3]["content"] == "list: start"
    assert "call one of the tools" in str(third["messages"][-1])
    assert "command: Field required" in str(fourth["messages"][-1])


@pytest.mark.slow
@pytest.mark.usefixtures("local_requests")
def test_a_provider_without_tools_gets_them_as_text() -> None:
    def choose(number: int, body: dict[str, Any]) -> Any:
        if "tools" in body or "response_format" in body:
            return answer_error(400, "tools and response_format are not supported by this model")
        text = str(body["messages"])
        call = CALLS[-1] if "list: start" in text else CALLS[0]
        return answer_text(json.dumps(call.model_dump()))

    with OpenAIServer(choose) as server:
        made, tools, _ = provide(server)
    assert made.result is not None and tools.calls == ["list"]
    assert "A tool." in str(server.requests[-1]) and "### Result 1" in str(server.requests[-1])
