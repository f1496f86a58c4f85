"""The paper's final figures: one that fails takes no other with it, and rules say which there are and where."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import pytest_asyncio

from labwright.models.client import Models
from labwright.models.replay import ScriptedModel
from labwright.models.roles.figures import (
    FigurePart,
    FigureReviews,
    FigureScript,
    FiguresInputs,
    FigureStyle,
    VisionInputs,
)
from labwright.models.settings import ModelSettings
from labwright.pdf.reader import read_pdf
from labwright.record.events.paper_events import FiguresDrawn, RewriteStarted
from labwright.record.events.search_events import StageWinnerChosen
from labwright.record.run_folder import hash_file
from labwright.record.schema.nodes import Failure
from labwright.record.schema.paper import AxesFacts, Figure, FigureFacts, FigureReview
from labwright.review.figures import FigureContext, lint_figure_folder, list_refusals
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import Job, JobOutcome
from labwright.sandbox.settings import SandboxSettings
from labwright.stages.nodes.node_plots import PlotArrays
from labwright.stages.paper.figures import (
    MAX_FIGURES,
    MAX_FIGURES_IN_TEXT,
    DrawingContext,
    choose_figures,
    draw_figures,
    draw_script,
    redraw_program_figures,
)
from labwright.stages.run_context import RunContext
from tests.fake_executor import FakeExecutor
from tests.stages.test_prompt_inputs import Story, cells

# --- which, and where -------------------------------------------------------------------------------------------------


def part(name: str, *datasets: str, place: str = "main") -> FigurePart:
    return FigurePart.model_validate({"name": name, "description": name, "datasets": datasets, "placement": place})


def test_of_thirteen_figures_twelve_stay_and_four_of_them_in_the_text() -> None:
    asked = [part(f"a{k}", place="appendix") for k in range(7)] + [part(f"m{k}") for k in range(6)]
    figures, left_out = choose_figures(asked, {"m0": 5.5})
    assert [one.name for one in figures] == ["m0", "m1", "m2", "m3", "m4", "m5", *(f"a{k}" for k in range(6))]
    assert len(figures) == MAX_FIGURES and list(left_out) == ["a6"] and "at most 12" in left_out["a6"]
    assert [one.name for one in figures if one.placement == "main"] == ["m0", "m1", "m2", "m3"]
    assert MAX_FIGURES_IN_TEXT == 4 and figures[0].width == 5.5


# --- one by one -------------------------------------------------------------------------------------------------------

GOOD = FigureFacts(axes=(AxesFacts(xlabel="epoch", ylabel="loss", series=1),), width_inches=5.5)


def drawing(job: Job) -> tuple[float, JobOutcome]:
    """The code of a figure is a word: `good`, `unlabelled`, `half` (no .pdf) or `raise`."""
    name, code = job.name.rpartition("/")[2], job.source["figures.py"].split()[-1]
    if code == "raise":
        return 0.0, JobOutcome(seconds=0.0, failure=Failure(kind="other", message="KeyError: 'x'", traceback="line 3"))
    folder = job.folder / "figures"
    folder.mkdir(parents=True)
    facts = GOOD if code != "unlabelled" else FigureFacts(axes=(AxesFacts(series=1, xlabel="epoch"),))
    figures: list[Figure] = []
    for suffix in (".png",) if code == "half" else (".png", ".pdf"):
        drawn = f"{name} {code}{suffix}"
        (folder / f"{name}{suffix}").write_text(drawn)
        figures.append(Figure(name=f"{name}{suffix}", sha256=hashlib.sha256(drawn.encode()).hexdigest(), facts=facts))
    return 0.0, JobOutcome(seconds=0.0, figures=tuple(figures))


def bench_of(story: Story, *turns: dict[str, str]) -> tuple[RunContext, ScriptedModel, list[FiguresInputs]]:
    """A bench whose model hands in these figures turn by turn, name -> code."""
    asked: list[FiguresInputs] = []

    def script(inputs: FiguresInputs) -> FigureScript:
        asked.append(inputs)
        return FigureScript(
            script="shared",
            figures=tuple(
                FigurePart(name=name, description=name, code=code) for name, code in turns[len(asked) - 1].items()
            ),
        )

    def look(inputs: VisionInputs) -> FigureReviews:
        return FigureReviews(reviews=tuple(FigureReview(name=name, readable=True) for name in inputs.names))

    model = ScriptedModel.from_role_functions(figures=script, vision=look)
    models = Models(model, story.log, ModelSettings(), time.monotonic)
    return dataclasses.replace(story.bench, models=models, executor=FakeExecutor(drawing)), model, asked


class Killed(BaseException):
    """Stands for a kill at this moment."""


def finished(folder: Path) -> Story:
    story = Story(folder)
    node = story.finish(story.decide("draft"), cells(0.5, 0.4))
    for stage in ("preliminary", "tuning", "agenda", "ablation"):
        story.log.append(StageWinnerChosen.model_validate({"stage": stage, "best": node, "ended": "limit"}))
    return story


def made(story: Story) -> FiguresDrawn:
    assert story.log.state.paper.figures is not None
    return story.log.state.paper.figures


async def test_what_failed_is_asked_for_again_and_what_worked_stays(tmp_path: Path) -> None:
    story = finished(tmp_path)
    first = {"one": "good", "two": "raise", "three": "unlabelled", "four": "half"}
    bench, model, asked = bench_of(
        story, first, {"one": "raise", "two": "good", "three": "good", "four": "half"}, {"four": "good"}
    )
    await draw_figures(bench)

    found = made(story)
    assert [one.name for one in found.placed] == ["one", "two", "three", "four"]
    assert found.failure is None and found.left_out == {} and found.placed[0].width == 5.5
    assert set(found.figures) == {f"{name}.{kind}" for name in first for kind in ("pdf", "png")}
    assert (story.bench.folder.drawn_figures / "one.png").read_text() == "one good.png"
    assert (story.bench.folder.drawn_figures / "source" / "two.py").read_text() == "shared\n\n\ngood\n"
    assert asked[1].keep == ("one",) and asked[2].keep == ("one", "two", "three")
    assert {line.partition(":")[0] for line in asked[1].complaints} == {"two", "three", "four"}
    assert any("KeyError" in line for line in asked[1].complaints) and "one\n" not in asked[1].previous
    assert any("did not save figures/four.pdf" in line for line in asked[2].complaints)
    shown = [request.inputs.names for request in model.requests if isinstance(request.inputs, VisionInputs)]
    assert all("one.png" not in names for names in shown[1:])
    assert not list((tmp_path / "paper").glob(".*"))


async def test_a_figure_that_we_stumble_over_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumbles(*_: object) -> None:
        monkeypatch.undo()
        raise LookupError("a fault of ours")

    bench, _, asked = bench_of(finished(tmp_path), {"one": "good"}, {"one": "good"})
    monkeypatch.setattr(
        "labwright.stages.nodes.node_plots.lint_figure_folder", stumbles
    )  # no figure is known to bring it about
    await draw_figures(bench)
    assert "LookupError: a fault of ours" in asked[1].complaints[0]
    assert bench.state.paper.figures is not None and list(bench.state.paper.figures.descriptions) == ["one"]


async def test_a_figure_that_never_works_is_left_out_and_said_so(tmp_path: Path) -> None:
    story = finished(tmp_path)
    bench, _, asked = bench_of(story, {"one": "good", "two": "raise"}, {"two": "raise"}, {"two": "raise"})
    await draw_figures(bench)
    assert [one.name for one in made(story).placed] == ["one"] and made(story).left_out == {"two": "KeyError: 'x'"}
    assert made(story).failure is None and len(asked) == bench.paper.replots + 1


async def test_without_a_single_figure_the_failure_is_recorded(tmp_path: Path) -> None:
    story = finished(tmp_path)
    bench, _, _ = bench_of(story, *[{"one": "raise"}] * 3)
    await draw_figures(bench)
    failure = made(story).failure
    assert made(story).placed == () and failure is not None and "one: KeyError" in failure.message


async def test_a_killed_turn_is_walked_through_again_without_a_new_call(tmp_path: Path) -> None:
    story = finished(tmp_path)
    bench, model, _ = bench_of(story, {"one": "good", "two": "raise"}, {"two": "good"})

    def cut(job: Job) -> tuple[float, JobOutcome]:
        if job.name.startswith("figures/1"):
            raise Killed
        return drawing(job)

    with pytest.raises(Killed):
        await draw_figures(dataclasses.replace(bench, executor=FakeExecutor(cut)))
    calls = len(model.requests)
    await draw_figures(bench)
    assert [one.name for one in made(story).placed] == ["one", "two"]
    assert [request.role.name for request in model.requests[calls:]] == ["vision"]


async def test_a_rewritten_paper_has_the_figures_of_the_program_as_they_are_drawn_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(*words: str) -> None:
        own = FigurePart(name="decided", description=words[0], code=" ".join(words))
        script = FigureScript(script="own", figures=(own,))
        monkeypatch.setattr("labwright.stages.paper.figures.build_figure_script", Mock(return_value=script))

    story = finished(tmp_path)
    bench, model, _ = bench_of(story, {"one": "good"})
    program("before", "good")
    await draw_figures(bench)
    await redraw_program_figures(bench)
    assert made(story).version == 1, "nothing is drawn twice for one version"
    calls, first = len(model.requests), story.bench.folder.drawn_figures
    for version, words, shown in ((2, ("today", "good"), "today"), (3, ("later", "raise"), "today")):
        story.log.append(RewriteStarted(version=version))
        program(*words)
        await redraw_program_figures(bench)
        found, folder = made(story), story.bench.folder.get_figures_path(version)
        assert [(one.name, one.description) for one in found.placed] == [("decided", shown), ("one", "one")]
        assert found.version == version and shown in (folder / "source" / "decided.py").read_text()
        assert (folder / "one.png").read_bytes() == (first / "one.png").read_bytes()
        assert all(hash_file(folder / name) == digest for name, digest in found.figures.items())
    assert len(model.requests) == calls and "before" in (first / "source" / "decided.py").read_text()

    story = finished(tmp_path / "none")
    bench, _, _ = bench_of(story, *[{"one": "raise"}] * 3)
    program("before", "raise")
    await draw_figures(bench)
    assert made(story).failure is not None and set(made(story).left_out) == {"decided", "one"}
    story.log.append(RewriteStarted(version=2))
    await redraw_program_figures(bench)
    assert made(story).failure is not None and set(made(story).left_out) == {"decided", "one"}
    story.log.append(RewriteStarted(version=3))
    program("today", "good")
    await redraw_program_figures(bench)
    assert made(story).failure is None and set(made(story).left_out) == {"one"}


# --- real kernels -----------------------------------------------------------------------------------------------------

SHARED = """
import numpy as np
from figure_style import look, panels, save

