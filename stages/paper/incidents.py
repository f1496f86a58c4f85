"""What happened in a run that a reader must know, from the record: failures, retries, comparisons, stage ends, what
became of ablations, where the run began, and the people who wrote some of its code.

Rows hold the record's words, sentences for the writer hold no number. A run that branched off is one of the ways in
which another was continued; how many such ways were tried, and whether this one was chosen for its result, no record
knows, and the paper says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from record.claims import replicates_of, seedless
from record.fold.facts import total_of
from record.fold.state import RunState
from record.nouns.decisions import Compare
from record.nouns.nodes import STAGES, Attempt, changed, retries
from record.trials import trials
from stages.paper.latex import recorded

LATE = ("After the draft, a reviewer was asked which ablations its claims need. Whoever asked had read the test "
        "results of the draft; nothing was chosen by those of the new nodes, which were scored once, after all of them "
        "ran.")
FORKED = (
    "Other branches of the same run may have been made, and this paper may have been chosen among theirs; the record "
    "of a run knows its ancestors and not its siblings, so no value here is corrected for such a choice.")
LONGEST = 260
"""Characters of one reason."""
_FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^\s/:,'\"\]]+/)+")

Rows = Iterable[tuple[str, str]]


def incidents(state: RunState) -> str:
    """All of it as TeX, a list a kind of incident; empty where nothing happened."""
    lists = ((head, "\n".join(rf"\item[{recorded(name)}] {recorded(text)}" for name, text in rows))
             for head, rows in (*_of_nodes(state), *_of_the_run(state)))
    return "\n\n".join(f"{head}\n\\begin{{description}}\\footnotesize\\raggedright\n{items}\n\\end{{description}}"
                       for head, items in lists if items)


def _of_nodes(state: RunState) -> Iterable[tuple[str, Rows]]:
    nodes = state.nodes.values()
    return (
        ("Nodes whose code a person wrote; it ran, and was checked and reviewed, like that of a model:",
         ((node.id, f"{node.kind}, by {node.author}") for node in state.human_nodes)),
        ("Nodes that failed, were ended by us (pruned) or are marked as suspect:", _failures(state)),
        ("A person steered the search while it went on: ended a node, marked it, or wrote a note that prompts of "
         "a stage showed. In order:", _steered(state)),
        ("What the check of honesty noted in code without holding it against its numbers:",
         ((node.id, short(str(one))) for node in nodes for one in node.findings if not one.suspect)),
        ("The winner's code was run again after the search, once with permuted training labels and once with "
         "another seed; none of these values is a result:",
         ((one.node, f"{one.probe}: {one.outcome}; {short(one.why)}") for one in state.probes)),
        ("Nodes whose test artifacts the frozen scorer could not evaluate, so that they have no such values:",
         ((node, short(failure.message)) for node, failure in state.unscored.items())),
        ("Attempts that ran out of time or memory were run once more with changed limits:",
         ((node.id, f"{_outcome(first)}; then {changed(first, second)}: {_outcome(second)}")
          for node in nodes for first, second in retries(node))),
        ("Nodes whose replicates gave the same values for every seed: their code ignores the seed, as that of a "
         "deterministic method does, and the spread over seeds is unknown:",
         ((node, f"replicates {', '.join(one.id for one in replicates_of(state, node) if one.status == 'good')}")
          for node in seedless(state))),
        ("Where the measured noise hides the difference between two nodes, a model was asked which of them is the "
         "sounder one to build on:",
         ((f"{one.a}, {one.b}", f"{one.stage}: " + (f"{answer.better or 'neither'}; {short(answer.reasons)}" if (
             answer := state.compared.get((one.a, one.b))) is not None else "not answered"))
          for one in (decided.action for decided in state.decisions.values()) if isinstance(one, Compare))),
        ("Figures that no model looked at, since the one that should have takes no pictures or gave no usable "
         "answer; a program checked their labels, legends and axes:", [
            *((node.id, f"plotting {', '.join(numbers)}") for node in nodes if (numbers := [
                str(one.n) for one in node.plottings if one.reviews is not None and not one.looked])),
            *([("paper", "the final figures")] if state.figures is not None and not state.figures.looked else [])]))


def _of_the_run(state: RunState) -> Iterable[tuple[str, Rows]]:
    left_out = state.figures.left_out if state.figures is not None else {}
    return (
        ("Model calls that got no usable answer, and what was done instead:",
         ((one.key.role, f"decision {one.key.decision}: {one.then}; {short(one.why)}")
          for one in state.unanswered.values())),
        ("Figures that were made for the paper and are not in it:",
         ((name, short(why)) for name, why in left_out.items())),
        ("Ablations that were planned before the last stage, and what became of each:",
         ((name, short(text)) for name, text in ablation_rows(state, "author"))),
        (f"{LATE} What was asked for, and what became of each:",
         ((name, short(text)) for name, text in ablation_rows(state, "reviewer"))),
        ("Why the search of each stage ended:", [
            *((name, short(why)) for name in STAGES if (why := state.stages[name].limited or state.stages[name].ended)),
            *([("the whole run", short(state.limited))] if state.limited else [])]),
        ("Left out, since neither time nor budget had room for what was still owed:", _without(state)))


def short(text: str, limit: int = LONGEST) -> str:
    """A text on one line, cut at a word, without the folders of the machine that it names."""
    text = _FOLDERS.sub(".../", " ".join(text.split()))
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " ..."


def _failures(state: RunState) -> Rows:
    for node in state.nodes.values():
        why = [node.failure.message] if node.failure and node.failure.kind != "suspect" else []
        why += [*(node.reasons if node.status == "cancelled" or not node.failure else ()), *node.suspect]
        if why and (node.status != "good" or node.suspect):
            yield node.id, f"{node.kind}, {node.status}: {short('; '.join(why))}"


def _steered(state: RunState) -> Rows:
    for one in state.steered:
        asked = one.command
        done = {"kill": "ended", "mark": f"marked as {asked.mark}", "note": "note"}.get(asked.verb)
        if done is not None:
            name = one.stage or "" if asked.verb == "note" else asked.target
            yield name, f"{done}, after decision {one.after}: {short(asked.text)}"


def _outcome(attempt: Attempt) -> str:
    if attempt.failure is None:
        return f"it ran, {attempt.seconds:.1f} s"
    return f"{attempt.failure.kind} after {attempt.seconds:.1f} s, {short(attempt.failure.message, 120)}"


def _without(state: RunState) -> Rows:
    replicable = {one.best for one in state.stages.values()} | {
        node.id for node in state.nodes.values() if node.kind == "ablate"}
    lacking = ", ".join(node.id for node in state.nodes.values() if node.status == "good" and node.id in replicable
                        and not replicates_of(state, node.id))
    for kind in sorted(state.without):
        yield f"{kind}s", f"none at all: {lacking}" if kind == "replicate" and lacking else "some"


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


def ablation_rows(state: RunState, by: Literal["author", "reviewer"]) -> Rows:
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
