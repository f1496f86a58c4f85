"""A model a role, and models that stand in: over real HTTP with the real clients, through all layers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from labwright.models import roles
from labwright.models.backend import Backend, Image, ModelRequest, Reply
from labwright.models.client import Models
from labwright.models.errors import (
    ImagesRefused,
    ModelConfigError,
    ModelOutputInvalid,
    ModelRefused,
    ModelUnavailable,
    QuotaSpent,
)
from labwright.models.replay import ScriptedModel
from labwright.models.retry import REST_SECONDS, Failover, open_backend
from labwright.models.roles import ROLES
from labwright.models.roles.experiment_code import Program
from labwright.models.roles.figures import FigureReviews
from labwright.models.roles.judge import JUDGE
from labwright.models.roles.paper_writing import WRITE
from labwright.models.roles.study_plan import PLAN
from labwright.models.settings import ModelSettings
from labwright.record.event_log import MemoryLog
from labwright.record.events.run_events import CallAnswered
from tests.models.examples import CODE, INPUTS, PROGRAM
from tests.models.openai_server import OpenAIServer, answer_by_tool, answer_error

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("local_requests", "no_waits")]
PICTURE = Image(b"\x89PNG\r\n\x1a\n and more")


def settings(**given: object) -> ModelSettings:
    """Settings; what is given under the name of a role is the role's."""
    own = {name: given.pop(name) for name in ROLES if name in given}
    return ModelSettings.model_validate({"retries": 1, "roles": own, **given})


def chained(models: Sequence[Backend], clock: Callable[[], float] = time.monotonic) -> Failover:
    return Failover("several", {"code": models}, clock)


def opened(given: ModelSettings, ledger: MemoryLog | None = None) -> Models:
    return Models(open_backend(given), ledger or MemoryLog(), given, itertools.count().__next__)


# --- settings -------------------------------------------------------------------------------------------------------


def test_a_role_has_its_own_model_by_name_or_by_mapping() -> None:
    given = settings(
        name="anthropic:a",
        code="openai:b",
        judge={"temperature": 0.7},
        write={"name": "ollama:c", "temperature": 0.2, "max_tokens": 99},
    )
    assert [given.list_candidates(role)[0].name for role in (PLAN, roles.CODE, WRITE, JUDGE)] == [
        "anthropic:a",
        "openai:b",
        "ollama:c",
        "anthropic:a",
    ]
    assert (given.get_temperature(WRITE), given.get_max_tokens(WRITE)) == (0.2, 99)
    assert (given.get_temperature(roles.CODE), given.get_max_tokens(roles.CODE)) == (
        0.5,
        8192,
    )  # AI-Scientist-v2, Table 2
    assert (given.get_temperature(JUDGE), given.get_max_tokens(JUDGE)) == (0.7, 8192)


def test_a_role_outside_the_product_is_asked_of_the_common_model() -> None:
    backend = open_backend(settings(name="ollama:a", judge="ollama:b", fallbacks=["ollama:c"]))
    assert [backend.get_model_name(role) for role in (JUDGE, PLAN, replace(PLAN, name="answer_design"))] == [
        "ollama:b",
        "ollama:a",
        "ollama:a",
    ]


