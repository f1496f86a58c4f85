"""A reviewer of the draft is asked, once, which ablations are missing that its claims need."""

from __future__ import annotations

from collections.abc import Sequence

from models.ablations import MissingAblations, MissingAblationsInputs
from models.door import Desk
from models.errors import BudgetSpent, ModelOutputInvalid, ModelRefused
from record.ablation import Ablation, MissingAblation
from record.claims import printed, winner
from record.events.searching import AblationsMissed
from record.fold.state import RunState
from record.folder import read_source
from record.nouns.drafts import Draft
from record.trials import trials
from record.typeset import Use, filled
from stages.ablations.planning import sift
from stages.ablations.running import no_room
from stages.bench import Bench
from stages.paper.material import claims_of
from stages.paper.versions import best_of
from stages.settings import PLANNINGS


async def asked(bench: Bench, desk: Desk) -> AblationsMissed:
    state = bench.state
    if state.limited is not None:
        return AblationsMissed(why=f"nobody asked: {state.limited}")
    done = [one.ablation for one in trials(state) if one.outcome == "measured"]
    kept: tuple[Ablation, ...] = ()
    complaints: tuple[str, ...] = ()
    why = ""
    try:
        for _ in range(PLANNINGS):
            answer = await desk.ask("missing_ablations", _inputs(bench, complaints), MissingAblations)
            kept, complaints = sift(answer.ablations, bench.plan, most=bench.paper.missing_ablations, done=done)
            why = answer.why
            if not complaints:
                break
    except (ModelOutputInvalid, ModelRefused, BudgetSpent) as error:
        why = why or f"the model gave no usable answer: {error}"
    why += f" Left out: {'; '.join(complaints)}." if complaints else ""
    return AblationsMissed(missing=_with_room(bench, kept), why=why)


def _with_room(bench: Bench, kept: Sequence[Ablation]) -> tuple[MissingAblation, ...]:
    """What is asked for, each with the reason against running it, if there is one."""
    found: list[MissingAblation] = []
    for one in kept:
        before = sum(not other.refused for other in found)
        found.append(MissingAblation(ablation=one, refused=no_room(bench, before + 1)))
    return tuple(found)


def _inputs(bench: Bench, complaints: tuple[str, ...]) -> MissingAblationsInputs:
    state = bench.state
    best = state.nodes[winner(state) or ""]
    return MissingAblationsInputs(
        idea=bench.idea, data_plan=bench.plan, facts=bench.facts, draft=as_read(best_of(state.drafts).draft, state),
        trials=trials(state),
        method_plan=best.plan, method_source=read_source(bench.folder.source(best.id))["experiment.py"],
        most=bench.paper.missing_ablations, node_seconds=bench.node_seconds, complaints=complaints)


def as_read(draft: Draft, state: RunState) -> Draft:
    """A draft with the values that its result macros print, as a reader gets them."""
    claims, found = claims_of(state)
    values = printed([*claims, *found])

    def value(use: Use) -> str:
        return values.get(use.key, str(use)) if use.macro == "result" else str(use)

    def read(text: str) -> str:
        return filled(text, value)

    return draft.model_copy(update={
        "title": read(draft.title), "abstract": read(draft.abstract),
        "sections": tuple(one.model_copy(update={"body": read(one.body)}) for one in draft.sections),
        "captions": {name: read(text) for name, text in draft.captions.items()}})
