"""Draw the figures of a node, lint them, let a vision model review them, and redraw rejected ones."""

from __future__ import annotations

import json
from asyncio import to_thread
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from labwright.models.backend import Image
from labwright.models.client import ModelClient
from labwright.models.errors import ImagesRefused
from labwright.models.prompt_filters import join_findings
from labwright.models.roles.figures import PLOT, VISION, ArrayBrief, PlotInputs, Range, VisionInputs
from labwright.record.events.search_events import NodePlotted, PlotsReviewed
from labwright.record.run_folder import create_draft_folder, list_result_folders, read_source, seal_folder
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.nodes import Failure, Node, PlotRun
from labwright.record.schema.paper import Figure, FigureReview
from labwright.record.source_tree import PLOTS_FILE
from labwright.record.tuning_results import build_effective_plan
from labwright.record.untrusted_files import BadFile, list_names, load_array, remove_tree, write_file
from labwright.review.figures import FigureContext, LintFinding, lint_figure_folder, list_refusals, list_remarks
from labwright.review.honesty.figure_data_check import find_typed_figures
from labwright.sandbox.job import Job
from labwright.stages.measuring import measure_job
from labwright.stages.prompt_inputs import format_advice, read_plotting_reference
from labwright.stages.run_context import RunContext, enter_step

# Inputs of figures: summaries of the recorded arrays, the subject, and earlier figures with their reviews.

MAX_RANGE_VALUES = 1_000_000
"""Maximum number of values read from an array; larger arrays are subsampled by rows."""
MAX_RANGE_COLUMNS = 4
"""Maximum number of columns whose ranges are reported separately."""


