"""Figures of a node: draw, lint, let a vision model review, and draw again from the saved arrays when refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from dataclasses import dataclass, replace

from labwright.models.backend import Image
from labwright.models.client import ModelClient
from labwright.models.errors import ImagesRefused
from labwright.models.roles.figures import PLOT, VISION, PlotInputs, VisionInputs
from labwright.record.events.search_events import NodePlotted, PlotsReviewed
from labwright.record.folder_descriptors import remove_tree
from labwright.record.run_folder import create_draft_folder, read_source, seal_folder, write_file
from labwright.record.schema.figures import Figure, FigureReview
from labwright.record.schema.nodes import Failure, PlotRun
from labwright.record.source_tree import PLOTS_FILE
from labwright.review.figures import FigureContext, LintFinding, lint_figure_folder, list_refusals, list_remarks
from labwright.review.honesty import check_program
from labwright.sandbox.job import Job
from labwright.sandbox.safe_io import MAX_FILE_BYTES, copy_file, list_names, make_folder
from labwright.stages.nodes.plot_inputs import FigureGallery, FigureSubject, PlotArrays, build_figure_subject
from labwright.stages.prompt_inputs import format_advice, read_plotting_reference
from labwright.stages.run_context import RunContext, enter_step

SCORES_FILE = "scores.json"
"""Beside plots.py: what was scored on validation, for figures that dev alone could not tell."""
PLOT_SECONDS = 300.0
"""Wall-clock limit of a plotting script."""


async def draw_plots(context: RunContext, client: ModelClient, arrays: PlotArrays) -> Failure | None:
    """Plot until the figures pass, at most `paper.replots` further times; the last failure when they do not.

    A run that is resumed walks through the same steps: what the record has is neither asked for nor drawn again.
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
    """Run a plotting script in a folder that holds copies of the recorded arrays; its failure, if it failed."""
    done = _find_plotting(context, canvas.node, n)
    if done is not None:
        return done.failure
    final = context.folder.get_plots_path(canvas.node, n)
    draft = create_draft_folder(final)
    doubt = check_typed_numbers(PLOTS_FILE, script)
    if doubt is not None:
        write_file(draft / PLOTS_FILE, script)
        seal_folder(draft, final)
        context.recorder.append(NodePlotted(node=canvas.node, n=n, figures=(), failure=doubt, seconds=0.0))
        return doubt
    if canvas.arrays is not None and canvas.arrays.is_dir():
        make_folder(draft, "arrays")
        for name in list_names(canvas.arrays, "", ".npy"):
            copy_file(canvas.arrays, name, draft, f"arrays/{name}", MAX_FILE_BYTES)
    enter_step(context, canvas.node, "waiting")
    outcome = await context.executor.run(
        Job(
            name=f"{canvas.node}/plots{n}",
            folder=draft,
            entry=PLOTS_FILE,
            mode="plot",
            source={PLOTS_FILE: script, SCORES_FILE: format_scores(context, canvas)},
            seed=context.state.nodes[canvas.node].seed,
            timeout=min(PLOT_SECONDS, context.node_seconds),
            inputs=canvas.inputs,
            on_start=lambda: enter_step(context, canvas.node, "plotting"),
        )
    )
    for copied in ("arrays", "inputs"):
        remove_tree(draft / copied, ignore_errors=True)
    seal_folder(draft, final)
    context.recorder.append(
        NodePlotted(node=canvas.node, n=n, figures=outcome.figures, failure=outcome.failure, seconds=outcome.seconds)
    )
    return outcome.failure


def format_scores(context: RunContext, arrays: PlotArrays) -> str:
    """The validation values of what is drawn, by the metrics of the plan, as a plotting script reads them: JSON, a list
    of objects. Never of test data, which is not scored while anything can still be chosen."""
    named = {metric.name for metric in context.plan.metrics}
    nodes = [context.state.nodes[name] for name in (arrays.inputs or (arrays.node,))]
    return json.dumps(
        [
            {
                "node": node.id,
                "seed": node.seed,
                "dataset": one.dataset,
                "condition": one.condition,
                "arm": one.arm,
                "level": one.level,
                "metric": one.name,
                "value": one.value,
            }
            for node in nodes
            for one in node.measurements
            if one.name in named and one.split == "validation"
        ],
        indent=1,
    )


