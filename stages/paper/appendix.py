"""Generate a paper's appendix, and the disclosures that its text must contain.

All text of the record is escaped, all numbers are in `\\rec{}`, and no model writes any of it. The wording is in
`appendix.tex.jinja`, `incidents.tex.jinja` and `disclosures.txt.jinja`. The paper says that no record states how many
branches of a run were tried, or whether this one was chosen for its result. What the appendix leaves out is in the
disclosure and in the data behind the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from labwright.record.ablation_results import AblationOrigin, add_measured_arms, collect_ablation_results
from labwright.record.cell_status import CellStatus, build_hours_table, compute_all_cells, compute_cell_totals
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.estimates import (
    Claim,
    compute_node_score,
    find_replicates,
    find_winner,
    is_seed_ignored,
    nodes_ignoring_seed,
)
from labwright.record.claims.hypothesis_tests import decide_hypotheses, has_test_data
from labwright.record.claims.requested_estimates import RequestedEstimate
from labwright.record.claims.sentences import Caveat, compare_anchors, join_names
from labwright.record.claims.setting_controls import (
    ArmTuningReport,
    TuningReport,
    build_tuning_report,
    compute_parity,
    find_disparities,
)
from labwright.record.events.search_events import REDUCTION_AUTHOR, REVIEW_AUTHOR
from labwright.record.reducers.run_state import RoleUsage, RunState, sum_usage
from labwright.record.result_macros import MACRO_USE_PATTERN
from labwright.record.schema.data_plan import DataPlan, OmittedCells, parse_arm, to_words
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import STAGES, Node
from labwright.record.schema.paper import LATE_ROLES, AddendumEstimate
from labwright.record.tuning_results import MAX_EQUAL_RATIO, MIN_TRIALS_FOR_TREND
from labwright.stages.paper.latex import (
    capitalise,
    format_longtable,
    format_recorded_row,
    mark_recorded,
    render_template,
    shorten,
)
from labwright.stages.paper.result_tables import build_addendum_tables, render_in_full, render_plan_note
from labwright.stages.paper.setup_check import GRADE_MEANINGS, list_setup_rows
from labwright.stages.prompt_inputs import trace_branch

MAX_ITEMS = 4
"""Maximum number of items of an incident list in the appendix; the disclosure has everything."""
MAX_STEPS = 8
"""Maximum number of nodes on the path to the reported one that the appendix lists."""

DISCLOSURE_LABEL = "app:disclosure"
"""LaTeX label of the section of the appendix that discloses how the paper was made."""
LATE_ABLATIONS_NOTE = (
    "Ablations that the claims of the draft need, by a reviewer who had read its test results; nothing was chosen by "
    "those of the new nodes, which were scored once, after all of them ran."
)
BRANCH_NOTE = (
    "Other branches of the same run may have been made, and this paper may have been chosen among theirs; the record "
    "of a run knows its ancestors and not its siblings, so no value here is corrected for such a choice."
)
CAVEAT_MEANINGS: dict[Caveat, str] = {
    "not tuned": "Not tuned: both arms ran at their defaults, since no other setting was tried",
    "tuned with fewer trials": "Tuned with fewer trials: a setting was tuned less on the final code than planned",
    "tuning not converged": "Tuning not converged: the best setting of an arm was found late among its trials",
    "unanchored": "Unanchored: the baseline is outside of a published value's tolerance",
}


def render_notice(*, novelty_unchecked: bool, edited: bool = False) -> str:
    """Render the line of page one that says who wrote the paper, and where everything else is disclosed."""
    by = "a program and edited by a person" if edited else "a program"
    return (
        rf"Written by {by}; what else must be disclosed is in Appendix~\ref{{{DISCLOSURE_LABEL}}}."
        + " Whether the study is new is unchecked." * novelty_unchecked
    )


def render_appendix(
    state: RunState,
    claims: Sequence[Claim],
    *,
    origin: str = "",
    isolation: str = "",
    figures: Sequence[str] = (),
    tables: Sequence[str] = (),
    used: Collection[str] = (),
    estimates: Sequence[RequestedEstimate] = (),
    source: Mapping[str, str] | None = None,
    checklist: bool = False,
) -> str:
    """Render the appendix as TeX, bounded in length.

    `origin` states who wrote the paper, `isolation` what kept the code from the labels, `figures` and
    `tables` are those of the appendix, `used` the keys of the comparisons that the text uses, `source` is the code of
    the reported program.
    """
    best, placed = find_winner(state), (("Table", "tab", tables), ("Figure", "fig", figures))
    shown = [one for one in _list_differences(claims) if one.key in used]
    return (
        render_template(
            "appendix.tex.jinja",
            build_effort_context(state, claims)
            | _build_comparison_context(state, shown)
            | {
                "state": state,
                "stages": STAGES,
                "incidents": render_incidents(state, MAX_ITEMS),
                "forked": BRANCH_NOTE,
                "paid": format_cost,
                "total_of": sum_usage,
                "table": format_longtable,
                "row": format_recorded_row,
                "score": partial(_format_score, state.search.plan),
                "tested": has_test_data(state.nodes.values()),
                "figures": figures,
                "tables": tables,
                "floats": [f"{what}~\\ref{{{label}:{name}}}" for what, label, names in placed for name in names],
                "origin_note": origin,
                "plan_note": render_plan_note(state),
                "isolation": isolation,
                "estimates": [one for one in estimates if not isinstance(one.request, AddendumEstimate)],
                "asked": {
                    (state.paper.version, one.id): one.request
                    for one in (state.paper.requests.requests if state.paper.requests is not None else ())
                },
                "addendum_tables": build_addendum_tables(state),
                "setup": list_setup_rows(state, claims, source or {}),
                "compared": len(_list_differences(claims)),
                "registered": render_in_full(state),
                "best": best,
                "grades": {
                    grade: meaning
                    for grade, meaning in GRADE_MEANINGS.items()
                    if grade in {one.grade for one in claims}
                },
                "way": trace_branch(state, best)[-MAX_STEPS:],
                "disclosures": [_render_sentence(capitalise(one)) for one in list_disclosures(state, claims)],
                "checklist": checklist,
                "total": state.calls.sum_usage_without(*LATE_ROLES),
            },
        )
        + "\n"
    )


def _format_score(plan: DataPlan, node: Node) -> str:
    found = compute_node_score(node, plan)
    return "--" if found is None else f"{found:#.4g}".rstrip(".")


def _list_differences(claims: Sequence[Claim]) -> list[ClaimDifference]:
    """Return the comparisons, those of one dataset together."""
    found = [one for one in claims if isinstance(one, ClaimDifference)]
    places = {dataset: place for place, dataset in enumerate(dict.fromkeys(one.dataset for one in found))}
    return sorted(found, key=lambda one: places[one.dataset])


def _build_comparison_context(state: RunState, differences: Sequence[ClaimDifference]) -> dict[str, Any]:
    """Build the values for a table of these comparisons, with the names that readers see."""
    without_interval: dict[str, dict[str, None]] = {}
    for one in differences:
        if one.resampled_interval is not None and one.resampled_interval.reason:
            name = f"{to_words(one.name)} on {one.dataset}"
            without_interval.setdefault(one.resampled_interval.reason, {})[name] = None
    return {
        "differences": differences,
        "caveats": [text for name, text in CAVEAT_MEANINGS.items() if any(name in one.caveats for one in differences)],
        "plan": add_measured_arms(state, state.search.plan),
        "over_examples": any(one.examples for one in differences),
        "basis": "L{0.9in}" if any(one.caveats for one in differences) else "l",
        "without_interval": without_interval,
    }


def _render_sentence(text: str) -> str:
    """Render a sentence with value macros as TeX of the appendix."""
    at, parts = 0, list[str]()
    for use in MACRO_USE_PATTERN.finditer(text):
        parts += [mark_recorded(text[at : use.start()]), use[0]]
        at = use.end()
    return " ".join(one for one in (*parts, mark_recorded(text[at:])) if one)


def render_incidents(state: RunState, limit: int = 0) -> str:
    """Render the incidents that readers must know about as TeX, one list per kind with at most `limit` items (0: all);
    empty if there are none."""
    failures: list[tuple[Node, str]] = []
    for node in state.nodes.values():
        why = [node.failure.message] if node.failure and node.failure.kind != "suspect" else []
        why += [*(() if node.failure else node.reasons), *node.suspect]
        if why and (node.status != "good" or node.suspect):
            failures.append((node, "; ".join(why)))
    replicable = {find_winner(state), *(node.id for node in state.nodes.values() if node.kind == "ablate")}
    values = {
        "recalled": state.recalled_studies.shown if state.recalled_studies is not None else (),
        "state": state,
        "stages": STAGES,
        "failures": failures,
        # without the paper itself, whose time goes on while it is revised
        "hours": [one for one in build_hours_table(state) if one.phase != "paper" and state.search.hours is not None],
        "late": LATE_ABLATIONS_NOTE,
        "unreplicated": ", ".join(
            node.id
            for node in state.nodes.values()
            if node.status == "good" and node.id in replicable and not find_replicates(state, node.id)
        ),
        "listed": partial(_render_list, limit),
        "item": partial(_render_item, state.limit_reason or ""),
        "ablation_rows": list_ablation_rows,
        "cells": (cells := compute_all_cells(state)),
        "totals": compute_cell_totals(state, cells),
        "missing": _group_missing,
        "seedless": nodes_ignoring_seed,
        "replicates_of": find_replicates,
    }
    return render_template("incidents.tex.jinja", values)


def _group_missing(cells: Iterable[CellStatus]) -> dict[str, list[str]]:
    """Group the failed and left-out cells of a node by outcome and reason."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        if cell.outcome in ("failed", "left out"):
            found.setdefault(f"{cell.outcome}, {cell.why}", []).append(str(cell.cell))
    return found


