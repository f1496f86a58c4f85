"""What a paper tells of its run, generated from the record: an appendix of a few pages, a supplement with everything
that ran, whether or not it helped, and the sentences that its text must tell.

All text of the record in them is escaped, all its numbers stand in `\\rec{}`; no model writes any of it. The words
themselves are in `appendix.tex.jinja`, `supplement.tex.jinja`, `incidents.tex.jinja` and `disclosures.txt.jinja`.

How many branches of a run were tried, and whether this one was chosen for its result, no record knows, and the paper
says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, Literal

from labwright.record.ablation_results import ablation_results
from labwright.record.cells import CellStatus, all_cells, totals_of
from labwright.record.claims.decisions import decisions
from labwright.record.claims.differences import Difference, Family
from labwright.record.claims.means import (
    LEVEL,
    MINIMUM_REPLICATES,
    POWER,
    Claim,
    ignores_seed,
    replicates_of,
    seedless,
    winner,
)
from labwright.record.claims.node_score import score_of, shown_on
from labwright.record.fold.facts import RoleUsage, total_of
from labwright.record.fold.state import RunState
from labwright.record.nouns.data import Grade
from labwright.record.nouns.decisions import Compare
from labwright.record.nouns.nodes import STAGES, Node, changed, retries
from labwright.record.nouns.papers import JUDGING
from labwright.record.typeset import USE
from labwright.stages.paper.effort import effort_context
from labwright.stages.paper.latex import longtable, recorded, recorded_row, rendered, short, words
from labwright.stages.paper.registered import HASH, in_full
from labwright.stages.paper.sheets import sheets
from labwright.stages.paper.sources import LOGGED
from labwright.stages.paper.tables import CONSTANT
from labwright.stages.summaries import branch

MOST, LINE = 4, 170
"""Items of a list of incidents in the appendix, and characters of each: of lists and lines the supplement has all."""
MOST_STEPS = 8
"""Nodes on the way to the reported one that the appendix names."""

LATE = (
    "After the draft, a reviewer was asked which ablations its claims need. Whoever asked had read the test "
    "results of the draft; nothing was chosen by those of the new nodes, which were scored once, after all of them "
    "ran."
)
FORKED = (
    "Other branches of the same run may have been made, and this paper may have been chosen among theirs; the record "
    "of a run knows its ancestors and not its siblings, so no value here is corrected for such a choice."
)
GRADES: dict[Grade, str] = {
    "scored": "computed by the program from submitted predictions, on labels that the code could not see",
    "evaluated": "computed in a second kernel by a scorer that was frozen before the search",
    "computed": "computed by the program from submitted predictions, but isolation was off: the labels were within the "
    "reach of the experiment's code",
    "judged": "a language model's grading of what was submitted, as the program recorded it",
    "unattributed": "computed by the program from submitted predictions, on labels that the code could not see, in a "
    "cell that asked language models: that the predictions are theirs was not shown",
    "logged": "reported by the experiment's code, not recomputed",
}
FAMILIES: dict[Family, str] = {
    "primary": "What was asked: the primary metric, method against baseline, and pairs that a hypothesis reads",
    "other": "Other metrics, and ablations",
}


def appendix(
    state: RunState,
    claims: Sequence[Claim],
    *,
    isolation: str = "",
    figures: Sequence[str] = (),
    used: Collection[str] = (),
    checklist: bool = False,
) -> str:
    """The appendix as TeX, bounded in length whatever a run holds: what it leaves out stands in the supplement.

    `isolation` says what kept the code from the labels, `figures` are those that stand here, `used` the keys of the
    comparisons that the text uses.
    """
    best = winner(state)
    shown = [one for one in _differences(claims) if one.key in used]
    return (
        rendered(
            "appendix.tex.jinja",
            _all(state, claims)
            | context(state, most=MOST)
            | _compared(shown)
            | {
                "figures": figures,
                "isolation": isolation,
                "compared": len(_differences(claims)),
                "hash": state.plan_hash[:HASH],
                "registered": in_full(state),
                "best": best,
                "grades": {
                    grade: meaning for grade, meaning in GRADES.items() if grade in {one.grade for one in claims}
                },
                "way": branch(state, best)[-MOST_STEPS:],
                "told": [_told(one) for one in disclosures(state, claims)],
                "checklist": checklist,
                "total": state.usage_without(*JUDGING),
            },
        )
        + "\n"
    )


def supplement(
    state: RunState, claims: Sequence[Claim], *, title: str, authors: str, figures: Sequence[str] = ()
) -> str:
    """The supplement as a document of its own: everything that ran, was measured or compared, in full."""
    made = {one.name: one.tex for one in sheets(state, claims)}
    return (
        rendered(
            "supplement.tex.jinja",
            _all(state, claims)
            | context(state)
            | _compared(_differences(claims))
            | {
                "title": title,
                "authors": authors,
                "figures": figures,
                "sheet": made.__getitem__,
                "by_seed": by_seed,
                "means": [one for one in claims if not isinstance(one, Difference)],
                "constant": CONSTANT,
            },
        )
        + "\n"
    )


def _all(state: RunState, claims: Sequence[Claim]) -> dict[str, Any]:
    """What both are filled in from."""

    def scored(node: Node) -> str:
        return "--" if (found := score_of(node, state.data_plan)) is None else f"{found:#.4g}".rstrip(".")

    return effort_context(state, claims) | {
        "logged": f" {LOGGED}" if {one.grade for one in claims} == {"logged"} else "",
        "table": longtable,
        "row": recorded_row,
        "metric": state.data_plan.primary if state.data_plan is not None else None,
        "score": scored,
        "shown_on": shown_on,
    }


def _differences(claims: Sequence[Claim]) -> list[Difference]:
    """The comparisons, those of the primary family first."""
    found = [one for one in claims if isinstance(one, Difference)]
    groups = dict.fromkeys((one.family, one.dataset) for one in found)
    places = {group: (group[0] != "primary", place) for place, group in enumerate(groups)}
    return sorted(found, key=lambda one: places[one.family, one.dataset])


def _compared(differences: Sequence[Difference]) -> dict[str, Any]:
    """What a table of these comparisons is filled in from."""
    over_examples = any(one.over_examples is not None for one in differences)
    without_interval: dict[str, dict[str, None]] = {}
    for one in differences:
        if one.over_examples is not None and one.over_examples.reason:
            without_interval.setdefault(one.over_examples.reason, {})[f"{words(one.name)} on {one.dataset}"] = None
    return {
        "differences": differences,
        "families": FAMILIES,
        "over_examples": over_examples,
        "forms": ["mean", "ci", *["ci_examples"] * over_examples, "p_adjusted", "mde", "n"],
        "verdicts": "L{0.75in}" if any(one.caveats for one in differences) else "l",
        "without_interval": without_interval,
        "power": f"{POWER:.0%}",
        "level": f"{LEVEL:.0%}",
        "minimum_replicates": MINIMUM_REPLICATES,
    }


def by_seed(claim: Claim) -> str:
    """The replicates behind a mean."""
    return ", ".join(f"{seed}: {value:.4g}" for seed, value in zip(claim.seeds, claim.values, strict=True))


def _told(text: str) -> str:
    """A sentence with macros of values as TeX of the appendix."""
    at, parts = 0, list[str]()
    for use in USE.finditer(text):
        parts += [recorded(text[at : use.start()]), use[0]]
        at = use.end()
    return " ".join(one for one in (*parts, recorded(text[at:])) if one)


def incidents(state: RunState) -> str:
    """What happened that a reader must know, as TeX, a list a kind of incident; empty where nothing happened."""
    return rendered("incidents.tex.jinja", context(state))


def context(state: RunState, most: int = 0) -> dict[str, Any]:
    """What the templates on incidents are filled in from; lists of `most` items at most, where it is given."""
    failures: list[tuple[Node, str]] = []
    for node in state.nodes.values():
        why = [node.failure.message] if node.failure and node.failure.kind != "suspect" else []
        why += [*(node.reasons if node.status == "cancelled" or not node.failure else ()), *node.suspect]
        if why and (node.status != "good" or node.suspect):
            failures.append((node, "; ".join(why)))
    replicable = {one.best for one in state.stages.values()} | {
        node.id for node in state.nodes.values() if node.kind == "ablate"
    }
    return {
        "state": state,
        "stages": STAGES,
        "failures": failures,
        "late": LATE,
        "forked": FORKED,
        "comparisons": [one.action for one in state.decisions.values() if isinstance(one.action, Compare)],
        "unreplicated": ", ".join(
            node.id
            for node in state.nodes.values()
            if node.status == "good" and node.id in replicable and not replicates_of(state, node.id)
        ),
        "compact": bool(most),
        "listed": partial(_listed, most),
        "item": partial(_item, most),
        "paid": paid,
        "ablation_rows": ablation_rows,
        "cells": (cells := all_cells(state)),
        "totals": totals_of(state, cells),
        "origins": _origins,
        "missing": _missing,
        "retries": retries,
        "changed": changed,
        "seedless": seedless,
        "replicates_of": replicates_of,
        "total_of": total_of,
    }


def _origins(cells: Iterable[CellStatus]) -> str:
    """Where a node's cells were taken over from, as `4 of n0003, 2 of n0005`; empty where none was."""
    nodes = [one.node or "a node that is not there" for one in cells if one.outcome == "taken over"]
    return ", ".join(f"{nodes.count(node)} of {node}" for node in dict.fromkeys(nodes))


