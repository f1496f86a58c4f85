"""What a paper reports of its ablations, of where its run began, and of the people who wrote some of its code.

Made from the record: rows hold the record's words, sentences for the writer hold no number. A run that branched off is
one of the ways in which another was continued; how many such ways were tried, and whether this one was chosen for its
result, no record knows, and the paper says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from record.fold.facts import total_of
from record.fold.state import RunState
from record.nouns.nodes import STAGES
from record.trials import Trial, trials
from stages.paper.latex import recorded

FORKED = (
    "Other branches of the same run may have been made, and this paper may have been chosen among theirs; the record "
    "of a run knows its ancestors and not its siblings, so no value here is corrected for such a choice.")


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


def origin(state: RunState) -> str:
    """Where the run began, as TeX for the appendix; empty for one that began with its idea."""
    paragraphs: list[str] = []
    for one in state.ancestry:
        event, used = one.event, total_of(one.usage.values())
        where = (f"before the first decision of the {event.point} stage" if event.point in STAGES
                 else f"after the verdict on node {event.point}")
        itself = f" (then a branch of {', '.join(event.beyond)})" if event.beyond else ""
        unknown = used.unpriced and used.unpriced == used.calls
        paid = "a price that is not known" if unknown else f"{round(used.usd, 6):.2f} US dollars" + (
            f" and {used.unpriced} calls of unknown price" if used.unpriced else "")
        paragraphs.append(recorded(
            f"This run is a branch of the run {event.parent}{itself}, {where}. Its decisions up to {one.decision} were "
            f"taken there, and the {one.nodes} nodes that they made were begun there (SHA of that part of the log: "
            f"{event.sha256[:12]}). There, up to this point, {used.calls} model calls with "
            f"{used.input_tokens + used.output_tokens} tokens were made, for {paid}, and experiment code ran for "
            f"{round(one.seconds_of_code, 1):.0f} seconds; this is not in the cost below."))
    return "\n\n".join([*paragraphs, FORKED]) if paragraphs else ""
