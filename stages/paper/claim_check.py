"""Read the sentences of a draft, compare their claims with the record, and cut what the record does not have.

Readers that do not know the record label every sentence as printed (role `claim_reader`); title, abstract, conclusion,
and sentences with a measured number or two arms that were labelled no outcome, are read a second time (role
`second_claim_reader`), and a claim found by either counts. Readings are kept by the sentence's hash, so a later round
asks only about changed paragraphs. A sentence without a usable reading is asked once more; without one, there is no
release. Sentences on the set-up are compared with facts of the record by a reader of their own (`setup_check`).

Violations go to the reflector. At release, sentences of sections and captions that remain are removed; in a title or in
the abstract they leave a DRAFT.

Limits: the comparison is only as good as the reading; a claim that both readers overlook is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from labwright.models.client import ModelClient
from labwright.models.roles import CLAIM_READER, SECOND_CLAIM_READER
from labwright.models.roles.claim_reader import ClaimReaderInputs, ReadSentences
from labwright.models.roles.paper_writing import RequiredStatement
from labwright.models.roles.role import Role
from labwright.record.events.paper_events import ClaimsRead, DraftAssessed
from labwright.record.schema.claims import ReadSentence, SentenceReading, SetupReading
from labwright.record.schema.paper import PaperDraft
from labwright.review.claims.comparisons import ClaimRecord
from labwright.review.claims.rules import UNREAD, check_claims, find_reported, find_unreported
from labwright.review.claims.sentences import (
    PaperSentence,
    build_vocabulary,
    find_stated_points,
    group_paragraphs,
    is_valid_reading,
    names_two_arms,
    split_sentences,
)
from labwright.review.evidence import Violation, collect_used_keys, scan
from labwright.stages.cost_table import format_claims_task
from labwright.stages.paper.disclosure import CUT_NOTE
from labwright.stages.paper.figures import expand_macros
from labwright.stages.paper.hypothesis_figures import PROGRAM_FIGURES
from labwright.stages.paper.latex import escape
from labwright.stages.paper.paper_context import PaperContext
from labwright.stages.paper.required_statements import describe_unstated
from labwright.stages.paper.setup_check import check_setup, read_setup
from labwright.stages.paper.typesetting import build_paper_context
from labwright.stages.run_context import RunContext, run_once

MAX_SENTENCES = 60
"""Maximum number of sentences that one call labels."""


async def read_claims(context: RunContext, version: DraftAssessed) -> None:
    """Record the reading of a version and its comparison with the record, once per round."""

    async def work(client: ModelClient) -> None:
        if version.round not in context.state.paper.claims_read:
            material = build_paper_context(context, client.decision)
            context.recorder.append(await _read_version(client, material, version))

    await run_once(context, context.state.paper.format_task(format_claims_task(version.round)), work)


async def _read_version(client: ModelClient, material: PaperContext, version: DraftAssessed) -> ClaimsRead:
    record, state = material.claim_record, material.state
    sentences = list_sentences(material, version.draft)
    new = await read_sentences(client, record, sentences, state.paper.sentence_readings)
    readings = {**state.paper.sentence_readings, **{one.sha256: one for one in new}}
    setup = await read_setup(client, sentences, readings, state.paper.setup_readings, material.facts)
    compared = {**state.paper.setup_readings, **{one.sha256: one for one in setup}}
    found = _check_sentences(material, sentences, readings, compared)
    read = [one for one in sentences if one.sha256 in readings]
    return ClaimsRead(
        round=version.round,
        readings=new,
        setup=setup,
        unread=sum(_is_unread(one) for _, one in found),
        violations=tuple(str(one) for _, one in found if not _is_unread(one)),
        unreported=(
            *find_unreported(read, readings, record),
            *map(describe_unstated, list_unstated(material, version.draft, readings)),
        ),
    )


def _check_sentences(
    material: PaperContext,
    sentences: Sequence[PaperSentence],
    readings: Mapping[str, SentenceReading],
    setup: Mapping[str, SetupReading],
) -> tuple[tuple[PaperSentence, Violation], ...]:
    """Return each sentence that the record does not support, or that nobody read, with one violation."""
    found: dict[PaperSentence, list[Violation]] = {}
    for one, violation in (
        *check_claims(sentences, readings, material.claim_record),
        *check_setup(sentences, readings, setup, material.facts),
    ):
        found.setdefault(one, []).append(violation)
    return tuple(
        (one, each[0].model_copy(update={"fix": "; ".join(dict.fromkeys(violation.fix for violation in each))}))
        for one, each in sorted(found.items(), key=lambda item: sentences.index(item[0]))
    )


def _is_unread(violation: Violation) -> bool:
    return UNREAD in violation.fix


async def read_sentences(
    client: ModelClient, record: ClaimRecord, sentences: Sequence[PaperSentence], known: Mapping[str, SentenceReading]
) -> tuple[SentenceReading, ...]:
    """Ask the readers about the sentences that have no reading; return the new readings, without unread sentences."""
    places = {one.sha256: at for at, one in reversed([*enumerate(sentences)]) if one.sha256 not in known}
    asked = sorted(places.values())
    first = await _ask(client, CLAIM_READER, record, sentences, asked)
    doubtful = [at for at in asked if at in first and _needs_second_reading(sentences[at], first[at], record)]
    second = await _ask(client, SECOND_CLAIM_READER, record, sentences, doubtful)
    found: list[SentenceReading] = []
    for at in asked:
        read = [one for one in (first.get(at), second.get(at)) if one is not None]
        if len(read) == 1 + (at in doubtful):
            outcomes = [one for one in read if one.label == "outcome"]
            found.append(
                SentenceReading(
                    sha256=sentences[at].sha256,
                    labels=tuple(one.label for one in read),
                    claims=tuple(dict.fromkeys(claim for one in outcomes for claim in one.claims)),
                    also_setup=any(one.also_setup for one in read),
                    points=tuple(dict.fromkeys(name for one in read for name in one.points)),
                )
            )
    return tuple(found)


def _needs_second_reading(sentence: PaperSentence, first: ReadSentence, record: ClaimRecord) -> bool:
    compares = bool(sentence.references) or bool(first.claims) or names_two_arms(sentence, record)
    return sentence.read_twice or (first.label != "outcome" and compares)


async def _ask(
    client: ModelClient,
    role: Role[ClaimReaderInputs, ReadSentences],
    record: ClaimRecord,
    sentences: Sequence[PaperSentence],
    asked: Iterable[int],
) -> dict[int, ReadSentence]:
    """Return the valid readings by the index of their sentence; sentences without one are asked once more."""
    found: dict[int, ReadSentence] = {}
    for _ in range(2):
        left = [at for at in asked if at not in found]
        size = ceil(len(left) / ceil(len(left) / MAX_SENTENCES)) if left else 1  # calls of about equal length
        for start in range(0, len(left), size):
            batch = left[start : start + size]
            answer = await client.ask_or_none(
                role,
                ClaimReaderInputs(vocabulary=build_vocabulary(record), paragraphs=group_paragraphs(sentences, batch)),
                instead="its sentences are not read, which prevents the release",
            )
            for one in answer.sentences if answer is not None else ():
                if one.number - 1 in batch and is_valid_reading(one, sentences[one.number - 1]):
                    found.setdefault(one.number - 1, one)
    return found


def list_unstated(
    material: PaperContext, draft: PaperDraft, readings: Mapping[str, SentenceReading]
) -> tuple[RequiredStatement, ...]:
    """Return the required statements whose point no section makes, in words of the writer or in the program's."""
    stated = find_stated_points(list_sentences(material, draft), readings)
    text = " ".join(" ".join(one.body.split()) for one in draft.sections)
    return tuple(
        one
        for one in material.statements
        if one.point and one.id not in stated and not all(sentence in text for sentence in one.sentences)
    )


