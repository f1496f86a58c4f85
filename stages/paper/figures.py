"""Draw the paper's figures from recorded arrays and statistics only. The program draws the figures of the hypotheses
itself, first (`hypothesis_figures`).

Each figure is drawn in its own kernel and folder, so a failure affects no other figure. Failed figures are requested
again with the reasons; finished ones stay unchanged. Rules decide which figures the paper has and where they are
placed, so the same figures give the same paper. Source: AI-Scientist-v2, section 3.2 (at most twelve figures after the
aggregation of plots).
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from labwright.literature.works import strip_tex
from labwright.models.backend import Image
from labwright.models.client import ModelClient
from labwright.models.errors import ImagesRefused
from labwright.models.roles.figures import (
    FIGURE_REVIEW,
    FIGURES,
    FigureMention,
    FigurePart,
    FigureReviewInputs,
    FigureScript,
    FiguresInputs,
    FigureStyle,
    PaperFigureReviews,
    PlacedFigure,
)
from labwright.pdf.reader import PdfError, render_page
from labwright.record.claims.estimates import (
    Claim,
    compute_paper_claims,
    find_ablation_conditions,
    find_trusted_replicates,
    find_winner,
    select_whole_replicates,
)
from labwright.record.events.paper_events import DraftAssessed, FiguresDrawn, FiguresReviewed
from labwright.record.python_syntax import parse_python
from labwright.record.result_macros import ResultMacroUse, fill_macros, to_plain_text
from labwright.record.run_folder import create_draft_folder, hash_file, partial_path, seal_folder
from labwright.record.schema.nodes import Failure, Node, PlotRun
from labwright.record.schema.paper import Figure, FigureReview, FinalFigure, PaperDraft
from labwright.record.tuning_results import build_effective_plan
from labwright.record.untrusted_files import copy_file, list_names, remove_tree
from labwright.review.evidence import Evidence
from labwright.sandbox.job import Executor, Job, measure_all
from labwright.sandbox.results import MAX_FIGURE_BYTES
from labwright.stages.cost_table import format_figure_review_task
from labwright.stages.difference_tables import build_mean_tables
from labwright.stages.nodes.node_plots import (
    PLOT_SECONDS,
    FigureGallery,
    FigureSubject,
    PlotArrays,
    check_typed_numbers,
    list_array_folders,
    review_figures,
)
from labwright.stages.paper.hypothesis_figures import build_figure_data, build_figure_script
from labwright.stages.paper.paper_context import PaperContext, build_paper_parts, format_statistics
from labwright.stages.paper.template import PaperTemplate
from labwright.stages.paper.typesetting import build_paper_context, count_lines
from labwright.stages.prompt_inputs import build_node_brief, find_aggregate_script, read_plotting_reference
from labwright.stages.run_context import RunContext, as_node_failure, run_once
from labwright.stages.stage_runner import find_trusted_winner

SOURCE_FOLDER = Path(__file__).parent
STYLE_MODULE_FILE, STYLE_SHEET_FILE = "figure_style.py", "paper.mplstyle"
"""Style files in a script's folder."""
FIGURE_SUFFIXES = (".pdf", ".png")
STATISTICS_FIELDS = ("key", "name", "dataset", "condition", "mean", "sd", "n", "low", "high")
"""What scripts of figures read of a claim, as their prompt lists it."""
MAX_FIGURES = 12
"""Maximum number of figures in a paper."""
MAX_FIGURES_IN_TEXT = 4
"""Maximum number of figures in the main text; the others go to the appendix."""


@dataclass(frozen=True)
class DrawnFigure:
    """The result of drawing one figure. `figures` has its two files; it is empty if drawing failed."""

    part: FigurePart
    script: str
    figures: tuple[Figure, ...] = ()
    failure: Failure | None = None

    @property
    def name(self) -> str:
        return self.part.name


@dataclass(frozen=True)
class DrawingContext:
    """Everything needed to draw figures. The files of all figures go to `folder`/figures/."""

    executor: Executor
    folder: Path
    arrays: PlotArrays
    statistics: tuple[Claim, ...]
    style: FigureStyle
    seed: int = 0
    seconds: float = PLOT_SECONDS
    """Wall-clock limit of one figure."""
    hypothesis_data: str = ""
    """JSON data of the program's own figures."""


