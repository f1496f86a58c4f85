"""Figures that are drawn again: what was accepted is not looked at twice, and reviewers know what was found before."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
from pathlib import Path

import pytest

from labwright.models.backend import ModelRequest, Reply
from labwright.models.client import Models
from labwright.models.errors import ImagesRefused
from labwright.models.replay import ScriptedModel
from labwright.models.roles.figures import FigureReviews, PlotInputs, Plots, VisionInputs
from labwright.models.settings import ModelSettings
from labwright.record.schema.paper import AxesFacts, Figure, FigureFacts, FigureReview
from labwright.sandbox.job import Job, JobOutcome
from labwright.stages.nodes.node_plots import LINT_ONLY_NOTE, PlotArrays, draw_plots
from labwright.stages.paper.appendix import render_incidents
from labwright.stages.prompt_inputs import read_plots
from labwright.stages.run_context import RunContext
from tests.fake_executor import FakeExecutor
from tests.stages.test_prompt_inputs import Story, cells

GOOD = FigureFacts(axes=(AxesFacts(xlabel="epoch", ylabel="loss", series=1),))


def drawing(job: Job) -> tuple[float, JobOutcome]:
    """`plots.py` holds a line a figure: its name, then what its bytes are."""
    figures: list[Figure] = []
    (job.folder / "figures").mkdir(parents=True)
    (job.folder / "plots.py").write_text(job.source["plots.py"])
    for line in job.source["plots.py"].splitlines():
        name, content = line.split(maxsplit=1)
        (job.folder / "figures" / name).write_bytes(content.encode())
        figures.append(Figure(name=name, sha256=hashlib.sha256(content.encode()).hexdigest(), facts=GOOD))
    return 0.0, JobOutcome(seconds=0.0, figures=tuple(figures))


def look(inputs: VisionInputs) -> FigureReviews:
    """The legend of `b.png` is covered until it was complained of; `a.png` is good but for its title."""
    return FigureReviews(
        reviews=tuple(
            FigureReview(
                name=name,
                readable=name != "b.png" or bool(before),
                description=f"{name} seen",
                issues=("long title",) if name == "a.png" else () if before else ("covered",),
            )
            for name, before in zip(inputs.names, inputs.earlier, strict=True)
        )
    )


def mend(inputs: PlotInputs) -> Plots:
    assert inputs.complaints == ("b.png: covered.",) and inputs.lab_reference.startswith("## plots.py")
    return Plots(plots="a.png first\nb.png mended\nc.png first")


def bench_of(story: Story) -> tuple[RunContext, ScriptedModel]:
    model = ScriptedModel.from_role_functions(vision=look, plot=mend)
    models = Models(model, story.log, ModelSettings(), time.monotonic)
    return dataclasses.replace(story.bench, models=models, executor=FakeExecutor(drawing)), model


async def test_only_changed_figures_are_reviewed_again(tmp_path: Path) -> None:
    story = Story(tmp_path)
    node = story.finish(story.decide("improve", stage="agenda"), cells(0.5, 0.4))
    (story.bench.folder.get_source_path(node) / "plots.py").write_text("a.png first\nb.png bad")
    bench, model = bench_of(story)
    assert await draw_plots(bench, bench.models.make_client(1, 0), PlotArrays(node)) is None

    first, second = (request for request in model.requests if request.role.name == "vision")
    assert isinstance(first.inputs, VisionInputs) and isinstance(second.inputs, VisionInputs)
    assert first.inputs.names == ("a.png", "b.png") and first.inputs.earlier == ((), ())
    # c.png has the bytes of a.png, which were accepted: it is not looked at either
    assert second.inputs.names == ("b.png",) and second.inputs.earlier == (("covered",),)
    assert [image.data for image in second.images] == [b"mended"]
    reviews = {review.name: review for review in story.log.state.nodes[node].reviews}
    assert reviews["a.png"].issues == ("long title",) and reviews["a.png"].readable
    assert reviews["c.png"].description == "a.png seen" and reviews["b.png"].readable

    again, silent = bench_of(story)  # resumed: every answer is in the ledger, and the same is asked
    assert await draw_plots(again, again.models.make_client(1, 0), PlotArrays(node)) is None
    assert silent.requests == []
    assert len(story.log.state.nodes[node].plottings) == 2


async def test_figures_of_drafts_are_not_shown_to_a_model(tmp_path: Path) -> None:
    story = Story(tmp_path)
    bench, model = bench_of(story)
    looked: list[bool] = []
    for k in range(2):
        decided = story.decide("draft") if k == 0 else story.decide("improve", stage="agenda")
        node = story.finish(decided, cells(0.5, 0.4))
        (story.bench.folder.get_source_path(node) / "plots.py").write_text("a.png first")
        assert await draw_plots(bench, bench.models.make_client(decided.k, 0), PlotArrays(node)) is None
        looked.append(story.log.state.nodes[node].plottings[-1].looked)
    assert looked == [False, True] and [one.role.name for one in model.requests].count("vision") == 1
    assert "not reviewed by a model" not in render_incidents(story.log.state), "drafts are meant to have no review"


async def test_a_remark_that_the_model_did_not_raise_is_no_issue(tmp_path: Path) -> None:
    """The model sees remarks of the linter as hints; without a model, they are all that is known."""
    axes = AxesFacts(xlabel="epoch", ylabel="loss", series=1)
    remarked = FigureFacts(axes=(axes,), width_inches=11.0, smallest_font=8.0, smallest_text="0.2")
    for blind in (False, True):
        (tmp_path / str(blind)).mkdir()
        story = Story(tmp_path / str(blind))
        story.finish(story.decide("draft"), cells(0.5, 0.4))
        decided = story.decide("improve", stage="agenda")
        node = story.finish(decided, cells(0.5, 0.4))
        (story.bench.folder.get_source_path(node) / "plots.py").write_text("c.png first")
        bench, _ = blind_bench(story, remarked)
        if not blind:
            model = ScriptedModel.from_role_functions(vision=look_kindly)
            bench = dataclasses.replace(bench, models=Models(model, story.log, ModelSettings(), time.monotonic))
        assert await draw_plots(bench, bench.models.make_client(decided.k, 0), PlotArrays(node)) is None
        [review] = story.log.state.nodes[node].reviews
        assert review.readable and bool(review.issues) == blind


def look_kindly(inputs: VisionInputs) -> FigureReviews:
    assert all(inputs.remarks)
    return FigureReviews(reviews=tuple(FigureReview(name=name, readable=True) for name in inputs.names))


class Blind(ScriptedModel):
    """Takes no pictures, which is found out when it is shown the first one."""

    shown = 0

    @property
    def accepts_images(self) -> bool:
        return not self.shown

    async def answer(self, request: ModelRequest) -> Reply:
        if request.images:
            self.shown += 1
            raise ImagesRefused("it accepts no images")
        return await super().answer(request)


def blind_bench(story: Story, facts: FigureFacts) -> tuple[RunContext, Blind]:
    def plain(job: Job) -> tuple[float, JobOutcome]:
        seconds, outcome = drawing(job)
        figures = tuple(figure.model_copy(update={"facts": facts}) for figure in outcome.figures)
        return seconds, outcome.model_copy(update={"figures": figures})

    model = Blind(lambda request: Plots(plots="a.png again"))
    models = Models(model, story.log, ModelSettings(), time.monotonic)
    return dataclasses.replace(story.bench, models=models, executor=FakeExecutor(plain)), model


async def test_a_blind_model_refuses_no_figure_and_the_record_says_that_nobody_looked(tmp_path: Path) -> None:
    story = Story(tmp_path)
    node = story.finish(story.decide("improve", stage="agenda"), cells(0.5, 0.4))
    (story.bench.folder.get_source_path(node) / "plots.py").write_text("a.png first\nb.png bad")
    bench, model = blind_bench(story, GOOD)
    assert await draw_plots(bench, bench.models.make_client(1, 0), PlotArrays(node)) is None
    assert model.shown == 1
    [plotting] = story.log.state.nodes[node].plottings
    assert not plotting.looked and plotting.reviews is not None
    assert [(one.readable, one.description) for one in plotting.reviews] == [(True, LINT_ONLY_NOTE)] * 2

    seeing, later = bench_of(story)  # taken up again with a model that sees: what was settled stays
    assert await draw_plots(seeing, seeing.models.make_client(1, 0), PlotArrays(node)) is None
    assert later.requests == []


@pytest.mark.parametrize("planted", ["huge", "link"])
async def test_a_script_that_replaces_itself_is_recorded_as_it_was_run(tmp_path: Path, planted: str) -> None:
    def replacing(job: Job) -> tuple[float, JobOutcome]:
        drawn = drawing(job)
        own = job.folder / "plots.py"
        own.unlink()
        if planted == "link":
            own.symlink_to("/etc/passwd")
        elif planted == "folder":
            (own / "deep").mkdir(parents=True)
        else:
            own.write_bytes(b"\xff")
            os.truncate(own, 2**40 if planted == "huge" else 1)
        return drawn

    story = Story(tmp_path)
    node = story.finish(story.decide("improve", stage="agenda"), cells(0.5, 0.4))
    (story.bench.folder.get_source_path(node) / "plots.py").write_text("a.png first")
    bench = dataclasses.replace(bench_of(story)[0], executor=FakeExecutor(replacing))
    assert await draw_plots(bench, bench.models.make_client(1, 0), PlotArrays(node)) is None
    assert read_plots(story.bench.folder, story.log.state.nodes[node]) == "a.png first"