def _render_list(most: int, head: str, *, caller: Callable[[], str]) -> str:
    items = [line for line in caller().split("\n") if line.strip()]
    if most and len(items) > most:
        items[most:] = [_render_item("", "...", caller=lambda: f"{len(items) - most} more in the disclosure")]
    return (
        f"{head}\n\\begin{{description}}\\footnotesize\\raggedright\n" + "\n".join(items) + "\n\\end{description}\n\n"
        if items
        else ""
    )


RUN_LABEL = "the whole run"
"""Label of the item that prints the limit of the run; others refer to it."""


def _render_item(limit_reason: str, name: str, *, caller: Callable[[], str]) -> str:
    text = caller()
    if limit_reason and name != RUN_LABEL:
        text = text.replace(shorten(limit_reason), "the limit of the whole run")
    return rf"\item[{mark_recorded(name)}] {mark_recorded(text)}" + "\n"


def format_cost(used: RoleUsage, unit: str = "") -> str:
    """Format the cost of model calls in US dollars."""
    if used.unpriced == used.calls and (used.calls or not unit):
        return "a price that is not known" if unit else "unknown"
    return f"{round(used.usd, 6):.2f}{unit}" + (f" and {used.unpriced} calls of unknown price" if used.unpriced else "")


def list_disclosures(state: RunState, claims: Sequence[Claim]) -> tuple[str, ...]:
    """Return the disclosures of a run, one sentence each, without numbers."""
    best = find_winner(state)
    ablated: dict[str, list[str]] = {}
    for result in collect_ablation_results(state):
        ablated.setdefault(f"{result.by}: {result.outcome}", []).append(result.ablation.name)
    behind = {node for claim in claims for node in claim.nodes}
    cells = [cell for node, found in compute_all_cells(state).items() if node in behind for cell in found]
    authors = {one.by for one in state.search.amendments}
    planned, edited = (state.find_approval(name) for name in ("plan", "paper"))
    lines = render_template(
        "disclosures.txt.jinja",
        build_effort_context(state, claims)
        | {
            "diverged": any(one.has_diverged for one in cells),
            "unfinished": any(one.outcome in ("failed", "left out") and not one.has_diverged for one in cells),
            "state": state,
            "planned_by_person": planned is not None and planned.plan is not None,
            "tested_before": _list_tested_before(state),
            "edited_by_person": edited is not None and edited.draft is not None,
            "untested": _list_untested(state, claims),
            "unmeasured": _list_unmeasured_arms(state, claims),
            "unrun": list_unrun_experiments(state),
            "amended": {
                "A person": authors - {REDUCTION_AUTHOR, REVIEW_AUTHOR},
                "The program": authors & {REDUCTION_AUTHOR, REVIEW_AUTHOR},
            },
            "ablated": ablated,
            "decided": decide_hypotheses(state),
            "failed_replicates": best and any(one.has_failed for one in find_replicates(state, best)),
            "ignores_seed": best and is_seed_ignored(state, best),
            "grades": {one.grade for one in claims},
            "graded": _list_grades(state, claims),
            "splits": [*{one.split for one in claims}],
        },
    ).split("\n")
    return tuple(line for line in lines if line)


