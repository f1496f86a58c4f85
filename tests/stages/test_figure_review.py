"""The figures of a compiled draft are looked at once a round, and only those that changed; a blind model looks not."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from labwright.models.backend import ModelRequest, Reply
from labwright.models.client import Models
from labwright.models.replay import ScriptedModel
from labwright.models.roles.figures import FigureReviewInputs, PaperFigureReviews
from labwright.models.roles.paper_revision import Reflection
from labwright.models.settings import ModelSettings
from labwright.record.events.paper_events import DraftAssessed, FiguresDrawn
from labwright.record.schema.paper import (
    FigureAspectReview,
    FigureReview,
    FinalFigure,
    PaperDraft,
    PaperFigureReview,
    Section,
)
from labwright.stages.paper.figures import NO_VISION_REASON, crop_figures, review_paper_figures
from labwright.stages.paper.typesetting import assess_new_draft, build_paper_context
from labwright.stages.run_context import RunContext
from tests.stages.test_final_figures import finished
from tests.stages.test_prompt_inputs import Story

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("pdflatex") is None, reason="TeX is not installed")]

FINE = FigureAspectReview(ok=True)
DRAFT = PaperDraft(
    title="A short paper",
    abstract="Short.",
    sections=(
        Section(title="Results", body="\\paperfigure{main}\n\nFigures~\\ref{fig:main} and \\ref{fig:beside} rise."),
    ),
    captions={"main": "The main one."},
)
Compiled = tuple[Path, DraftAssessed]


class Blind(ScriptedModel):
    @property
    def accepts_images(self) -> bool:
        return False

    async def answer(self, request: ModelRequest) -> Reply:
        raise AssertionError("a blind model is not asked")


def draw(folder: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    folder.mkdir(parents=True)
    with matplotlib.rc_context({"pdf.fonttype": 42}):  # pyrefly: ignore
        for name in ("main", "beside"):
            figure = Figure(figsize=(3.2, 1.9))
            axes: Any = figure.subplots()
            axes.plot([0, 1], [0, 1] if name == "main" else [1, 0])
            for suffix in ("pdf", "png"):
                figure.savefig(folder / f"{name}.{suffix}")  # pyrefly: ignore


def review(inputs: FigureReviewInputs) -> PaperFigureReviews:
    return PaperFigureReviews(
        reviews=tuple(
            PaperFigureReview(
                name=one.name,
                image=FINE,
                references=FINE,
                caption=FigureAspectReview(ok=False, issues=("says too little",)),
            )
            for one in inputs.figures
        )
    )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Figures, and a paper that was set with them: its folder and its event."""
    root = tmp_path_factory.mktemp("compiled")
    _, bench = begun(root, ScriptedModel(lambda _: Reflection(done=True)))
    event = asyncio.run(assess_new_draft(bench, DRAFT, number=0))
    assert event.pages is not None, event.findings
    return bench.folder.paper_folder, event


def begun(folder: Path, model: ScriptedModel) -> tuple[Story, RunContext]:
    story = finished(folder)
    draw(story.bench.folder.drawn_figures)
    story.log.append(
        FiguresDrawn(
            figures={},
            descriptions={},
            arrays=(),
            placed=(
                FinalFigure(name="main", description="The main one rises.", width=3.2, datasets=("digits",)),
                FinalFigure(name="beside", description="Another one.", width=6.4, placement="appendix"),
            ),
            reviews=(FigureReview(name="main.png", readable=True, issues=("a long title",)),),
        )
    )
    models = Models(model, story.log, ModelSettings(), time.monotonic)
    return story, dataclasses.replace(story.bench, models=models)


async def assessed(bench: RunContext, compiled: Compiled, number: int = 0, **changes: object) -> DraftAssessed:
    """A round of reflection whose draft differs so from the compiled one; its PDF is that of the compiled one."""
    paper, event = compiled
    shutil.copytree(paper / "rounds" / "round0", bench.folder.paper_folder / "rounds" / f"round{number}")
    event = event.model_copy(update={"round": number, "draft": event.draft.model_copy(update=changes)})
    bench.recorder.append(event)
    await review_paper_figures(bench, event)
    return event


async def test_only_what_changed_is_looked_at_again(tmp_path: Path, compiled: Compiled) -> None:
    model = ScriptedModel.from_role_functions(figure_review=review)
    story, bench = begun(tmp_path, model)
    await assessed(bench, compiled)

    [request] = model.requests
    assert isinstance(request.inputs, FigureReviewInputs) and len(request.images) == 2
    main, beside = request.inputs.figures
    assert (main.placement, beside.placement) == ("main", "appendix") and beside.page > main.page
    assert main.scale == 1.0 and beside.scale == 0.5 and "7-point text becomes 3.5 points" in beside.lint[-1]
    assert main.lint == ("a long title",) and beside.caption == "Another one." and main.caption == "The main one."
    assert [one.where for one in main.mentions] == ["Results"] and len(beside.mentions) == 1
    assert all(image.data.startswith(b"\x89PNG") for image in request.images)
    seen = story.log.state.paper.figure_reviews[0]
    assert seen.looked and [one.name for one in seen.reviews] == ["main", "beside"] and not seen.reviews[0].caption.ok

    await assessed(bench, compiled, 1, abstract="Shorter.")  # another text, the same figures
    assert len(model.requests) == 1 and story.log.state.paper.figure_reviews[1].reviews == seen.reviews

    await assessed(bench, compiled, 2, captions={"main": "It rises."})
    last = model.requests[-1].inputs
    assert isinstance(last, FigureReviewInputs) and len(model.requests) == 2
    assert [one.name for one in last.figures] == ["main"] and [one.name for one in last.others] == ["beside"]
    assert [one.name for one in story.log.state.paper.figure_reviews[2].reviews] == ["main", "beside"]

    await review_paper_figures(bench, story.log.state.paper.drafts[-1])  # the same round again: nothing is asked
    assert len(model.requests) == 2


async def test_nobody_looks_with_a_model_that_takes_no_pictures(tmp_path: Path, compiled: Compiled) -> None:
    story, bench = begun(tmp_path, Blind(lambda _: PaperFigureReviews()))
    await assessed(bench, compiled)
    seen = story.log.state.paper.figure_reviews[0]
    assert (seen.looked, seen.why, seen.reviews) == (False, NO_VISION_REASON, ())
    assert len(await crop_figures(build_paper_context(bench), story.log.state.paper.drafts[0])) == 2


async def test_without_a_usable_review_nobody_looked_and_the_draft_goes_on(tmp_path: Path, compiled: Compiled) -> None:
    story, bench = begun(tmp_path, ScriptedModel(lambda _: Reflection(done=True)))
    await assessed(bench, compiled)
    seen = story.log.state.paper.figure_reviews[0]
    assert (seen.looked, seen.why) == (False, "the model gave no usable review")
    assert [one.key.role for one in story.log.state.calls.unanswered_calls.values()] == ["figure_review"]


async def test_a_model_that_saw_nothing_is_believed(tmp_path: Path, compiled: Compiled) -> None:
    model = ScriptedModel.from_role_functions(figure_review=lambda _: PaperFigureReviews(looked=False))
    story, bench = begun(tmp_path, model)
    await assessed(bench, compiled)
    assert not story.log.state.paper.figure_reviews[0].looked and story.log.state.paper.figure_reviews[0].reviews == ()