def _missing(cells: Iterable[CellStatus]) -> dict[str, list[str]]:
    """Of a node: how cells failed or were left out, and why -> those of which it is so."""
    found: dict[str, list[str]] = {}
    for one in cells:
        if one.outcome in ("failed", "left out"):
            found.setdefault(f"{one.outcome}, {one.why}", []).append(str(one.cell))
    return found


def _listed(most: int, head: str, *, caller: Callable[[], str]) -> str:
    items = [line for line in caller().split("\n") if line.strip()]
    if most and len(items) > most:
        items[most:] = [_item(0, "...", caller=lambda: f"{len(items) - most} more in the supplement")]
    return (
        f"{head}\n\\begin{{description}}\\footnotesize\\raggedright\n" + "\n".join(items) + "\n\\end{description}\n\n"
        if items
        else ""
    )


def _item(most: int, name: str, *, caller: Callable[[], str]) -> str:
    return rf"\item[{recorded(name)}] {recorded(short(caller(), LINE) if most else caller())}" + "\n"


def paid(used: RoleUsage, unit: str = "") -> str:
    """What calls cost, in US dollars."""
    if used.unpriced == used.calls and (used.calls or not unit):
        return "a price that is not known" if unit else "unknown"
    return f"{round(used.usd, 6):.2f}{unit}" + (f" and {used.unpriced} calls of unknown price" if used.unpriced else "")


