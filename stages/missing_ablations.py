"""Ablations that a reviewer of the draft would ask for: asked once, run, scored, and reported in the draft.

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

from math import ceil

from labwright.models import roles
from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent, ModelOutputInvalid, ModelRefused
from labwright.models.roles.planning import MissingAblationsInputs
from labwright.record.ablation import Ablation, MissingAblation
from labwright.record.ablation_results import ablation_results, line_of
from labwright.record.claims.clauses import clauses
from labwright.record.claims.decisions import decisions
from labwright.record.claims.means import winner
from labwright.record.claims.printing import printed
from labwright.record.events.searching import AblationsMissed, WorkDone
from labwright.record.fold.state import RunState
from labwright.record.folder import read_source
from labwright.record.nouns.decisions import MISSING_ABLATIONS, Expand, Seen
from labwright.record.nouns.papers import Draft
from labwright.record.source import code_of
from labwright.record.typeset import Use, filled
from labwright.search.limits import expected_seconds
from labwright.search.policy import LATE_DEBUGS
from labwright.search.replication import of_ablation
from labwright.search.tree import view_of
from labwright.stages.bench import Bench, note_time, numbered
from labwright.stages.evidence.probing import look_at_ablations
from labwright.stages.evidence.scoring import score_frozen
from labwright.stages.paper.material import claims_of
from labwright.stages.paper.reflection import revise
from labwright.stages.paper.versions import best_of, drafted
from labwright.stages.planned_ablations import sift
from labwright.stages.settings import PLANNINGS, REVISIONS
from labwright.stages.stage import Research


async def missing_ablations(bench: Bench) -> bool:
    """Bring the step to its end; False when the run was asked to stop in it."""
    if bench.state.work_done(MISSING_ABLATIONS.task):
        return True
    note_time(bench)
    k = numbered(bench.recorder, MISSING_ABLATIONS)
    client = bench.models.at(k, 0)
    if bench.state.missed is None:
        bench.recorder.append(await ask_reviewer(bench, client))
    if not await Research(bench).missing(k):
        return False
    missed = bench.state.missed
    left = [one for one in accepted(bench.state) if not line_of(bench.state, one.ablation.item)]
    if missed is not None and left:  # what was accepted was not begun after all: others took more than was expected
        reason = bench.state.limited or no_room(bench, 1) or "there was no room beside the others"
        bench.recorder.append(
            missed.model_copy(
                update={
                    "missing": tuple(
                        one.model_copy(update={"refused": reason}) if one in left else one for one in missed.missing
                    )
                }
            )
        )
    if accepted(bench.state):
        await look_at_ablations(bench, client)
        await score_frozen(bench)
    if missed is not None and missed.missing:  # assess the draft against the record as it is now, and have it revised
        drafts = bench.state.drafts
        base = next((one for one in drafts if one.anew), None)
        if base is None:
            base = await drafted(bench, best_of(drafts).draft, number=max(one.round for one in drafts) + 1)
            bench.recorder.append(base.model_copy(update={"anew": True, "done": True}))
        await revise(bench, client, range(base.round + 1, base.round + 1 + REVISIONS), news=news(bench.state))
    bench.recorder.append(WorkDone(k=k))
    return not bench.signals.stop.is_set()


def news(state: RunState) -> tuple[str, ...]:
    """What came of each ablation that was asked for, as the reflector is told it."""
    lines: list[str] = []
    for one in ablation_results(state):
        if one.by != "reviewer":
            continue
        if one.outcome == "measured" and one.replicates:
            outcome = f"It was measured, as {', '.join(one.arms)}: tell it by its keys, also where it weakens a claim."
        elif one.outcome == "measured":
            outcome = "It ran, but has no replicates: claim nothing of it, and tell it as a limitation."
        else:
            how = "run and failed" if one.outcome == "failed" else "not run"
            outcome = f"It was {how} ({one.why}): tell it as a limitation."
        lines.append(f"An ablation that a reviewer asked for. {one.ablation.item} {outcome}")
    return tuple(lines)


async def ask_reviewer(bench: Bench, client: ModelClient) -> AblationsMissed:
    """What a reviewer of the draft asks for, each with the reason against running it, if there is one."""
    state = bench.state
    if state.limited is not None:
        return AblationsMissed(why=f"nobody asked: {state.limited}")
    best, tried, most = state.nodes[winner(state) or ""], ablation_results(state), bench.paper.missing_ablations
    done = [one.ablation for one in tried if one.outcome == "measured"]
    kept: tuple[Ablation, ...] = ()
    complaints: tuple[str, ...] = ()
    why = ""
    try:
        for _ in range(PLANNINGS):
            answer = await client.ask(
                roles.MISSING_ABLATIONS,
                MissingAblationsInputs(
                    idea=bench.idea,
                    data_plan=bench.plan,
                    facts=bench.facts,
                    trials=tried,
                    most=most,
                    draft=as_read(best_of(state.drafts).draft, state),
                    method_plan=best.plan,
                    method_code=code_of(read_source(bench.folder.source(best.id))),
                    node_seconds=bench.node_seconds,
                    complaints=complaints,
                ),
            )
            kept, complaints = sift(answer.ablations, bench.plan, most=most, done=done)
            why = answer.why
            if not complaints:
                break
    except (ModelOutputInvalid, ModelRefused, BudgetSpent) as error:
        why = why or f"the model gave no usable answer: {error}"
    why += f" Left out: {'; '.join(complaints)}." if complaints else ""
    missing: list[MissingAblation] = []
    for one in kept:
        before = sum(not other.refused for other in missing)
        missing.append(MissingAblation(ablation=one, refused=no_room(bench, before + 1)))
    return AblationsMissed(missing=tuple(missing), why=why)


def as_read(draft: Draft, state: RunState) -> Draft:
    """A draft with the values and verdicts that its macros print, as a reader gets them."""
    found = claims_of(state)
    values = printed(found.every) | clauses(state, decisions(state), found.differences)

    def value(use: Use) -> str:
        return values[use.key].tex if use.macro != "setup" and use.key in values else str(use)

    def read(text: str) -> str:
        return filled(text, value)

    return draft.model_copy(
        update={
            "title": read(draft.title),
            "abstract": read(draft.abstract),
            "sections": tuple(one.model_copy(update={"body": read(one.body)}) for one in draft.sections),
            "captions": {name: read(text) for name, text in draft.captions.items()},
        }
    )


TIME = 0.5
"""Share of the time that is left which these experiments may be expected to take; the paper needs the rest."""


def accepted(state: RunState) -> list[MissingAblation]:
    """What is to be run."""
    missing = state.missed.missing if state.missed is not None else ()
    return [one for one in missing if not one.refused]


def no_room(bench: Bench, number: int) -> str:
    """Why so many ablations with their replicates cannot be run, by budget and time; empty where they can."""
    state = bench.state
    view = view_of(state, "ablation", Seen(through=state.last_decision), settings=bench.search)
    again = len(of_ablation(view, bench.search))
    ablate, replicate = (
        Expand(stage="ablation", kind="ablate", seed=0),
        Expand(stage="ablation", kind="replicate", seed=0),
    )
    lacking = bench.budget.lacking(*[ablate, *[replicate] * again] * number) if bench.budget is not None else None
    if lacking is not None:
        return lacking
    rounds = 1 + LATE_DEBUGS + ceil(again * number / bench.search.num_workers)
    expected = rounds * expected_seconds(ablate.model_copy(update={"parent": winner(state)}), view)
    left = max(0.0, bench.run_seconds - state.active_seconds)
    if expected <= TIME * left:
        return ""
    return (
        f"the time limit: {left:.0f} s are left, the paper included, and the experiments are expected to take "
        f"{expected:.0f} s"
    )