def _list_tested_before(state: RunState) -> list[str]:
    """Return the datasets of the study whose test data decided a hypothesis of an earlier run that prompts showed."""
    plan = state.search.plan
    tested = {
        name
        for one in state.list_earlier_studies()
        if any(verdict.confirmed and verdict.verdict != "open" for verdict in one.verdicts)
        for name in one.datasets
    }
    return [plan.name_dataset(one.name) for one in state.search.datasets if one.name in tested]


def _list_grades(state: RunState, claims: Sequence[Claim]) -> list[str]:
    """Return for each grade how the metrics of the plan that have it were computed."""
    lines, graded = list[str](), {(one.name, one.grade) for one in claims}
    for grade, meaning in GRADE_MEANINGS.items():
        if names := [one.display_name for one in state.search.plan.metrics if (one.name, grade) in graded]:
            line = f"{join_names(names)} {'was' if len(names) == 1 else 'were'} {meaning}."
            lines.append(f"{line[:1].upper()}{line[1:]}")
    return lines


def _list_untested(state: RunState, claims: Sequence[Claim]) -> list[str]:
    """Return what the plan left untested, each once, without cells that were measured after all."""
    plan = state.search.plan
    measured = {(one.dataset, one.arm, one.level) for one in claims}
    left_out = [
        one
        for one in plan.left_out
        if not any(
            one.dataset in ("", dataset) and one.arm in ("", arm) and one.level in ("", level)
            for dataset, arm, level in measured
        )
    ]
    cells = "; ".join(dict.fromkeys(_name_omission(plan, one) for one in left_out))
    every = (*plan.untested, *map(str, plan.omitted), *filter(None, [cells]))
    return [*{text.rstrip(". ").casefold(): text for text in every}.values()]