def check_typed_numbers(name: str, script: str) -> Failure | None:
    """Why a script is not run: it draws numbers that are typed into it or drawn at random (docs/honesty.md)."""
    found = [
        f"line {one.line}: {one.text}: {one.why}; draw the recorded arrays"
        for one in check_program({name: script}, plots=[name])
        if one.suspect
    ]
    return Failure(kind="figure", message="\n".join(found)) if found else None


async def _request_replot(
    context: RunContext, client: ModelClient, canvas: PlotArrays, n: int, *, script: str, failure: Failure
) -> str:
    """The script of the n-th figures."""
    drawn = context.folder.get_plots_path(canvas.node, n) / PLOTS_FILE
    if _find_plotting(context, canvas.node, n) is not None and drawn.is_file():
        client.skip(PLOT)
        return drawn.read_text()
    before = _find_plotting(context, canvas.node, n - 1)  # a resumed run may know later ones
    accepted = (before.reviews or ()) if before is not None else ()
    complaints = tuple(line for line in (*failure.message.split("\n"), failure.traceback) if line)
    about = build_figure_subject(context, canvas)
    enter_step(context, canvas.node, "writing")
    answer = await client.ask(
        PLOT,
        PlotInputs(
            data_plan=context.plan,
            purpose="replot",
            arrays=await canvas.read_briefs(),
            plan=about.plan,
            plots=script,
            complaints=complaints,
            advice=format_advice(accepted),
            seeds=about.seeds,
            lab_reference=read_plotting_reference(context),
        ),
    )
    return answer.apply_to(script)


async def _review_plots(context: RunContext, client: ModelClient, canvas: PlotArrays, n: int) -> Failure | None:
    """Have the n-th figures reviewed; None when all are readable."""
    plotting = _find_plotting(context, canvas.node, n)
    assert plotting is not None
    own = FigureGallery(
        context.folder.get_plots_path(canvas.node, n) / "figures",
        plotting.figures,
        previous=context.state.nodes[canvas.node].plottings[: n - 1],
        arrays=canvas,
    )
    if plotting.reviews is not None:
        if any(figure.name not in plotting.taken for figure in own.new_figures):
            client.skip(VISION)
        return build_refusal(plotting.reviews)
    enter_step(context, canvas.node, "reviewing")
    wanted = {figure.sha256 for figure in own.new_figures}
    while context.search.order == "arrival" and (others := context.work_in_progress.list_pending(wanted)):
        for one in others:
            await one.wait()
    found = find_reviews_elsewhere(context, client.decision, canvas.node, wanted)
    gallery = replace(own, reviews_elsewhere={digest: review for digest, (_, review) in found.items()})
    with context.work_in_progress.acquire(wanted - found.keys()):
        look = await review_figures(context, client, gallery, about=build_figure_subject(context, canvas))
        context.recorder.append(
            PlotsReviewed(
                node=canvas.node,
                n=n,
                reviews=look.reviews,
                looked=look.by_model,
                taken={figure.name: found[figure.sha256][0] for figure in own.new_figures if figure.sha256 in found},
            )
        )
    return build_refusal(look.reviews)


def find_reviews_elsewhere(
    context: RunContext, decision_id: int, node: str, wanted: Collection[str]
) -> dict[str, tuple[str, FigureReview]]:
    """sha256 of a picture -> a node that drew it as well, and what a model said that found it readable.

    In `ticket` order only nodes that decision k may see.
    """
    seen = context.state.decisions[decision_id].seen
    nodes = [
        one
        for one in context.state.nodes.values()
        if wanted and one.plottings and one.id != node and (context.search.order == "arrival" or one.decision in seen)
    ]
    found = {
        digest: (one.id, review)
        for one in nodes
        for digest, review in FigureGallery(context.folder.root, (), previous=one.plottings).accepted_reviews.items()
    }
    return {digest: found[digest] for digest in wanted if digest in found}


