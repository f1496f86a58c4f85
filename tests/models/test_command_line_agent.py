"""Command-line agents as models and as authors, with scripted stand-ins; the events are those of the real programs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from labwright.models.agent_programs import Codex, parse_reset_time
from labwright.models.author import AuthorLimits, AuthorWork
from labwright.models.backend import Image, ModelRequest, Prompt, Reply
from labwright.models.budget import list_unpriced_models
from labwright.models.conversation import Conversation, ToolCall, ToolExchange
from labwright.models.errors import (
    AccessLost,
    ContextTooLong,
    ModelConfigError,
    ModelError,
    ModelOutputInvalid,
    ModelUnavailable,
    QuotaSpent,
)
from labwright.models.retry import open_backend
from labwright.models.roles import PLAN
from labwright.models.settings import ModelSettings, Price, is_same_family
from labwright.record.event_log import MemoryLog
from labwright.record.events.run_events import CallAnswered
from tests.models.agent_stand_in import (
    StandIn,
    claude_error,
    claude_init,
    claude_result,
    claude_turn,
    codex_end,
    codex_error,
    codex_message,
)
from tests.models.test_author import Checks, Found, Killed, Tools, make_spec, work


class Answer(BaseModel):
    number: int
    note: str = ""


ROLE = replace(PLAN, choose_output=None, check=None)
HAND_IN = {"command": "python run.py", "reasons": "it ran"}


def settings(name: str, **more: Any) -> ModelSettings:
    given: dict[str, Any] = {"timeout": 60.0, "output_retries": 1, **more}
    return ModelSettings(name=name, **given)


def make_request(output: type[BaseModel] = Answer, **more: Any) -> ModelRequest:
    return ModelRequest(ROLE, output.model_construct(), Prompt("You are terse.", "What is 2+2?"), output, **more)


def ask(chosen: ModelSettings, request: ModelRequest | None = None) -> Reply:
    return asyncio.run(open_backend(chosen).answer(request or make_request()))


def fail(chosen: ModelSettings, kind: type[ModelError]) -> str:
    with pytest.raises(kind) as error:
        ask(chosen)
    assert type(error.value) is kind and "\n" not in str(error.value), error.value
    return str(error.value)


# --- answers ----------------------------------------------------------------------------------------------------------


def test_claude_answers_by_its_schema_with_its_own_tools_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")  # as in a command that Claude Code runs
    script = [claude_init("StructuredOutput"), claude_turn(1), claude_result({"number": 4})]
    program = StandIn("claude", tmp_path, monkeypatch, script)
    reply = ask(settings("cli:claude:opus"), make_request(images=(Image(b"png"),)))
    assert reply.output == Answer(number=4) and reply.model == "cli:claude:claude-x"
    assert reply.usage.model_dump(exclude={"cached_usd"}) == {
        "input_tokens": 20, "output_tokens": 5, "cached_tokens": 7, "cache_write_tokens": 3, "usd": 0.25,
    }  # fmt: skip
    assert reply.left_out == ("temperature", "max_tokens")
    (run,) = program.runs
    words = run["argv"]
    assert words[words.index("--tools") + 1] == "" and words[words.index("--setting-sources") + 1] == ""
    assert "--strict-mcp-config" in words and words[-2:] == ["--model", "opus"]
    assert json.loads(words[words.index("--json-schema") + 1])["required"] == ["number"]
    content = json.loads(run["stdin"])["message"]["content"]
    assert content[0]["text"].startswith("What is 2+2?") and content[1]["source"]["media_type"] == "image/png"
    assert run["cwd"] == [] and "CLAUDECODE" not in run["env"] and run["env"]["CLAUDE_CODE_MAX_RETRIES"] == "2"


def test_codex_answers_with_the_schema_in_the_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = ["WARNING: an update is available", codex_message('{"number": 4}'), codex_end()]
    program = StandIn("codex", tmp_path, monkeypatch, script)
    reply = ask(settings("cli:codex"), make_request(images=(Image(b"png"),)))
    assert reply.output == Answer(number=4) and reply.model == "cli:codex:default"
    assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.usd) == (10, 4, None)
    [loose] = program.runs
    assert '"required": ["number"]' in loose["stdin"]
    for word in ("--ignore-user-config", "read-only", "features.shell_tool=false", 'web_search="disabled"', "-"):
        assert word in loose["argv"], word
    assert any(word.startswith("model_catalog_json=") for word in loose["argv"])
    assert loose["argv"].index("-") > next(n for n, word in enumerate(loose["argv"]) if word.startswith("--image="))


def test_the_catalogue_for_codex_leaves_its_models_no_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = StandIn("codex", tmp_path, monkeypatch, [])
    codex = Codex()
    assert codex.prepare() == ""
    assert json.loads(codex._catalogue)["models"][0] == {  # pyrefly: ignore
        "slug": "m", "tool_mode": "direct", "shell_type": "disabled", "apply_patch_tool_type": None,
        "multi_agent_version": None, "experimental_supported_tools": [], "supports_search_tool": False,
        "node_repl_disabled": True,
    }  # fmt: skip
    program.break_catalogue()
    assert "does not list its models" in codex.prepare()


@pytest.mark.parametrize("prose", ["I think that it is four.", '{"number": "four"}', "{number}", ""])
def test_prose_is_asked_again_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prose: str) -> None:
    again = ['Sure:\n```json\n{"number": 4}\n```']
    program = StandIn(
        "codex", tmp_path, monkeypatch, [codex_message(prose), codex_end()], [*map(codex_message, again), codex_end()]
    )
    reply = ask(settings("cli:codex"))
    assert reply.output == Answer(number=4) and reply.retries == 1 and reply.usage.input_tokens == 20
    assert "It cannot be used: " in program.runs[1]["stdin"] and prose in program.runs[1]["stdin"]


def test_an_answer_that_never_fits_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    StandIn("codex", tmp_path, monkeypatch, [codex_message("four"), codex_end()])
    assert "no JSON object" in fail(settings("cli:codex"), ModelOutputInvalid)
    gave_up = claude_result(None, subtype="error_max_structured_output_retries", is_error=True)
    StandIn("claude", tmp_path, monkeypatch, [claude_init("StructuredOutput"), gave_up, 1])
    assert "no answer fits the schema after 2 answers" in fail(settings("cli:claude"), ModelOutputInvalid)


# --- odd ends ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "script", "kind", "words"),
    [
        ("claude", claude_error("Not logged in · Please run /login"), ModelConfigError, "setup-token"),
        ("claude", claude_error("Invalid API key · Fix external API key", 401), ModelConfigError, "log in by"),
        ("claude", claude_error("API Error: Request rejected (429) · limit", 429), QuotaSpent, "quota is used up"),
        ("claude", claude_error("Credit balance is too low", kind="billing_error"), QuotaSpent, "Credit balance"),
        ("claude", claude_error("API Error: 500 boom", 500, "server_error"), ModelUnavailable, "500 boom"),
        ("claude", claude_error("Prompt is too long"), ContextTooLong, "models.context_tokens"),
        ("claude", claude_error("API Error: 404 model: nope", 404), ModelConfigError, "cli:claude:MODEL"),
        ("claude", ["error: unknown option '--tools'", 1], ModelConfigError, "claude update"),
        ("claude", ["Update available! Run: npm i -g", 0], ModelConfigError, "exit code 0: Update available"),
        ("claude", [claude_init("Bash", "Read"), 60.0], ModelConfigError, "does not switch off its own tools (Bash)"),
        ("codex", codex_error("unexpected status 401 Unauthorized"), ModelConfigError, "codex login"),
        ("codex", codex_error("exceeded retry limit, last status: 429 Too Many Requests"), QuotaSpent, "429"),
        ("codex", codex_error("We're currently experiencing high demand"), ModelUnavailable, "high demand"),
        ("codex", ["error: unexpected argument '--ephemeral' found", 2], ModelConfigError, "npm install"),
        ("codex", ["Segmentation fault", 139], ModelConfigError, "exit code 139: Segmentation fault"),
        ("codex", [], ModelConfigError, "it printed nothing"),
        (
            "codex",
            [{"type": "item.started", "item": {"type": "command_execution", "command": "id"}}, 60.0],
            ModelConfigError,
            "own tools (command_execution)",
        ),
    ],
)
def test_an_odd_end_is_one_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: list[Any], kind: type[ModelError], words: str
) -> None:
    StandIn(name, tmp_path, monkeypatch, script)
    assert words in fail(settings(f"cli:{name}"), kind)


def test_a_used_up_window_is_waited_for_until_its_reset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = time.time() + 5000
    limit = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": at}}
    StandIn("claude", tmp_path, monkeypatch, [limit, *claude_error("You've hit your session limit", 429)])
    StandIn(
        "codex", tmp_path, monkeypatch, codex_error("You’ve hit your usage limit, or try again in 2 hours 5 minutes")
    )
    for name, seconds in (("cli:claude", 5000), ("cli:codex", 7500)):
        with pytest.raises(QuotaSpent) as error:
            ask(settings(name))
        assert error.value.seconds == pytest.approx(seconds, abs=100)


def test_an_agent_that_answered_before_and_lost_its_login_is_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = [codex_message('{"number": 4}'), codex_end()]
    StandIn("codex", tmp_path, monkeypatch, good, codex_error("401 Unauthorized"), ["Bus error", 135])

    async def ask_thrice() -> list[type[Exception]]:
        backend = open_backend(settings("cli:codex"))
        await backend.answer(make_request())
        kinds: list[type[Exception]] = []
        for _ in range(2):
            with pytest.raises(ModelError) as error:
                await backend.answer(make_request())
            kinds.append(type(error.value))
        return kinds

    assert asyncio.run(ask_thrice()) == [AccessLost, ModelUnavailable]


@pytest.mark.slow
def test_a_time_limit_ends_the_process_and_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    StandIn("codex", tmp_path, monkeypatch, [{"type": "error", "message": "Reconnecting..."}, 7532.0])
    began = time.monotonic()
    assert "Reconnecting" in fail(settings("cli:codex", timeout=4.0), ModelUnavailable)
    assert time.monotonic() - began < 30
    assert not subprocess.run(["pgrep", "-f", "sleep 7532"], capture_output=True, check=False).stdout


def test_what_is_not_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "npm install -g @anthropic-ai/claude-code" in fail(settings("cli:claude"), ModelConfigError)
    assert "write cli:claude or cli:codex" in fail(settings("cli:gemini"), ModelConfigError)
    StandIn("codex", tmp_path, monkeypatch, [])
    assert "models.base_url" in fail(settings("cli:codex", base_url="http://localhost:1/v1"), ModelConfigError)


def test_a_cost_in_usd_is_known_only_by_configured_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    StandIn("codex", tmp_path, monkeypatch, [codex_message('{"number": 4}'), codex_end(cached=0)])
    assert list_unpriced_models(settings("cli:codex")) == ("cli:codex",)  # a cap in USD is refused
    priced = settings("cli:codex", prices={"cli:codex": Price(input=1e5, output=2e5)})
    assert list_unpriced_models(priced) == () and ask(priced).usage.usd == pytest.approx(2.0)
    assert is_same_family("cli:codex", "openai:gpt-x") and is_same_family("cli:claude:opus", "anthropic:claude-x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("limit reached|1900000000", datetime.fromtimestamp(1900000000, UTC)),
        ("try again in 3 days 4 hours 5 minutes", datetime(2026, 12, 2, 16, 5, tzinfo=UTC)),
        ("try again later", None),
    ],
)
def test_reset_times_as_the_programs_print_them(text: str, expected: datetime | None) -> None:
    now = datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp()
    assert parse_reset_time(f"You've hit your limit · {text}", now) == (expected and expected.timestamp())


# --- authors ----------------------------------------------------------------------------------------------------------


def author(name: str, tools: Tools, log: MemoryLog, limits: AuthorLimits | None = None) -> AuthorWork[Found]:
    return work(open_backend(settings(name)), log, tools, Checks(), limits)


def claude_step(tool: str, **arguments: Any) -> list[Any]:
    """What a program prints that answers with a call of a tool."""
    call = {"tool": tool, "arguments": arguments}
    return [claude_init("StructuredOutput"), claude_turn(1), claude_result(call)]


def test_each_step_of_an_author_is_a_question_that_shows_the_steps_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [claude_step("list"), claude_step("write", text="x"), claude_step("hand_in", **HAND_IN)]
    program = StandIn("claude", tmp_path, monkeypatch, *steps)
    log, tools = MemoryLog(), Tools()
    made = author("cli:claude", tools, log)
    assert made.result is not None and made.tree == "start x" and tools.calls == ["list", "write"]
    first, _, last = [json.loads(one["stdin"])["message"]["content"][0]["text"] for one in program.runs]
    assert "- `write`: " in first and "## Calls so far" not in first
    assert "### Result 1\nlist: start" in last and "### Result 2\nwrite: start x" in last
    answers = [one for one in log.events if isinstance(one, CallAnswered)]
    assert [one.answer["tool"] for one in answers] == ["list", "write", "hand_in"]
    assert [(one.usage.input_tokens, one.usage.usd) for one in answers] == [(20, 0.25)] * 3


def test_an_author_of_codex_answers_with_its_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = [{"tool": "list", "arguments": {}}, {"tool": "hand_in", "arguments": HAND_IN}]
    StandIn("codex", tmp_path, monkeypatch, *([codex_message(json.dumps(one)), codex_end()] for one in calls))
    log = MemoryLog()
    assert author("cli:codex", Tools(), log).result is not None
    assert [one.usage.input_tokens for one in log.events if isinstance(one, CallAnswered)] == [10, 10]


def test_a_killed_author_goes_on_from_the_transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [claude_step("list"), claude_step("write", text="x"), claude_step("list")]
    program = StandIn("claude", tmp_path, monkeypatch, *steps, claude_step("hand_in", **HAND_IN))
    log, tools, calls = MemoryLog(), Tools(), list[str]()

    def die(name: str) -> None:
        calls.append(name)
        if len(calls) == 3:
            raise Killed

    tools.before_call = die
    with pytest.raises(Killed):
        author("cli:claude", tools, log)
    resumed = Tools()
    made = author("cli:claude", resumed, log)
    assert made.result is not None and made.tree == "start x" and resumed.restored == ["start x"]
    assert resumed.calls == ["list"]  # the call whose answer is recorded and whose result is not
    again = json.loads(program.runs[3]["stdin"])["message"]["content"][0]["text"]
    assert "## Calls so far" in again and "write: start x" in again and len(program.runs) == 4


def test_what_is_no_step_is_refused_and_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prose = [claude_init("StructuredOutput"), claude_result(text="Let me think.")]
    steps = [claude_step("Bash", command="id"), prose, claude_step("hand_in", **HAND_IN)]
    program = StandIn("claude", tmp_path, monkeypatch, *steps)
    made = work(open_backend(settings("cli:claude", output_retries=2)), MemoryLog(), Tools(), Checks())
    assert made.result is not None
    assert "there is no tool 'Bash' now" in program.runs[1]["stdin"]
    assert "it is no JSON object" in program.runs[2]["stdin"]


@pytest.mark.slow
def test_an_agent_that_keeps_its_tools_is_a_model_and_no_author(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = StandIn("codex", tmp_path, monkeypatch, [codex_message('{"number": 4}'), codex_end()])
    program.break_catalogue()
    assert ask(settings("cli:codex")).output == Answer(number=4)
    with pytest.raises(ModelConfigError, match="can answer but not work with tools"):
        author("cli:codex", Tools(), MemoryLog())
    StandIn("claude", tmp_path, monkeypatch, [claude_init("StructuredOutput", "Bash"), 60.0])
    with pytest.raises(ModelConfigError, match=r"own tools \(Bash\)"):
        author("cli:claude", Tools(), MemoryLog())


def test_an_exhausted_window_in_the_middle_is_an_outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = claude_error("You've hit your session limit", 429)
    StandIn("claude", tmp_path, monkeypatch, claude_step("list"), limit)
    conversation = Conversation((make_spec("list"),))

    async def two_steps() -> None:
        backend = open_backend(settings("cli:claude"))
        request = replace(make_request(ToolCall), conversation=conversation)
        reply = await backend.answer(request)
        assert isinstance(reply.output, ToolCall)
        after = Conversation(conversation.tools, (ToolExchange(reply.output, "files"),))
        with pytest.raises(QuotaSpent):
            await backend.answer(replace(request, conversation=after))

    asyncio.run(two_steps())
