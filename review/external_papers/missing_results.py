"""Find printed results that are in no result file and do not follow from numbers that are.

This is a fact about the files, not an accusation. Numbers that need not be in a file are excluded: whole numbers
(counts, sizes, pages), settings, numbers typed in code, cited numbers, and changes (differences, ratios) between any
two numbers of the paper.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import permutations

import numpy as np

from labwright.review.external_papers.claimed_settings import SETTING
from labwright.review.external_papers.consistency import CHANGE_AFTER_NUMBER, gives_change
from labwright.review.external_papers.number_matching import find_matches
from labwright.review.external_papers.printed_numbers import CITED
from labwright.review.external_papers.provenance import PaperProvenance
from labwright.review.external_papers.result_files import ValueSeries
from labwright.review.external_papers.signs.aligned import NamedValues, sources
from labwright.review.external_papers.signs.evidence import ClaimEvidence
from labwright.review.external_papers.signs.in_numbers import CITES, SCORES, SETTINGS, SETUP, is_cited
from labwright.review.external_papers.verdicts import NumberVerdict

MAX_SOURCES = 2000
"""Maximum kinds of records over which means are taken."""
MAX_PAIRED_VALUES = 60
"""Maximum numbers of a paper between which changes are tried."""
_CHANGE = re.compile(
    r"\b(?:chang|gain|drop|improv|reduc|increas|decreas|differ|delta|\u0394|gap|ratio|relative|advantage)\w*"
    r"(?:\W+\w+){0,4}\W*$|\b(?:by|adds?|loses?)\W*$",
    re.I,
)
"""Text before the size of a change."""
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=[A-Z(\[])")
"""Boundary between two sentences."""
_CHANGE_AFTER = re.compile(rf"{CHANGE_AFTER_NUMBER.pattern}|\s*(?:times|points)\b", re.I)
"""Text after the size of a change."""
_COLUMN_OF_CHANGES = re.compile(
    r"\b(?:chang|relative|gain|drop|improv|reduc|differ|diff\b|delta|\u0394|gap|ratio|vs\b|versus)", re.I
)
"""Label of a column or row of changes."""


def find_missing_results(
    verdicts: Sequence[NumberVerdict], series: Sequence[ValueSeries], provenance: PaperProvenance
) -> tuple[NumberVerdict, ...]:
    """Return the numbers that are results and in no result file."""
    typed, over_files = ClaimEvidence(provenance, "").numbers, np.array([*_aggregate_over_files(series)])
    given = {one.claim.number.text: one.claim.number for one in verdicts if one.kind != "unsupported"}
    pairs = list(permutations(list(given.values())[:MAX_PAIRED_VALUES], 2))
    missing = [
        one
        for one in verdicts
        if one.kind == "unsupported"
        and not any(_absence_reasons(one, typed))
        and not find_matches(over_files, one.claim.number)
    ]
    return tuple(
        one
        for one in missing
        if not (_is_change_size(one) and any(gives_change(a, b, one.claim.number) for a, b in pairs))
    )


def _aggregate_over_files(series: Sequence[ValueSeries]) -> Iterator[float]:
    """Yield means, deviations and shares over records of one kind in several files, such as seeds."""
    totals: dict[tuple[object, ...], list[NamedValues]] = defaultdict(list)
    for one in sources(series)[:MAX_SOURCES]:
        if len(set(one.values)) > 1:
            values = np.array(one.values)
            yield from (
                float(values.mean()),
                float(np.median(values)),
                float(values.std()),
                float(values.std(ddof=1)),
                float(values.std(ddof=1) / np.sqrt(len(values))),
            )
        totals[one.kind, one.stem, len(one.values)].append(one)
    for together in totals.values():
        for one, other in permutations(together[:12], 2):
            if 0 < (part := sum(one.values)) < (whole := sum(other.values)):
                yield part / whole


def _absence_reasons(one: NumberVerdict, typed: Collection[float]) -> Iterator[bool]:
    """Yield, for each reason why a number may be in no file, whether it applies."""
    number, cell, (before, after) = one.claim.number, one.claim.cell, _text_around(one)
    sentence = f"{before}{number.text}{after}"
    yield "." not in number.text and not number.percent  # a count
    yield SETTINGS.search(one.claim.passage.text) is not None
    yield re.search(r"(?:\u00b1|\+/?-|\\pm)\W*$", before) is not None  # a deviation, which can be computed in many ways
    if cell is not None:
        yield is_cited(one) or (bool(SETUP.search(cell.label)) and not SCORES.search(cell.label))
        return
    yield number.value in typed or bool(CITES.search(sentence)) or CITED.match(after.lstrip()) is not None
    yield any(match.start() <= len(before) < match.end() for match in SETTING.finditer(sentence))


def _text_around(one: NumberVerdict) -> tuple[str, str]:
    """Return the text before and after a number, in its cell or its sentence, which may span several lines."""
    number, context = one.claim.number, one.claim.context
    if one.claim.cell is not None:
        before, _, after = context.rpartition(number.text)
        return before, after
    text, end = one.claim.passage.text.replace("\n", " "), number.at + len(number.text)
    stop = _SENTENCE_END.search(text, end)
    begin = max((match.end() for match in _SENTENCE_END.finditer(text, 0, number.at)), default=0)
    return text[begin : number.at], text[end : stop.start() if stop else len(text)]


def _is_change_size(one: NumberVerdict) -> bool:
    """Return whether a number is the size of a change, by its form or its context."""
    number, cell, (before, after) = one.claim.number, one.claim.cell, _text_around(one)
    if number.factor or "point" in number.text or "pp" in number.text:
        return True
    if cell is not None:
        return number.sign == "-" or _COLUMN_OF_CHANGES.search(cell.label) is not None
    return bool(number.sign or _CHANGE.search(before[-80:]) or _CHANGE_AFTER.match(after))
