"""The door: an answer is asked for once, verified by its hash, and committed before it is seen."""

from __future__ import annotations

import asyncio
import gzip
import itertools
from functools import partial
from pathlib import Path

import pytest

from labwright.models import roles
from labwright.models.backend import Image, ModelRequest, Reply
from labwright.models.client import Models, hash_request
from labwright.models.errors import ModelUnavailable
from labwright.models.replay import ScriptedModel, extract_exchange
from labwright.models.roles import ROLES
from labwright.models.roles.experiment_code import Program
from labwright.models.roles.figures import FigureReviews
from labwright.models.settings import ModelSettings, RoleModel
from labwright.record.event_log import MemoryLog, RecordError
from labwright.record.events.run_events import CallAnswered
from labwright.record.llm_calls import find_prompt, store_prompt
from labwright.record.schema.decisions import CallKey, TokenUsage
from tests.models.examples import CODE, INPUTS, PROGRAM

SETTINGS = ModelSettings()


def clock() -> itertools.count[float]:
    return itertools.count(100.0, 2.5)


def opened(script: ScriptedModel, ledger: MemoryLog, settings: ModelSettings = SETTINGS) -> Models:
    return Models(script, ledger, settings, clock().__next__)


def numbered() -> ScriptedModel:
    """Answers that tell how often it was asked."""
    count = itertools.count()
    return ScriptedModel(lambda request: PROGRAM.model_copy(update={"title": f"program {next(count)}"}))


@pytest.mark.asyncio
async def test_an_answer_is_committed_with_its_key_hash_usage_and_time() -> None:
    ledger, script = MemoryLog(), numbered()
    program = await opened(script, ledger).make_client(12, 1).ask(roles.CODE, CODE)
    (event,) = ledger.answers
    assert program.title == "program 0"
    assert str(event.key) == "12.1.code.0"
    assert event.answer == program.model_dump(mode="json")
    assert event.seconds == 2.5
    assert event.model == "scripted"
    assert event.asked == "scripted at temperature 0.5"
    assert event.request_sha256 == hash_request(script.requests[0], event.asked)
    assert event.usage.input_tokens > 1000 and event.usage.usd is None
    assert CallAnswered.model_validate_json(event.model_dump_json()) == event


@pytest.mark.asyncio
async def test_a_resumed_run_asks_nothing_that_was_committed() -> None:
    ledger, script = MemoryLog(), numbered()
    desk = opened(script, ledger).make_client(3, 1)
    first = [await desk.ask(roles.CODE, CODE) for _ in range(3)]
    again = opened(script, ledger).make_client(3, 1)
    second = [await again.ask(roles.CODE, CODE) for _ in range(3)]
    assert first == second
    assert len(script.requests) == 3
    assert (await again.ask(roles.CODE, CODE)).title == "program 3"


@pytest.mark.asyncio
async def test_equal_prompts_are_different_calls_and_ordinals_count_by_role() -> None:
    ledger = MemoryLog()
    script = ScriptedModel.from_role_functions(
        code=lambda inputs: PROGRAM, vision=lambda inputs: FigureReviews(reviews=())
    )
    desk = opened(script, ledger).make_client(3, 2)
    await desk.ask(roles.CODE, CODE)
    await desk.ask(ROLES["vision"], INPUTS["vision"])
    await desk.ask(roles.CODE, CODE)
    assert [str(event.key) for event in ledger.answers] == ["3.2.code.0", "3.2.vision.0", "3.2.code.1"]
    assert ledger.answers[0].request_sha256 == ledger.answers[2].request_sha256


@pytest.mark.asyncio
async def test_calls_side_by_side_get_their_ordinals_in_the_order_of_asking() -> None:
    class Slow(ScriptedModel):
        async def answer(self, request: ModelRequest) -> Reply:
            await asyncio.sleep(0.02 if not self.requests else 0)
            return await super().answer(request)

    ledger = MemoryLog()
    slow = Slow(lambda request: PROGRAM)
    desk = opened(slow, ledger).make_client(1, 1)
    await asyncio.gather(*(desk.ask(roles.CODE, CODE) for _ in range(3)))
    assert sorted(event.key.ordinal for event in ledger.answers) == [0, 1, 2]


