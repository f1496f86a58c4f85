"""The paper's figures, drawn from recorded arrays and the ledger's statistics; nothing else reaches their code. Those
of what was decided the program draws itself, first (decided.py).

Each is drawn in a kernel and a folder of its own: one that fails takes no other with it. What failed is asked for
again, with what was wrong with it; what worked stays as it is. Which figures the paper has, and where, is decided by
rule: the same figures give the same paper.

Source: AI-Scientist-v2, section 3.2 (at most twelve figures after the aggregation of plots).
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent
from labwright.models.roles.assessing import Statistic
from labwright.models.roles.figures import FIGURES, FigurePart, FigureScript, FiguresInputs, FigureStyle
from labwright.record.claims.means import ablation_conditions, paper_claims, trusted_replicates
from labwright.record.descriptors import remove_tree
from labwright.record.events.papers import FiguresMade
from labwright.record.folder import draft_of, part_of, seal, sha256, write_file
from labwright.record.nouns.data import DataPlan, DatasetFacts
from labwright.record.nouns.figures import Figure, FigureReview, FinalFigure
from labwright.record.nouns.nodes import Failure, Node, Plotting
from labwright.record.syntax import parse
from labwright.sandbox.job import Executor, Job
from labwright.sandbox.results import FIGURE_BYTES
from labwright.sandbox.untrusted import copy_file, names_in
from labwright.stages.bench import Bench, do_work, of_node
from labwright.stages.briefs import node_brief, plotting_reference, statistic
from labwright.stages.nodes.canvas import Canvas, Gallery, Subject
from labwright.stages.nodes.plotting import PLOT_SECONDS, review_figures, typed_numbers
from labwright.stages.paper.decided import as_json, data_of, script_of
from labwright.stages.paper.template import Template
from labwright.stages.paper.versions import material_of
from labwright.stages.stage import trusted_winner
from labwright.stages.tables import tables_of_means

HERE = Path(__file__).parent
MODULE, STYLE = "figure_style.py", "paper.mplstyle"
"""What a script finds in its folder."""
SUFFIXES = (".pdf", ".png")
MOST = 12
"""Figures that a paper may have."""
MOST_IN_TEXT = 4
"""Of these in the main text; the others go to the appendix."""


@dataclass(frozen=True)
class Drawing:
    """One figure as it came out. `figures` are its two files, empty where it failed."""

    part: FigurePart
    script: str
    figures: tuple[Figure, ...] = ()
    failure: Failure | None = None

    @property
    def name(self) -> str:
        return self.part.name


@dataclass(frozen=True)
class Studio:
    """What every figure is drawn with. `folder` gets figures/ with the files of all figures."""

    executor: Executor
    folder: Path
    canvas: Canvas
    statistics: tuple[Statistic, ...]
    style: FigureStyle
    seed: int = 0
    seconds: float = PLOT_SECONDS
    """Wall-clock limit of one figure."""
    decided: str = ""
    """JSON that the program's own figures are drawn from."""


@dataclass
class _Drawn:
    """What there is of the figures so far."""

    kept: dict[str, Drawing] = field(default_factory=dict[str, Drawing])
    reviews: dict[str, FigureReview] = field(default_factory=dict[str, FigureReview])
    failed: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Figure -> what is wrong with it, one complaint a line."""
    codes: dict[str, str] = field(default_factory=dict[str, str])
    undrawn: dict[str, str] = field(default_factory=dict[str, str])
    """Figures of the program's own that could not be drawn -> why."""
    shown: list[Plotting] = field(default_factory=list[Plotting])
    looked: bool = True


async def draw_figures(bench: Bench) -> None:
    """Draw the final figures, review them, keep those that are readable, and record them."""

    async def work(client: ModelClient) -> None:
        node, drawn = trusted_winner(bench), _Drawn()
        studio = Studio(
            executor=bench.executor,
            seconds=min(PLOT_SECONDS, bench.node_seconds),
            seed=node.seed,
            folder=draft_of(bench.folder.drawn),
            style=style_for(material_of(bench).template),
            canvas=Canvas(
                node.id,
                inputs={
                    one.id: bench.folder.attempt(one.id, len(one.attempts)) / "arrays"
                    for one in trusted_replicates(bench.state, node.id)
                    if one.status == "good"
                },
            ),
            statistics=tuple(statistic(claim) for claim in paper_claims(bench.state)),
        )
        await _draw_decided(bench, studio, drawn)
        lacking = "the model gave no figures that can be used"
        try:
            for turn in range(bench.paper.replots + 1):
                if not await _turn(bench, client, studio, drawn, turn=turn, node=node) or not drawn.failed:
                    break
        except BudgetSpent as error:
            lacking = str(error)
        if drawn.kept or drawn.failed:
            _record(bench, studio, drawn)
        else:
            bench.recorder.append(
                FiguresMade(figures={}, descriptions={}, arrays=(), failure=Failure(kind="no answer", message=lacking))
            )

    await do_work(bench, "figures", work)


