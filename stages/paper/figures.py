"""Which of the drawn figures the paper has, and where: by rule, so that the same figures give the same paper.

Source: AI-Scientist-v2, section 3.2 (at most twelve figures after the aggregation of plots).

The paper's figures, drawn from recorded arrays and the ledger's statistics; nothing else reaches their code.

What failed is asked for again, with what was wrong with it; what worked stays as it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from models.door import Desk
from models.errors import BudgetSpent
from models.roles.figures import FIGURES, FigurePart, FiguresInputs
from record.claims import ablation_conditions, paper_claims, replicates_of
from record.events.papers import FiguresMade
from record.folder import draft_of, part_of, seal, sha256
from record.nouns.data import DataPlan, DatasetFacts
from record.nouns.figures import Figure, FigureReview, FinalFigure
from record.nouns.nodes import Failure, Node, Plotting
from stages.bench import Bench, do_work, of_node
from stages.briefs import parent_brief, plotting_reference, statistic
from stages.evidence.scoring import trusted_winner
from stages.nodes.canvas import Canvas, Gallery, Subject
from stages.nodes.plotting import PLOT_SECONDS, refusal, review_figures, typed_numbers
from stages.paper.drawing import SUFFIXES, Drawing, Studio, draw_all, house_files, house_for
from stages.paper.material import Material

MOST = 12
"""Figures that a paper may have."""
MOST_IN_TEXT = 4
"""Of these in the main text; the others go to the appendix."""


@dataclass(frozen=True)
class Choice:
    """The figures of the paper in their order, and why others are not among them."""

    figures: tuple[FinalFigure, ...]
    left_out: dict[str, str]


def generated(facts: Iterable[DatasetFacts]) -> frozenset[str]:
    """The datasets whose examples were made by a program."""
    return frozenset(one.name for one in facts if one.synthetic)


def choose(
    parts: Sequence[FigurePart], plan: DataPlan, synthetic: frozenset[str], widths: Mapping[str, float]
) -> Choice:
    """At most `MOST`, those meant for the main text first; of these at most `MOST_IN_TEXT` stay there.

    A figure of generated examples alone goes to the appendix, unless the study is about such: its main dataset is one.
    `widths` are inches, by name.
    """
    about_it = plan.datasets[0].name in synthetic
    asked = [_figure(one, synthetic, about_it=about_it).model_copy(update={"width": widths.get(one.name, 0.0)})
             for one in parts]
    ordered = [one for place in ("main", "appendix") for one in asked if one.placement == place]
    chosen = [_moved(one) if number >= MOST_IN_TEXT else one for number, one in enumerate(ordered[:MOST])]
    why = f"a paper has at most {MOST} figures, those of the main text first, then in their order"
    return Choice(tuple(chosen), {one.name: why for one in ordered[MOST:]})


def _figure(part: FigurePart, synthetic: frozenset[str], *, about_it: bool) -> FinalFigure:
    only = bool(part.datasets) and synthetic.issuperset(part.datasets)
    return FinalFigure(
        name=part.name, description=part.description, panels=part.panels, datasets=part.datasets, synthetic=only,
        placement="appendix" if only and not about_it else part.placement)


def _moved(figure: FinalFigure) -> FinalFigure:
    return figure.model_copy(update={"placement": "appendix"})


@dataclass
class _Sheet:
    """What there is of the figures so far."""

    kept: dict[str, Drawing] = field(default_factory=dict[str, Drawing])
    reviews: dict[str, FigureReview] = field(default_factory=dict[str, FigureReview])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """Figure -> what is wrong with it, one complaint a line."""
    codes: dict[str, str] = field(default_factory=dict[str, str])
    shown: list[Plotting] = field(default_factory=list[Plotting])
    looked: bool = True

    @property
    def complaints(self) -> tuple[str, ...]:
        return tuple(f"{name}: {line}" for name, text in self.failed.items() for line in text.split("\n") if line)


async def draw_figures(bench: Bench) -> None:
    """Draw the final figures, review them, keep those that are readable, and record them."""
    await do_work(bench, "figures", lambda desk: _work(bench, desk))


async def _work(bench: Bench, desk: Desk) -> None:
    node = trusted_winner(bench)
    studio = _studio(bench, node)
    sheet = _Sheet()
    try:
        for turn in range(bench.paper.replots + 1):
            if not await _turn(bench, desk, studio, sheet, turn=turn, node=node) or not sheet.failed:
                break
        lacking = "the model gave no figures that can be used"
    except BudgetSpent as error:
        lacking = str(error)
    if not sheet.kept and not sheet.failed:
        bench.recorder.append(FiguresMade(
            figures={}, descriptions={}, arrays=(), failure=Failure(kind="no answer", message=lacking)))
        return
    _record(bench, studio, sheet)


def _studio(bench: Bench, node: Node) -> Studio:
    canvas = Canvas(node.id, inputs={
        one.id: bench.folder.attempt(one.id, len(one.attempts)) / "arrays"
        for one in replicates_of(bench.state, node.id) if one.status == "good"})
    return Studio(
        executor=bench.executor, seconds=min(PLOT_SECONDS, bench.node_seconds), seed=node.seed,
        folder=draft_of(bench.folder.drawn), canvas=canvas,
        statistics=tuple(statistic(claim) for claim in paper_claims(bench.state)),
        house=house_for(Material(bench.state, bench.folder, bench.paper).template))


async def _turn(bench: Bench, desk: Desk, studio: Studio, sheet: _Sheet, *, turn: int, node: Node) -> bool:
    """Ask for the figures that are not there yet, draw them and look at them; False where no model gave any."""
    script = await desk.usable(FIGURES, await _inputs(bench, studio, sheet, node),
                               then="the paper goes without the figures that are not drawn yet")
    if script is None:
        return False
    parts = {one.name: one for one in script.figures if one.name not in sheet.kept}
    asked = script.model_copy(update={"figures": tuple(parts.values())[: 2 * MOST]})
    drawings = await draw_all(studio, asked, turn=turn)
    try:
        reviews = await _review(bench, desk, studio, sheet, drawings=drawings, node=node)
    except Exception as error:  # noqa: BLE001  a worker's edge: figures that cannot be looked at are drawn again
        failure, reviews = of_node(error), {}
        drawings = [replace(one, failure=one.failure or failure) for one in drawings]
    sheet.failed = {}
    for one in drawings:
        sheet.codes[one.name] = one.script
        wrong = _wrong(one, reviews)
        if wrong:
            sheet.failed[one.name] = wrong
        else:
            sheet.kept[one.name] = one
    return True


def _wrong(drawing: Drawing, reviews: dict[str, FigureReview]) -> str:
    doubt = typed_numbers(f"{drawing.name}.py", drawing.script)
    if doubt is not None:
        return doubt.message
    if drawing.failure is not None:
        return "\n".join(line for line in (drawing.failure.message, drawing.failure.traceback) if line)
    refused = refusal(tuple(review for name, review in reviews.items() if Path(name).stem == drawing.name))
    return refused.message.partition(": ")[2] if refused else ""


async def _inputs(bench: Bench, studio: Studio, sheet: _Sheet, node: Node) -> FiguresInputs:
    return FiguresInputs(
        idea=bench.idea, data_plan=bench.plan, facts=bench.facts, arrays=await studio.canvas.briefs(),
        statistics=studio.statistics, example_plots=parent_brief(bench.folder, node).plots,
        ablations=ablation_conditions(bench.state),
        synthetic=tuple(sorted(generated(bench.state.datasets))), house=studio.house,
        lab_reference=plotting_reference(bench), complaints=sheet.complaints, keep=tuple(sheet.kept),
        previous="\n\n".join(f"# --- {name}\n{sheet.codes[name]}" for name in sheet.failed))


async def _review(
    bench: Bench, desk: Desk, studio: Studio, sheet: _Sheet, *, drawings: Sequence[Drawing], node: Node
) -> dict[str, FigureReview]:
    """The verdicts on what was drawn in this turn, by file; what stands is there to be compared with."""
    if not any(one.figures for one in drawings):
        return {}
    figures: tuple[Figure, ...] = tuple(figure for one in (*sheet.kept.values(), *drawings) for figure in one.figures)
    gallery = Gallery(studio.folder / "figures", figures, before=tuple(sheet.shown), canvas=studio.canvas)
    about = Subject("paper", node.plan, node.measurements, width=studio.house.text_width)
    look = await review_figures(bench, desk, gallery, about=about)
    sheet.shown.append(Plotting(n=1, figures=figures, reviews=look.reviews, looked=look.looked))
    sheet.looked = sheet.looked and look.looked
    found = {review.name: review for review in look.reviews}
    sheet.reviews.update(found)
    return found


def _record(bench: Bench, studio: Studio, sheet: _Sheet) -> None:
    """Seal the figures that were drawn as .pdf and .png and found readable, each with the code that draws it."""
    widths = {one.name: one.width for one in sheet.kept.values()}
    choice = choose([one.part for one in sheet.kept.values()], bench.plan, generated(bench.state.datasets), widths)
    files = {f"{one.name}{suffix}": (studio.folder / "figures" / f"{one.name}{suffix}").read_bytes()
             for one in choice.figures for suffix in SUFFIXES}
    folder = bench.folder.drawn
    clean = draft_of(part_of(folder))
    (clean / "source").mkdir()
    for name, text in house_files(studio.house).items():
        (clean / "source" / name).write_text(text)
    for one in choice.figures:
        (clean / "source" / f"{one.name}.py").write_text(sheet.kept[one.name].script)
    for name, data in files.items():
        (clean / name).write_bytes(data)
    seal(clean, folder)
    shutil.rmtree(studio.folder)
    bench.recorder.append(_made(studio, sheet, choice=choice, figures={name: sha256(folder / name) for name in files}))


def _made(studio: Studio, sheet: _Sheet, *, choice: Choice, figures: dict[str, str]) -> FiguresMade:
    failed = {name: text for name, text in sheet.failed.items() if name not in sheet.kept}
    failure = Failure(kind="figure", message="\n".join(f"{name}: {text}" for name, text in failed.items()))
    return FiguresMade(
        figures=figures, descriptions={one.name: one.description for one in choice.figures},
        reviews=tuple(sheet.reviews.values()),
        arrays=tuple(sorted({sha256(path) for source in studio.canvas.inputs.values()
                             for path in source.glob("*.npy")})),
        failure=failure if failed and not choice.figures else None, looked=sheet.looked, placed=choice.figures,
        left_out=choice.left_out | {name: text.split("\n")[0] for name, text in failed.items()})