@dataclass(frozen=True)
class GalleryReview:
    """Reviews of figures, and whether a model looked at them; if not they are by the lint alone."""

    reviews: tuple[FigureReview, ...]
    by_model: bool


LINT_ONLY_NOTE = "Not looked at by a model; a program checked labels, legends and axes."


async def review_figures(
    context: RunContext, client: ModelClient, gallery: FigureGallery, *, about: FigureSubject
) -> GalleryReview:
    """A verdict on every PNG figure: what the lint refuses is refused, the vision model's verdict comes on top.

    Figures whose very bytes were found readable before keep that review, and are not looked at again. Where the model
    accepts no images nobody looks, and the lint alone decides.
    """
    accepted, new = gallery.accepted_reviews, gallery.new_figures
    found = await asyncio.to_thread(
        lint_figure_folder,
        gallery.shown_figures,
        gallery.folder,
        FigureContext(
            about.kind,
            seeds=len(about.seeds) or 2 * (about.kind == "paper"),  # figures of a paper show several runs
            metrics=context.plan.metrics,
            width_inches=about.width,
        ),
    )
    answers: dict[str, FigureReview] = {}
    looked = context.models.accepts_images or not new
    try:
        if new and looked:
            answer = await _ask_vision_model(
                context, client, gallery, about=about, found={figure: found[figure.name] for figure in new}
            )
            answers, looked = answer or {}, answer is not None
    except ImagesRefused:
        looked = False
    if not looked:
        answers = {
            figure.name: FigureReview(name=figure.name, readable=True, description=LINT_ONLY_NOTE) for figure in new
        }
    reviews: list[FigureReview] = []
    for figure in gallery.shown_figures:
        refused, name = list_refusals(found[figure.name]), figure.name
        review = accepted.get(figure.sha256) or answers.get(name) or FigureReview(name=name, readable=True)
        reviews.append(
            review.model_copy(
                update={
                    "name": name,
                    "readable": not refused and review.readable and review.faithful,
                    "issues": tuple(dict.fromkeys((*refused, *list_remarks(found[name]), *review.issues))),
                }
            )
        )
    return GalleryReview(tuple(reviews), looked)


async def _ask_vision_model(
    context: RunContext,
    client: ModelClient,
    gallery: FigureGallery,
    *,
    about: FigureSubject,
    found: dict[Figure, tuple[LintFinding, ...]],
) -> dict[str, FigureReview] | None:
    """What the vision model says of the figures in `found`, by name; None where that cannot be used.

    It is told what the lint found.
    """
    earlier = {figure.name: review.issues for figure, review, _ in gallery.earlier_reviews}
    answer = await client.ask_or_none(
        VISION,
        VisionInputs(
            data_plan=context.plan,
            subject=about.kind,
            seeds=about.seeds,
            plan=about.plan,
            measurements=about.measurements,
            names=tuple(figure.name for figure in found),
            facts=tuple(figure.facts for figure in found),
            lint=tuple(map(list_refusals, found.values())),
            remarks=tuple(map(list_remarks, found.values())),
            arrays=await gallery.arrays.read_briefs() if gallery.arrays else (),
            earlier=tuple(earlier.get(figure.name, ()) for figure in found),
        ),
        images=[Image((gallery.folder / figure.name).read_bytes()) for figure in found],
        instead="the lint alone decides on the figures",
    )
    return {review.name: review for review in answer.reviews} if answer is not None else None


def build_refusal(reviews: tuple[FigureReview, ...]) -> Failure | None:
    """The failure that refused figures make, one line a figure; None when all are readable."""
    refused = [
        f"{review.name}: {'; '.join(review.issues) or 'refused without a reason'}"
        for review in reviews
        if not review.readable
    ]
    return Failure(kind="figure", message="\n".join(refused)) if refused else None
