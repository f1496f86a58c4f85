"""Check a paper's title, abstract and sections against the verdicts, and remove overclaims at release.

One role quotes statements that claim more than the verdicts; quotes that are not in the text are dropped. The reflector
receives its findings like violations. A second role reads the text alone and states the outcome of each hypothesis.
Disagreements with the record go to the reflector as complaints, and those that remain go to the disclosure; a model's
reading never blocks a release. At release the program removes the remaining overclaiming sentences. A title is never
changed; if it overclaims, the paper stays a DRAFT.

Limits: a model may miss an overclaim.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from labwright.models.client import ModelClient
from labwright.models.roles import READER, SCOPE
from labwright.models.roles.paper_revision import ClaimQuestion, PrintedText, ReaderInputs, ScopeInputs
from labwright.record.events.paper_events import DraftAssessed, ScopeChecked
from labwright.record.result_macros import find_macro_uses, strip_form
from labwright.record.schema.hypotheses import HypothesisDecision
from labwright.record.schema.paper import PaperDraft, PaperReading, ScopeFinding, Section
from labwright.review.evidence import Evidence, Violation, find_sentence_spans, scan
from labwright.stages.cost_table import format_overclaim_task
from labwright.stages.paper.draft_versions import build_paper_context
from labwright.stages.paper.figure_review import expand_macros
from labwright.stages.paper.paper_context import PaperContext, build_write_inputs
from labwright.stages.run_context import RunContext, run_once

CUT_NOTE = "cut by the program, since no verdict bears it out"


def list_texts(draft: PaperDraft) -> dict[str, str]:
    """Return the texts checked for overclaims, by the names used in violations."""
    return {
        "title": draft.title,
        "abstract": draft.abstract,
        **{f"section {one.title!r}": one.body for one in draft.sections},
    }


async def check_overclaims(context: RunContext, draft: DraftAssessed) -> None:
    """Record the overclaims of a version, once per round."""

    async def work(client: ModelClient) -> None:
        if draft.round not in context.state.scope_checks:
            context.recorder.append(await _review_draft(context, client, draft))

    await run_once(context, context.state.format_paper_task(format_overclaim_task(draft.round)), work)


async def _review_draft(context: RunContext, client: ModelClient, draft: DraftAssessed) -> ScopeChecked:
    material = build_paper_context(context, client.decision)
    every = list_texts(draft.draft)
    texts = {where: expand_macros(text, material.evidence) for where, text in every.items()}
    found = await _find_overclaims(client, material, draft.round, every, texts)
    return found.model_copy(update={"reading": await _read_as_outsider(client, material, texts)})


async def _find_overclaims(
    client: ModelClient, material: PaperContext, number: int, every: Mapping[str, str], texts: Mapping[str, str]
) -> ScopeChecked:
    inputs = build_write_inputs(material)
    used = {strip_form(use.key) for text in every.values() for use in find_macro_uses(text)}
    answer = await client.ask_or_none(
        SCOPE,
        ScopeInputs(
            idea=inputs.idea,
            data_plan=inputs.data_plan,
            facts=inputs.facts,
            decided=inputs.decided,
            comparisons=tuple(one.text for one in inputs.comparisons if one.key in used),
            texts=_to_printed_texts(texts),
        ),
        instead="the draft is not checked for overclaims",
    )
    if answer is None:
        return ScopeChecked(round=number, why="the model gave no usable answer")
    own_statements = [_normalise_space(expand_macros(text, material.evidence)) for text in material.evidence.statements]
    return ScopeChecked(
        round=number,
        findings=tuple(
            one
            for one in answer.findings
            if any(_normalise_space(one.quote) in _normalise_space(text) for text in texts.values())
            and not any(_normalise_space(one.quote) in text for text in own_statements)
        ),
    )


async def _read_as_outsider(
    client: ModelClient, material: PaperContext, texts: Mapping[str, str]
) -> PaperReading | None:
    """Return what a reader of the text alone understands; None if nothing was registered."""
    asked = tuple(ClaimQuestion(id=one.hypothesis.id, statement=one.hypothesis.statement) for one in material.decisions)
    return (
        await client.ask_or_none(
            READER,
            ReaderInputs(texts=_to_printed_texts(texts), questions=asked),
            instead="no reader states what the paper found",
        )
        if asked
        else None
    )


def _to_printed_texts(texts: Mapping[str, str]) -> tuple[PrintedText, ...]:
    return tuple(PrintedText(where=where, text=text) for where, text in texts.items())


def find_misreadings(scoped: ScopeChecked | None, decided: Iterable[HypothesisDecision]) -> tuple[str, ...]:
    """Return where a reader's understanding of a version differs from the record, one line per hypothesis."""
    claims = {one.id: one for one in scoped.reading.claims} if scoped is not None and scoped.reading is not None else {}
    lines: list[str] = []
    for decision in decided:
        claim = claims.get(decision.hypothesis.id)
        if (
            claim is None
            or claim.says == decision.verdict
            or (claim.says == "nothing" and not decision.hypothesis.confirmatory)
        ):
            continue
        quote = f" ({_normalise_space(claim.quote)!r})" if claim.quote else ""
        lines.append(
            f"{decision.hypothesis.id} was decided as {decision.verdict}, but a reader of the paper alone understood "
            f"{claim.says}{quote}: make the outcome unambiguous"
        )
    return tuple(lines)


