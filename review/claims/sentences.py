"""The sentences of a paper as readers see them, with what their numbers refer to, for role `claim_reader`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from labwright.literature.works import normalise_text
from labwright.models.roles.claim_reader import (
    ClaimVocabulary,
    NumberReference,
    PrintedParagraph,
    PrintedSentence,
    VocabularyName,
)
from labwright.record.result_macros import find_macro_uses
from labwright.record.schema.claims import ReadSentence, SentenceReading
from labwright.review.claims.comparisons import ClaimRecord
from labwright.review.evidence.latex_scanner import scan
from labwright.review.evidence.source_check import find_sentence_spans

TITLE, ABSTRACT = "title", "abstract"


@dataclass(frozen=True)
class PaperSentence:
    """A sentence of a draft. `start` and `end` are its place in the part, `source` its LaTeX on one line."""

    where: str
    paragraph: int
    start: int
    end: int
    source: str
    text: str
    references: tuple[NumberReference, ...]
    read_twice: bool
    sha256: str
    """Hash of the sentence, of the paragraph before it, to which its pronouns refer, and of the vocabulary."""


def split_sentences(
    parts: Mapping[str, str], record: ClaimRecord, render: Callable[[str], str], exempt: Iterable[str] = ()
) -> tuple[PaperSentence, ...]:
    """Return the sentences of texts in order. `render` returns a source as readers see it; `exempt` are sentences of
    the program, which need no reading."""
    names = build_vocabulary(record).model_dump_json(exclude={"confirmatory"})  # it is fixed at registration
    vocabulary = hashlib.sha256(names.encode()).hexdigest()
    known = {_normalise_space(one) for one in exempt}
    found: list[PaperSentence] = []
    for where, source in parts.items():
        scanned = scan(source)
        previous, paragraph, before = 0, 0, list[str]()
        for start, end in find_sentence_spans(scanned):
            if re.search(r"\n[ \t]*\n", source[previous:start]):
                paragraph, before = paragraph + 1, []
            previous = end
            text = render(source[start:end])
            if not text or _normalise_space(source[start:end]) in known:
                continue
            references = tuple(
                one
                for use in find_macro_uses(source[start:end])
                if use.macro == "result" and (one := record.describe_key(use.key)) is not None
            )
            twice = where in (TITLE, ABSTRACT) or bool(re.match("section .*(?:conclu|summary)", where, re.IGNORECASE))
            depends = [vocabulary, twice, *before, text, *(one.model_dump_json() for one in references)]
            found.append(
                PaperSentence(
                    where=where,
                    paragraph=paragraph,
                    start=start,
                    end=end,
                    source=_normalise_space(source[start:end]),
                    text=text,
                    references=references,
                    read_twice=twice,
                    sha256=hashlib.sha256(json.dumps(depends).encode()).hexdigest(),
                )
            )
            before.append(text)
    return tuple(found)


def build_vocabulary(record: ClaimRecord) -> ClaimVocabulary:
    """Return the names of a study, without anything that was measured."""
    plan = record.plan
    notes = {arm: f"ablation of {plan.find_tuned_arm(arm)}" for arm, role in record.roles.items() if role == "ablation"}
    notes |= {one.name: one.description for one in plan.arms if one.description}
    rivals = {one.id: f" Rival: {one.rival.statement}" for one in plan.hypotheses if one.rival is not None}
    return ClaimVocabulary(
        arms=tuple(
            (role, VocabularyName(name=name, title=record.name_arm(name), note=notes.get(name, "")))
            for name, role in record.roles.items()
        ),
        levels=tuple(VocabularyName(name=one.name, title=plan.name_level(one.name)) for one in plan.levels),
        factor=plan.factor,
        datasets=tuple(VocabularyName(name=one.name, title=plan.name_dataset(one.name)) for one in plan.datasets),
        metrics=tuple(
            VocabularyName(
                name=name,
                title=plan.name_metric(name),
                note="reported by the code"
                if one is None
                else f"{'higher' if one.higher_is_better else 'lower'} is better",
            )
            for name, one in record.metrics.items()
        ),
        hypotheses=tuple(
            VocabularyName(name=one.id, title=one.name, note=one.statement + rivals.get(one.id, ""))
            for one in plan.hypotheses
        ),
        confirmatory=tuple(one.id for one in plan.hypotheses if one.confirmatory),
        points=tuple(record.points.items()),
    )


def group_paragraphs(sentences: Sequence[PaperSentence], asked: Iterable[int]) -> tuple[PrintedParagraph, ...]:
    """Return the paragraphs that contain the sentences at these indices, which are numbered from 1; the others are
    context."""
    numbered = set(asked)
    groups: dict[tuple[str, int], list[PrintedSentence]] = {}
    wanted = {(sentences[at].where, sentences[at].paragraph) for at in numbered}
    for at, one in enumerate(sentences):
        if (place := (one.where, one.paragraph)) in wanted:
            groups.setdefault(place, []).append(
                PrintedSentence(number=at + 1, text=one.text, references=one.references)
                if at in numbered
                else PrintedSentence(number=None, text=one.text)
            )
    return tuple(PrintedParagraph(where=where, sentences=tuple(lines)) for (where, _), lines in groups.items())


def find_stated_points(
    sentences: Iterable[PaperSentence], readings: Mapping[str, SentenceReading]
) -> dict[str, list[PaperSentence]]:
    """Return the points that sections make, each with the sentences that make it."""
    found: dict[str, list[PaperSentence]] = {}
    for one in sentences:
        reading = readings.get(one.sha256) if one.where.startswith("section ") else None
        for point in reading.points if reading is not None else ():
            found.setdefault(point, []).append(one)
    return found


def is_valid_reading(one: ReadSentence, sentence: PaperSentence) -> bool:
    """Return whether a reading quotes its sentence, and an outcome has claims."""
    quote, text = normalise_text(one.quote), normalise_text(sentence.text)
    enough = len(quote.split()) >= min(2, len(text.split()))
    return enough and quote in text and (one.label != "outcome" or bool(one.claims))


def names_two_arms(sentence: PaperSentence, record: ClaimRecord) -> bool:
    """Return whether a sentence names two arms, by name or title."""
    return len(_find_names(sentence.text, {name: record.name_arm(name) for name in record.arms})) > 1


def names_dataset(text: str, record: ClaimRecord) -> bool:
    """Return whether a text names a dataset, by name or title."""
    return bool(_find_names(text, {one.name: record.plan.name_dataset(one.name) for one in record.plan.datasets}))


def _find_names(text: str, known: Mapping[str, str]) -> set[str]:
    """Return the names, of these with their titles, that a text has."""
    text, named = _normalise_space(text).casefold(), set[str]()
    titles = {each.casefold(): name for name, title in known.items() for each in (name, title)}
    for title in sorted(titles, key=len, reverse=True):  # a title may contain another
        text, count = re.subn(rf"(?<!\w){re.escape(title)}(?!\w)", "", text)
        named |= {titles[title]} if count else set()
    return named


def _normalise_space(text: str) -> str:
    return " ".join(text.split())
