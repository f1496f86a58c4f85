"""Several judges, long papers, files beside the paper, pages as pictures, rubrics by name, and families of models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from labwright.models.backend import ModelRequest
from labwright.models.client import Models
from labwright.models.errors import ImagesRefused, ModelUnavailable
from labwright.models.replay import ScriptedModel
from labwright.models.roles.judge import build_answer_type
from labwright.models.settings import ModelSettings
from labwright.record.event_log import MemoryLog
from labwright.review.judge.attachments import build_code_exhibit, describe_exhibits, read_file_exhibit, render_pages
from labwright.review.judge.guards import GuardedPaper, guard_paper
from labwright.review.judge.judge import (
    RUBRICS_FOLDER,
    JudgeCase,
    PanelMember,
    ask_panel,
    find_rubric,
    judge_case,
    load_bundled_rubrics,
    read_rubric,
)
from labwright.review.judge.paper_reader import Paper, PaperSection, RubricError, read_paper
from tests.review.test_judge import BODY, FIGURES, QUOTE, given_answer, pdf

pytestmark = pytest.mark.slow

RUBRIC = read_rubric()


def case(text: str = BODY, **more: Any) -> JudgeCase:
    paper = Paper(Path("p.md"), "Markdown", "0", (PaperSection("Rain", text),))
    return JudgeCase(GuardedPaper(paper), RUBRIC, "p.md", **more)


def door(backend: ScriptedModel) -> Models:
    return Models(backend, MemoryLog(), ModelSettings(), lambda: 0.0)


def giving(*scores: int) -> ScriptedModel:
    """A judge that gives these overall scores one after the other; 0: it is not available then."""
    left = iter(scores)

    def script(request: ModelRequest) -> BaseModel:
        if (score := next(left)) == 0:
            raise ModelUnavailable("no answer within 1 s")
        return request.output_type.model_validate(given_answer(overall={"score": score}))

    return ScriptedModel(script)


# --- panels ---------------------------------------------------------------------------------------------------------


async def test_a_panel_counts_what_was_given_and_names_what_is_missing() -> None:
    members = [
        PanelMember("anthropic:claude-a", door(giving(4, 0, 5))),
        PanelMember("openai:gpt-b", door(giving(9, 9, 9))),
    ]
    found = await ask_panel(case(), members, repeats=3)
    assert found.asked == 6 and len(found.judgements) == 5
    assert [(one.model, one.repeat, one.why) for one in found.missing] == [
        ("anthropic:claude-a", 2, "no answer within 1 s")
    ]
    overall, clarity, alone = found.dimensions[-2], found.dimensions[0], found.dimensions[-1]
    assert overall.scores == (4, 5, 9, 9, 9) and (overall.n, overall.mean, overall.range) == (5, 7.2, 5)
    assert overall.disagree and overall.sd == pytest.approx(2.49, abs=0.01)
    assert (clarity.sd, clarity.disagree) == (0.0, False) and found.warnings == ()
    assert (alone.dimension, alone.mean) == ("text alone", 7.0)


async def test_judges_of_one_family_and_of_the_writers_family_are_told() -> None:
    names = ("anthropic:claude-a", "openrouter:anthropic/claude-b", "x:zzz")
    members = [PanelMember(name, door(giving(5))) for name in names]
    found = await ask_panel(case(), members, writers=("bedrock:claude-c",))
    said = " ".join(found.warnings)
    assert "anthropic:claude-a belongs to the family that wrote the paper" in said
    assert "claude-a and openrouter:anthropic/claude-b are of the same model family" in said
    assert "the model family of x:zzz cannot be inferred from its name" in said


async def test_a_short_paper_is_shown_whole_and_of_a_long_one_it_is_said_what_is_not() -> None:
    assert (
        await judge_case(case(), door(giving(5)).make_client(0, 0), model="m")
    ).coverage == f"all {len(BODY)} characters shown"
    model = giving(5)
    found = await judge_case(case("It rained on the roof. " * 9000), door(model).make_client(0, 0), model="m")
    assert found.coverage == "" and "of 207000 characters" in found.left_out[0]
    assert len(model.requests[0].prompt.user) < 115_000


# --- beside the paper -----------------------------------------------------------------------------------------------


async def test_task_log_and_code_are_shown_bounded(tmp_path: Path) -> None:
    (tmp_path / "task.md").write_text("Study rain.")
    (tmp_path / "log.txt").write_text("step\n" * 10_000)
    code = tmp_path / "code"
    (code / "tests").mkdir(parents=True)
    (code / "train.py").write_text("rate = 3\n")
    (code / "tests" / "test_x.py").write_text("assert True\n" * 9000)
    (code / "secret.py").symlink_to("/etc/hostname")
    given = (
        read_file_exhibit("task", tmp_path / "task.md"),
        read_file_exhibit("log", tmp_path / "log.txt"),
        build_code_exhibit(code, BODY),
    )
    model = giving(5)
    found = await judge_case(case(exhibits=given), door(model).make_client(0, 0), model="m")
    user = model.requests[0].prompt.user
    assert "rate = 3" in user and user.index("[[scientist: train.py") < user.index("[[scientist: tests/test_x.py")
    assert "Study rain." in user and "secret.py" not in user
    assert len(user) < 50_000 and any("log.txt" in line and "not shown" in line for line in found.exhibits)
    assert "tests/test_x.py" in " ".join(describe_exhibits(given))


async def test_pages_go_to_a_model_that_sees_and_a_blind_one_is_asked_without(tmp_path: Path) -> None:
    (tmp_path / "p.pdf").write_bytes(pdf(["Rain", *BODY.split(". ")]))
    found = await guard_paper(await read_paper(tmp_path / "p.pdf"))
    shown = await render_pages(tmp_path / "p.pdf", found.pages)
    assert shown.pages.shown == (1,) and shown.images[0].data.startswith(b"\x89PNG")
    model = giving(5)
    seen = await judge_case(JudgeCase(found, RUBRIC, "p.pdf", pictures=shown), door(model).make_client(0, 0), model="m")
    assert seen.pages == (1,) and "Pictures of 1 of its 1 pages" in model.requests[0].prompt.user

    def script(request: ModelRequest) -> BaseModel:
        if request.images:
            raise ImagesRefused("it accepts no images")
        assert "Figures are not shown" in request.prompt.user
        return request.output_type.model_validate(given_answer())

    blind = await judge_case(
        JudgeCase(found, RUBRIC, "p.pdf", pictures=shown), door(ScriptedModel(script)).make_client(0, 0), model="m"
    )
    assert blind.pages == () and len(blind.scores) == 5


# --- rubrics --------------------------------------------------------------------------------------------------------

DIMENSIONS = {
    "idea": ("consistency", "clarity", "novelty", "feasibility", "significance", "overall"),
    "proposal": ("consistency", "clarity", "novelty", "soundness", "feasibility", "significance", "overall"),
    "experiments": ("consistency", "completeness", "novelty", "soundness", "insightfulness", "significance", "overall"),
    "writing": ("consistency", "clarity", "completeness", "soundness", "overall"),
    "end-to-end": ("clarity", "novelty", "soundness", "significance", "overall"),
}


def test_the_five_rubrics_have_the_dimensions_and_scales_of_mlr_bench() -> None:
    found = load_bundled_rubrics()
    assert {name: tuple(d.name for d in one.dimensions) for name, one in found.items()} == DIMENSIONS
    for one in found.values():
        assert {(d.lowest, d.highest) for d in one.dimensions} == {(1, 10)}
        assert (one.confidence.lowest, one.confidence.highest) == (1, 5)
        assert [check.name for check in one.checks] == (["hallucination"] if one.name == "experiments" else [])


def test_a_rubric_is_called_by_name_or_file(tmp_path: Path) -> None:
    assert find_rubric("end_to_end") == find_rubric("end-to-end") == RUBRIC
    (tmp_path / "own.toml").write_text(RUBRICS_FOLDER.joinpath("idea.toml").read_text().replace('"idea"', '"mine"', 1))
    assert find_rubric(str(tmp_path / "own.toml")).name == "mine"
    with pytest.raises(RubricError, match="give one of end-to-end, experiments, idea, proposal, writing"):
        find_rubric("essay")


async def test_the_question_by_yes_or_no_is_asked_answered_and_its_quote_looked_up() -> None:
    rubric = find_rubric("experiments")
    scores = {one.name: {"quote": QUOTE, "reason": "clear", "score": 6} for one in rubric.dimensions}
    answer = {
        "scores": scores,
        "confidence": 4,
        "strengths": ["s"],
        "weaknesses": ["w"],
        **FIGURES,
        "checks": {"hallucination": {"details": "the microphones", "quote": QUOTE, "answer": True}},
    }
    assert "hallucination" in str(build_answer_type(rubric).model_json_schema())
    with pytest.raises(ValueError, match="checks"):
        build_answer_type(rubric).model_validate({name: value for name, value in answer.items() if name != "checks"})
    model = ScriptedModel(lambda request: request.output_type.model_validate(answer))
    found = await judge_case(JudgeCase(case().guarded, rubric, "p.md"), door(model).make_client(0, 0), model="m")
    assert [(one.check, one.answer, one.quoted) for one in found.checks] == [("hallucination", True, True)]
    assert "hallucination: yes" in found.score_line and "checks: hallucination" in model.requests[0].prompt.system
