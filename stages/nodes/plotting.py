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
from labwright.record.descriptors import remove_tree
from labwright.record.events.searching import Plotted, Reviewed
from labwright.record.folder import draft_of, read_source, seal, write_file
from labwright.record.nouns.figures import Figure, FigureReview
from labwright.record.nouns.nodes import Failure, Plotting
from labwright.record.source import PLOTS
from labwright.review.figures import About, LintFinding, lint_all, refusing, remarks
from labwright.review.honesty import check
from labwright.sandbox.job import Job
from labwright.sandbox.untrusted import FILE_BYTES, copy_file, make_folder, names_in
from labwright.stages.bench import Bench, enter
from labwright.stages.briefs import advice, plotting_reference
from labwright.stages.nodes.canvas import Canvas, Gallery, Subject, subject_of

SCORES = "scores.json"
"""Beside plots.py: what was scored on validation, for figures that dev alone could not tell."""
PLOT_SECONDS = 300.0
"""Wall-clock limit of a plotting script."""


async def draw(bench: Bench, client: ModelClient, canvas: Canvas) -> Failure | None:
    """Plot until the figures pass, at most `paper.replots` further times; the last failure when they do not.

    A run that is resumed walks through the same steps: what the record has is neither asked for nor drawn again.
    """
    script = read_source(bench.folder.source(canvas.node)).get(PLOTS, "")
    failure: Failure | None = None
    for n in range(1, bench.paper.replots + 2):
        if failure is not None:
            script = await _replot(bench, client, canvas, n, script=script, failure=failure)
        failure = await _plot(bench, canvas, n, script)
        failure = failure or await _review(bench, client, canvas, n)
        if failure is None:
            return None
    return failure


def _plotting(bench: Bench, node: str, n: int) -> Plotting | None:
    plottings = bench.state.nodes[node].plottings
    return plottings[n - 1] if len(plottings) >= n else None


async def _plot(bench: Bench, canvas: Canvas, n: int, script: str) -> Failure | None:
    """Run a plotting script in a folder that holds copies of the recorded arrays; its failure, if it failed."""
    done = _plotting(bench, canvas.node, n)
    if done is not None:
        return done.failure
    final = bench.folder.plots(canvas.node, n)
    draft = draft_of(final)
    doubt = typed_numbers(PLOTS, script)
    if doubt is not None:
        write_file(draft / PLOTS, script)
        seal(draft, final)
        bench.recorder.append(Plotted(node=canvas.node, n=n, figures=(), failure=doubt, seconds=0.0))
        return doubt
    if canvas.arrays is not None and canvas.arrays.is_dir():
        make_folder(draft, "arrays")
        for name in names_in(canvas.arrays, "", ".npy"):
            copy_file(canvas.arrays, name, draft, f"arrays/{name}", FILE_BYTES)
    enter(bench, canvas.node, "waiting")
    outcome = await bench.executor.run(
        Job(
            name=f"{canvas.node}/plots{n}",
            folder=draft,
            entry=PLOTS,
            mode="plot",
            source={PLOTS: script, SCORES: scores(bench, canvas)},
            seed=bench.state.nodes[canvas.node].seed,
            timeout=min(PLOT_SECONDS, bench.node_seconds),
            inputs=canvas.inputs,
            begins=lambda: enter(bench, canvas.node, "plotting"),
        )
    )
    for copied in ("arrays", "inputs"):
        remove_tree(draft / copied, ignore_errors=True)
    seal(draft, final)
    bench.recorder.append(
        Plotted(node=canvas.node, n=n, figures=outcome.figures, failure=outcome.failure, seconds=outcome.seconds)
    )
    return outcome.failure


def scores(bench: Bench, canvas: Canvas) -> str:
    """The validation values of what is drawn, by the metrics of the plan, as a plotting script reads them: JSON, a list
    of objects. Never of test data, which is not scored while anything can still be chosen."""
    named = {metric.name for metric in bench.plan.metrics}
    nodes = [bench.state.nodes[name] for name in (canvas.inputs or (canvas.node,))]
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


def typed_numbers(name: str, script: str) -> Failure | None:
    """Why a script is not run: it draws numbers that are typed into it or drawn at random (docs/honesty.md)."""
    found = [
        f"line {one.line}: {one.text}: {one.why}; draw the recorded arrays"
        for one in check({name: script}, plots=[name])
        if one.suspect
    ]
    return Failure(kind="figure", message="\n".join(found)) if found else None


async def _replot(bench: Bench, client: ModelClient, canvas: Canvas, n: int, *, script: str, failure: Failure) -> str:
    """The script of the n-th figures."""
    drawn = bench.folder.plots(canvas.node, n) / PLOTS
    if _plotting(bench, canvas.node, n) is not None and drawn.is_file():
        client.skip(PLOT)
        return drawn.read_text()
    before = _plotting(bench, canvas.node, n - 1)  # a resumed run may know later ones
    accepted = (before.reviews or ()) if before is not None else ()
    complaints = tuple(line for line in (*failure.message.split("\n"), failure.traceback) if line)
    about = subject_of(bench, canvas)
    enter(bench, canvas.node, "writing")
    answer = await client.ask(
        PLOT,
        PlotInputs(
            data_plan=bench.plan,
            purpose="replot",
            arrays=await canvas.briefs(),
            plan=about.plan,
            plots=script,
            complaints=complaints,
            advice=advice(accepted),
            seeds=about.seeds,
            lab_reference=plotting_reference(bench),
        ),
    )
    return answer.script(script)