def list_reported(
    material: PaperContext, draft: PaperDraft, readings: Mapping[str, SentenceReading]
) -> tuple[str, ...]:
    """Return the ids of the required statements on hypotheses whose outcome a section reports, also in words alone."""
    found = find_reported(list_sentences(material, draft), readings, material.claim_record)
    return tuple(f"hypothesis-{one}" for one in sorted(found))


def list_sentences(material: PaperContext, draft: PaperDraft) -> tuple[PaperSentence, ...]:
    """Return the sentences of a draft that need a reading; figures without a caption are printed with a description,
    and those to which no text refers are not in the paper."""
    placed = collect_used_keys([one.body for one in draft.sections], frozenset({"paperfigure"}))
    printed = {*placed, *(label.removeprefix("fig:") for label in collect_used_keys(draft.texts, frozenset({"ref"})))}
    described = {one.name: escape(one.description) for one in material.figures}
    captions = {
        name: text
        for name, text in (described | draft.captions).items()
        if name in printed and name not in PROGRAM_FIGURES
    }
    return split_sentences(
        draft.model_copy(update={"captions": captions}).parts,
        material.claim_record,
        lambda source: expand_macros(source, material.evidence),
        exempt=material.evidence.statements,
    )


def find_claim_violations(context: RunContext, draft: PaperDraft) -> tuple[tuple[PaperSentence, Violation], ...]:
    """Return the sentences of a draft that claim what the record does not have, or that nobody read."""
    material, state = build_paper_context(context), context.state
    sentences = list_sentences(material, draft)
    return _check_sentences(material, sentences, state.paper.sentence_readings, state.paper.setup_readings)


def list_claim_obstacles(found: Sequence[tuple[PaperSentence, Violation]]) -> tuple[str, ...]:
    """Return why these sentences prevent a release: overclaims one line each, unread sentences in one line."""
    unread = [one.text for one, violation in found if _is_unread(violation)]
    line = f"{len(unread)} sentences have no usable reading, the first {unread[0]!r}: write again" if unread else ""
    return (*(str(violation) for _, violation in found if not _is_unread(violation)), *filter(None, [line]))


def remove_claims(
    draft: PaperDraft, found: Sequence[tuple[PaperSentence, Violation]]
) -> tuple[PaperDraft, tuple[str, ...]]:
    """Return the draft without the refused sentences of its sections and captions, and one line for each.

    Title and abstract stay as they are, and unread sentences too. A sentence also stays if its part would be empty or
    invalid LaTeX without it.
    """
    parts, cuts = draft.parts, list[str]()
    for sentence, violation in sorted(found, key=lambda pair: pair[0].start, reverse=True):
        where = sentence.where
        if where.startswith(("section ", "caption ")) and where in parts and not _is_unread(violation):
            text = _cut_span(parts[where], sentence.start, sentence.end)
            if text != parts[where]:
                parts[where] = text
                cuts.append(f"{where}: {sentence.source!r}, {CUT_NOTE}")
    return draft.with_parts(parts), tuple(reversed(cuts))


def _cut_span(text: str, start: int, end: int) -> str:
    after = re.sub(r"\\item\s*(?=\\item|\\end)", "", text[:start] + text[end:])
    after = re.sub(r"\\(?:sub)*(?:paragraph|section)\s*\{\s*\}[ \t]*", "", after)
    after = re.sub(r" {2,}", " ", re.sub(r"\n[ \t]*(?:\n[ \t]*)+", "\n\n", after)).strip()
    return after if after and len(scan(after).problems) <= len(scan(text).problems) else text
