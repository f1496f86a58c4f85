"""Compare the sentences on the set-up of a study with facts of its record (role `setup_reader`).

These are sentences that the claim reader labelled set-up, others that also say how the study was done, and the outcomes
of title, abstract and conclusion. The program verifies that a comparison quotes the sentence and the fact that decides.
A sentence without a usable comparison is asked about once more; if it stays without one, the paper is not released. A
comparison is kept under the hash of the sentence and of all facts.

Limits: what is not in the facts passes, and so does a contradiction that the reader overlooks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from labwright.literature.matching import normalise_text
from labwright.models.client import ModelClient
from labwright.models.roles import SETUP_READER
from labwright.models.roles.claim_reader import PrintedParagraph
from labwright.models.roles.setup_reader import SetupReaderInputs
from labwright.record.schema.claims import ComparedSentence, SentenceReading, SetupReading
from labwright.review.claims.rules import UNREAD
from labwright.review.claims.sentences import PaperSentence, group_paragraphs
from labwright.review.evidence import Violation
from labwright.stages.paper.study_facts import StudyFacts

MAX_SETUP_SENTENCES = 60
"""Maximum number of sentences that one call compares."""
MIN_SETUP_WORDS = 3
"""Minimum number of words of a sentence that is compared."""
MAX_FACT_CHARACTERS = 400
"""Characters of a fact that a violation shows; of longer ones, and of code, it shows the quoted words."""


def check_setup(
    sentences: Sequence[PaperSentence],
    readings: Mapping[str, SentenceReading],
    known: Mapping[str, SetupReading],
    facts: StudyFacts,
) -> tuple[tuple[PaperSentence, Violation], ...]:
    """Return the sentences on the set-up that a fact contradicts, or that nobody compared, each with its violation."""
    found: list[tuple[PaperSentence, Violation]] = []
    for one in (sentences[at] for at in _list_setup(sentences, readings)):
        reading = known.get(_hash_sentence(one, facts))
        if reading is None or reading.verdict == "contradicted":
            fix = (
                UNREAD
                if reading is None
                else f"{reading.quote!r} is not what was done: {reading.correction} The record: {reading.fact}"
            )
            found.append((one, Violation(kind="claim", where=one.where, excerpt=one.source, fix=fix)))
    return tuple(found)


async def read_setup(
    client: ModelClient,
    sentences: Sequence[PaperSentence],
    readings: Mapping[str, SentenceReading],
    known: Mapping[str, SetupReading],
    facts: StudyFacts,
) -> tuple[SetupReading, ...]:
    """Ask the reader about the sentences on the set-up that have no comparison with these facts; return the new ones,
    without sentences of which the answer is unusable."""
    places = {_hash_sentence(sentences[at], facts): at for at in reversed(_list_setup(sentences, readings))}
    left = sorted(at for sha256, at in places.items() if sha256 not in known)
    found: dict[int, SetupReading] = {}
    for _ in range(2):
        left = [at for at in left if at not in found]
        for start in range(0, len(left), MAX_SETUP_SENTENCES):
            batch = left[start : start + MAX_SETUP_SENTENCES]
            answer = await client.ask_or_none(
                SETUP_READER,
                SetupReaderInputs(facts=facts.lines, code=facts.code, paragraphs=_shorten_context(sentences, batch)),
                instead="sentences on the set-up are not compared with the record, which prevents the release",
            )
            for one in answer.sentences if answer is not None else ():
                at = one.number - 1
                if at in batch and (reading := _verify(one, sentences[at], facts)) is not None:
                    found.setdefault(at, reading)
    return tuple(found[at] for at in sorted(found))


def _list_setup(sentences: Sequence[PaperSentence], readings: Mapping[str, SentenceReading]) -> list[int]:
    """Return the indices of the sentences to compare: no heading, and none without a reading, which is a violation of
    its own."""
    found: list[int] = []
    for at, one in enumerate(sentences):
        reading = readings.get(one.sha256)
        summarises = one.read_twice and reading is not None and "outcome" in reading.labels
        heading = one.where.startswith("title of section ") or len(one.text.split()) < MIN_SETUP_WORDS
        if reading is not None and (reading.has_setup or summarises) and not heading:
            found.append(at)
    return found


def _shorten_context(sentences: Sequence[PaperSentence], batch: Iterable[int]) -> tuple[PrintedParagraph, ...]:
    """Return the paragraphs of these sentences; of the others only those directly before one of them."""
    return tuple(
        part.model_copy(
            update={
                "sentences": tuple(
                    one
                    for one, after in zip(part.sentences, (*part.sentences[1:], None), strict=True)
                    if one.number is not None or (after is not None and after.number is not None)
                )
            }
        )
        for part in group_paragraphs(sentences, batch)
    )


def _hash_sentence(sentence: PaperSentence, facts: StudyFacts) -> str:
    return hashlib.sha256(json.dumps((sentence.sha256, *facts.lines, facts.code)).encode()).hexdigest()


def _verify(one: ComparedSentence, sentence: PaperSentence, facts: StudyFacts) -> SetupReading | None:
    """Return a comparison whose quotes stand; None for another. Support without a valid quote counts as no fact."""
    lines = dict(enumerate((*facts.lines, *[facts.code] * bool(facts.code)), 1))
    fact = lines.get(one.fact or 0, "")
    stands = _has_quote(fact, one.fact_quote)
    if not _has_quote(sentence.text, one.quote):
        return None
    if one.verdict == "contradicted" and not (stands and one.correction.strip()):
        return None
    verdict = "not in the facts" if one.verdict == "supported" and not stands else one.verdict
    shown = one.fact_quote if len(fact) > MAX_FACT_CHARACTERS else fact
    return SetupReading(
        sha256=_hash_sentence(sentence, facts),
        verdict=verdict,
        fact=shown if verdict != "not in the facts" else "",
        quote=one.quote if verdict == "contradicted" else "",
        correction=one.correction.strip() if verdict == "contradicted" else "",
    )


def _has_quote(text: str, quote: str) -> bool:
    """Return whether a text has at least two words of a quote in a row, or its only one."""
    words, own = normalise_text(quote), normalise_text(text)
    return len(words.split()) >= min(2, len(own.split())) > 0 and f" {words} " in f" {own} "
