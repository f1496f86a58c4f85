"""Ablations that a reviewer of the draft would ask for: asked once, run, scored, and told in the draft.

Kept: nothing is asked for that was measured; what is asked for is run with replicates like the last stage's ablations,
or the record says why not; the sealed test predictions of these new nodes alone are scored, once, after all of them
ran, and nothing is chosen by them; the draft is revised with the results whatever they show. A kill costs what was in
flight: calls, nodes and test scores that are recorded are not made again, and decisions get the numbers that they
would have had.

Not guaranteed: blindness. Who asks has read the test results of the draft, so what is asked for may be chosen in
knowledge of them; the paper says so. Figures are not drawn again: tables, claims and text have the new results.

Source: AblationBench, section 5 (reviewer-side planner).
"""

from __future__ import annotations

from models.door import Desk
from record.events.searching import WorkDone
from record.fold.state import RunState
from record.nouns.decisions import MISSING_ABLATIONS
from record.trials import Trial, trials
from stages.ablations.asking import asked
from stages.ablations.running import accepted, run_missing
from stages.bench import Bench, begun, note_time
from stages.evidence.score import score_frozen
from stages.paper.reflection import revise
from stages.paper.versions import best_of, drafted
from stages.settings import REVISIONS


async def missing_ablations(bench: Bench) -> bool:
    """Bring the step to its end; False when the run was asked to stop in it."""
    if bench.state.work_done(MISSING_ABLATIONS.task):
        return True
    note_time(bench)
    k = begun(bench, MISSING_ABLATIONS)
    desk = bench.models.at(k, 0)
    if bench.state.missed is None:
        bench.recorder.append(await asked(bench, desk))
    if not await run_missing(bench, k):
        return False
    if accepted(bench.state):
        await score_frozen(bench)
    if bench.state.missed is not None and bench.state.missed.missing:
        await _told(bench, desk)
    bench.recorder.append(WorkDone(k=k))
    return not bench.signals.stop.is_set()


async def _told(bench: Bench, desk: Desk) -> None:
    """Assess the draft against the record as it is now, and have it tell what came of the ablations."""
    drafts = bench.state.drafts
    base = next((one for one in drafts if one.anew), None)
    if base is None:
        base = await drafted(bench, best_of(drafts).draft, number=max(one.round for one in drafts) + 1)
        bench.recorder.append(base.model_copy(update={"anew": True, "done": True}))
    await revise(bench, desk, range(base.round + 1, base.round + 1 + REVISIONS), news=news(bench.state))


def news(state: RunState) -> tuple[str, ...]:
    """What came of each ablation that was asked for, as the reflector is told it."""
    return tuple(f"An ablation that a reviewer asked for. {one.ablation.item} {_outcome(one)}"
                 for one in trials(state) if one.by == "reviewer")


def _outcome(one: Trial) -> str:
    match one.outcome:
        case "measured" if one.replicates:
            return f"It was measured, as {', '.join(one.arms)}: tell it by its keys, also where it weakens a claim."
        case "measured":
            return "It ran, but has no replicates: claim nothing of it, and tell it as a limitation."
        case "failed":
            return f"It was run and failed ({one.why}): tell it as a limitation."
        case _:
            return f"It was not run ({one.why}): tell it as a limitation."
