"""What happened in a run that a reader must know, from the record: failures, retries, comparisons, stage ends, what
became of ablations, where the run began, and the people who wrote some of its code.

Lists hold the record's words (`incidents.tex.jinja`), sentences for the writer hold no number. A run that branched off
is one of the ways in which another was continued; how many such ways were tried, and whether this one was chosen for
its result, no record knows, and the paper says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from record.claims.means import replicates_of, seedless
from record.fold.facts import RoleUsage, total_of
from record.fold.state import RunState
from record.nouns.decisions import Compare
from record.nouns.nodes import STAGES, Node, changed, retries
from record.trials import trials
from stages.paper.latex import recorded, rendered

LATE = ("After the draft, a reviewer was asked which ablations its claims need. Whoever asked had read the test "
        "results of the draft; nothing was chosen by those of the new nodes, which were scored once, after all of them "
        "ran.")
FORKED = (
    "Other branches of the same run may have been made, and this paper may have been chosen among theirs; the record "
    "of a run knows its ancestors and not its siblings, so no value here is corrected for such a choice.")


def incidents(state: RunState) -> str:
    """All of it as TeX, a list a kind of incident; empty where nothing happened."""
    return rendered("incidents.tex.jinja", context(state))


def context(state: RunState) -> dict[str, Any]:
    """What the templates of the appendix are filled in from."""
    failures: list[tuple[Node, str]] = []
    for node in state.nodes.values():
        why = [node.failure.message] if node.failure and node.failure.kind != "suspect" else []
        why += [*(node.reasons if node.status == "cancelled" or not node.failure else ()), *node.suspect]
        if why and (node.status != "good" or node.suspect):
            failures.append((node, "; ".join(why)))
    replicable = {one.best for one in state.stages.values()} | {
        node.id for node in state.nodes.values() if node.kind == "ablate"}
    return {
        "state": state, "stages": STAGES, "failures": failures, "late": LATE, "forked": FORKED,
        "comparisons": [one.action for one in state.decisions.values() if isinstance(one.action, Compare)],
        "unreplicated": ", ".join(node.id for node in state.nodes.values() if node.status == "good"
                                  and node.id in replicable and not replicates_of(state, node.id)),
        "listed": _listed, "item": _item, "paid": paid, "ablation_rows": ablation_rows,
        "retries": retries, "changed": changed, "seedless": seedless, "replicates_of": replicates_of,
        "total_of": total_of}


def _listed(head: str, *, caller: Callable[[], str]) -> str:
    items = caller().strip()
    return (f"{head}\n\\begin{{description}}\\footnotesize\\raggedright\n{items}\n\\end{{description}}\n\n" if items
            else "")


def _item(name: str, *, caller: Callable[[], str]) -> str:
    return rf"\item[{recorded(name)}] {recorded(caller())}" + "\n"


def paid(used: RoleUsage, unit: str = "") -> str:
    """What calls cost, in US dollars."""
    if used.unpriced == used.calls and (used.calls or not unit):
        return "a price that is not known" if unit else "unknown"
    return f"{round(used.usd, 6):.2f}{unit}" + (
        f" and {used.unpriced} calls of unknown price" if used.unpriced else "")


def sentences_on_provenance(state: RunState) -> Iterator[str]:
    """What a reader must learn, in words without numbers."""
    names: dict[tuple[str, str], list[str]] = {}
    for one in trials(state):
        names.setdefault((one.by, one.outcome), []).append(one.ablation.name)
    for key, sentence in (
            (("author", "failed"), "Planned ablations that failed: {}; the appendix says why."),
            (("author", "not run"), "Planned ablations that were not run: {}; the appendix says why."),
            (("reviewer", "measured"), "Run after the first draft, since a reviewer who had read it, test results "
                                       "included, asked for them: {}. The figures do not show them."),
            (("reviewer", "failed"), "Ablations that a reviewer of the draft asked for and that failed: {}; the "
                                     "appendix says why."),
            (("reviewer", "not run"), "Ablations that a reviewer of the draft asked for and that were not run: {}; the "
                                      "appendix says why.")):
        if key in names:
            yield sentence.format(", ".join(names[key]))
    if state.ancestry:
        yield ("The run goes on from a point of another run, of which there may be other branches; the appendix says "
               "what was decided there.")
    if state.human_nodes:
        yield "A person wrote the code of some experiments; the appendix says which."


def ablation_rows(state: RunState, by: Literal["author", "reviewer"]) -> Iterable[tuple[str, str]]:
    """Name and fate of every ablation that was planned, or asked for after the draft; and why there was no plan, or
    what was said with the demand."""
    if by == "author" and state.planned is not None and state.planned.why:
        yield "none", state.planned.why
    if by == "reviewer" and state.missed is not None:
        yield "asked", state.missed.why
    for one in trials(state):
        name, part, fate = one.ablation.name, one.ablation.part, f"{one.outcome}{f' ({one.node})' if one.node else ''}"
        change = {"remove": f"{part} taken out", "replace": f"{part} replaced by {one.ablation.replacement}",
                  "add": f"{one.ablation.replacement} added to {part}"}[one.ablation.action]
        if one.outcome == "measured":
            again = f"{one.replicates} replicates" if one.replicates else (
                "no replicates, so that nothing is claimed of it")
            fate = f"measured by {one.node} as {', '.join(one.arms) or 'no arm'}, {again}"
        if one.by == by:
            yield name, f"{change}: {fate}" + (f", {one.why}" if one.outcome != "measured" else "")
