"""What happened in the search that a reader must know, from the record: failures, retries, comparisons, stage ends."""

from __future__ import annotations

import re
from collections.abc import Iterable

from record.claims import replicates_of, seedless
from record.fold.state import RunState
from record.nouns.decisions import Compare
from record.nouns.nodes import STAGES, Attempt, changed, retries
from stages.paper.latex import recorded
from stages.paper.provenance import missing_rows, planned_rows

LATE = ("After the draft, a reviewer was asked which ablations its claims need. Whoever asked had read the test "
        "results of the draft; nothing was chosen by those of the new nodes, which were scored once, after all of them "
        "ran.")
LONGEST = 260
"""Characters of one reason."""
_FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^\s/:,'\"\]]+/)+")

Rows = Iterable[tuple[str, str]]


def incidents(state: RunState) -> str:
    """All of it as TeX, a list a kind of incident; empty where nothing happened."""
    lists = ((head, "\n".join(rf"\item[{recorded(name)}] {recorded(text)}" for name, text in rows))
             for head, rows in _lists(state))
    return "\n\n".join(f"{head}\n\\begin{{description}}\\footnotesize\\raggedright\n{items}\n\\end{{description}}"
                       for head, items in lists if items)


def _lists(state: RunState) -> Iterable[tuple[str, Rows]]:
    nodes, left_out = state.nodes.values(), state.figures.left_out if state.figures is not None else {}
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
         "answer; a program checked their labels, legends and axes:", _unseen(state)),
        ("Model calls that got no usable answer, and what was done instead:",
         ((one.key.role, f"decision {one.key.decision}: {one.then}; {short(one.why)}")
          for one in state.unanswered.values())),
        ("Figures that were made for the paper and are not in it:",
         ((name, short(why)) for name, why in left_out.items())),
        ("Ablations that were planned before the last stage, and what became of each:",
         ((name, short(text)) for name, text in planned_rows(state))),
        (f"{LATE} What was asked for, and what became of each:",
         ((name, short(text)) for name, text in missing_rows(state))),
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


def _unseen(state: RunState) -> Rows:
    for node in state.nodes.values():
        numbers = [str(one.n) for one in node.plottings if one.reviews is not None and not one.looked]
        if numbers:
            yield node.id, f"plotting {', '.join(numbers)}"
    if state.figures is not None and not state.figures.looked:
        yield "paper", "the final figures"


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