def _name_omission(plan: DataPlan, one: OmittedCells) -> str:
    """Return omitted cells as readers call them: `mixup at 20 % noise on Digits (reason)`."""
    level = plan.name_level(one.level) if one.level else ""
    parts = (plan.name_arm(one.arm) if one.arm else "", f"at {level}" if one.arm and level else level)
    where = f"on {plan.name_dataset(one.dataset)}" if one.dataset else ""
    return f"{' '.join(filter(None, (*parts, where if any(parts) else where.removeprefix('on '))))} ({one.reason})"


def _list_unmeasured_arms(state: RunState, claims: Sequence[Claim]) -> list[str]:
    """Return the arms of the plan that no claim measures and that the plan did not leave out."""
    plan, measured = state.search.plan, {one.arm for one in claims}
    missing = {parse_arm(one) for one in plan.conditions} - measured if measured else set[str]()
    return [plan.name_arm(arm.name) for arm in plan.arms if arm.name in missing]


def list_unrun_experiments(state: RunState) -> list[str]:
    """Return the experiments of the idea that the arms of the plan do not cover and for which no node worked."""
    done: set[str] = set()
    for node in state.nodes.values():
        action = state.decisions[node.decision].action if node.decision in state.decisions else None
        exhausted = node.failure is not None and node.failure.kind == "nothing left"
        if isinstance(action, ExpandTree) and (node.status == "good" or exhausted):
            done.add(" ".join(action.item.split()))
    measured = {one.ablation.name for one in collect_ablation_results(state) if one.outcome == "measured"}
    items = [one for addendum in state.search.addenda for one in addendum.accepted]
    done |= {" ".join(one.experiment.split()) for one in items if one.ablation.name in measured}
    asked = state.started.idea.experiments if state.started is not None else ()
    return [
        shorten(text).rstrip(".")
        for n, text in enumerate(asked, 1)
        if n not in state.search.plan.covered and " ".join(text.split()) not in done
    ]


