"""Subjects over real HTTP: what is committed, replayed, refused, limited and waited for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labwright.models.budget import BudgetSettings
from labwright.models.errors import ModelConfigError
from labwright.models.prices import BYTES_PER_TOKEN, OVERHEAD_TOKENS
from labwright.models.settings import Price, SubjectSettings
from labwright.models.studied_llms import StudiedLlms, check_subjects
from labwright.record.llm_calls import (
    LLMBudgetSpent,
    LLMCallStore,
    LLMQuestionRefused,
    LLMUnavailable,
    copy_exchanges,
    read_exchanges,
)
from labwright.record.schema.decisions import ChatMessage, LLMQuestion
from tests.models.openai_server import (
    Choose,
    Exchange,
    OpenAIServer,
    Step,
    answer_error,
    answer_html,
    answer_text,
    drop_connection,
    stall,
)

pytestmark = pytest.mark.usefixtures("local_requests")
KEY = "a" * 64


def question(text: str = "How many?", **more: Any) -> LLMQuestion:
    return LLMQuestion(subject="small", messages=(ChatMessage(role="user", content=text),), **more)


class Clock:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, list[float]()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def __call__(self) -> float:
        return self.now


def subjects(
    server: OpenAIServer,
    place: Path,
    clock: Clock | None = None,
    *,
    caps: BudgetSettings | None = None,
    replay: bool = False,
    **settings: Any,
) -> StudiedLlms:
    clock = clock or Clock()
    one = SubjectSettings(model="openai-chat:tiny", base_url=server.url, **settings)
    return StudiedLlms(
        {"small": one},
        caps or BudgetSettings(),
        LLMCallStore(place / "exchanges.jsonl"),
        replay=replay,
        sleep=clock.sleep,
        clock=clock,
    )


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Step] | Choose], OpenAIServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return OpenAIServer


async def test_an_answer_is_committed_once_and_replayed_to_whoever_takes_the_run_up(
    served: Callable[..., OpenAIServer], tmp_path: Path
) -> None:
    with served([answer_text("three", model="tiny-2026")]) as server:
        first = subjects(server, tmp_path)
        one, again = await asyncio.gather(first.ask(KEY, question(), 0), first.ask(KEY, question(), 0))
        other_draw = await first.ask(KEY, question(), 1)
        await first.ask("b" * 64, question(), 0)
        await first.close()
        second = subjects(server, tmp_path)
        assert await second.ask(KEY, question(), 0) == one == again
        assert second.find("c" * 64, one.id) is None
        warmer = await second.ask(KEY, question(temperature=0.5), 0)
        await second.close()
        assert len(server.requests) == 4
    assert (one.text, one.model, one.finish) == ("three", "tiny-2026", "stop")
    assert len({one.id, other_draw.id, warmer.id}) == 3 and one.id.partition("-")[0] == other_draw.id.partition("-")[0]
    (use,) = read_exchanges(tmp_path).usage
    assert (use.calls, use.input_tokens, use.output_tokens, use.lost, use.models) == (4, 400, 80, 0, ("tiny-2026",))
    assert use.first <= use.last and use.first
    assert read_exchanges(tmp_path).find_differing(KEY, [(one.id, one.sha256)]) == ""
    assert read_exchanges(tmp_path).find_differing(KEY, [(one.id, other_draw.sha256)]) == one.id
    (copy := tmp_path / "copy").mkdir()
    copy_exchanges(tmp_path, copy)
    with served([answer_text("never asked")]) as nobody:
        replayed = subjects(nobody, copy, replay=True)
        assert await replayed.ask(KEY, question(), 0) == one
        with pytest.raises(LLMQuestionRefused, match="the record has no answer"):
            await replayed.ask(KEY, question(), 7)
        await replayed.close()
        assert nobody.requests == []


async def test_a_call_that_a_kill_cut_off_stays_spent(served: Callable[..., OpenAIServer], tmp_path: Path) -> None:
    price = Price(input=10, output=10)
    with served([stall(30)]) as server:
        cut = subjects(server, tmp_path, price=price)
        task = asyncio.create_task(cut.ask(KEY, question(), 0))
        while not server.requests and not task.done():
            await asyncio.sleep(0.01)
        assert read_exchanges(tmp_path).spent.usd > 0  # before it was answered
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await cut.close()
    lost = read_exchanges(tmp_path).spent
    with served([answer_text("three")]) as server:
        resumed = subjects(server, tmp_path, price=price)
        await resumed.ask(KEY, question(), 0)
        await resumed.close()
    assert read_exchanges(tmp_path).spent.usd == pytest.approx(lost.usd + 120 * 10 / 1e6)
    assert [one.lost for one in read_exchanges(tmp_path).usage] == [1]


async def test_the_budget_is_reserved_before_a_call_and_never_passed(
    served: Callable[..., OpenAIServer], tmp_path: Path
) -> None:
    caps = BudgetSettings(subject_usd=0.05)
    with served([answer_text("three")]) as server:
        capped = subjects(server, tmp_path, caps=caps, price=Price(input=10, output=20), max_tokens=500, concurrency=64)
        answers = await asyncio.gather(*(capped.ask(KEY, question(), n) for n in range(60)), return_exceptions=True)
        refused = [one for one in answers if isinstance(one, Exception)]
        assert refused and all(isinstance(one, LLMBudgetSpent) for one in refused)
        assert "budget.subject_usd" in str(refused[0]) and len(server.requests) == 60 - len(refused) > 1
        await capped.close()
        tokens = subjects(
            server, tmp_path, caps=BudgetSettings(subject_tokens=read_exchanges(tmp_path).spent.tokens + 100)
        )
        with pytest.raises(LLMBudgetSpent, match=r"budget\.subject_tokens"):
            await tokens.ask(KEY, question("another"), 0)
        await tokens.close()
    assert 0 < read_exchanges(tmp_path).spent.usd <= 0.05


async def test_outages_are_waited_out_together_and_what_was_not_billed_is_given_back(
    served: Callable[..., OpenAIServer], tmp_path: Path
) -> None:
    clock = Clock()
    with served(
        [answer_error(429, retry_after="7"), answer_error(503), drop_connection(), answer_text("three")]
    ) as server:
        patient = subjects(server, tmp_path, clock, price=Price(input=10, output=10))
        assert (await patient.ask(KEY, question(), 0)).text == "three"
        await patient.close()
    assert clock.slept[0] == 7.0 and len(clock.slept) == 3
    assert read_exchanges(tmp_path).spent.usd == pytest.approx(120 * 10 / 1e6)


@pytest.mark.parametrize(
    ("steps", "error", "words"),
    [
        ([answer_error(400, "this is no question")], LLMQuestionRefused, "this is no question"),
        ([answer_error(401, "wrong key")], LLMUnavailable, "check subjects.small and its key"),
        ([answer_error(500)], LLMUnavailable, "outage_timeout"),
        ([answer_html()], LLMUnavailable, "has not answered for"),
    ],
)
async def test_what_cannot_be_answered_is_said_in_one_line(
    served: Callable[..., OpenAIServer], tmp_path: Path, steps: list[Step], error: type[Exception], words: str
) -> None:
    with served(steps) as server:
        one = subjects(server, tmp_path, outage_timeout=100)
        with pytest.raises(error, match=words) as caught:
            await one.ask(KEY, question(), 0)
        await one.close()
    assert "\n" not in str(caught.value)


async def test_rate_and_concurrency_hold_for_all_cells_together(
    served: Callable[..., OpenAIServer], tmp_path: Path
) -> None:
    clock, under_way, most = Clock(), 0, 0

    def choose(number: int, body: dict[str, Any]) -> Step:
        return answer_text("three")

    with served(choose) as server:
        slow = subjects(server, tmp_path, clock, requests_a_minute=30, concurrency=2)
        real = slow._exchanges.settle  # pyrefly: ignore  (the last step of a call under way)
        reserve = slow._exchanges.reserve  # pyrefly: ignore

        async def reserved(*arguments: Any) -> int:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            return await reserve(*arguments)

        async def settled(*arguments: Any, **more: Any) -> None:
            nonlocal under_way
            await real(*arguments, **more)
            under_way -= 1

        slow._exchanges.reserve, slow._exchanges.settle = reserved, settled  # pyrefly: ignore
        await asyncio.gather(*(slow.ask(cell * 64, question(), n) for cell in "ab" for n in range(5)))
        await slow.close()
    assert clock.now >= 9 * 2.0 and most == 2


async def test_messages_schema_and_logprobs_go_as_they_were_asked(
    served: Callable[..., OpenAIServer], tmp_path: Path
) -> None:
    with served([answer_text('{"n": 3}')]) as server:
        one = subjects(server, tmp_path)
        asked = LLMQuestion(
            subject="small",
            temperature=0.25,
            max_tokens=9,
            logprobs=2,
            json_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            messages=(
                ChatMessage(role="system", content="Be short."),
                ChatMessage(role="user", content="How many?"),
                ChatMessage(role="assistant", content="Of what?"),
                ChatMessage(role="user", content="Of these."),
            ),
        )
        await one.ask(KEY, asked, 0)
        with pytest.raises(LLMQuestionRefused, match="max_tokens=5000 exceeds"):
            await one.ask(KEY, question(max_tokens=5000), 0)
        await one.close()
        (body,) = server.requests
    assert [turn["role"] for turn in body["messages"]] == ["system", "user", "assistant", "user"]
    assert (body["temperature"], body["logprobs"], body["top_logprobs"]) == (0.25, True, 2)
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["n"]
    assert 9 in (body.get("max_tokens"), body.get("max_completion_tokens"))


def test_what_cannot_be_counted_or_opened_is_refused_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    here = SubjectSettings(model="openai-chat:tiny", base_url="http://localhost:9/v1")
    there = here.model_copy(update={"base_url": "https://models.example.org/v1"})
    check_subjects({"small": here}, BudgetSettings(usd=1, subject_usd=1))
    check_subjects({"small": there}, BudgetSettings())
    priced = there.model_copy(update={"price": Price(input=1, output=1)})
    check_subjects({"small": priced}, BudgetSettings(usd=1, subject_usd=1))
    for one, caps, words in (
        (there, BudgetSettings(subject_usd=1), "the price of subject small is not known"),
        (priced, BudgetSettings(usd=1), "set their own cap with budget.subject_usd"),
        (here.model_copy(update={"model": "tiny"}), BudgetSettings(), "subjects.small: 'tiny' is not a model name"),
        (SubjectSettings(model="anthropic:x"), BudgetSettings(), "subjects.small: anthropic:x cannot be used"),
    ):
        with pytest.raises(ModelConfigError, match=words):
            check_subjects({"small": one}, caps)


@pytest.mark.filterwarnings("ignore:Failed to extract usage")  # the client warns of what it is sent
@pytest.mark.parametrize(("read", "written"), [(100, -5000), (100, 0), (10**12, 20), (0, 20), (100, 10**12)])
async def test_counts_that_cannot_be_cost_what_was_set_aside(
    read: int, written: int, served: Callable[..., OpenAIServer], tmp_path: Path
) -> None:
    def odd(exchange: Exchange) -> None:
        body = {
            "id": "c",
            "object": "chat.completion",
            "created": 1.5,
            "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "seven"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
        }
        exchange.send(200, json.dumps(body).encode())

    with served([odd]) as server:
        asked = subjects(server, tmp_path, price=Price(input=10, output=10), max_tokens=50)
        assert (await asked.ask(KEY, question(), 0)).text == "seven"
        most = (len(question().canonical_text.encode()) // BYTES_PER_TOKEN + OVERHEAD_TOKENS, 50)
        await asked.close()
    spent = read_exchanges(tmp_path).spent
    assert spent.tokens == sum(most) and spent.usd == pytest.approx(sum(most) * 10 / 1e6)


async def test_a_subject_that_has_moved_or_asks_for_a_long_rest_is_told_at_once(
    served: Callable[..., OpenAIServer], tmp_path: Path
) -> None:
    def moved(exchange: Exchange) -> None:
        exchange.send(307, b"", location="/elsewhere/v1/chat/completions")

    for number, (step, words) in enumerate(
        ((moved, "307"), (answer_error(429, retry_after="999999"), "asks for a delay of"))
    ):
        (place := tmp_path / str(number)).mkdir()
        with served([step]) as server:
            clock = Clock()
            asked = subjects(server, place, clock, outage_timeout=100.0)
            with pytest.raises(LLMUnavailable, match=words):
                await asked.ask(KEY, question(), 0)
            await asked.close()
        assert sum(clock.slept) < 100


@pytest.mark.parametrize("schema", ['{"minimum": NaN}', '{"enum": [[[[[[[[[[[[]]]]]]]]]]]]}'])
async def test_a_schema_that_our_client_cannot_send_ends_no_run_and_costs_nothing(
    schema: str, served: Callable[..., OpenAIServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labwright.models.studied_llms.MAX_SCHEMA_DEPTH", 10)
    with served([answer_text("{}")]) as server:
        one = subjects(server, tmp_path)
        with pytest.raises(LLMQuestionRefused, match="this JSON schema cannot be sent to 'small'"):
            await one.ask(KEY, question(json_schema=json.loads(schema)), 0)
        await one.close()
        assert not server.requests and read_exchanges(tmp_path).spent.tokens == 0