@dataclass
class _FigureSession:
    """The figures of a study whose best node is `node`, while they are drawn."""

    context: RunContext
    node: Node
    studio: DrawingContext
    kept: dict[str, DrawnFigure] = field(default_factory=dict[str, DrawnFigure])
    reviews: dict[str, FigureReview] = field(default_factory=dict[str, FigureReview])
    failed: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Figure -> its faults, one complaint per line."""
    codes: dict[str, str] = field(default_factory=dict[str, str])
    undrawn: dict[str, str] = field(default_factory=dict[str, str])
    """Figures of the program that could not be drawn -> the reason."""
    plottings: list[PlotRun] = field(default_factory=list[PlotRun])
    by_model: bool = True

    async def draw_turn(self, client: ModelClient, turn: int) -> bool:
        """Request the missing figures, draw them and review them. Return False if the model gave none."""
        plots = build_node_brief(self.context.folder, self.node).plots
        script = await client.ask_or_none(
            FIGURES,
            FiguresInputs(
                idea=self.context.idea,
                data_plan=build_effective_plan(self.context.state),
                facts=self.context.facts,
                arrays=await self.studio.arrays.read_briefs(),
                statistics=self.studio.statistics,
                tables=build_mean_tables(self.studio.statistics, [self.node], self.context.plan),
                example_plots=find_aggregate_script(self.context.folder, self.context.state.nodes.values(), plots)
                or plots,
                ablations=find_ablation_conditions(self.context.state),
                style=self.studio.style,
                lab_reference=read_plotting_reference(self.context),
                keep=tuple(self.kept),
                complaints=tuple(f"{name}: {line}" for name, lines in self.failed.items() for line in lines),
                previous="\n\n".join(f"# --- {name}\n{self.codes[name]}" for name in self.failed),
            ),
            instead="the paper is written without the missing figures",
        )
        if script is None:
            return False
        parts = {one.name: one for one in script.figures if one.name not in self.kept}
        asked = script.model_copy(update={"figures": tuple(parts.values())[: 2 * MAX_FIGURES]})
        drawings = await draw_script(self.studio, asked, turn=turn)
        try:
            reviews = await self._review(client, drawings)
        except Exception as error:  # noqa: BLE001  boundary of a worker: figures that cannot be reviewed are drawn again
            failure, reviews = as_node_failure(error), ()
            drawings = [replace(one, failure=one.failure or failure) for one in drawings]
        self.failed = {}
        for drawing in drawings:
            self.codes[drawing.name] = drawing.script
            failure = check_typed_numbers(drawing.script) or drawing.failure
            refused = [one for one in reviews if Path(one.name).stem == drawing.name and not one.readable]
            if failure is not None:
                text = f"{failure.message}\n{failure.traceback}"
                self.failed[drawing.name] = tuple(filter(None, text.split("\n")))
            elif refused:
                self.failed[drawing.name] = tuple(
                    "; ".join(one.issues) or "refused without a reason" for one in refused
                )
            else:
                self.kept[drawing.name] = drawing
        return True

    async def _review(self, client: ModelClient, drawings: Sequence[DrawnFigure]) -> tuple[FigureReview, ...]:
        """Review the figures drawn in this turn, by file; figures that were kept are shown for comparison."""
        if not any(one.figures for one in drawings):
            return ()
        figures: tuple[Figure, ...] = tuple(
            figure for one in (*self.kept.values(), *drawings) for figure in one.figures
        )
        gallery = FigureGallery(
            self.studio.folder / "figures", figures, previous=tuple(self.plottings), arrays=self.studio.arrays
        )
        about = FigureSubject("paper", self.node.plan, self.node.measurements, width=self.studio.style.text_width)
        look = await review_figures(self.context, client, gallery, about=about)
        self.plottings.append(PlotRun(n=1, figures=figures, reviews=look.reviews, looked=look.by_model))
        self.by_model = self.by_model and look.by_model
        self.reviews |= {review.name: review for review in look.reviews}
        return look.reviews

    def choose_figures(self) -> tuple[tuple[FinalFigure, ...], dict[str, str]]:
        """Return the figures of the paper among those that are kept, and why the others are left out."""
        widths = {one.name: max(figure.facts.width_inches for figure in one.figures) for one in self.kept.values()}
        return choose_figures([one.part for one in self.kept.values()], widths)

    def seal(self, scripts: Mapping[str, str]) -> dict[str, str]:
        """Seal drawn figures with their `scripts`, by name. Return the hash of each picture by name."""
        files = {
            f"{name}{suffix}": (self.studio.folder / "figures" / f"{name}{suffix}").read_bytes()
            for name in scripts
            for suffix in FIGURE_SUFFIXES
        }
        texts = build_style_files(self.studio.style) | {f"{name}.py": script for name, script in scripts.items()}
        files |= {f"source/{name}": text.encode() for name, text in texts.items()}
        folder = self.context.folder.get_figures_path(self.context.state.paper.version)
        clean = create_draft_folder(partial_path(folder))
        (clean / "source").mkdir()
        for name, data in files.items():
            (clean / name).write_bytes(data)
        seal_folder(clean, folder)
        remove_tree(self.studio.folder)
        return {name: hash_file(folder / name) for name in files if "/" not in name}

    def record(self) -> None:
        """Record the figures drawn as .pdf and .png and found readable."""
        figures, crowded_out = self.choose_figures()
        hashes = self.seal({one.name: self.kept[one.name].script for one in figures})
        message = "\n".join("\n".join((f"{name}: {lines[0]}", *lines[1:])) for name, lines in self.failed.items())
        failure = Failure(kind="figure", message=message)
        if not message:
            failure = Failure(kind="no answer", message="the model gave no usable figures")
        arrays = {
            hash_file(source / name)
            for sources in self.studio.arrays.places.values()
            for source in sources
            for name in list_names(source, "", ".npy")
        }
        self.context.recorder.append(
            FiguresDrawn(
                version=self.context.state.paper.version,
                figures=hashes,
                descriptions={one.name: one.description for one in figures},
                reviews=tuple(self.reviews.values()),
                arrays=tuple(sorted(arrays)),
                failure=None if figures else failure,
                looked=self.by_model,
                placed=figures,
                left_out=crowded_out | self.undrawn | {name: lines[0] for name, lines in self.failed.items()},
            )
        )


async def draw_figures(context: RunContext) -> None:
    """Draw the final figures, review them, keep the readable ones, and record them."""

    async def work(client: ModelClient) -> None:
        node = find_trusted_winner(context)
        session = await _draw_program_figures(context, node)
        session.studio = replace(
            session.studio,
            arrays=PlotArrays(
                node.id,
                inputs={
                    one.id: list_array_folders(context, one)
                    for one in select_whole_replicates(context.state, find_trusted_replicates(context.state, node.id))
                },
            ),
            statistics=tuple(compute_paper_claims(context.state)),
        )
        for turn in range(context.paper.replots + 1):
            if not await session.draw_turn(client, turn) or not session.failed:
                break
        session.record()

    await run_once(context, context.state.paper.format_task("figures"), work)


async def redraw_program_figures(context: RunContext) -> None:
    """Draw the program's figures anew for a later version of the paper, with the code of today, and record them. The
    figures that a model drew stay, and so do those of the program that can no longer be drawn."""
    before, version, best = context.state.paper.figures, context.state.paper.version, find_winner(context.state)
    if before is None or before.version == version or best is None:
        return
    session = await _draw_program_figures(context, context.state.nodes[best])
    old, new = context.folder.get_figures_path(before.version), session.studio.folder / "figures"
    new.mkdir(exist_ok=True)
    kept = [one for one in before.placed if one.name not in session.kept]
    for name in (f"{one.name}{suffix}" for one in kept for suffix in FIGURE_SUFFIXES):
        shutil.copyfile(old / name, new / name)
    scripts = {one.name: (old / "source" / f"{one.name}.py").read_text(encoding="utf-8") for one in kept}
    scripts |= {one.name: one.script for one in session.kept.values()}
    figures = (*session.choose_figures()[0], *kept)
    drawn = {one.name for one in figures}
    left_out = {name: why for name, why in (before.left_out | session.undrawn).items() if name not in drawn}
    update = {"version": version, "placed": figures, "figures": session.seal(scripts), "left_out": left_out}
    update["descriptions"] = {one.name: one.description for one in figures}
    context.recorder.append(before.model_copy(update=update | ({"failure": None} if figures else {})))


async def _draw_program_figures(context: RunContext, node: Node) -> _FigureSession:
    """Open a folder for the figures of a study whose best node this is, and draw those of the program in it, which need
    no arrays."""
    data = build_figure_data(context.state)
    studio = DrawingContext(
        executor=context.executor,
        seconds=min(PLOT_SECONDS, context.node_seconds),
        seed=node.seed,
        folder=create_draft_folder(context.folder.get_figures_path(context.state.paper.version)),
        style=build_style(build_paper_context(context).template),
        arrays=PlotArrays(node.id),
        statistics=(),
        hypothesis_data=json.dumps(data, indent=1),
    )
    session = _FigureSession(context, node, studio)
    if (script := build_figure_script(data, context.plan)) is not None:
        for drawing in await draw_script(studio, script, turn=-1):
            if drawing.failure is None:
                session.kept[drawing.name] = drawing
            else:
                session.undrawn[drawing.name] = drawing.failure.message
    return session


def choose_figures(
    parts: Sequence[FigurePart], widths: Mapping[str, float]
) -> tuple[tuple[FinalFigure, ...], dict[str, str]]:
    """Return the figures of the paper in order, at most `MAX_FIGURES`, and the reasons why the others are left out.

    Figures meant for the main text come first; at most `MAX_FIGURES_IN_TEXT` stay there. `widths` are inches, by name.
    """
    ordered = [one for place in ("main", "appendix") for one in parts if one.placement == place]
    chosen = [
        FinalFigure(
            **part.model_dump(exclude={"code", "placement"}),
            placement="appendix" if number >= MAX_FIGURES_IN_TEXT else part.placement,
            width=widths.get(part.name, 0.0),
        )
        for number, part in enumerate(ordered[:MAX_FIGURES])
    ]
    why = f"a paper has at most {MAX_FIGURES} figures; those of the main text come first, then by order"
    return tuple(chosen), {one.name: why for one in ordered[MAX_FIGURES:]}


def build_style(template: PaperTemplate) -> FigureStyle:
    """Build the figure style for the widths of a template, with the reference text of its module."""
    tree = parse_python((SOURCE_FOLDER / STYLE_MODULE_FILE).read_text(encoding="utf-8"))
    lines = [ast.get_docstring(tree) or "", ""]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            lines += [f"`{node.name}({ast.unparse(node.args)}){returns}`: {ast.get_docstring(node) or ''}"]
    return FigureStyle(text_width=template.text_width, column_width=template.column_width, reference="\n".join(lines))


def build_style_files(style: FigureStyle) -> dict[str, str]:
    """Return the style files for a script's folder, with the page widths filled in."""
    module = (SOURCE_FOLDER / STYLE_MODULE_FILE).read_text(encoding="utf-8")
    for name, width in (("TEXT_WIDTH", style.text_width), ("COLUMN_WIDTH", style.column_width)):
        module = re.sub(rf"(?m)^{name} = .*$", f"{name} = {width}", module)
    return {STYLE_MODULE_FILE: module, STYLE_SHEET_FILE: (SOURCE_FOLDER / STYLE_SHEET_FILE).read_text(encoding="utf-8")}


