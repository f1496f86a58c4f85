r"""Determine the statements that a paper must contain, find those that a draft omits, and add them.

Required are the outcome of every hypothesis, every measured ablation, the datasets on which the method loses, and
reference models that beat every arm. A draft that omits one is not released. The program adds what a writer omits: as
verdicts, or as sentences of macros and fixed words that the binder accepts (`Evidence.statements`). No page limit
removes it: versions are ranked first by their omissions, and figures are moved instead.

Limits: a reader may still give a statement too little weight.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from labwright.models.roles.paper_writing import RequiredStatement
from labwright.record.ablation_results import collect_ablation_results
from labwright.record.claims.differences import ClaimDifference
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import REFERENCE_ARM_TITLES, find_reference_wins
from labwright.record.result_macros import ClaimKey, find_macro_uses, strip_form
from labwright.record.schema.data_plan import parse_arm, parse_level
from labwright.record.schema.paper import PaperDraft, Section
from labwright.review.evidence import collect_used_keys

_EXPLORATORY_CONTROL = ", the exploratory control for the strongest surprise of the exploration"
TableClaims = Mapping[str, frozenset[str]]
"""Table -> the claims that it prints."""


def list_required_statements(state: RunState, differences: Sequence[ClaimDifference]) -> tuple[RequiredStatement, ...]:
    """Return the statements that the record requires, besides the outcomes of the hypotheses."""
    return (
        *list_reference_statements(state),
        *_list_ablation_statements(state, differences),
        *_list_loss_statements(state, differences),
    )


def list_reference_statements(state: RunState) -> tuple[RequiredStatement, ...]:
    """Return a sentence for each dataset on which a reference model beats every arm, with macros for name and value."""
    return tuple(
        RequiredStatement(
            id=f"ladder-{one.dataset}",
            keys=(one.reference.key,),
            abstract=True,
            required_form="sentence",
            text=(
                f"On \\setup{{data.{one.dataset}.title}}, the {REFERENCE_ARM_TITLES[one.reference.arm]}, which "
                "is not part of the study, outperforms every arm at its best level (\\setup{metric.title}: "
                f"\\result{{{one.reference.key}.mean}})."
            ),
        )
        for one in find_reference_wins(state)
    )


def _list_ablation_statements(state: RunState, differences: Sequence[ClaimDifference]) -> Iterator[RequiredStatement]:
    """Yield, for each measured ablation arm, its clearest difference on the main dataset."""
    for result in collect_ablation_results(state):
        for arm in result.arms if result.outcome == "measured" else ():
            found = _filter_primary(state, [one for one in differences if one.arm == arm])
            here = [one for one in found if one.dataset == found[0].dataset]
            if here:
                clearest = max(here, key=lambda one: (one.excludes_zero, abs(one.mean)))
                yield RequiredStatement(
                    id=f"ablation-{arm}",
                    keys=(clearest.key,),
                    required_form="shown",
                    text=(
                        f"{result.ablation.name}, an ablation of {result.ablation.part}"
                        f"{_EXPLORATORY_CONTROL if result.surprise is not None else ''}: \\verdict{{{clearest.key}}}"
                    ),
                )


def _list_loss_statements(state: RunState, differences: Sequence[ClaimDifference]) -> Iterator[RequiredStatement]:
    """Yield statements where the method loses to a baseline: by an interval without zero, or by its means at
    every level of a dataset."""
    roles = {arm.name: arm.role for arm in state.data_plan.arms} if state.data_plan is not None else {}
    places: dict[tuple[str, str, str], list[ClaimDifference]] = {}
    for difference in _filter_primary(state, differences):
        if roles.get(difference.arm) == "method":
            places.setdefault((difference.dataset, difference.arm, parse_arm(difference.other)), []).append(difference)
    for (dataset, arm, other), found in places.items():
        behind = [one for one in found if one.better == one.other and one.mean != 0]
        lost = behind if len(behind) == len(found) else [one for one in behind if one.excludes_zero]
        if lost:
            yield RequiredStatement(
                id=f"behind-{dataset}-{arm}-{other}",
                keys=tuple(one.key for one in lost),
                required_form="shown",
                text=(
                    f"{arm} against {other} on {dataset}, where its means are worse: "
                    + "; ".join(f"{parse_level(one.condition) or 'in all'}: \\verdict{{{one.key}}}" for one in lost)
                ),
            )


def _filter_primary(state: RunState, differences: Iterable[ClaimDifference]) -> list[ClaimDifference]:
    plan = state.data_plan
    return [one for one in differences if plan is not None and one.name == plan.primary_metric.name]


# --- drafts -----------------------------------------------------------------------------------------------------------


def missing_statements(
    draft: PaperDraft, statements: Iterable[RequiredStatement], table_claims: TableClaims
) -> tuple[str, ...]:
    """Return the required statements that a draft omits, one line each."""
    return tuple(
        line for item in statements for lines in _find_gaps(draft, item, table_claims).values() for line in lines
    )


def add_missing_statements(
    draft: PaperDraft, statements: Iterable[RequiredStatement], table_claims: TableClaims
) -> PaperDraft:
    """Return the draft with the omitted required statements added."""
    abstract, sentences = [draft.abstract.rstrip()], list[str]()
    for item in statements:
        lacking = _find_gaps(draft, item, table_claims)
        if "abstract" in lacking:
            abstract += (
                [item.text]
                if item.required_form == "sentence"
                else [_format_verdict_macro(key, ".short") for key in item.keys]
            )
        if "section" in lacking:
            sentences += [
                _format_verdict_macro(key, "" if item.required_form == "verdict" else ".short") for key in item.keys
            ]
    found = [
        Section(title=one.title, body=f"{one.body.rstrip()}\n\n{' '.join(sentences)}")
        if sentences and at == _find_results_section(draft)
        else one
        for at, one in enumerate(draft.sections)
    ]
    return (
        draft.model_copy(update={"abstract": " ".join(abstract), "sections": tuple(found)})
        if len(abstract) > 1 or sentences
        else draft
    )


def _find_gaps(draft: PaperDraft, item: RequiredStatement, table_claims: TableClaims) -> dict[str, list[str]]:
    """Return the places where a draft omits an item (the abstract or the sections), with instructions."""
    found: dict[str, list[str]] = {}
    bodies = "\n".join(section.body for section in draft.sections)
    if item.required_form == "sentence" and _normalise_space(item.text) not in _normalise_space(draft.abstract):
        found["abstract"] = [f"the abstract omits {item.id}: include this sentence unchanged: {item.text}"]
    if item.required_form == "verdict":
        macro = f"\\verdict{{{item.keys[0]}}}"
        if item.abstract and not _find_macro_keys(draft.abstract) & {*item.keys}:
            found["abstract"] = [f"the abstract omits {item.id}: report it with {macro}"]
        if not _find_macro_keys(bodies) & {*item.keys}:
            found["section"] = [f"no section reports {item.id}: report it in the results with {macro}"]
    if item.required_form == "shown":
        placed = collect_used_keys([bodies], frozenset({"papertable"}))
        means = {
            key[1:4] for name in placed for text in table_claims.get(name, ()) if (key := ClaimKey.parse_key(text))
        }
        if missing := [
            key for key in item.keys if key not in _find_macro_keys(bodies) and not _is_in_table(key, means)
        ]:
            found["section"] = [
                f"the main text does not show {item.id}: place a table that contains it, or report it with "
                + ", ".join(f"\\verdict{{{key}}}" for key in missing)
            ]
    return found


def _is_in_table(key: str, means: set[tuple[str, str, str]]) -> bool:
    claim = ClaimKey.parse_key(key)
    return claim is not None and all(
        (claim.dataset, claim.metric, side) in means for side in (claim.condition, claim.other)
    )


def _find_macro_keys(text: str) -> set[str]:
    return {strip_form(use.key) for use in find_macro_uses(text) if use.macro == "verdict"}


def _format_verdict_macro(key: str, form: str) -> str:
    return f"We find that \\verdict{{{key}{form}}}."


def _find_results_section(draft: PaperDraft) -> int:
    """Return the index of the section with the most verdicts; the first one in case of a tie."""
    counts = [len(_find_macro_keys(one.body)) for one in draft.sections]
    return counts.index(max(counts))


def _normalise_space(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