def list_overclaims(draft: PaperDraft, findings: Sequence[ScopeFinding], evidence: Evidence) -> tuple[str, ...]:
    """Return the findings that still apply to a draft, as violations."""
    return tuple(
        str(
            Violation(
                kind="scope",
                where=where,
                excerpt=one.quote,
                fix=f"it claims more than was decided, {one.why}"
                + (f"; supported wording: {one.may}" if one.may else ""),
            )
        )
        for where, text in list_texts(draft).items()
        for one in findings
        if _normalise_space(one.quote) in _normalise_space(expand_macros(text, evidence))
    )


def remove_overclaims(
    draft: PaperDraft, findings: Sequence[ScopeFinding], evidence: Evidence
) -> tuple[PaperDraft, tuple[str, ...]]:
    """Return the draft without sentences that no verdict supports, and the removed sentences, one line each.

    A sentence stays if its part would be empty or invalid LaTeX without it.
    """
    cuts: list[str] = []
    every = list_texts(draft)

    def kept(where: str, text: str) -> str:
        after, gone = _remove_sentences(text, findings if where in every else (), evidence)
        cuts.extend(f"{where}: {' '.join(one.split())!r}, {CUT_NOTE}" for one in gone)
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


def _remove_sentences(text: str, findings: Sequence[ScopeFinding], evidence: Evidence) -> tuple[str, list[str]]:
    scanned = scan(text)
    spans = {
        span
        for span in find_sentence_spans(scanned)
        for one in findings
        if _overlaps(_normalise_space(one.quote), _normalise_space(expand_macros(text[slice(*span)], evidence)))
    }
    gone: list[str] = []
    for start, end in sorted(spans, reverse=True):
        if _normalise_space(text[start:end]) in evidence.statements:
            continue
        after = re.sub(r"\\item\s*(?=\\item|\\end)", "", text[:start] + text[end:])
        after = re.sub(r" {2,}", " ", re.sub(r"\n[ \t]*(?:\n[ \t]*)+", "\n\n", after)).strip()
        if after and len(scan(after).problems) <= len(scanned.problems):
            gone.append(text[start:end])
            text = after
    return text, gone[::-1]


def _overlaps(quote: str, sentence: str) -> bool:
    """Return whether a quote is part of a sentence, or contains the whole sentence."""
    return bool(sentence) and (quote in sentence or (len(sentence) > 20 and sentence in quote))


def _normalise_space(text: str) -> str:
    return " ".join(text.split())
