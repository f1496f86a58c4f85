"""A recorded exchange is given out by role and ordinal, held against the output types of today."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from labwright.models.backend import Backend, ModelRequest, Prompt
from labwright.models.errors import ModelConfigError, ModelError, ModelOutputInvalid
from labwright.models.replay import RecordedAnswer, ReplayModel, extract_exchange, format_exchange, open_replay
from labwright.models.retry import open_backend
from labwright.models.roles import ROLES
from labwright.models.roles.experiment_code import Program
from labwright.models.roles.figures import FigureReviews, FigureScript, PaperFigureReviews, Plots
from labwright.models.roles.node_assessment import StageReport
from labwright.models.roles.paper_revision import Reflection
from labwright.models.roles.paper_writing import PaperOutline, Sections
from labwright.models.roles.study_plan import AblationPlan
from labwright.models.settings import ModelSettings
from labwright.record.events.run_events import CallAnswered
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.decisions import CallKey, TokenUsage
from labwright.record.schema.nodes import NodeVerdict
from labwright.review.honesty.figure_data_check import find_typed_figures
from tests.models.examples import INPUTS, PLAN
from tests.models.test_backends import BackendContract

RUN = Path(__file__).parent / "replay"
"""A small whole run that a language model carried: its exchange, its idea, its settings, and what came of it."""

OUTPUTS: dict[str, type[BaseModel]] = {
    "plan": DataPlan,
    "code": Program,
    "plot": Plots,
    "vision": FigureReviews,
    "feedback": NodeVerdict,
    "summary": StageReport,
    "figures": FigureScript,
    "outline": PaperOutline,
    "write": Sections,
    "reflect": Reflection,
    "figure_review": PaperFigureReviews,
    "ablation_plan": AblationPlan,
}


def asked(role: str, output_type: type[BaseModel]) -> ModelRequest:
    return ModelRequest(
        role=ROLES[role], inputs=INPUTS["plan"], prompt=Prompt("", "changed since"), output_type=output_type
    )


def recorded(*plans: DataPlan) -> list[RecordedAnswer]:
    return [RecordedAnswer(role="plan", ordinal=k, answer=plan.model_dump(mode="json")) for k, plan in enumerate(plans)]


def exchange() -> list[RecordedAnswer]:
    lines = (RUN / "exchange.jsonl").read_text(encoding="utf-8").splitlines()
    return [RecordedAnswer.model_validate_json(line) for line in lines]


class TestReplay(BackendContract):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Backend:
        path = tmp_path / "exchange.jsonl"
        path.write_text(format_exchange(recorded(PLAN, PLAN)), encoding="utf-8")
        return open_backend(ModelSettings(name=f"replay:{path}"))


async def test_answers_go_out_in_their_order_whatever_the_prompt() -> None:
    other = PLAN.model_copy(update={"task": "another"})
    model = ReplayModel(recorded(PLAN, other))
    given = [(await model.answer(asked("plan", DataPlan))).output for _ in range(2)]
    assert given == [PLAN, other] and model.request_counts == model.recorded_answers


async def test_a_run_that_is_resumed_counts_on_from_what_it_has() -> None:
    other = PLAN.model_copy(update={"task": "another"})
    model = ReplayModel(recorded(PLAN, other))
    model.resume_after(["plan"])
    assert (await model.answer(asked("plan", DataPlan))).output == other


async def test_an_answer_that_is_missing_is_one_clear_error() -> None:
    model = ReplayModel(recorded(PLAN))
    await model.answer(asked("plan", DataPlan))
    with pytest.raises(ModelConfigError, match="role 'plan' with ordinal 1 is recorded, only 1 of this role"):
        await model.answer(asked("plan", DataPlan))
    with pytest.raises(ModelConfigError, match="role 'code' with ordinal 0 is recorded, only 0"):
        await model.answer(asked("code", Program))


async def test_an_answer_that_fits_no_more_says_where() -> None:
    model = ReplayModel([RecordedAnswer(role="plan", ordinal=0, answer={"task": 1})])
    with pytest.raises(
        ModelOutputInvalid, match=r"'plan' with ordinal 0 is no longer a valid DataPlan \(task: "
    ) as caught:
        await model.answer(asked("plan", DataPlan))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no recorded answers"),
        ("{}\n", "line 1 is not a valid recorded answer"),
        ("\nnothing\n", "line 2 is not a valid recorded answer"),
        (format_exchange(recorded(PLAN)) * 2, "two answers of role 'plan' have ordinal 0"),
    ],
)
def test_a_file_that_is_no_exchange_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "exchange.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ModelConfigError, match=said):
        open_replay(f"replay:{path}")


def test_a_file_that_is_not_there_is_refused_before_anything_is_made() -> None:
    with pytest.raises(ModelConfigError, match=r"nowhere\.jsonl cannot be read"):
        open_backend(ModelSettings(name="replay:nowhere.jsonl"))


def test_an_exchange_is_made_from_the_answers_of_a_record() -> None:
    def answered(decision: int, role: str, task: str) -> CallAnswered:
        return CallAnswered(
            key=CallKey(decision=decision, attempt=0, role=role, ordinal=0),
            request_sha256="",
            model="m",
            answer={"task": task},
            usage=TokenUsage(),
            seconds=1.0,
        )

    found = extract_exchange([answered(1, "plan", "a"), answered(2, "code", "b"), answered(3, "code", "c")])
    assert [(one.role, one.ordinal, one.answer["task"]) for one in found] == [
        ("plan", 0, "a"),
        ("code", 0, "b"),
        ("code", 1, "c"),
    ]
    assert [RecordedAnswer.model_validate_json(line) for line in format_exchange(found).splitlines()] == list(found)


def test_an_answer_with_other_ends_of_lines_is_read_back(tmp_path: Path) -> None:
    made = [RecordedAnswer(role="plan", ordinal=0, answer={"task": "one\u2028two\x85three"})]
    (tmp_path / "exchange.jsonl").write_text(format_exchange(made), encoding="utf-8")
    assert open_replay(f"replay:{tmp_path / 'exchange.jsonl'}").recorded_answers == {"plan": 1}


# --- the kept run -----------------------------------------------------------------------------------------------------


async def test_every_answer_of_the_kept_run_fits_the_output_types_of_today() -> None:
    model = open_replay(f"replay:{RUN / 'exchange.jsonl'}")
    expected = json.loads((RUN / "expected.json").read_text())
    assert dict(model.recorded_answers) == expected["requests"] and sum(model.recorded_answers.values()) <= 30
    for role, output_type in OUTPUTS.items():
        for _ in range(model.recorded_answers[role]):
            reply = await model.answer(asked(role, output_type))
            assert isinstance(reply.output, output_type)
        with pytest.raises(ModelError):
            await model.answer(asked(role, output_type))


def test_the_figures_of_the_kept_run_draw_recorded_numbers() -> None:
    [figures] = [FigureScript.model_validate(one.answer) for one in exchange() if one.role == "figures"]
    for figure in figures.figures:
        assert not list(find_typed_figures(f"{figures.script}\n{figure.code}"))
