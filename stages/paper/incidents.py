"""What happened in the search that a reader must know, from the record: failures, retries, comparisons, stage ends."""

from __future__ import annotations

import re
from collections.abc import Iterable

from record.claims import replicates_of, seedless
from record.fold.state import RunState
from record.nouns.decisions import Compare
from record.nouns.nodes import STAGES, Attempt, changed, retries
from stages.paper.latex import recorded
from stages.paper.provenance import LATE, human_rows, missing_rows, planned_rows

LONGEST = 260
"""Characters of one told reason."""
_FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^\s/:,'\"\]]+/)+")


def incidents(state: RunState) -> str:
    """All of it as TeX, a list a kind of incident; empty where nothing happened."""
    lists = [
        _list("Nodes whose code a person wrote; it ran, and was checked and reviewed, like that of a model:",
              human_rows(state)),
        _list("Nodes that failed, were ended by us (pruned) or are marked as suspect:", _failures(state)),
        _list("A person steered the search while it went on: ended a node, marked it, or wrote a note that prompts of "
              "a stage showed. In order:", _steered(state)),
        _list("What the check of honesty noted in code without holding it against its numbers:", _noted(state)),
        _list("The winner's code was run again after the search, once with permuted training labels and once with "
              "another seed; none of these values is a result:", _probed(state)),
        _list("Nodes whose test artifacts the frozen scorer could not evaluate, so that they have no such values:",
              ((node, short(failure.message)) for node, failure in state.unscored.items())),
        _list("Attempts that ran out of time or memory were run once more with changed limits:", _retries(state)),
        _list("Nodes whose replicates gave the same values for every seed: their code ignores the seed, as that of a "
              "deterministic method does, and the spread over seeds is unknown:", _seedless(state)),
        _list("Where the measured noise hides the difference between two nodes, a model was asked which of them is the "
              "sounder one to build on:", _comparisons(state)),
        _list("Figures that no model looked at, since the one that should have takes no pictures or gave no usable "
              "answer; a program checked their labels, legends and axes:", _unseen(state)),
        _list("Model calls that got no usable answer, and what was done instead:", _unanswered(state)),
        _list("Figures that were made for the paper and are not in it:", _left_out(state)),
        _list("Ablations that were planned before the last stage, and what became of each:",
              _short(planned_rows(state))),
        _list(f"{LATE} What was asked for, and what became of each:", _short(missing_rows(state))),
        _list("Why the search of each stage ended:", _ends(state)),
        _list("Left out, since neither time nor budget had room for what was still owed:", _without(state)),
    ]
    return "\n\n".join(one for one in lists if one)


def short(text: str, limit: int = LONGEST) -> str:
    """A text on one line, cut at a word, without the folders of the machine that it names."""
    text = _FOLDERS.sub(".../", " ".join(text.split()))
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " ..."


def _list(head: str, items: Iterable[tuple[str, str]]) -> str:
    told = "\n".join(rf"\item[{recorded(name)}] {recorded(text)}" for name, text in items)
    return f"{head}\n\\begin{{description}}\\footnotesize\\raggedright\n{told}\n\\end{{description}}" if told else ""


def _short(rows: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return ((name, short(text)) for name, text in rows)


def _failures(state: RunState) -> Iterable[tuple[str, str]]:
    for node in state.nodes.values():
        why = [node.failure.message] if node.failure and node.failure.kind != "suspect" else []
        why += [*(node.reasons if node.status == "cancelled" or not node.failure else ()), *node.suspect]
        if why and (node.status != "good" or node.suspect):
            yield node.id, f"{node.kind}, {node.status}: {short('; '.join(why))}"


def _steered(state: RunState) -> Iterable[tuple[str, str]]:
    for one in state.steered:
        asked = one.command
        done = {"kill": "ended", "mark": f"marked as {asked.mark}", "note": "note"}.get(asked.verb)
        if done is not None:
            name = one.stage or "" if asked.verb == "note" else asked.target
            yield name, f"{done}, after decision {one.after}: {short(asked.text)}"


def _noted(state: RunState) -> Iterable[tuple[str, str]]:
    for node in state.nodes.values():
        for one in node.findings:
            if not one.suspect:
                yield node.id, short(str(one))


def _probed(state: RunState) -> Iterable[tuple[str, str]]:
    for one in state.probes:
        yield one.node, f"{one.probe}: {one.outcome}; {short(one.why)}"


def _unseen(state: RunState) -> Iterable[tuple[str, str]]:
    for node in state.nodes.values():
        numbers = [str(one.n) for one in node.plottings if one.reviews is not None and not one.looked]
        if numbers:
            yield node.id, f"plotting {', '.join(numbers)}"
    if state.figures is not None and not state.figures.looked:
        yield "paper", "the final figures"


def _unanswered(state: RunState) -> Iterable[tuple[str, str]]:
    for one in state.unanswered.values():
        yield one.key.role, f"decision {one.key.decision}: {one.then}; {short(one.why)}"


def _left_out(state: RunState) -> Iterable[tuple[str, str]]:
    left_out = state.figures.left_out if state.figures is not None else {}
    return ((name, short(why)) for name, why in left_out.items())


def _retries(state: RunState) -> Iterable[tuple[str, str]]:
    for node in state.nodes.values():
        for first, second in retries(node):
            yield node.id, f"{_outcome(first)}; then {changed(first, second)}: {_outcome(second)}"


def _outcome(attempt: Attempt) -> str:
    if attempt.failure is None:
        return f"it ran, {attempt.seconds:.1f} s"
    return f"{attempt.failure.kind} after {attempt.seconds:.1f} s, {short(attempt.failure.message, 120)}"


def _seedless(state: RunState) -> Iterable[tuple[str, str]]:
    for node in seedless(state):
        same = [one.id for one in replicates_of(state, node) if one.status == "good"]
        yield node, f"replicates {', '.join(same)}"


def _comparisons(state: RunState) -> Iterable[tuple[str, str]]:
    for decided in state.decisions.values():
        action = decided.action
        if not isinstance(action, Compare):
            continue
        answer = state.compared.get((action.a, action.b))
        found = "not answered" if answer is None else f"{answer.better or 'neither'}; {short(answer.reasons)}"
        yield f"{action.a}, {action.b}", f"{action.stage}: {found}"


def _ends(state: RunState) -> Iterable[tuple[str, str]]:
    for name in STAGES:
        why = state.stages[name].limited or state.stages[name].ended
        if why:
            yield name, short(why)
    if state.limited:
        yield "the whole run", short(state.limited)


def _without(state: RunState) -> Iterable[tuple[str, str]]:
    for kind in sorted(state.without):
        lacking = [node.id for node in state.nodes.values() if node.status == "good" and node.id in _replicable(state)
                   and not replicates_of(state, node.id)]
        yield f"{kind}s", f"none at all: {', '.join(lacking)}" if kind == "replicate" and lacking else "some"


def _replicable(state: RunState) -> set[str]:
    """What is replicated: the best of every stage, and ablations."""
    return {one.best or "" for one in state.stages.values()} | {
        node.id for node in state.nodes.values() if node.kind == "ablate"}
