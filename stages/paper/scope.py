"""The texts of a paper held against what was decided, and what is cut in the end.

A role quotes what claims more than the verdicts; quotes that do not stand there are dropped. What it found of a version
goes to the reflector like a violation. Another sees the text alone and says what came of each hypothesis; what differs
from the record goes to the reflector as a complaint, and what is left of it to the disclosure: a model's reading holds
up no release. At release the program takes out sentences that still claim too much, and
comparisons that no verdict bears out (`review.evidence.compared`); a title it leaves, and the paper stays a DRAFT.

What it does not guarantee: that a model sees every claim that goes too far.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent
from labwright.models.roles import READER, SCOPE
from labwright.models.roles.revising import PrintedText, Question, ReaderInputs, ScopeInputs
from labwright.record.events.papers import Drafted, Scoped
from labwright.record.nouns.hypotheses import Decision
from labwright.record.nouns.papers import Draft, Reading, ScopeFinding, Section
from labwright.record.typeset import uses, without_form
from labwright.review.evidence import Evidence, Violation, scan, sentences, unbound
from labwright.stages.bench import Bench, do_work
from labwright.stages.paper.figure_review import plain
from labwright.stages.paper.material import Material, write_inputs
from labwright.stages.paper.versions import material_of
from labwright.stages.shares import scope_task

CUT = "cut by the program, since no verdict bears it out"


def texts_of(draft: Draft) -> dict[str, str]:
    """The texts that may not claim more than the verdicts, by the names that violations have."""
    return {
        "title": draft.title,
        "abstract": draft.abstract,
        **{f"section {one.title!r}": one.body for one in draft.sections},
    }


async def review_scope(bench: Bench, draft: Drafted) -> None:
    """Record what in a version claims too much; once for each round."""

    async def work(client: ModelClient) -> None:
        if draft.round not in bench.state.scoped:
            bench.recorder.append(await _review(bench, client, draft))

    await do_work(bench, bench.state.paper_task(scope_task(draft.round)), work)


async def _review(bench: Bench, client: ModelClient, draft: Drafted) -> Scoped:
    material = material_of(bench, client.decision)
    every = texts_of(draft.draft)
    texts = {where: plain(text, material.evidence) for where, text in every.items()}
    found = Scoped(round=draft.round)
    try:
        found = await _scope(client, material, draft.round, every, texts)
        return found.model_copy(update={"reading": await _read(client, material, texts)})
    except BudgetSpent as error:
        return found.model_copy(update={"why": str(error)})


async def _scope(
    client: ModelClient, material: Material, number: int, every: Mapping[str, str], texts: Mapping[str, str]
) -> Scoped:
    inputs = write_inputs(material)
    used = {without_form(use.key) for text in every.values() for use in uses(text) if use.macro == "verdict"}
    answer = await client.usable(
        SCOPE,
        ScopeInputs(
            idea=inputs.idea,
            data_plan=inputs.data_plan,
            facts=inputs.facts,
            decided=inputs.decided,
            comparisons=tuple(one.clause for one in inputs.comparisons if one.key in used),
            texts=_printed(texts),
        ),
        then="the draft is not held against the scope of its verdicts",
    )
    if answer is None:
        return Scoped(round=number, why="the model gave no usable answer")
    ours = [_flat(plain(text, material.evidence)) for text in material.evidence.statements]
    return Scoped(
        round=number,
        findings=tuple(
            one
            for one in answer.findings
            if any(_flat(one.quote) in _flat(text) for text in texts.values())
            and not any(_flat(one.quote) in text for text in ours)
        ),
    )


async def _read(client: ModelClient, material: Material, texts: Mapping[str, str]) -> Reading | None:
    """What a reader of the text alone takes from it; None where nothing was registered."""
    asked = tuple(Question(id=one.hypothesis.id, statement=one.hypothesis.statement) for one in material.decisions)
    return (
        await client.usable(
            READER, ReaderInputs(texts=_printed(texts), questions=asked), then="no reader says what the paper found"
        )
        if asked
        else None
    )


def _printed(texts: Mapping[str, str]) -> tuple[PrintedText, ...]:
    return tuple(PrintedText(where=where, text=text) for where, text in texts.items())


def misread(scoped: Scoped | None, decided: Iterable[Decision]) -> tuple[str, ...]:
    """Where a reader of a version takes from it what the record does not say, a line a hypothesis."""
    told = {one.id: one for one in scoped.reading.told} if scoped is not None and scoped.reading is not None else {}
    lines: list[str] = []
    for one in decided:
        found = told.get(one.hypothesis.id)
        if found is None or found.says == one.verdict or (found.says == "nothing" and not one.hypothesis.confirmatory):
            continue
        quote = f" ({_flat(found.quote)!r})" if found.quote else ""
        lines.append(
            f"{one.hypothesis.id} was decided as {one.verdict}; somebody who read the paper alone takes from "
            f"it: {found.says}{quote}: say it so that it cannot be misread"
        )
    return tuple(lines)


def too_much(draft: Draft, findings: Sequence[ScopeFinding], evidence: Evidence) -> tuple[str, ...]:
    """The findings that are still so of a draft, as violations."""
    return tuple(
        str(
            Violation(
                kind="scope",
                where=where,
                excerpt=one.quote,
                fix=f"it claims more than was decided, {one.why}" + (f"; may be said: {one.may}" if one.may else ""),
            )
        )
        for where, text in texts_of(draft).items()
        for one in findings
        if _flat(one.quote) in _flat(plain(text, evidence))
    )


def without_claims(draft: Draft, findings: Sequence[ScopeFinding], evidence: Evidence) -> tuple[Draft, tuple[str, ...]]:
    """The draft without the sentences that claim what no verdict bears out, and these, a line each.

    A sentence stays where a part would be empty without it, or would not be LaTeX any more.
    """
    cuts: list[str] = []
    every = texts_of(draft)

    def kept(where: str, text: str) -> str:
        after, gone = _without(text, findings if where in every else (), evidence)
        cuts.extend(f"{where}: {' '.join(one.split())!r}, {CUT}" for one in gone)
        return after

    return draft.model_copy(
        update={
            "abstract": kept("abstract", draft.abstract),
            "sections": tuple(
                Section(title=one.title, body=kept(f"section {one.title!r}", one.body)) for one in draft.sections
            ),
            "captions": {name: kept(f"caption of {name}", text) for name, text in draft.captions.items()},
        }
    ), tuple(cuts)


def _without(text: str, findings: Sequence[ScopeFinding], evidence: Evidence) -> tuple[str, list[str]]:
    scanned = scan(text)
    spans = {(one.start, one.end) for one in unbound(scanned, evidence)}
    spans |= {
        span
        for span in sentences(scanned)
        for one in findings
        if _overlap(_flat(one.quote), _flat(plain(text[slice(*span)], evidence)))
    }
    gone: list[str] = []
    for start, end in sorted(spans, reverse=True):
        if _flat(text[start:end]) in evidence.statements:
            continue
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