async def draw_script(studio: DrawingContext, script: FigureScript, *, turn: int = 0) -> list[DrawnFigure]:
    """Draw every figure of a script and return the results, drawn or failed, in order."""

    async def draw(part: FigurePart) -> DrawnFigure:
        source = f"{script.script.rstrip()}\n\n\n{part.code.strip()}\n"
        folder = studio.folder / f"turn{turn}" / part.name
        shown = [{name: getattr(one, name) for name in STATISTICS_FIELDS} for one in studio.statistics]
        inputs = {"inputs/statistics.json": json.dumps(shown, indent=1), "inputs/decided.json": studio.hypothesis_data}
        outcome = await measure_all(
            studio.executor,
            Job(
                name=f"figures/{turn}/{part.name}",
                folder=folder,
                entry="figures.py",
                kind="plot",
                seed=studio.seed,
                source={"figures.py": source, **build_style_files(studio.style), **inputs},
                timeout=studio.seconds,
                inputs=studio.arrays.places,
            ),
        )
        saved, wanted = {one.name for one in outcome.figures}, [f"{part.name}{suffix}" for suffix in FIGURE_SUFFIXES]
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
                copy_file(outcome.folder, f"figures/{name}", studio.folder, f"figures/{name}", MAX_FIGURE_BYTES)
        remove_tree(folder, ignore_errors=True)
        figures = tuple(one for one in outcome.figures if one.name in wanted)
        return DrawnFigure(part, source, () if failure else figures, failure)

    return list(await asyncio.gather(*map(draw, script.figures)))