@pytest.mark.asyncio
async def test_another_question_under_a_committed_key_is_asked_and_both_answers_stay() -> None:
    ledger, script = MemoryLog(), numbered()
    await opened(script, ledger).make_client(3, 1).ask(roles.CODE, CODE)
    changed = CODE.model_copy(update={"goal": "Something else."})
    for _ in range(2):
        assert (await opened(script, ledger).make_client(3, 1).ask(roles.CODE, changed)).title == "program 1"
    assert len(script.requests) == 2
    assert [str(event.key) for event in ledger.answers] == ["3.1.code.0"] * 2


@pytest.mark.asyncio
async def test_another_machine_or_limit_keeps_the_answer_and_is_recorded_once(tmp_path: Path) -> None:
    log, script = MemoryLog(), numbered()
    models = Models(script, log, SETTINGS, clock().__next__, keep=partial(store_prompt, tmp_path))
    first = await models.make_client(3, 1).ask(roles.CODE, CODE)
    moved = CODE.model_copy(
        update={
            "node_seconds": 7.0,
            "device": "cuda",
            "packages": ("jax 1",),
            "network": True,
            "pretrained": ("a/b@1",),
        }
    )
    for _ in range(2):
        assert await models.make_client(3, 1).ask(roles.CODE, moved) == first
    assert [event.type for event in log.events] == ["answered", "prompt_changed"] and len(script.requests) == 1
    drifted = log.state.calls.changed_prompts[CallKey(decision=3, attempt=1, role="code", ordinal=0)]
    assert kept_text(tmp_path, drifted.request_sha256) != kept_text(tmp_path, ledgered(log).request_sha256)


@pytest.mark.asyncio
async def test_an_answer_that_took_the_place_of_another_is_counted_beside_it() -> None:
    log, script = MemoryLog(), numbered()
    models = Models(script, log, SETTINGS, clock().__next__)
    await models.make_client(3, 1).ask(roles.CODE, CODE)
    await models.make_client(3, 1).ask(roles.CODE, CODE.model_copy(update={"goal": "Something else."}))
    state = log.state
    assert state.calls.usage_by_role["code"].calls == 2
    assert state.calls.settled_costs[3].tokens == sum(
        one.usage.input_tokens + one.usage.output_tokens
        for one in (*state.calls.superseded_answers, *state.calls.answers.values())
    )
    assert [one.answer["title"] for one in state.calls.superseded_answers] == ["program 0"]
    assert [one.answer["title"] for one in extract_exchange(log.events)] == ["program 1"]


def ledgered(log: MemoryLog) -> CallAnswered:
    return next(event for event in log.events if isinstance(event, CallAnswered))


def kept_text(run: Path, sha256: str) -> bytes:
    return gzip.decompress((run / "prompts" / f"{sha256}.json.gz").read_bytes())


@pytest.mark.asyncio
async def test_a_run_resumed_with_another_model_or_temperature_keeps_what_was_paid_for() -> None:
    ledger = MemoryLog()
    first = await opened(numbered(), ledger).make_client(3, 1).ask(roles.CODE, CODE)
    other = ScriptedModel(lambda request: PROGRAM, name="another")
    warmer = ModelSettings(roles={"code": RoleModel(temperature=0.9)})
    assert await opened(other, ledger, warmer).make_client(3, 1).ask(roles.CODE, CODE) == first
    assert other.requests == []


@pytest.mark.asyncio
async def test_an_answer_of_an_older_schema_is_asked_for_anew() -> None:
    ledger, script = MemoryLog(), numbered()
    await opened(script, ledger).make_client(3, 1).ask(roles.CODE, CODE)
    broken = ledger.answers[0].model_copy(update={"answer": {"title": "only this"}})
    again = await opened(script, MemoryLog([broken])).make_client(3, 1).ask(roles.CODE, CODE)
    assert again.title == "program 1"


@pytest.mark.asyncio
async def test_what_fails_is_not_committed_and_is_asked_again() -> None:
    def script(request: ModelRequest) -> Program:
        if len(scripted.requests) == 1:
            raise ModelUnavailable("down")
        return PROGRAM

    ledger, scripted = MemoryLog(), ScriptedModel(script)
    with pytest.raises(ModelUnavailable):
        await opened(scripted, ledger).make_client(1, 1).ask(roles.CODE, CODE)
    assert ledger.answers == []
    assert await opened(scripted, ledger).make_client(1, 1).ask(roles.CODE, CODE) == PROGRAM