async def _draw_decided(bench: Bench, studio: Studio, drawn: _Drawn) -> None:
    """Draw the program's own figures; one that fails is told of, and takes no other with it."""
    data = data_of(bench.state, bench.folder)
    script = script_of(data, bench.plan)
    if script is not None:
        for one in await draw_all(replace(studio, decided=as_json(data)), script, turn=-1):
            if one.failure is None:
                drawn.kept[one.name] = one
            else:
                drawn.undrawn[one.name] = one.failure.message


async def _turn(bench: Bench, client: ModelClient, studio: Studio, drawn: _Drawn, *, turn: int, node: Node) -> bool:
    """Ask for the figures that are not there yet, draw them and look at them; False where no model gave any."""
    script = await client.usable(
        FIGURES,
        FiguresInputs(
            idea=bench.idea,
            data_plan=bench.plan,
            facts=bench.facts,
            arrays=await studio.canvas.briefs(),
            statistics=studio.statistics,
            tables=tables_of_means(studio.statistics, [node], bench.plan),
            example_plots=node_brief(bench.folder, node).plots,
            ablations=ablation_conditions(bench.state),
            synthetic=tuple(sorted(generated(bench.state.datasets))),
            style=studio.style,
            lab_reference=plotting_reference(bench),
            keep=tuple(drawn.kept),
            complaints=tuple(f"{name}: {line}" for name, lines in drawn.failed.items() for line in lines),
            previous="\n\n".join(f"# --- {name}\n{drawn.codes[name]}" for name in drawn.failed),
        ),
        then="the paper goes without the figures that are not drawn yet",
    )
    if script is None:
        return False
    parts = {one.name: one for one in script.figures if one.name not in drawn.kept}
    asked = script.model_copy(update={"figures": tuple(parts.values())[: 2 * MOST]})
    drawings = await draw_all(studio, asked, turn=turn)
    try:
        reviews = await _review(bench, client, studio, drawn, drawings=drawings, node=node)
    except Exception as error:  # noqa: BLE001  a worker's edge: figures that cannot be looked at are drawn again
        failure, reviews = of_node(error), ()
        drawings = [replace(one, failure=one.failure or failure) for one in drawings]
    drawn.failed = {}
    for one in drawings:
        drawn.codes[one.name] = one.script
        failure = typed_numbers(f"{one.name}.py", one.script) or one.failure
        if failure is not None:
            text = f"{failure.message}\n{failure.traceback}"
            drawn.failed[one.name] = tuple(line for line in text.split("\n") if line)
        elif refused := [review for review in reviews if Path(review.name).stem == one.name and not review.readable]:
            drawn.failed[one.name] = tuple("; ".join(review.issues) or "refused without a reason" for review in refused)
        else:
            drawn.kept[one.name] = one
    return True


async def _review(
    bench: Bench, client: ModelClient, studio: Studio, drawn: _Drawn, *, drawings: Sequence[Drawing], node: Node
) -> tuple[FigureReview, ...]:
    """The reviews of what was drawn in this turn, by file; what was kept is there to be compared with."""
    if not any(one.figures for one in drawings):
        return ()
    figures: tuple[Figure, ...] = tuple(figure for one in (*drawn.kept.values(), *drawings) for figure in one.figures)
    gallery = Gallery(studio.folder / "figures", figures, before=tuple(drawn.shown), canvas=studio.canvas)
    about = Subject("paper", node.plan, node.measurements, width=studio.style.text_width)
    look = await review_figures(bench, client, gallery, about=about)
    drawn.shown.append(Plotting(n=1, figures=figures, reviews=look.reviews, looked=look.looked))
    drawn.looked = drawn.looked and look.looked
    drawn.reviews |= {review.name: review for review in look.reviews}
    return look.reviews


def _record(bench: Bench, studio: Studio, drawn: _Drawn) -> None:
    """Seal the figures that were drawn as .pdf and .png and found readable, each with the code that draws it."""
    widths = {one.name: max(figure.facts.width_inches for figure in one.figures) for one in drawn.kept.values()}
    figures, crowded_out = choose(
        [one.part for one in drawn.kept.values()], bench.plan, generated(bench.state.datasets), widths
    )
    files = {
        f"{one.name}{suffix}": (studio.folder / "figures" / f"{one.name}{suffix}").read_bytes()
        for one in figures
        for suffix in SUFFIXES
    }
    folder = bench.folder.drawn
    clean = draft_of(part_of(folder))
    (clean / "source").mkdir()
    sources = {f"{one.name}.py": drawn.kept[one.name].script for one in figures}
    for name, text in {**style_files(studio.style), **sources}.items():
        (clean / "source" / name).write_text(text)
    for name, data in files.items():
        (clean / name).write_bytes(data)
    seal(clean, folder)
    remove_tree(studio.folder)
    failure = "\n".join("\n".join((f"{name}: {lines[0]}", *lines[1:])) for name, lines in drawn.failed.items())
    bench.recorder.append(
        FiguresMade(
            figures={name: sha256(folder / name) for name in files},
            descriptions={one.name: one.description for one in figures},
            reviews=tuple(drawn.reviews.values()),
            arrays=tuple(
                sorted(
                    {
                        sha256(source / name)
                        for source in studio.canvas.inputs.values()
                        for name in names_in(source, "", ".npy")
                    }
                )
            ),
            failure=Failure(kind="figure", message=failure) if failure and not figures else None,
            looked=drawn.looked,
            placed=figures,
            left_out=crowded_out | drawn.undrawn | {name: lines[0] for name, lines in drawn.failed.items()},
        )
    )