def list_ablation_rows(state: RunState, requested_by: AblationOrigin) -> Iterable[tuple[str, str]]:
    """Yield name and outcome of every ablation that was planned, was requested after the draft or is of an addendum,
    and the reason for a missing plan or for the request.
    """
    if requested_by == "author" and state.search.planned_ablations is not None and state.search.planned_ablations.why:
        yield "none", state.search.planned_ablations.why
    if requested_by == "reviewer" and state.search.missing_ablations is not None:
        yield "asked", state.search.missing_ablations.why
    for result in (one for one in collect_ablation_results(state) if one.by == requested_by):
        part, why = result.ablation.part, f", {result.why}"
        fate = f"{result.outcome}{f' ({result.node})' if result.node else ''}"
        change = {
            "remove": f"{part} taken out",
            "replace": f"instead of {part}: {result.ablation.replacement.rstrip('.')}",
            "add": f"added to {part}: {result.ablation.replacement.rstrip('.')}",
        }[result.ablation.action]
        if result.outcome == "measured":
            again = f"{result.replicates} replicates" if result.replicates else "no replicates, so no claim can be made"
            fate, why = f"measured by {result.node} as {', '.join(result.arms) or 'no arm'}, {again}", ""
        if result.surprise is not None:
            fate += f", exploratory: the control for a surprise in {' and '.join(result.surprise.conditions)}"
        yield result.ablation.name, f"{change}; {fate}{why}"


# Report tuning effort: each arm's budget, the resources of the compared arms, and published values. The wording is in
# `effort.tex.jinja`.


def build_effort_context(state: RunState, claims: Sequence[Claim]) -> dict[str, Any]:
    """Build the values for the sections and sentences on tuning."""
    account = build_tuning_report(state)
    name_arm = state.search.plan.name_arm
    settings = {one.arm: one.chosen for one in account.arms if one.chosen is not None} if account is not None else {}
    return {
        "account": account,
        "name_arm": name_arm,
        "unequal": tuple(map(name_arm, account.underfunded_arms)) if account is not None else (),
        "equal": f"{MAX_EQUAL_RATIO:g}",
        "fewest": MIN_TRIALS_FOR_TREND,
        "notes": _format_notes,
        "disparities": [
            (name_arm(arm), name_arm(other), what)
            for arm, other, what in find_disparities(state, compute_parity(state))
        ],
        "anchored": compare_anchors(state.search.plan, claims),
        "gaining": [name_arm(arm) for arm, one in settings.items() if one.gaining],
        "stale": [name_arm(arm) for arm, one in settings.items() if one.stale],
    }


def _format_notes(account: TuningReport, one: ArmTuningReport) -> str:
    """Return the notes on an arm's tuning effort; empty if there is nothing to report."""
    notes = ["UNEQUAL: less than the others"] * (one.arm in account.underfunded_arms)
    notes += ["every setting of its space was tried"] * one.effort.exhausted
    if one.chosen is not None:
        notes += ["tuned with fewer trials than planned"] * one.chosen.stale
        notes += ["the best came late: not converged"] * one.chosen.gaining
        notes += [f"at the edge: {', '.join(one.chosen.edges)}"] * bool(one.chosen.edges)
    return "; ".join(notes)
