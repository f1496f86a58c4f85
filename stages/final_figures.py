"""The paper's figures, drawn from recorded arrays and the ledger's statistics; nothing else reaches the script."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from models.door import Desk
from models.errors import BudgetSpent
from models.roles import FigureScript, FiguresInputs
from record.claims import ablation_conditions, paper_claims, replicates_of, winner
from record.events import FiguresMade
from record.folder import draft_of, seal, sha256, write_file
from record.nouns import Failure, Figure, Node, Plotting
from sandbox.job import Job
from stages.bench import Bench, do_work
from stages.briefs import parent_brief, plotting_reference, statistic
from stages.plotting import PLOT_SECONDS, Canvas, Gallery, Look, Subject, refusal, review_figures

MOST = 12
"""Figures that a paper may have; AI-Scientist-v2, section 3.2 (aggregation of plots)."""


@dataclass(frozen=True)
class _Sheet:
    """One try at the figures."""

    script: FigureScript
    figures: tuple[Figure, ...]
    look: Look
    failure: Failure | None

    @property
    def plotting(self) -> Plotting:
        """This try as the next one's reviewer is told of it."""
        return Plotting(n=1, figures=self.figures, failure=self.failure, reviews=self.look.reviews,
                        looked=self.look.looked)


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
    sheets: list[_Sheet] = []
    try:
        while not sheets or (sheets[-1].failure is not None and len(sheets) <= bench.paper.replots):
            sheets.append(await _try(bench, desk, canvas, node=node, sheets=tuple(sheets)))
    except BudgetSpent as error:
        if not sheets:
            bench.recorder.append(FiguresMade(
                figures={}, descriptions={}, arrays=(), failure=Failure(kind="no answer", message=str(error))))
            return
    _record(bench, canvas, sheets[-1])


async def _try(bench: Bench, desk: Desk, canvas: Canvas, *, node: Node, sheets: tuple[_Sheet, ...]) -> _Sheet:
    before = sheets[-1] if sheets else None
    complaints = tuple(before.failure.message.split("\n")) if before and before.failure else ()
    statistics = tuple(statistic(claim) for claim in paper_claims(bench.state))
    script = await desk.ask("figures", FiguresInputs(
        idea=bench.idea, data_plan=bench.plan, arrays=canvas.briefs(), statistics=statistics,
        example_plots=parent_brief(bench.folder, node).plots, ablations=ablation_conditions(bench.state),
        lab_reference=plotting_reference(bench), complaints=complaints,
        previous=before.script.script if before else ""), FigureScript)
    draft = draft_of(bench.folder.drawn)
    write_file(draft / "inputs" / "statistics.json", json.dumps([one.model_dump() for one in statistics], indent=1))
    outcome = await bench.executor.run(Job(
        name=f"figures/{len(sheets)}", folder=draft, source={"figures.py": script.script}, entry="figures.py",
        mode="plot", seed=node.seed, timeout=PLOT_SECONDS, inputs=canvas.inputs))
    gallery = Gallery(draft / "figures", outcome.figures, before=tuple(sheet.plotting for sheet in sheets))
    look = Look((), looked=True) if outcome.failure else await review_figures(
        bench, desk, gallery, about=Subject("paper", node.plan, node.measurements))
    return _Sheet(script, outcome.figures, look, outcome.failure or refusal(look.reviews))


def _record(bench: Bench, canvas: Canvas, sheet: _Sheet) -> None:
    """Seal the figures that were drawn as .pdf and .png and found readable."""
    folder = bench.folder.drawn
    draft = folder.with_name(f".{folder.name}.part")
    readable = {Path(review.name).stem for review in sheet.look.reviews if review.readable}
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
        figures={name: sha256(folder / name) for name in files}, descriptions=descriptions, reviews=sheet.look.reviews,
        arrays=tuple(sorted({sha256(path) for source in canvas.inputs.values() for path in source.glob("*.npy")})),
        failure=sheet.failure, looked=sheet.look.looked))