def generated(facts: Iterable[DatasetFacts]) -> frozenset[str]:
    """The datasets whose examples were made by a program."""
    return frozenset(one.name for one in facts if one.synthetic)


def choose(
    parts: Sequence[FigurePart], plan: DataPlan, synthetic: frozenset[str], widths: Mapping[str, float]
) -> tuple[tuple[FinalFigure, ...], dict[str, str]]:
    """The figures of the paper in their order, at most `MOST`; and why others are not among them.

    Those meant for the main text come first, and at most `MOST_IN_TEXT` stay there. A figure of generated examples
    alone goes to the appendix, unless the study is about such: its main dataset is one. `widths` are inches, by name.
    """
    asked: list[FinalFigure] = []
    for part in parts:
        only = bool(part.datasets) and synthetic.issuperset(part.datasets)
        asked.append(
            FinalFigure(
                name=part.name,
                description=part.description,
                panels=part.panels,
                datasets=part.datasets,
                synthetic=only,
                placement="appendix" if only and plan.datasets[0].name not in synthetic else part.placement,
                width=widths.get(part.name, 0.0),
            )
        )
    ordered = [one for place in ("main", "appendix") for one in asked if one.placement == place]
    chosen = [
        one.model_copy(update={"placement": "appendix"}) if number >= MOST_IN_TEXT else one
        for number, one in enumerate(ordered[:MOST])
    ]
    why = f"a paper has at most {MOST} figures, those of the main text first, then in their order"
    return tuple(chosen), {one.name: why for one in ordered[MOST:]}


def style_for(template: Template) -> FigureStyle:
    """The style of figures at the widths of a template, with what its module says of itself."""
    tree = parse((HERE / MODULE).read_text(encoding="utf-8"))
    lines = [ast.get_docstring(tree) or "", ""]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            lines += [f"`{node.name}({ast.unparse(node.args)}){returns}`: {ast.get_docstring(node) or ''}"]
    return FigureStyle(text_width=template.text_width, column_width=template.column_width, reference="\n".join(lines))


def style_files(style: FigureStyle) -> dict[str, str]:
    """The module and the style that a script finds in its folder, with the widths of the page in them."""
    module = (HERE / MODULE).read_text(encoding="utf-8")
    for name, width in (("TEXT_WIDTH", style.text_width), ("COLUMN_WIDTH", style.column_width)):
        module = re.sub(rf"(?m)^{name} = .*$", f"{name} = {width}", module)
    return {MODULE: module, STYLE: (HERE / STYLE).read_text(encoding="utf-8")}


async def draw_all(studio: Studio, script: FigureScript, *, turn: int = 0) -> list[Drawing]:
    """Every figure of a script, drawn or failed, in its order."""

    async def draw(part: FigurePart) -> Drawing:
        source = f"{script.script.rstrip()}\n\n\n{part.code.strip()}\n" if part.code.strip() else script.script
        folder = studio.folder / f"turn{turn}" / part.name
        if studio.decided:
            write_file(folder / "inputs" / "decided.json", studio.decided)
        write_file(
            folder / "inputs" / "statistics.json", json.dumps([one.model_dump() for one in studio.statistics], indent=1)
        )
        outcome = await studio.executor.run(
            Job(
                name=f"figures/{turn}/{part.name}",
                folder=folder,
                entry="figures.py",
                mode="plot",
                seed=studio.seed,
                source={"figures.py": source, **style_files(studio.style)},
                timeout=studio.seconds,
                inputs=studio.canvas.inputs,
            )
        )
        saved, wanted = {one.name for one in outcome.figures}, [f"{part.name}{suffix}" for suffix in SUFFIXES]
        failure, missing = outcome.failure, [f"figures/{name}" for name in wanted if name not in saved]
        if failure is None and missing:
            failure = Failure(
                kind="figure",
                message=(
                    f"the code did not save {' and '.join(missing)}; it saved {', '.join(sorted(saved)) or 'nothing'}. "
                    f"`figure_style.save(figure, {part.name!r})` writes both."
                ),
            )
        if failure is None:
            for name in wanted:
                copy_file(folder, f"figures/{name}", studio.folder, f"figures/{name}", FIGURE_BYTES)
        remove_tree(folder, ignore_errors=True)
        figures = tuple(one for one in outcome.figures if one.name in wanted)
        return Drawing(part, source, () if failure else figures, failure)

    return list(await asyncio.gather(*map(draw, script.figures)))