# Review the figures of a draft as printed in its PDF: image, caption, and the text that refers to them.
# `scientist-paper.sty` writes the corners of each figure into TeX's log when its page is shipped; the figures are cut
# from pictures of these pages. Only figures whose image, caption or text has changed since their last review are
# shown again; the others keep their review. If no model accepts images, no review is made, and the record says so.
# Limits: the position of a figure is unknown if a style does not set it with `\figurefloat`. Source: AI-Scientist-v2,
# section 3.4 (a vision model in the writing stage: image, caption, reference, duplicates).

DPI = 160
"""Resolution of the images for a reviewer: 7-point text is 16 pixels high."""
MARGIN_INCHES = 0.06
"""Margin in inches around a cropped figure, so that overflowing parts are visible."""
MIN_PRINTED_SCALE = 0.9
"""Ratio of printed to drawn width below which text is too small; the smallest text is drawn at 7 points."""
NO_VISION_REASON = "no configured model accepts images"

_SP_PER_INCH = 65536 * 72.27
_CORNER_LINE = re.compile(r"^paper: figure (\S+) (from|to) (\d+) (-?\d+) (-?\d+) of (\d+)$", re.MULTILINE)
_PLACED_FLOAT = re.compile(r"\\paper(?:figure|table)\{[^{}]*\}")
_FIGURE_REFERENCE = re.compile(r"\\ref\{fig:([^{}]*)\}")


