"""The texts of a paper held against what was decided, and what is cut in the end.

A role quotes what claims more than the verdicts; quotes that do not stand there are dropped. What it found of a version
goes to the reflector like a violation. At release the program takes out sentences that still claim too much, and
comparisons that no verdict bears out (`review.evidence.compared`); a title it leaves, and the paper stays a DRAFT.

What it does not guarantee: that a model sees every claim that goes too far.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from models.client import ModelClient
from models.errors import BudgetSpent
from models.roles import SCOPE
from models.roles.revising import PrintedText, ScopeInputs
from record.events.papers import Drafted, Scoped
from record.nouns.papers import Draft, ScopeFinding, Section
from record.typeset import uses
from review.evidence import Evidence, Violation, scan, sentences, unbound
from stages.bench import Bench, do_work
from stages.paper.figure_review import plain
from stages.paper.material import write_inputs
from stages.paper.versions import material_of
from stages.shares import scope_task

CUT = "cut by the program, since no verdict bears it out"


def texts_of(draft: Draft) -> dict[str, str]:
    """The texts that may not claim more than the verdicts, by the names that violations have."""
    return {"title": draft.title, "abstract": draft.abstract,
            **{f"section {one.title!r}": one.body for one in draft.sections}}


async def review_scope(bench: Bench, draft: Drafted) -> None:
    """Record what in a version claims too much; once for each round."""

    async def work(client: ModelClient) -> None:
        if draft.round not in bench.state.scoped:
            bench.recorder.append(await _review(bench, client, draft))

    await do_work(bench, bench.state.paper_task(scope_task(draft.round)), work)


async def _review(bench: Bench, client: ModelClient, draft: Drafted) -> Scoped:
    material = material_of(bench, client.decision)
    inputs, every = write_inputs(material), texts_of(draft.draft)
    used = {use.key for text in every.values() for use in uses(text) if use.macro == "verdict"}
    texts = {where: plain(text, material.evidence) for where, text in every.items()}
    try:
        answer = await client.usable(SCOPE, ScopeInputs(
            idea=inputs.idea, data_plan=inputs.data_plan, facts=inputs.facts, decided=inputs.decided,
            comparisons=tuple(one.clause for one in inputs.comparisons if one.key in used),
            texts=tuple(PrintedText(where=where, text=text) for where, text in texts.items())),
            then="the draft is not held against the scope of its verdicts")
    except BudgetSpent as error:
        return Scoped(round=draft.round, why=str(error))
    if answer is None:
        return Scoped(round=draft.round, why="the model gave no usable answer")
    return Scoped(round=draft.round, findings=tuple(
        one for one in answer.findings if any(_flat(one.quote) in _flat(text) for text in texts.values())))


def too_much(draft: Draft, findings: Sequence[ScopeFinding], evidence: Evidence) -> tuple[str, ...]:
    """The findings that are still so of a draft, as violations."""
    return tuple(str(Violation(
        kind="scope", where=where, excerpt=one.quote,
        fix=f"it claims more than was decided, {one.why}" + (f"; may be said: {one.may}" if one.may else "")))
        for where, text in texts_of(draft).items() for one in findings
        if _flat(one.quote) in _flat(plain(text, evidence)))


def without_claims(
    draft: Draft, findings: Sequence[ScopeFinding], evidence: Evidence
) -> tuple[Draft, tuple[str, ...]]:
    """The draft without the sentences that claim what no verdict bears out, and these, a line each.

    A sentence stays where a part would be empty without it, or would not be LaTeX any more.
    """
    cuts: list[str] = []
    every = texts_of(draft)

    def kept(where: str, text: str) -> str:
        after, gone = _without(text, findings if where in every else (), evidence)
        cuts.extend(f"{where}: {' '.join(one.split())!r}, {CUT}" for one in gone)
        return after

    return draft.model_copy(update={
        "abstract": kept("abstract", draft.abstract),
        "sections": tuple(Section(title=one.title, body=kept(f"section {one.title!r}", one.body))
                          for one in draft.sections),
        "captions": {name: kept(f"caption of {name}", text) for name, text in draft.captions.items()}}), tuple(cuts)


def _without(text: str, findings: Sequence[ScopeFinding], evidence: Evidence) -> tuple[str, list[str]]:
    scanned = scan(text)
    spans = {(one.start, one.end) for one in unbound(scanned, evidence)}
    spans |= {span for span in sentences(scanned) for one in findings
              if _overlap(_flat(one.quote), _flat(plain(text[slice(*span)], evidence)))}
    gone: list[str] = []
    for start, end in sorted(spans, reverse=True):
        after = re.sub(r"\\item\s*(?=\\item|\\end)", "", text[:start] + text[end:])
        after = re.sub(r" {2,}", " ", re.sub(r"\n[ \t]*(?:\n[ \t]*)+", "\n\n", after)).strip()
        if after and len(scan(after).problems) <= len(scanned.problems):
            gone.append(text[start:end])
            text = after
    return text, gone[::-1]


def _overlap(quote: str, sentence: str) -> bool:
    """Whether a quote stands in a sentence, or a whole sentence in a quote."""
    return bool(sentence) and (quote in sentence or (len(sentence) > 20 and sentence in quote))


def _flat(text: str) -> str:
    return " ".join(text.split())