async def _review(bench: Bench, client: ModelClient, canvas: Canvas, n: int) -> Failure | None:
    """Have the n-th figures reviewed; None when all are readable."""
    plotting = _plotting(bench, canvas.node, n)
    assert plotting is not None
    own = Gallery(
        bench.folder.plots(canvas.node, n) / "figures",
        plotting.figures,
        before=bench.state.nodes[canvas.node].plottings[: n - 1],
        canvas=canvas,
    )
    if plotting.reviews is not None:
        if any(figure.name not in plotting.taken for figure in own.new):
            client.skip(VISION)
        return refusal(plotting.reviews)
    enter(bench, canvas.node, "reviewing")
    wanted = {figure.sha256 for figure in own.new}
    while bench.search.order == "arrival" and (others := bench.in_progress.claimed_by_others(wanted)):
        for one in others:
            await one.wait()
    found = reviewed_elsewhere(bench, client.decision, canvas.node, wanted)
    gallery = replace(own, elsewhere={digest: review for digest, (_, review) in found.items()})
    with bench.in_progress.claim(wanted - found.keys()):
        look = await review_figures(bench, client, gallery, about=subject_of(bench, canvas))
        bench.recorder.append(
            Reviewed(
                node=canvas.node,
                n=n,
                reviews=look.reviews,
                looked=look.looked,
                taken={figure.name: found[figure.sha256][0] for figure in own.new if figure.sha256 in found},
            )
        )
    return refusal(look.reviews)


def reviewed_elsewhere(bench: Bench, k: int, node: str, wanted: Collection[str]) -> dict[str, tuple[str, FigureReview]]:
    """sha256 of a picture -> a node that drew it as well, and what a model said that found it readable.

    In `ticket` order only nodes that decision k may see.
    """
    seen = bench.state.decisions[k].seen
    nodes = [
        one
        for one in bench.state.nodes.values()
        if wanted and one.plottings and one.id != node and (bench.search.order == "arrival" or one.decision in seen)
    ]
    found = {
        digest: (one.id, review)
        for one in nodes
        for digest, review in Gallery(bench.folder.root, (), before=one.plottings).accepted.items()
    }
    return {digest: found[digest] for digest in wanted if digest in found}


@dataclass(frozen=True)
class Look:
    """Reviews of figures, and whether a model looked at them; if not they are by the lint alone."""

    reviews: tuple[FigureReview, ...]
    looked: bool


UNSEEN = "Not looked at by a model; a program checked labels, legends and axes."


async def review_figures(bench: Bench, client: ModelClient, gallery: Gallery, *, about: Subject) -> Look:
    """A verdict on every PNG figure: what the lint refuses is refused, the vision model's verdict comes on top.

    Figures whose very bytes were found readable before keep that review, and are not looked at again. Where the model
    accepts no images nobody looks, and the lint alone decides.
    """
    accepted, new = gallery.accepted, gallery.new
    found = await asyncio.to_thread(
        lint_all,
        gallery.shown,
        gallery.folder,
        About(
            about.kind,
            seeds=len(about.seeds) or 2 * (about.kind == "paper"),  # figures of a paper show several runs
            metrics=bench.plan.metrics,
            width_inches=about.width,
        ),
    )
    answers: dict[str, FigureReview] = {}
    looked = bench.models.sees or not new
    try:
        if new and looked:
            answer = await _look(
                bench, client, gallery, about=about, found={figure: found[figure.name] for figure in new}
            )
            answers, looked = answer or {}, answer is not None
    except ImagesRefused:
        looked = False
    if not looked:
        answers = {figure.name: FigureReview(name=figure.name, readable=True, description=UNSEEN) for figure in new}
    reviews: list[FigureReview] = []
    for figure in gallery.shown:
        refused, name = refusing(found[figure.name]), figure.name
        review = accepted.get(figure.sha256) or answers.get(name) or FigureReview(name=name, readable=True)
        reviews.append(
            review.model_copy(
                update={
                    "name": name,
                    "readable": not refused and review.readable and review.faithful,
                    "issues": tuple(dict.fromkeys((*refused, *remarks(found[name]), *review.issues))),
                }
            )
        )
    return Look(tuple(reviews), looked)


async def _look(
    bench: Bench, client: ModelClient, gallery: Gallery, *, about: Subject, found: dict[Figure, tuple[LintFinding, ...]]
) -> dict[str, FigureReview] | None:
    """What the vision model says of the figures in `found`, by name; None where that cannot be used.

    It is told what the lint found.
    """
    earlier = {figure.name: review.issues for figure, review, _ in gallery.earlier}
    answer = await client.usable(
        VISION,
        VisionInputs(
            data_plan=bench.plan,
            subject=about.kind,
            seeds=about.seeds,
            plan=about.plan,
            measurements=about.measurements,
            names=tuple(figure.name for figure in found),
            facts=tuple(figure.facts for figure in found),
            lint=tuple(map(refusing, found.values())),
            remarks=tuple(map(remarks, found.values())),
            arrays=await gallery.canvas.briefs() if gallery.canvas else (),
            earlier=tuple(earlier.get(figure.name, ()) for figure in found),
        ),
        images=[Image((gallery.folder / figure.name).read_bytes()) for figure in found],
        then="the lint alone decides on the figures",
    )
    return {review.name: review for review in answer.reviews} if answer is not None else None


def refusal(reviews: tuple[FigureReview, ...]) -> Failure | None:
    """The failure that refused figures make, one line a figure; None when all are readable."""
    refused = [
        f"{review.name}: {'; '.join(review.issues) or 'refused without a reason'}"
        for review in reviews
        if not review.readable
    ]
    return Failure(kind="figure", message="\n".join(refused)) if refused else None
