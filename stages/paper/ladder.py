"""What the program's own ladder says of a study, where a rung beats every arm of it: the abstract has to say so."""

from __future__ import annotations

from collections.abc import Sequence

from models.roles.writing import RequiredStatement
from record.fold.state import RunState
from record.ladder import RUNGS, beaten_by
from record.nouns.papers import Draft
from record.typeset import ClaimKey, uses
from stages.paper.latex import recorded, words

ID = "ladder-"
"""What the ids of these statements begin with."""


def of_rungs(state: RunState) -> tuple[RequiredStatement, ...]:
    """A sentence for each dataset on which a rung beats every arm, with the macro that prints its value."""
    assert state.data_plan is not None
    metric = state.data_plan.primary
    titles = {one.name: one.title or one.name for one in state.datasets}
    return tuple(RequiredStatement(id=f"{ID}{one.dataset}", keys=(one.rung.key,), abstract=True, text=(
        f"On {recorded(titles.get(one.dataset, one.dataset))}, the {RUNGS[one.rung.arm]}, which is no part of the "
        f"study, is ahead of every arm of it, each at its best level ({recorded(metric.title or words(metric.name))}: "
        f"\\result{{{one.rung.key}.mean}}).")) for one in beaten_by(state))


def untold(draft: Draft, statements: Sequence[RequiredStatement]) -> tuple[RequiredStatement, ...]:
    """Those of these statements of which the abstract prints no value."""
    told = {key.claim for use in uses(draft.abstract) if (key := ClaimKey.parse(use.key)) is not None}
    return tuple(one for one in statements if one.id.startswith(ID) and told.isdisjoint(one.keys))


def with_rungs(draft: Draft, statements: Sequence[RequiredStatement]) -> Draft:
    """The draft with the sentences that its abstract lacks: what a writer leaves out, the program says."""
    lacking = [one.text for one in untold(draft, statements)]
    return draft.model_copy(update={"abstract": " ".join((draft.abstract.rstrip(), *lacking))}) if lacking else draft
