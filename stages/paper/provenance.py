"""What a paper reports of its ablations, of where its run began, and of the people who wrote some of its code.

Made from the record: rows hold the record's words, sentences for the writer hold no number. A run that branched off is
one of the ways in which another was continued; how many such ways were tried, and whether this one was chosen for its
result, no record knows, and the paper says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from record.fold.facts import Ancestor, total_of
from record.fold.state import RunState
from record.nouns.nodes import STAGES
from record.trials import Trial, trials
from stages.paper.disclosed import DisclosedAblations, DisclosedAncestor, DisclosedHumanNode
from stages.paper.latex import recorded

FORKED = (
    "Other branches of the same run may have been made, and this paper may have been chosen among theirs; the record "
    "of a run knows its ancestors and not its siblings, so no value here is corrected for such a choice.")


def sentences_on_provenance(state: RunState) -> Iterator[str]:
    """What a reader must learn, in words without numbers."""
    yield from _ablation_sentences(state)
    if state.ancestry:
        yield ("The run goes on from a point of another run, of which there may be other branches; the appendix says "
               "what was decided there.")
    if state.human_nodes:
        yield "A person wrote the code of some experiments; the appendix says which."


# --- ablations --------------------------------------------------------------------------------------------------------


def disclosed_ablations(state: RunState) -> DisclosedAblations | None:
    """For the disclosure; None where nothing was planned and nobody asked."""
    if state.planned is None and state.missed is None:
        return None
    return DisclosedAblations(
        trials=trials(state), risks=state.planned.risks if state.planned is not None else (),
        unplanned=state.planned.why if state.planned is not None else "",
        missing=state.missed.why if state.missed is not None else "")


def _ablation_sentences(state: RunState) -> Iterator[str]:
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


def planned_rows(state: RunState) -> Iterable[tuple[str, str]]:
    """Name and fate of every planned ablation; why there was no plan."""
    if state.planned is not None and state.planned.why:
        yield "none", state.planned.why
    yield from (_row(one) for one in trials(state) if one.by == "author")


def missing_rows(state: RunState) -> Iterable[tuple[str, str]]:
    """Name and fate of every ablation that was asked for after the draft, and what was said with it."""
    if state.missed is not None:
        yield "asked", state.missed.why
    yield from (_row(one) for one in trials(state) if one.by == "reviewer")


def _row(one: Trial) -> tuple[str, str]:
    change = {"remove": f"{one.ablation.part} taken out",
              "replace": f"{one.ablation.part} replaced by {one.ablation.replacement}",
              "add": f"{one.ablation.replacement} added to {one.ablation.part}"}[one.ablation.action]
    if one.outcome == "measured":
        again = f"{one.replicates} replicates" if one.replicates else "no replicates, so that nothing is claimed of it"
        return one.ablation.name, f"{change}: measured by {one.node} as {', '.join(one.arms) or 'no arm'}, {again}"
    return one.ablation.name, f"{change}: {one.outcome}{f' ({one.node})' if one.node else ''}, {one.why}"


# --- ancestors, and people --------------------------------------------------------------------------------------------


def disclosed_humans(state: RunState) -> tuple[DisclosedHumanNode, ...]:
    """For the disclosure, in the order of decisions."""
    return tuple(DisclosedHumanNode(node=node.id, author=node.author, stage=node.stage, kind=node.kind, plan=node.plan)
                 for node in state.human_nodes)


def human_rows(state: RunState) -> Iterable[tuple[str, str]]:
    """Nodes that people wrote, and who."""
    return ((node.id, f"{node.kind}, by {node.author}") for node in state.human_nodes)


def disclosed_ancestors(state: RunState) -> tuple[DisclosedAncestor, ...]:
    """For the disclosure, the first ancestor first."""
    return tuple(_disclosed(one) for one in state.ancestry)


def _disclosed(one: Ancestor) -> DisclosedAncestor:
    event, used = one.event, total_of(one.usage.values())
    return DisclosedAncestor(
        run=event.parent, point=event.point, decision=one.decision, nodes=one.nodes, events=event.events,
        sha256=event.sha256, seed=event.seed, settings_changed=tuple(event.settings), note=event.note, by=event.by,
        beyond=event.beyond, calls=used.calls, tokens=used.input_tokens + used.output_tokens, usd=round(used.usd, 6),
        unpriced=used.unpriced, seconds_of_code=round(one.seconds_of_code, 1),
        seconds_of_run=round(one.active_seconds, 1))


def origin(state: RunState) -> str:
    """Where the run began, as TeX for the appendix; empty for one that began with its idea."""
    ancestors = [recorded(f"{_origin(one)} {_cost(one)}") for one in disclosed_ancestors(state)]
    return "\n\n".join([*ancestors, FORKED]) if ancestors else ""


def _origin(one: DisclosedAncestor) -> str:
    where = (f"before the first decision of the {one.point} stage" if one.point in STAGES
             else f"after the verdict on node {one.point}")
    itself = f" (then a branch of {', '.join(one.beyond)})" if one.beyond else ""
    return (f"This run is a branch of the run {one.run}{itself}, {where}. Its decisions up to {one.decision} were "
            f"taken there, and the {one.nodes} nodes that they made were begun there (SHA of that part of the log: "
            f"{one.sha256[:12]}).")


def _cost(one: DisclosedAncestor) -> str:
    paid = "a price that is not known" if one.unpriced and one.unpriced == one.calls else f"{one.usd:.2f} US dollars"
    more = f" and {one.unpriced} calls of unknown price" if one.unpriced and one.unpriced != one.calls else ""
    return (f"There, up to this point, {one.calls} model calls with {one.tokens} tokens were made, for {paid}{more}, "
            f"and experiment code ran for {one.seconds_of_code:.0f} seconds; this is not in the cost below.")