def disclosures(state: RunState, claims: Sequence[Claim]) -> tuple[str, ...]:
    """What a reader must learn of this run, a sentence each, in words without numbers."""
    best = winner(state)
    ablated: dict[str, list[str]] = {}
    for one in ablation_results(state):
        ablated.setdefault(f"{one.by}: {one.outcome}", []).append(one.ablation.name)
    behind = {node for claim in claims for node in claim.nodes}
    cells = [cell for node, found in all_cells(state).items() if node in behind for cell in found]
    lines = rendered(
        "disclosures.txt.jinja",
        effort_context(state, claims)
        | {
            "diverged": any(one.diverged for one in cells),
            "unfinished": any(one.outcome in ("failed", "left out") and not one.diverged for one in cells),
            "state": state,
            "nodes": state.nodes.values(),
            "ablated": ablated,
            "decided": decisions(state),
            "failed_replicates": best and any(one.status != "good" for one in replicates_of(state, best)),
            "ignores_seed": best and ignores_seed(state, best),
            "grades": {one.grade for one in claims},
            "splits": [*{one.split for one in claims}],
        },
    ).split("\n")
    return tuple(line for line in lines if line)


def ablation_rows(state: RunState, by: Literal["author", "reviewer"]) -> Iterable[tuple[str, str]]:
    """Name and fate of every ablation that was planned, or asked for after the draft; and why there was no plan, or
    what was said with the demand."""
    if by == "author" and state.planned is not None and state.planned.why:
        yield "none", state.planned.why
    if by == "reviewer" and state.missed is not None:
        yield "asked", state.missed.why
    for one in ablation_results(state):
        name, part, fate = one.ablation.name, one.ablation.part, f"{one.outcome}{f' ({one.node})' if one.node else ''}"
        change = {
            "remove": f"{part} taken out",
            "replace": f"{part} replaced by {one.ablation.replacement}",
            "add": f"{one.ablation.replacement} added to {part}",
        }[one.ablation.action]
        if one.outcome == "measured":
            again = (
                f"{one.replicates} replicates"
                if one.replicates
                else ("no replicates, so that nothing is claimed of it")
            )
            fate = f"measured by {one.node} as {', '.join(one.arms) or 'no arm'}, {again}"
        if one.by == by:
            yield name, f"{change}: {fate}" + (f", {one.why}" if one.outcome != "measured" else "")