def test_the_common_address_goes_with_models_of_the_same_provider() -> None:
    given = settings(
        name="openai:a",
        base_url="http://here/v1",
        code="openai:b",
        write="anthropic:c",
        judge={"name": "openai:d", "base_url": "http://there/v1"},
        fallbacks=["openai:e", "ollama:f"],
    )
    found = [given.list_candidates(role)[0].base_url for role in (PLAN, roles.CODE, WRITE, JUDGE)]
    assert found == ["http://here/v1", "http://here/v1", None, "http://there/v1"]
    assert [one.base_url for one in given.list_candidates(PLAN)[1:]] == ["http://here/v1", None]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "offline"),
        ({"name": "openai:a"}, "openai:a"),
        (
            {"name": "openai:a", "vision": "google:b", "judge": "google:b"},
            "openai:a (vision, judge, figure_review: google:b)",
        ),
        ({"name": "openai:a", "fallbacks": ["ollama:c", "ollama:d"]}, "openai:a (fallback: ollama:c, ollama:d)"),
        ({"name": "openai:a", "vision": False}, "openai:a"),
    ],
)
def test_all_models_are_named(given: dict[str, object], words: str) -> None:
    assert settings(**given).model_names == words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"code": False}, "only the role vision may be left out"),
        ({"fallbacks": ["offline"]}, "cannot substitute for another"),
        ({"code": {"temperature": 3}}, "less than or equal to 2"),
        ({"code": {"top_p": 1}}, "top_p"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        settings(**given)


# --- a model a role -------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_each_role_asks_its_own_model_and_the_record_says_which() -> None:
    ledger = MemoryLog()
    reviews = FigureReviews(reviews=()).model_dump(mode="json")
    with (
        OpenAIServer([answer_by_tool(PROGRAM.model_dump(), model="big")]) as common,
        OpenAIServer([answer_by_tool(reviews, model="eyes")]) as other,
    ):
        given = settings(
            name="openai-chat:big",
            base_url=common.url,
            vision={"name": "openai-chat:eyes", "base_url": other.url, "temperature": 0.1},
        )
        desk = opened(given, ledger).make_client(1, 0)
        await desk.ask(roles.CODE, CODE)
        await desk.ask(ROLES["vision"], INPUTS["vision"], (PICTURE,))
    assert (len(common.requests), len(other.requests)) == (1, 1)
    assert [(one.model, one.asked) for one in ledger.answers] == [
        ("openai-chat:big", "openai-chat:big at temperature 0.5"),
        ("openai-chat:eyes", "openai-chat:eyes at temperature 0.1"),
    ]
    assert other.requests[0]["temperature"] == 0.1


@pytest.mark.asyncio
async def test_without_a_model_for_pictures_nobody_looks() -> None:
    models = opened(settings(vision=False))
    assert not models.accepts_images and opened(settings()).accepts_images
    with pytest.raises(ModelConfigError, match=r"no model is configured for role 'vision'; set models\.roles\.vision"):
        await models.make_client(1, 0).ask(ROLES["vision"], INPUTS["vision"])


def test_a_wrong_name_of_any_role_is_found_before_anything_is_asked() -> None:
    with pytest.raises(ModelConfigError, match="is not a model name"):
        open_backend(settings(judge="nonsense"))
    with pytest.raises(ModelConfigError, match="unknown provider"):
        open_backend(settings(fallbacks=["nobody:m"]))


# --- standing in ----------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_the_next_model_answers_while_the_first_is_down_and_its_answer_is_kept() -> None:
    ledger = MemoryLog()
    with (
        OpenAIServer([answer_error(503)]) as down,
        OpenAIServer([answer_by_tool(PROGRAM.model_dump(), model="spare")]) as spare,
    ):
        given = settings(
            name="openai-chat:first",
            base_url=down.url,
            fallbacks=[{"name": "openai-chat:spare", "base_url": spare.url}],
        )
        models = opened(given, ledger)
        assert await models.make_client(1, 0).ask(roles.CODE, CODE) == PROGRAM
        assert await models.make_client(2, 0).ask(roles.CODE, CODE) == PROGRAM
        again = opened(given, ledger)
        assert await again.make_client(1, 0).ask(roles.CODE, CODE) == PROGRAM
    assert len(down.requests) == 2  # one try, one retry; then it is left alone for a while
    assert len(spare.requests) == 2  # and none on the resumed run
    event = ledger.answers[0]
    assert isinstance(event, CallAnswered)
    assert (event.model, event.asked) == ("openai-chat:spare", "openai-chat:first at temperature 0.5")


@pytest.mark.asyncio
async def test_when_all_are_down_the_error_names_them() -> None:
    with OpenAIServer([answer_error(503)]) as down:
        given = settings(name="openai-chat:first", base_url=down.url, fallbacks=["openai-chat:spare"])
        with pytest.raises(ModelUnavailable, match=r"openai-chat:first: no answer.*; and openai-chat:spare: no answer"):
            await opened(given).make_client(1, 0).ask(roles.CODE, CODE)
    assert len(down.requests) == 4


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("step", "error"),
    [
        (answer_error(400, "policy"), ModelRefused),
        (answer_by_tool({"wrong": 1}), ModelOutputInvalid),
        (answer_error(401), ModelConfigError),
    ],
)
async def test_what_is_no_outage_is_not_passed_on(step: object, error: type[Exception]) -> None:
    with (
        OpenAIServer([step]) as first,  # pyrefly: ignore
        OpenAIServer([answer_by_tool(PROGRAM.model_dump())]) as spare,
    ):
        given = settings(
            name="openai-chat:first",
            base_url=first.url,
            fallbacks=[{"name": "openai-chat:spare", "base_url": spare.url}],
        )
        with pytest.raises(error):
            await opened(given).make_client(1, 0).ask(roles.CODE, CODE)
    assert spare.requests == []


def failing(error: Exception, name: str = "first") -> ScriptedModel:
    def script(request: ModelRequest) -> Program:
        raise error

    return ScriptedModel(script, name)


def question(*images: Image) -> ModelRequest:
    from labwright.models.client import render

    return ModelRequest(
        role=roles.CODE, inputs=CODE, prompt=render(roles.CODE, CODE), output_type=Program, images=images
    )


@pytest.mark.asyncio
async def test_a_model_that_was_down_is_asked_again_after_its_rest() -> None:
    now = [0.0]
    first, spare = failing(ModelUnavailable("down")), ScriptedModel(lambda request: PROGRAM)
    chain = chained([first, spare], lambda: now[0])
    for seconds, asked in ((0.0, 1), (REST_SECONDS - 1, 1), (REST_SECONDS + 1, 2)):
        now[0] = seconds
        assert (await chain.answer(question())).output == PROGRAM
        assert len(first.requests) == asked


@pytest.mark.asyncio
async def test_the_failure_that_may_pass_first_is_raised() -> None:
    quota, down = QuotaSpent("quota", 3600.0), ModelUnavailable("down")
    for errors in ((quota, down), (down, quota)):
        with pytest.raises(ModelUnavailable) as caught:
            await chained([failing(error) for error in errors]).answer(question())
        assert not isinstance(caught.value, QuotaSpent)


class Blind(ScriptedModel):
    @property
    def accepts_images(self) -> bool:
        return False

    async def answer(self, request: ModelRequest) -> Reply:
        if request.images:
            raise ImagesRefused("none")
        return await super().answer(request)


@pytest.mark.asyncio
async def test_a_blind_model_does_not_stand_in_for_one_that_sees() -> None:
    blind: Backend = Blind(lambda request: PROGRAM)
    with pytest.raises(ModelUnavailable, match=r"^down$"):
        await chained([failing(ModelUnavailable("down")), blind]).answer(question(PICTURE))
    with pytest.raises(ImagesRefused):
        await chained([blind, ScriptedModel(lambda request: PROGRAM)]).answer(question(PICTURE))
