r"""What a paper is obliged to say, what of it a draft leaves out, and the draft with it.

Owed is what came of every hypothesis, every ablation that was measured, the data on which the method is behind, and a
reference of the program's own that is ahead of every arm. A draft that leaves one out is not released. What a writer
leaves out the program says: in verdicts, or in a sentence that is made of macros and fixed words, whatever things are
called, and that the binder knows (`Evidence.statements`). No page limit takes it out: the versions of a text are ranked
by what they leave out first, and figures give way.

What it does not guarantee: that a reader gives what is told the weight that it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from labwright.models.roles.writing import RequiredStatement
from labwright.record.ablation_results import ablation_results
from labwright.record.claims.differences import Difference
from labwright.record.fold.state import RunState
from labwright.record.ladder import RUNGS, beaten_by
from labwright.record.nouns.data import arm_of, level_of
from labwright.record.nouns.papers import Draft, Section
from labwright.record.typeset import ClaimKey, uses, without_form
from labwright.review.evidence import used_keys

Tabled = Mapping[str, frozenset[str]]
"""Table -> the claims that it prints."""


def owed(state: RunState, differences: Sequence[Difference]) -> tuple[RequiredStatement, ...]:
    """What the record obliges a paper to say beside the outcomes of its hypotheses."""
    return (*of_rungs(state), *_of_ablations(state, differences), *_of_losses(state, differences))


def of_rungs(state: RunState) -> tuple[RequiredStatement, ...]:
    """A sentence for each dataset on which a rung of the ladder beats every arm, with the macros of name and value."""
    return tuple(
        RequiredStatement(
            id=f"ladder-{one.dataset}",
            keys=(one.rung.key,),
            abstract=True,
            owed="sentence",
            text=(
                f"On \\setup{{data.{one.dataset}.title}}, the {RUNGS[one.rung.arm]}, which is no part of the "
                "study, is ahead of every arm of it, each at its best level (\\setup{metric.title}: "
                f"\\result{{{one.rung.key}.mean}})."
            ),
        )
        for one in beaten_by(state)
    )


def _of_ablations(state: RunState, differences: Sequence[Difference]) -> Iterator[RequiredStatement]:
    """Of each arm of an ablation that was measured, what is clearest on the main one of its datasets."""
    for result in ablation_results(state):
        for arm in result.arms if result.outcome == "measured" else ():
            found = _primary(state, [one for one in differences if one.arm == arm])
            here = [one for one in found if one.dataset == found[0].dataset]
            if here:
                clearest = max(here, key=lambda one: (one.called in ("improved", "worsened"), abs(one.mean)))
                yield RequiredStatement(
                    id=f"ablation-{arm}",
                    keys=(clearest.key,),
                    owed="shown",
                    text=(
                        f"{result.ablation.name}, an ablation of {result.ablation.part}: \\verdict{{{clearest.key}}}"
                    ),
                )


def _of_losses(state: RunState, differences: Sequence[Difference]) -> Iterator[RequiredStatement]:
    """Where the method is behind a baseline: called so, or at every level of a dataset by its means."""
    roles = {arm.name: arm.role for arm in state.data_plan.arms} if state.data_plan is not None else {}
    places: dict[tuple[str, str, str], list[Difference]] = {}
    for one in _primary(state, differences):
        if roles.get(one.arm) == "method":
            places.setdefault((one.dataset, one.arm, arm_of(one.other)), []).append(one)
    for (dataset, arm, other), found in places.items():
        behind = [one for one in found if one.better == one.other and one.mean != 0]
        lost = behind if len(behind) == len(found) else [one for one in behind if one.called == "worsened"]
        if lost:
            yield RequiredStatement(
                id=f"behind-{dataset}-{arm}-{other}",
                keys=tuple(one.key for one in lost),
                owed="shown",
                text=(
                    f"{arm} is behind {other} on {dataset}: "
                    + "; ".join(f"{level_of(one.condition) or 'in all'}: \\verdict{{{one.key}}}" for one in lost)
                ),
            )


def _primary(state: RunState, differences: Iterable[Difference]) -> list[Difference]:
    plan = state.data_plan
    return [one for one in differences if plan is not None and one.name == plan.primary.name]


# --- in a draft -------------------------------------------------------------------------------------------------------


def left_out(draft: Draft, statements: Iterable[RequiredStatement], tabled: Tabled) -> tuple[str, ...]:
    """What a draft leaves out of what it owes, a line each."""
    return tuple(line for item in statements for lines in _lacking(draft, item, tabled).values() for line in lines)


def with_owed(draft: Draft, statements: Iterable[RequiredStatement], tabled: Tabled) -> Draft:
    """The draft with all that it owes and leaves out."""
    abstract, told = [draft.abstract.rstrip()], list[str]()
    for item in statements:
        lacking = _lacking(draft, item, tabled)
        if "abstract" in lacking:
            abstract += [item.text] if item.owed == "sentence" else [_found(key, ".short") for key in item.keys]
        if "section" in lacking:
            told += [_found(key, "" if item.owed == "verdict" else ".short") for key in item.keys]
    found = [
        Section(title=one.title, body=f"{one.body.rstrip()}\n\n{' '.join(told)}")
        if told and at == _results(draft)
        else one
        for at, one in enumerate(draft.sections)
    ]
    return (
        draft.model_copy(update={"abstract": " ".join(abstract), "sections": tuple(found)})
        if len(abstract) > 1 or told
        else draft
    )


def _lacking(draft: Draft, item: RequiredStatement, tabled: Tabled) -> dict[str, list[str]]:
    """Where a draft leaves an item out: in its abstract, in its sections; with what to do."""
    found: dict[str, list[str]] = {}
    bodies = "\n".join(section.body for section in draft.sections)
    if item.owed == "sentence" and _flat(item.text) not in _flat(draft.abstract):
        found["abstract"] = [f"the abstract does not tell {item.id}: say there, as it stands: {item.text}"]
    if item.owed == "verdict":
        macro = f"\\verdict{{{item.keys[0]}}}"
        if item.abstract and not _told(draft.abstract) & {*item.keys}:
            found["abstract"] = [f"the abstract does not tell {item.id}: say it with {macro}"]
        if not _told(bodies) & {*item.keys}:
            found["section"] = [f"no section tells {item.id}: say it in the results with {macro}"]
    if item.owed == "shown":
        placed = used_keys([bodies], frozenset({"papertable"}))
        means = {key[1:4] for name in placed for text in tabled.get(name, ()) if (key := ClaimKey.parse(text))}
        if missing := [key for key in item.keys if key not in _told(bodies) and not _in_table(key, means)]:
            found["section"] = [
                f"the main text does not show {item.id}: place a table that has it, or say it with "
                + ", ".join(f"\\verdict{{{key}}}" for key in missing)
            ]
    return found


def _in_table(key: str, means: set[tuple[str, str, str]]) -> bool:
    claim = ClaimKey.parse(key)
    return claim is not None and all(
        (claim.dataset, claim.metric, side) in means for side in (claim.condition, claim.other)
    )


def _told(text: str) -> set[str]:
    return {without_form(use.key) for use in uses(text) if use.macro == "verdict"}


def _found(key: str, form: str) -> str:
    return f"We find that \\verdict{{{key}{form}}}."


def _results(draft: Draft) -> int:
    """The section that tells most verdicts; of several the first."""
    counts = [len(_told(one.body)) for one in draft.sections]
    return counts.index(max(counts))


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