def _read_array_brief(folder: Path, file: str, name: str) -> ArrayBrief | None:
    try:
        array = load_array(folder, file)
    except BadFile:
        return None
    shape, dtype = tuple(array.shape), str(array.dtype)
    if array.dtype.kind not in "biuf":
        return ArrayBrief(path=name, shape=shape, dtype=dtype)
    rows = array[:: max(1, array.size // MAX_RANGE_VALUES)] if array.ndim else array
    values = np.asarray(rows, dtype=np.float64)
    narrow = values.ndim == 2 and 2 <= values.shape[1] <= MAX_RANGE_COLUMNS
    ranges = [_compute_range(column) for column in (values.T if narrow else [values])]
    return ArrayBrief(
        path=name,
        shape=shape,
        dtype=dtype,
        missing=int(np.sum(~np.isfinite(values))),
        ranges=tuple(one for one in ranges if one is not None) if None not in ranges else (),
    )


def _compute_range(values: NDArray[np.float64]) -> Range | None:
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        mean = finite.mean() if finite.size else np.nan
    if not np.isfinite(mean):  # no value is finite, or their sum overflows
        return None
    return Range(low=float(finite.min()), high=float(finite.max()), mean=float(mean))


def list_array_folders(context: RunContext, node: Node) -> tuple[Path, ...]:
    """Return the folders of a node's arrays, one for each of its cells."""
    return tuple(one.path / "arrays" for one in list_result_folders(context.state, context.folder, node))


@dataclass(frozen=True)
class PlotArrays:
    """Arrays that a node's plots may use: its own, and those of other nodes by name."""

    node: str
    arrays: tuple[Path, ...] = ()
    """Folders of its own arrays, one for each of its cells."""
    inputs: dict[str, tuple[Path, ...]] = field(default_factory=dict[str, tuple[Path, ...]])

    @property
    def places(self) -> dict[str, tuple[Path, ...]]:
        """Place of the arrays for plotting scripts -> folders."""
        places = {"arrays": self.arrays} if self.arrays else {}
        places |= {f"inputs/{name}": folders for name, folders in self.inputs.items()}
        return {place: tuple(one for one in folders if one.is_dir()) for place, folders in places.items()}

    async def read_briefs(self) -> tuple[ArrayBrief, ...]:
        """Return a brief of every array with its path in plotting scripts and its range; skip other files."""
        briefs = [
            await to_thread(_read_array_brief, folder, name, f"{place}/{name}")
            for place, folders in self.places.items()
            for folder in folders
            for name in list_names(folder, "", ".npy")
        ]
        return tuple(brief for brief in briefs if brief is not None)


@dataclass(frozen=True)
class FigureSubject:
    """The subject of figures, as their author and reviewer see it."""

    kind: Literal["node", "aggregate", "paper"]
    plan: str
    measurements: tuple[Measurement, ...]
    """Validation measurements of the node; for an aggregate, those of all replicates that it plots."""
    seeds: tuple[int, ...] = ()
    width: float = 5.5
    """Maximum width of a figure, in inches."""


def build_figure_subject(context: RunContext, arrays: PlotArrays) -> FigureSubject:
    """Return the node itself as the subject; for an aggregate, the replicated node."""
    nodes = context.state.nodes
    node = nodes[arrays.node]
    if node.kind != "aggregate":
        return FigureSubject("node", node.plan, node.measurements)
    parent = nodes[node.parent or ""]
    replicates = [nodes[name] for name in arrays.inputs]
    return FigureSubject(
        "aggregate",
        parent.plan,
        tuple(one for node in replicates for one in node.measurements),
        tuple(node.seed for node in replicates),
    )


@dataclass(frozen=True)
class FigureGallery:
    """Figures to review, their folder, and earlier versions of them with their reviews."""

    folder: Path
    figures: tuple[Figure, ...]
    previous: tuple[PlotRun, ...] = ()
    arrays: PlotArrays | None = None
    """The arrays that they may have been drawn from, for the data summary of a reviewer."""

    @property
    def shown_figures(self) -> tuple[Figure, ...]:
        return tuple(figure for figure in self.figures if figure.name.endswith(".png"))

    @property
    def accepted_reviews(self) -> dict[str, FigureReview]:
        """sha256 -> latest review in which a model accepted a figure with these bytes."""
        return {
            figure.sha256: review
            for one in self.previous
            if one.looked
            for figure in one.figures
            for review in one.reviews or ()
            if review.name == figure.name and review.readable
        }

    @property
    def new_figures(self) -> tuple[Figure, ...]:
        """The figures that no review has accepted before."""
        accepted = self.accepted_reviews
        return tuple(figure for figure in self.shown_figures if figure.sha256 not in accepted)


SCORES_FILE = "scores.json"
"""The file next to plots.py with the validation scores, for figures that dev values alone cannot show."""
PLOT_SECONDS = 300.0
"""Wall-clock limit of a plotting script, in seconds."""


async def draw_plots(context: RunContext, client: ModelClient, arrays: PlotArrays) -> Failure | None:
    """Plot until the figures pass, with at most `paper.replots` retries; return the last failure if they do not.

    A resumed run repeats the same steps: recorded scripts are not requested again, and recorded plots are not redrawn.
    """
    script = read_source(context.folder.get_source_path(arrays.node)).get(PLOTS_FILE, "")
    failure: Failure | None = None
    for n in range(1, context.paper.replots + 2):
        if failure is not None:
            script = await _request_replot(context, client, arrays, n, script=script, failure=failure)
        failure = await _run_plot_script(context, arrays, n, script)
        failure = failure or await _review_plots(context, client, arrays, n)
        if failure is None:
            return None
    return failure


def _find_plotting(context: RunContext, node: str, n: int) -> PlotRun | None:
    plottings = context.state.nodes[node].plottings
    return plottings[n - 1] if len(plottings) >= n else None


async def _run_plot_script(context: RunContext, canvas: PlotArrays, n: int, script: str) -> Failure | None:
    """Run a plotting script in a folder with copies of the recorded arrays; return its failure, if any."""
    done = _find_plotting(context, canvas.node, n)
    if done is not None:
        return done.failure
    final = context.folder.get_plots_path(canvas.node, n)
    draft = create_draft_folder(final)
    if (fabrication := check_typed_numbers(script)) is not None:
        write_file(draft, PLOTS_FILE, script)
        seal_folder(draft, final)
        context.recorder.append(NodePlotted(node=canvas.node, n=n, figures=(), failure=fabrication, seconds=0.0))
        return fabrication
    enter_step(context, canvas.node, "waiting")
    outcome = await measure_job(
        context,
        Job(
            name=f"{canvas.node}/plots{n}",
            folder=draft,
            entry=PLOTS_FILE,
            kind="plot",
            source={PLOTS_FILE: script, SCORES_FILE: format_scores(context, canvas)},
            seed=context.state.nodes[canvas.node].seed,
            timeout=min(PLOT_SECONDS, context.node_seconds),
            inputs=canvas.places,
        ),
        on_start=lambda: enter_step(context, canvas.node, "plotting"),
        has_deadline=False,
    )
    write_file(outcome.folder, PLOTS_FILE, script)  # the script could have replaced itself
    seal_folder(outcome.folder, final)
    remove_tree(draft)
    context.recorder.append(
        NodePlotted(node=canvas.node, n=n, figures=outcome.figures, failure=outcome.failure, seconds=outcome.seconds)
    )
    return outcome.failure


def format_scores(context: RunContext, arrays: PlotArrays) -> str:
    """Return the validation scores of the plotted nodes as a JSON list of objects for plotting scripts."""
    named = {metric.name for metric in context.plan.metrics}
    nodes = [context.state.nodes[name] for name in (arrays.inputs or (arrays.node,))]
    scores = [
        {"node": node.id, "seed": node.seed}
        | {name: getattr(one, name) for name in ("dataset", "condition", "arm", "level")}
        | {"metric": one.name, "value": one.value}
        for node in nodes
        for one in node.measurements
        if one.name in named and one.split == "validation"
    ]
    return json.dumps(scores, indent=1)


def check_typed_numbers(script: str) -> Failure | None:
    """Return why a script is not run: it plots numbers that are typed in or drawn at random (docs/honesty.md)."""
    findings = [
        f"line {one.line}: {one.text}: {one.why}; plot the recorded arrays" for one in find_typed_figures(script)
    ]
    return Failure(kind="figure", message="\n".join(findings)) if findings else None


async def _request_replot(
    context: RunContext, client: ModelClient, canvas: PlotArrays, n: int, *, script: str, failure: Failure
) -> str:
    """Return the script of the n-th attempt at figures."""
    saved = context.folder.get_plots_path(canvas.node, n) / PLOTS_FILE
    if _find_plotting(context, canvas.node, n) is not None and saved.is_file():
        client.skip(PLOT)
        return saved.read_text()
    before = _find_plotting(context, canvas.node, n - 1)  # after a resume, later ones may be recorded
    accepted = (before.reviews or ()) if before is not None else ()
    complaints = tuple(line for line in (*failure.message.split("\n"), failure.traceback) if line)
    subject = build_figure_subject(context, canvas)
    enter_step(context, canvas.node, "writing")
    answer = await client.ask(
        PLOT,
        PlotInputs(
            data_plan=build_effective_plan(context.state, client.decision),
            purpose="replot",
            arrays=await canvas.read_briefs(),
            plan=subject.plan,
            plots=script,
            complaints=complaints,
            advice=format_advice(accepted),
            seeds=subject.seeds,
            lab_reference=read_plotting_reference(context),
        ),
    )
    return answer.apply_to(script)


async def _review_plots(context: RunContext, client: ModelClient, canvas: PlotArrays, n: int) -> Failure | None:
    """Have the n-th figures reviewed; return None if all are readable.

    Of drafts only the linter reviews them: later nodes draw with the scripts that go on.
    """
    plotting, node = _find_plotting(context, canvas.node, n), context.state.nodes[canvas.node]
    assert plotting is not None
    folder = context.folder.get_plots_path(canvas.node, n) / "figures"
    gallery = FigureGallery(folder, plotting.figures, previous=node.plottings[: n - 1], arrays=canvas)
    if plotting.reviews is not None:
        seen = {one.name for one in plotting.reviews if one.readable or one.description}  # not what the linter refused
        if any(one.name in seen for one in gallery.new_figures):
            client.skip(VISION)
        return build_refusal(plotting.reviews)
    enter_step(context, canvas.node, "reviewing")
    about, ask = build_figure_subject(context, canvas), node.stage != "preliminary"
    found = await review_figures(context, client, gallery, about=about, ask=ask)
    context.recorder.append(PlotsReviewed(node=canvas.node, n=n, reviews=found.reviews, looked=found.by_model))
    return build_refusal(found.reviews)


@dataclass(frozen=True)
class GalleryReview:
    """Reviews of figures, and whether a model wrote them; otherwise they come from the linter alone."""

    reviews: tuple[FigureReview, ...]
    by_model: bool


LINT_ONLY_NOTE = "Not reviewed by a model; a program checked labels, legends and axes."


async def review_figures(
    context: RunContext, client: ModelClient, gallery: FigureGallery, *, about: FigureSubject, ask: bool = True
) -> GalleryReview:
    """Review every PNG figure: the linter may reject it; of the others, the vision model judges.

    Figures that were accepted before keep that review. The linter's remarks count only where no model could weigh
    them; if the model accepts no images, or is not to be asked, the linter decides alone.
    """
    accepted, new = gallery.accepted_reviews, gallery.new_figures
    lint_findings = await to_thread(
        lint_figure_folder,
        gallery.shown_figures,
        gallery.folder,
        FigureContext(in_paper=about.kind == "paper", width_inches=about.width),
    )
    unseen = [figure for figure in new if not list_refusals(lint_findings[figure.name])]
    answers: dict[str, FigureReview] | None = {} if ask and (context.models.accepts_images or not new) else None
    if answers is not None and unseen:
        shown = {one: lint_findings[one.name] for one in unseen}
        try:
            answers = await _ask_vision_model(context, client, gallery, about, shown)
        except ImagesRefused:
            answers = None
    by_model = answers is not None
    if answers is None:
        answers = {one.name: FigureReview(name=one.name, readable=True, description=LINT_ONLY_NOTE) for one in new}
    reviews: list[FigureReview] = []
    for figure in gallery.shown_figures:
        refused, name = list_refusals(lint_findings[figure.name]), figure.name
        review = accepted.get(figure.sha256) or answers.get(name) or FigureReview(name=name, readable=True)
        judged = figure.sha256 in accepted or (by_model and name in answers)  # the model saw the hints
        hints = () if judged else list_remarks(lint_findings[name])
        reviews.append(
            review.model_copy(
                update={
                    "name": name,
                    "readable": not refused and review.readable and review.faithful,
                    "issues": tuple(dict.fromkeys((*refused, *hints, *review.issues))),
                }
            )
        )
    return GalleryReview(tuple(reviews), by_model)


async def _ask_vision_model(
    context: RunContext,
    client: ModelClient,
    gallery: FigureGallery,
    about: FigureSubject,
    lint_findings: dict[Figure, tuple[LintFinding, ...]],
) -> dict[str, FigureReview] | None:
    """Return the vision model's reviews of the figures in `lint_findings`, by name; None if the answer is unusable.

    The prompt includes the remarks of the linter.
    """
    earlier = {review.name: review.issues for one in gallery.previous for review in one.reviews or ()}
    answer = await client.ask_or_none(
        VISION,
        VisionInputs(
            data_plan=build_effective_plan(context.state, client.decision),
            subject=about.kind,
            seeds=about.seeds,
            plan=about.plan,
            measurements=about.measurements,
            names=tuple(figure.name for figure in lint_findings),
            facts=tuple(figure.facts for figure in lint_findings),
            remarks=tuple(map(list_remarks, lint_findings.values())),
            arrays=await gallery.arrays.read_briefs() if gallery.arrays else (),
            earlier=tuple(earlier.get(figure.name, ()) for figure in lint_findings),
        ),
        images=[Image((gallery.folder / figure.name).read_bytes()) for figure in lint_findings],
        instead="the linter alone decides on the figures",
    )
    return {review.name: review for review in answer.reviews} if answer is not None else None


def build_refusal(reviews: tuple[FigureReview, ...]) -> Failure | None:
    """Return the failure caused by rejected figures, one line per figure; None if all are readable."""
    refused = [
        f"{review.name}: {join_findings(review.issues) or 'rejected without a reason'}"
        for review in reviews
        if not review.readable
    ]
    return Failure(kind="figure", message="\n".join(refused)) if refused else None