@pytest.mark.asyncio
async def test_a_backend_that_never_answers_is_given_up() -> None:
    class Silent(ScriptedModel):
        async def answer(self, request: ModelRequest) -> Reply:
            await asyncio.sleep(30)
            raise AssertionError("it was not given up")

    settings = ModelSettings(timeout=0.02, retries=0, output_retries=0)
    with pytest.raises(ModelUnavailable, match=r"no answer for 1\.1\.code\.0 within 0\.02 s"):
        await opened(Silent(lambda request: PROGRAM), MemoryLog(), settings).make_client(1, 1).ask(roles.CODE, CODE)


@pytest.mark.asyncio
async def test_images_are_part_of_the_request() -> None:
    script = ScriptedModel(lambda request: FigureReviews(reviews=()))
    desk = opened(script, MemoryLog()).make_client(1, 1)
    await desk.ask(ROLES["vision"], INPUTS["vision"], (Image(b"one"),))
    await desk.ask(ROLES["vision"], INPUTS["vision"], (Image(b"two"),))
    first, second = script.requests
    assert len(first.images) == 1
    assert hash_request(first, "m") != hash_request(second, "m")
    assert "attached" in first.prompt.user


@pytest.mark.asyncio
async def test_a_question_is_kept_before_it_is_asked_and_is_what_the_answer_vouches_for(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> FigureReviews:
        assert len(list((tmp_path / "prompts").iterdir())) == 1, "kept before it goes out"
        return FigureReviews(reviews=())

    ledger, scripted = MemoryLog(), ScriptedModel(script)
    models = Models(scripted, ledger, SETTINGS, clock().__next__, keep=partial(store_prompt, tmp_path))
    await models.make_client(1, 1).ask(ROLES["vision"], INPUTS["vision"], (Image(b"PLANTED picture"),))
    kept = find_prompt(tmp_path, ledger.answers[0])
    [request] = scripted.requests
    assert kept is not None and kept.asked is not None and kept.changed == ""
    assert (kept.asked.system, kept.asked.user) == (request.prompt.system, request.prompt.user)
    assert kept.asked.images == (Image(b"PLANTED picture").sha256,) and kept.asked.answer_name == "FigureReviews"
    assert kept.asked.answer == FigureReviews.model_json_schema()
    assert (kept.asked.asked, kept.asked.role) == (ledger.answers[0].asked, "vision")
    assert all(b"PLANTED" not in gzip.decompress(one.read_bytes()) for one in (tmp_path / "prompts").iterdir())


@pytest.mark.asyncio
async def test_where_a_question_cannot_be_kept_nothing_is_asked() -> None:
    def full(text: str) -> None:
        raise RecordError("no space")

    scripted = numbered()
    models = Models(scripted, MemoryLog(), SETTINGS, clock().__next__, keep=full)
    with pytest.raises(RecordError, match="no space"):
        await models.make_client(1, 1).ask(roles.CODE, CODE)
    assert scripted.requests == []


@pytest.mark.asyncio
async def test_questions_are_kept_only_where_that_is_set(tmp_path: Path) -> None:
    models = Models(
        numbered(),
        MemoryLog(),
        ModelSettings(keep_prompts=False),
        clock().__next__,
        keep=partial(store_prompt, tmp_path),
    )
    await models.make_client(1, 1).ask(roles.CODE, CODE)
    assert list(tmp_path.iterdir()) == []


def test_of_two_answers_under_a_key_the_later_one_counts() -> None:
    event = CallAnswered(
        key=CallKey(decision=1, attempt=1, role="code", ordinal=0),
        request_sha256="0",
        model="m",
        answer={},
        usage=TokenUsage(),
        seconds=0.0,
    )
    ledger = MemoryLog()
    later = event.model_copy(update={"model": "n"})
    ledger.append(event)
    ledger.append(later)
    assert ledger.state.calls.answers[event.key] == later and ledger.answers == [event, later]