@dataclass(frozen=True)
class FigureCrop:
    """A figure of the compiled paper and its image."""

    figure: PlacedFigure
    picture: bytes

    @property
    def fingerprint(self) -> str:
        """sha256 of everything that its review depends on; the page number is not included."""
        text = self.figure.model_dump(mode="json", include={"caption", "mentions", "placement"})
        return hashlib.sha256(self.picture + json.dumps(text, sort_keys=True).encode()).hexdigest()


async def review_paper_figures(context: RunContext, draft: DraftAssessed) -> None:
    """Record a review of the figures of a draft, once per round."""

    async def work(client: ModelClient) -> None:
        if draft.round not in context.state.paper.figure_reviews:
            context.recorder.append(await _review_figures(context, client, draft))

    await run_once(context, context.state.paper.format_task(format_figure_review_task(draft.round)), work)


async def _review_figures(context: RunContext, client: ModelClient, draft: DraftAssessed) -> FiguresReviewed:
    if not context.models.accepts_images:
        return FiguresReviewed(round=draft.round, looked=False, why=NO_VISION_REASON)
    material = build_paper_context(context)
    shown = await crop_figures(material, draft)
    if not shown:
        return FiguresReviewed(round=draft.round, looked=False, why="the draft has no PDF with figures")
    # latest reviews of figures that have not changed
    reviews = {
        review.name: review
        for event in context.state.paper.figure_reviews.values()
        for review in event.reviews
        if review.name in shown and event.seen.get(review.name) == shown[review.name].fingerprint
    }
    new, why = [one for name, one in shown.items() if name not in reviews], ""
    inputs = FigureReviewInputs(
        data_plan=build_effective_plan(material.state),
        title=expand_macros(draft.draft.title, material.evidence),
        figures=tuple(one.figure for one in new),
        others=tuple(shown[name].figure for name in reviews),
        pages=draft.filled,
        excess_lines=count_lines(draft.over, material.template),
        page_limit=material.template.page_limit,
    )
    images, note = [Image(one.picture) for one in new], "the draft is revised without a review of its figures"
    answer: PaperFigureReviews | None = PaperFigureReviews()
    try:
        if new:
            answer = await client.ask_or_none(FIGURE_REVIEW, inputs, images=images, instead=note)
        if answer is None:
            why = "the model gave no usable review"
        else:
            why = "" if answer.looked else "the model saw no images"
            reviews = {one.name: one for one in answer.reviews} | reviews
    except ImagesRefused as error:
        why = str(error)
    reviews = {name: reviews[name] for name in shown if name in reviews}
    return FiguresReviewed(
        round=draft.round,
        looked=not why,
        why=why,
        reviews=tuple(reviews.values()),
        seen={name: shown[name].fingerprint for name in reviews},
    )


