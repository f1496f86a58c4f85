"""What every backend promises, held against all that we have."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from labwright.models import roles
from labwright.models.backend import Backend, ModelRequest, Prompt, Reply
from labwright.models.errors import CatalogueError, ModelError
from labwright.models.replay import ScriptedModel
from labwright.models.retry import open_backend
from labwright.models.settings import ModelSettings
from labwright.record.schema.data_plan import DataPlan
from tests.models.examples import INPUTS, PLAN
from tests.models.openai_server import OpenAIServer, answer_by_tool

REQUEST = ModelRequest(role=roles.PLAN, inputs=INPUTS["plan"], prompt=Prompt("Plan.", "This."), output_type=DataPlan)


class BackendContract:
    """A backend answers with the output type that was asked for, or raises a `ModelError` of one line."""

    @pytest.fixture
    def backend(self) -> Backend:
        raise NotImplementedError

    async def test_it_answers_with_the_type_asked_for(self, backend: Backend) -> None:
        reply = await backend.answer(REQUEST)
        assert isinstance(reply, Reply)
        assert type(reply.output) is DataPlan
        assert reply.model
        assert reply.usage.input_tokens >= 0 and reply.retries >= 0

    async def test_its_answer_survives_the_ledger(self, backend: Backend) -> None:
        output = (await backend.answer(REQUEST)).output
        assert DataPlan.model_validate(output.model_dump(mode="json", by_alias=True)) == output

    async def test_its_name_stays(self, backend: Backend) -> None:
        before = backend.name
        await backend.answer(REQUEST)
        assert backend.name == before != ""


class TestScripted(BackendContract):
    @pytest.fixture
    def backend(self) -> Backend:
        return ScriptedModel.from_role_functions(plan=lambda inputs: PLAN)

    async def test_it_refuses_a_role_without_a_script(self) -> None:
        with pytest.raises(ModelError, match="no answer for role 'plan', only \\['code'\\]"):
            await ScriptedModel.from_role_functions(code=lambda inputs: PLAN).answer(REQUEST)


@pytest.mark.usefixtures("local_requests")
class TestProvider(BackendContract):
    @pytest.fixture
    async def backend(self) -> AsyncIterator[Backend]:
        with OpenAIServer([answer_by_tool(PLAN.model_dump(mode="json"))]) as server:
            yield open_backend(ModelSettings(name="openai-chat:m", base_url=server.url))


async def test_the_offline_researcher_refuses_what_it_does_not_know() -> None:
    backend = open_backend(ModelSettings())
    assert backend.name == "offline"
    with pytest.raises(CatalogueError) as caught:
        await backend.answer(REQUEST)
    assert "\n" not in str(caught.value)


def test_requests_to_a_provider_are_forbidden_in_tests() -> None:
    from pydantic_ai import models as pydantic_ai_models

    assert pydantic_ai_models.ALLOW_MODEL_REQUESTS is False  # pyrefly: ignore