runs = np.load("inputs/n1/loss.npy")


def curve(count, name):
    figure, axes = panels(count)
    for axis in axes:
        for k, arm in enumerate(("plain", "smoothed", "mixed")):
            axis.plot(runs[k], label=arm, **look(k))
        axis.set_xlabel("epoch")
        axis.set_ylabel("log loss (nats)")
    save(figure, name)
"""


@pytest_asyncio.fixture
async def executor(tmp_path: Path) -> AsyncIterator[LocalExecutor]:
    kernels = LocalExecutor(
        2,
        tmp_path / "views",
        labels=tmp_path / "labels",
        settings=SandboxSettings(isolation="auto"),
        cache=tmp_path / "cache",
    )
    yield kernels
    await kernels.close()


@pytest.mark.slow
async def test_one_that_raises_takes_no_other_with_it_and_the_house_style_prints_well(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    from PIL import Image

    (tmp_path / "n1").mkdir()
    np.save(tmp_path / "n1" / "loss.npy", np.geomspace(2, 0.5, 30)[None] + np.arange(3)[:, None] / 5)
    script = FigureScript(
        script=SHARED,
        figures=(
            FigurePart(name="single", description="d", code='curve(1, "single")'),
            FigurePart(name="broken", description="d", code="raise ValueError('no such array')"),
            FigurePart(name="wide", description="d", code='curve(3, "wide")', panels=3),
        ),
    )
    studio = DrawingContext(
        executor=executor,
        folder=tmp_path / "paper",
        arrays=PlotArrays("n1", inputs={"n1": (tmp_path / "n1",)}),
        statistics=(),
        style=FigureStyle(text_width=6.75, column_width=3.25),
        seconds=120.0,
    )
    single, broken, wide = await draw_script(studio, script)

    assert broken.failure is not None and "no such array" in broken.failure.message and broken.figures == ()
    assert (single.failure, wide.failure) == (None, None)
    assert [{figure.facts.width_inches for figure in one.figures} for one in (single, wide)] == [{3.25}, {6.75}]
    found = lint_figure_folder(
        (*single.figures, *wide.figures), studio.folder / "figures", FigureContext(in_paper=True, width_inches=6.75)
    )
    assert {name: list_refusals(one) for name, one in found.items() if list_refusals(one)} == {}
    for one, width in ((single, 3.25), (wide, 6.75)):
        file = studio.folder / "figures" / one.name
        [page] = read_pdf(file.with_name(f"{file.name}.pdf")).pages
        assert page.words and all(word.font for word in page.words) and not page.has_type3
        with Image.open(f"{file}.png") as image:
            assert abs(image.width - 300 * width) <= 1
        assert b"/tmp" not in Path(f"{file}.pdf").read_bytes()


def test_no_text_of_the_house_style_is_below_seven_points() -> None:
    style = importlib.import_module("matplotlib").rc_params_from_file(
        Path(__file__).parents[2] / "stages" / "paper" / "paper.mplstyle", use_default_template=False
    )
    sizes = [
        float(style[key])
        for key in style
        if key.endswith(("labelsize", "titlesize", "font.size", "fontsize", "title_fontsize"))
    ]
    assert len(sizes) >= 6 and min(sizes) >= 7 and style["pdf.fonttype"] == 42
    cycle = list(style["axes.prop_cycle"])
    assert len(cycle) >= 6 and len({str(one["linestyle"]) for one in cycle}) == len(cycle)
    assert len({one["marker"] for one in cycle}) == len({one["color"] for one in cycle}) == len(cycle)