async def crop_figures(material: PaperContext, draft: DraftAssessed) -> dict[str, FigureCrop]:
    """Return the figures of a draft as they appear in its PDF, by name."""
    folder = material.folder.paper_folder / "rounds" / f"round{draft.round}"
    if not (folder / "paper.pdf").is_file():
        return {}
    parts = build_paper_parts(material, draft.draft)
    found = parse_positions((folder / "paper.log").read_text(errors="replace"))
    pictures = await render_crops(folder / "paper.pdf", found, timeout=material.settings.timeout)
    in_appendix = {one.name for one in parts.figures if one.placement == "appendix"}
    mentioned = find_mentions(parts.draft, material.evidence)
    reviews = material.state.paper.figures.reviews if material.state.paper.figures else ()
    shown: dict[str, FigureCrop] = {}
    for figure in material.figures:
        if figure.name not in pictures:
            continue
        place = found[figure.name]
        scale = place.width / figure.width if figure.width else 1.0
        issues = [issue for review in reviews if review.name == f"{figure.name}.png" for issue in review.issues]
        if scale < MIN_PRINTED_SCALE:
            issues.append(
                f"it is printed at {scale:.0%} of its drawn size: 7-point text becomes {7 * scale:.1f} points"
            )
        shown[figure.name] = FigureCrop(
            PlacedFigure(
                name=figure.name,
                page=place.page,
                placement="appendix" if figure.name in in_appendix else "main",
                width=round(place.width, 2),
                scale=round(scale, 2),
                description=figure.description,
                caption=expand_macros(parts.draft.captions.get(figure.name, ""), material.evidence),
                mentions=mentioned.get(figure.name, ()),
                lint=tuple(issues),
                data=format_statistics(material, figure.datasets),
            ),
            pictures[figure.name],
        )
    return shown


@dataclass(frozen=True)
class FigurePosition:
    """Position of a figure. `page` counts from 1; inches from the upper left corner of the page."""

    page: int
    left: float
    top: float
    width: float
    height: float


def parse_positions(log: str) -> dict[str, FigurePosition]:
    """Map each figure to its position, from TeX's log; figures whose corners are not on one page are left out."""
    corners: dict[str, dict[str, tuple[int, float, float]]] = {}
    for name, which, page, x, y, height in _CORNER_LINE.findall(log):
        corners.setdefault(name, {})[which] = (int(page), int(x) / _SP_PER_INCH, (int(height) - int(y)) / _SP_PER_INCH)
    found: dict[str, FigurePosition] = {}
    for name, both in corners.items():
        if both.keys() == {"from", "to"} and both["from"][0] == both["to"][0]:
            (page, left, bottom), (_, right, top) = both["from"], both["to"]
            found[name] = FigurePosition(page, left, top, right - left, bottom - top)
    return found


async def render_crops(
    pdf: Path, positions: Mapping[str, FigurePosition], *, dpi: int = DPI, timeout: float = 60.0
) -> dict[str, bytes]:
    """Render each figure as printed, as PNG. `timeout` is seconds per figure; figures that fail are left out."""
    pictures: dict[str, bytes] = {}
    for figure, place in positions.items():
        left, top, width, height = (72 * inches for inches in (place.left, place.top, place.width, place.height))
        margin = 72 * MARGIN_INCHES
        crop = left - margin, top - margin, left + width + margin, top + height + margin
        with suppress(PdfError):
            pictures[figure] = await asyncio.to_thread(
                render_page, pdf, place.page, dpi=dpi, crop=crop, timeout=timeout
            )
    return pictures


def find_mentions(draft: PaperDraft, evidence: Evidence) -> dict[str, tuple[FigureMention, ...]]:
    """Map each figure to the paragraphs and captions that refer to it, with their values printed."""
    parts = [
        ("abstract", draft.abstract),
        *((one.title, one.body) for one in draft.sections),
        *((f"caption of {name}", text) for name, text in draft.captions.items()),
    ]
    found: dict[str, list[FigureMention]] = {}
    for where, text in parts:
        for paragraph in re.split(r"\n\s*\n", text):
            for name in dict.fromkeys(_FIGURE_REFERENCE.findall(paragraph)):
                found.setdefault(name, []).append(FigureMention(where=where, text=expand_macros(paragraph, evidence)))
    return {name: tuple(texts) for name, texts in found.items()}


def expand_macros(text: str, evidence: Evidence) -> str:
    """Return a draft's text as a reader sees it: values printed, figures by name in brackets."""

    def value(use: ResultMacroUse) -> str:
        found = evidence.find_value(use)
        return f"[no value {use.key}]" if found is None else to_plain_text(found)

    return strip_tex(fill_macros(_FIGURE_REFERENCE.sub(r"[\1]", _PLACED_FLOAT.sub("", text)), value))
