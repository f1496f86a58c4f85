"""The circuit of the retry layer in a time of its own: what is asked, when, and what the record is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from labwright.models import retry
from labwright.models.backend import ModelRequest, Prompt, Reply
from labwright.models.errors import (
    AccessLost,
    ModelConfigError,
    ModelRefused,
    ModelUnavailable,
    ProviderDown,
    QuotaSpent,
)
from labwright.models.retry import Retry
from labwright.models.roles.experiment_code import CODE
from labwright.models.settings import ModelSettings
from labwright.record.events.run_events import ProviderOutage, ProviderRecovered
from labwright.record.schema.decisions import CallKey, TokenUsage
from tests.models.examples import INPUTS

KEY = CallKey(decision=1, attempt=0, role="code", ordinal=0)
REQUEST = ModelRequest(role=CODE, inputs=INPUTS["code"], prompt=Prompt("", ""), output_type=ModelSettings)
REPLY = Reply(output=ModelSettings(), usage=TokenUsage(input_tokens=1, output_tokens=1), model="m")


class World:
    """A provider that is down at some times, and a clock that sleeping sets forward."""

    def __init__(self, down: Callable[[float], ModelUnavailable | None], **bounds: float) -> None:
        self.now, self.down = 0.0, down
        self.asked: list[tuple[float, str]] = []
        self.told: list[ProviderOutage | ProviderRecovered] = []
        left = bounds.pop("time_limit", float("inf"))
        self.retry = Retry(
            ModelSettings(**bounds),  # pyrefly: ignore
            self.told.append,
            lambda: left - self.now,
            clock=lambda: self.now,
            wall_clock=lambda: 1000.0 + self.now,
            sleep=self.sleep,
        )

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.now += seconds

    async def answer(self, call: Callable[[], Awaitable[Reply]]) -> Reply:
        return await self.retry.answer(KEY, REQUEST, lambda key, request: call())

    async def ask(self, name: str = "a") -> Reply:
        async def call() -> Reply:
            self.asked.append((self.now, name))
            await asyncio.sleep(0)
            if (error := self.down(self.now)) is not None:
                raise error
            return REPLY

        return await self.answer(call)


def down_until(end: float) -> Callable[[float], ModelUnavailable | None]:
    return lambda now: ModelUnavailable("it is down") if now < end else None


@pytest.mark.asyncio
async def test_an_outage_is_probed_at_growing_waits_and_its_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "MAX_OUTAGE_WAIT_SECONDS", 200.0)
    world = World(down_until(500))
    assert await world.ask() is REPLY
    assert [at for at, _ in world.asked] == [0, 30, 90, 210, 410, 610]
    assert [one.until for one in world.told if isinstance(one, ProviderOutage)] == [1030, 1090, 1210, 1410, 1610]
    assert world.told[-1] == ProviderRecovered(seconds=610)


@pytest.mark.asyncio
async def test_while_the_circuit_is_open_one_call_at_a_time_looks_and_then_all_go() -> None:
    world = World(down_until(100))
    await asyncio.gather(*(world.ask(name) for name in "abc"))
    first = [name for at, name in world.asked if at == 0]
    assert first == ["a", "b", "c"]  # all were under way when it opened
    probes = [at for at, _ in world.asked if at > 0]
    assert probes[:3] == [30, 90, 210] and probes[3:] == [210, 210]
    assert sum(isinstance(one, ProviderRecovered) for one in world.told) == 1


@pytest.mark.asyncio
async def test_a_lasting_outage_ends_the_run_after_its_limit() -> None:
    world = World(lambda now: ModelUnavailable("it is down"), outage_timeout=100)
    with pytest.raises(ProviderDown, match=r"the longest wait allowed .models.outage_timeout.: resume when"):
        await world.ask()
    assert [at for at, _ in world.asked] == [0, 30, 90, 100]


@pytest.mark.asyncio
async def test_a_quota_is_waited_out_in_one_piece() -> None:
    world = World(lambda now: QuotaSpent("used up", 5000.0) if now < 5000 else None, outage_timeout=60, time_limit=6000)
    await world.ask()
    assert [at for at, _ in world.asked] == [0, 5000]
    assert world.told == [ProviderOutage(reason="used up", until=6000.0), ProviderRecovered(seconds=5000)]


@pytest.mark.asyncio
async def test_a_quota_beyond_the_time_limit_ends_the_run_at_once() -> None:
    world = World(lambda now: QuotaSpent("used up", 90000.0), time_limit=6000)
    with pytest.raises(ProviderDown, match="ends in 90000 s, after the run's time limit"):
        await world.ask()
    assert [at for at, _ in world.asked] == [0] and world.told == []


@pytest.mark.asyncio
async def test_one_request_that_never_gets_an_answer_is_not_taken_for_an_outage() -> None:
    world = World(lambda now: None)
    calls = 0

    async def hopeless() -> Reply:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        raise ModelUnavailable("no answer within 600 s")

    async def others() -> None:
        while not lonely.done():
            await world.ask("other")
            await asyncio.sleep(0)

    lonely = asyncio.ensure_future(world.answer(hopeless))
    await asyncio.gather(asyncio.wait({lonely}), others())
    with pytest.raises(ModelRefused, match="this request got no answer 3 times although other requests did"):
        lonely.result()
    assert 3 <= calls <= 6 and world.now < 1000


@pytest.mark.asyncio
async def test_a_refusal_is_an_answer() -> None:
    world = World(lambda now: ModelUnavailable("down") if now < 30 else None)

    async def refused() -> Reply:
        if world.now < 30:
            raise ModelUnavailable("down")
        raise ModelRefused("no")

    with pytest.raises(ModelRefused, match=r"^no$"):
        await world.answer(refused)
    assert [one.type for one in world.told] == ["provider_outage", "recovered"]


@pytest.mark.asyncio
async def test_a_key_that_is_no_longer_accepted_is_waited_for_like_any_outage() -> None:
    world = World(lambda now: AccessLost("the key is no longer accepted") if now < 100 else None)
    await world.ask()
    assert [one.type for one in world.told][-1] == "recovered" and world.asked[-1][0] == 210


@pytest.mark.asyncio
async def test_a_key_that_is_gone_while_other_models_answer_ends_the_run_and_is_no_refusal() -> None:
    world = World(lambda now: None)

    async def locked_out() -> Reply:
        await asyncio.sleep(0)
        raise AccessLost("the key is no longer accepted")

    async def others() -> None:
        while not lonely.done():
            await world.ask("other")
            await asyncio.sleep(0)

    lonely = asyncio.ensure_future(world.answer(locked_out))
    await asyncio.gather(asyncio.wait({lonely}), others())
    with pytest.raises(ProviderDown, match="no longer accepted; other models are answering"):
        lonely.result()


@pytest.mark.asyncio
async def test_a_wrong_key_is_wrong_use_until_something_was_answered_and_then_the_run_can_be_resumed() -> None:
    world = World(lambda now: None)

    async def wrong() -> Reply:
        raise ModelConfigError("the key is not accepted")

    for _ in range(2):
        with pytest.raises(ModelConfigError):
            await world.answer(wrong)
    await world.ask()
    with pytest.raises(ProviderDown, match="the key is not accepted; then resume"):
        await world.answer(wrong)
