"""The paper's figures, drawn from recorded arrays and the ledger's statistics; nothing else reaches the script."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from models.door import Desk
from models.roles import FigureScript, FiguresInputs
from record.claims import ablation_conditions, paper_claims, replicates_of, winner
from record.events import FiguresMade
from record.folder import draft_of, seal, sha256, write_file
from record.nouns import Failure, Figure, FigureReview, Node
from sandbox.job import Job
from stages.bench import Bench, do_work
from stages.briefs import parent_brief, statistic
from stages.plotting import PLOT_SECONDS, Canvas, Gallery, refusal, review_figures

MOST = 12
"""Figures that a paper may have; AI-Scientist-v2, section 3.2 (aggregation of plots)."""


@dataclass(frozen=True)
class _Sheet:
    """One try at the figures."""

    script: FigureScript
    figures: tuple[Figure, ...]
    reviews: tuple[FigureReview, ...]
    failure: Failure | None


async def final_figures(bench: Bench) -> None:
    """Draw the final figures, review them, keep those that are readable, and record them."""
    await do_work(bench, "figures", lambda desk: _work(bench, desk))


async def _work(bench: Bench, desk: Desk) -> None:
    best = winner(bench.state)
    assert best is not None
    node = bench.state.nodes[best]
    canvas = Canvas(best, inputs={
        one.id: bench.folder.attempt(one.id, len(one.attempts)) / "arrays"
        for one in replicates_of(bench.state, best) if one.status == "good"})
    sheet: _Sheet | None = None
    for n in range(bench.paper.replots + 1):
        sheet = await _try(bench, desk, canvas, node=node, before=sheet, n=n)
        if sheet.failure is None:
            break
    assert sheet is not None
    _record(bench, canvas, sheet)


async def _try(
    bench: Bench, desk: Desk, canvas: Canvas, *, node: Node, before: _Sheet | None, n: int
) -> _Sheet:
    complaints = tuple(before.failure.message.split("\n")) if before and before.failure else ()
    statistics = tuple(statistic(claim) for claim in paper_claims(bench.state))
    script = await desk.ask("figures", FiguresInputs(
        idea=bench.idea, data_plan=bench.plan, arrays=canvas.briefs(), statistics=statistics,
        example_plots=parent_brief(bench.folder, node).plots, ablations=ablation_conditions(bench.state),
        lab_reference=bench.lab_reference, complaints=complaints,
        previous=before.script.script if before else ""), FigureScript)
    draft = draft_of(bench.folder.paper / "figures")
    write_file(draft / "inputs" / "statistics.json", json.dumps([one.model_dump() for one in statistics], indent=1))
    outcome = await bench.executor.run(Job(
        name=f"figures/{n}", folder=draft, source={"figures.py": script.script}, entry="figures.py", mode="plot",
        seed=node.seed, timeout=PLOT_SECONDS, inputs=canvas.inputs))
    reviews = () if outcome.failure else await review_figures(
        bench, desk, Gallery(draft / "figures", outcome.figures), about=node)
    return _Sheet(script, outcome.figures, reviews, outcome.failure or refusal(reviews))


def _record(bench: Bench, canvas: Canvas, sheet: _Sheet) -> None:
    """Seal the figures that were drawn as .pdf and .png and found readable."""
    folder = bench.folder.paper / "figures"
    draft = folder.with_name(f".{folder.name}.part")
    readable = {Path(review.name).stem for review in sheet.reviews if review.readable}
    descriptions = {figure.name: figure.description for figure in sheet.script.figures
                    if figure.name in readable and (draft / "figures" / f"{figure.name}.pdf").is_file()}
    descriptions = dict(list(descriptions.items())[:MOST])
    files = {name: (draft / "figures" / name).read_bytes()
             for stem in descriptions for name in (f"{stem}.pdf", f"{stem}.png")}
    clean = draft_of(folder)
    (clean / "figures.py").write_text(sheet.script.script)
    for name, data in files.items():
        (clean / name).write_bytes(data)
    seal(clean, folder)
    bench.recorder.append(FiguresMade(
        figures={name: sha256(folder / name) for name in files}, descriptions=descriptions, reviews=sheet.reviews,
        arrays=tuple(sorted({sha256(path) for source in canvas.inputs.values() for path in source.glob("*.npy")})),
        failure=sheet.failure))
