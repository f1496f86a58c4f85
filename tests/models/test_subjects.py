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
from labwright.models.prices import BYTES_A_TOKEN, OVERHEAD
from labwright.models.settings import Price, SubjectSettings
from labwright.models.subjects import SubjectModels, check_subjects
from labwright.record.exchanges import (
    Exchanges,
    SubjectBudgetSpent,
    SubjectDown,
    SubjectRefused,
    copy_exchanges,
    differing,
    spent_in,
    uses_of,
)
from labwright.record.nouns.subjects import Message, Question
from tests.models.openai_server import Choose, OpenAIServer, Step, content, drop, page, stall, status
from tests.models.openai_server import Exchange as HttpExchange

pytestmark = pytest.mark.usefixtures("local_requests")
KEY = "a" * 64


def question(text: str = "How many?", **more: Any) -> Question:
    return Question(subject="small", messages=(Message(role="user", content=text),), **more)


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
) -> SubjectModels:
    clock = clock or Clock()
    one = SubjectSettings(model="openai-chat:tiny", base_url=server.url, **settings)
    return SubjectModels(
        {"small": one},
        caps or BudgetSettings(),
        Exchanges(place / "exchanges.db"),
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
    with served([content("three", model="tiny-2026")]) as server:
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
    (use,) = uses_of(tmp_path)
    assert (use.calls, use.input_tokens, use.output_tokens, use.lost, use.models) == (4, 400, 80, 0, ("tiny-2026",))
    assert use.first <= use.last and use.first
    assert differing(tmp_path, KEY, [(one.id, one.sha256)]) == ""
    assert differing(tmp_path, KEY, [(one.id, other_draw.sha256)]) == one.id
    (copy := tmp_path / "copy").mkdir()
    copy_exchanges(tmp_path, copy)
    with served([content("never asked")]) as nobody:
        replayed = subjects(nobody, copy, replay=True)
        assert await replayed.ask(KEY, question(), 0) == one
        with pytest.raises(SubjectRefused, match="the record has no answer"):
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
        assert spent_in(tmp_path).usd > 0  # before it was answered
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await cut.close()
    lost = spent_in(tmp_path)
    with served([content("three")]) as server:
        resumed = subjects(server, tmp_path, price=price)
        await resumed.ask(KEY, question(), 0)
        await resumed.close()
    assert spent_in(tmp_path).usd == pytest.approx(lost.usd + 120 * 10 / 1e6)
    assert [one.lost for one in uses_of(tmp_path)] == [1]


async def test_the_budget_is_reserved_before_a_call_and_never_passed(
    served: Callable[..., OpenAIServer], tmp_path: Path
) -> None:
    caps = BudgetSettings(subject_usd=0.05)
    with served([content("three")]) as server:
        capped = subjects(server, tmp_path, caps=caps, price=Price(input=10, output=20), max_tokens=500, concurrency=64)
        answers = await asyncio.gather(*(capped.ask(KEY, question(), n) for n in range(60)), return_exceptions=True)
        refused = [one for one in answers if isinstance(one, Exception)]
        assert refused and all(isinstance(one, SubjectBudgetSpent) for one in refused)
        assert "budget.subject_usd" in str(refused[0]) and len(server.requests) == 60 - len(refused) > 1
        await capped.close()
        tokens = subjects(server, tmp_path, caps=BudgetSettings(subject_tokens=spent_in(tmp_path).tokens + 100))
        with pytest.raises(SubjectBudgetSpent, match=r"budget\.subject_tokens"):
            await tokens.ask(KEY, question("another"), 0)
        await tokens.close()
    assert 0 < spent_in(tmp_path).usd <= 0.05


async def test_outages_are_waited_out_together_and_what_was_not_billed_is_given_back(
    served: Callable[..., OpenAIServer], tmp_path: Path
) -> None:
    clock = Clock()
    with served([status(429, retry_after="7"), status(503), drop(), content("three")]) as server:
        patient = subjects(server, tmp_path, clock, price=Price(input=10, output=10))
        assert (await patient.ask(KEY, question(), 0)).text == "three"
        await patient.close()
    assert clock.slept[0] == 7.0 and len(clock.slept) == 3
    assert spent_in(tmp_path).usd == pytest.approx(120 * 10 / 1e6)


@pytest.mark.parametrize(
    ("steps", "error", "words"),
    [
        ([status(400, "this is no question")], SubjectRefused, "this is no question"),
        ([status(401, "wrong key")], SubjectDown, "check subjects.small and its key"),
        ([status(500)], SubjectDown, "outage_timeout"),
        ([page()], SubjectDown, "has answered nothing for"),
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
        return content("three")

    with served(choose) as server:
        slow = subjects(server, tmp_path, clock, requests_a_minute=30, concurrency=2)
        real = slow._exchanges.settle  # pyright: ignore[reportPrivateUsage]  (the last step of a call under way)
        reserve = slow._exchanges.reserve  # pyright: ignore[reportPrivateUsage]

        async def reserved(*arguments: Any) -> int:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            return await reserve(*arguments)

        async def settled(*arguments: Any, **more: Any) -> None:
            nonlocal under_way
            await real(*arguments, **more)
            under_way -= 1

        slow._exchanges.reserve, slow._exchanges.settle = reserved, settled  # pyright: ignore
        await asyncio.gather(*(slow.ask(cell * 64, question(), n) for cell in "ab" for n in range(5)))
        await slow.close()
    assert clock.now >= 9 * 2.0 and most == 2


async def test_messages_schema_and_logprobs_go_as_they_were_asked(
    served: Callable[..., OpenAIServer], tmp_path: Path
) -> None:
    with served([content('{"n": 3}')]) as server:
        one = subjects(server, tmp_path)
        asked = Question(
            subject="small",
            temperature=0.25,
            max_tokens=9,
            logprobs=2,
            json_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            messages=(
                Message(role="system", content="Be short."),
                Message(role="user", content="How many?"),
                Message(role="assistant", content="Of what?"),
                Message(role="user", content="Of these."),
            ),
        )
        await one.ask(KEY, asked, 0)
        with pytest.raises(SubjectRefused, match="max_tokens=5000 is more"):
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
        (priced, BudgetSettings(usd=1), "say what they may take with budget.subject_usd"),
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
    def odd(exchange: HttpExchange) -> None:
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
        most = (len(question().text.encode()) // BYTES_A_TOKEN + OVERHEAD, 50)
        await asked.close()
    spent = spent_in(tmp_path)
    assert spent.tokens == sum(most) and spent.usd == pytest.approx(sum(most) * 10 / 1e6)


async def test_a_subject_that_has_moved_or_asks_for_a_long_rest_is_told_at_once(
    served: Callable[..., OpenAIServer], tmp_path: Path
) -> None:
    def moved(exchange: HttpExchange) -> None:
        exchange.send(307, b"", location="/elsewhere/v1/chat/completions")

    for number, (step, words) in enumerate(((moved, "307"), (status(429, retry_after="999999"), "left alone"))):
        (place := tmp_path / str(number)).mkdir()
        with served([step]) as server:
            clock = Clock()
            asked = subjects(server, place, clock, outage_timeout=100.0)
            with pytest.raises(SubjectDown, match=words):
                await asked.ask(KEY, question(), 0)
            await asked.close()
        assert sum(clock.slept) < 100


@pytest.mark.parametrize("schema", ['{"minimum": NaN}', '{"enum": [[[[[[[[[[[[]]]]]]]]]]]]}'])
async def test_a_schema_that_our_client_cannot_send_ends_no_run_and_costs_nothing(
    schema: str, served: Callable[..., OpenAIServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labwright.models.subjects.DEEPEST", 10)
    with served([content("{}")]) as server:
        one = subjects(server, tmp_path)
        with pytest.raises(SubjectRefused, match="this JSON schema cannot be sent to 'small'"):
            await one.ask(KEY, question(json_schema=json.loads(schema)), 0)
        await one.close()
        assert not server.requests and spent_in(tmp_path).tokens == 0
