"""Check the conclusion of a question: a model writes it, and the program prints every number in it by its key.

A digit that the model types must occur in the question or in a name of the design. A direction is stated as the
interval of the difference shows it, as in a paper (`review.claims.rules`); with one run of each arm, as the two values
do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from labwright.models.roles.questions import ConclusionAnswer
from labwright.record.claims.question_results import KEY_PATTERN, QuestionResults
from labwright.record.result_macros import strip_form
from labwright.record.schema.research_question import ResearchQuestion
from labwright.review.evidence.number_words import CountedThings, find_number_words, find_ratio_words

_LEVEL = re.compile(r"95\s*%(?=\s+(?:confidence\s+)?intervals?\b)")
_NUMBER = re.compile(r"(?<![\w.])[-+−]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?\s*%?")


def find_conclusion_faults(
    answer: ConclusionAnswer, results: QuestionResults, question: ResearchQuestion
) -> Iterator[str]:
    """Yield the statements of a conclusion that the record does not support."""
    text, design = answer.conclusion, results.design
    keys = dict.fromkeys(map(str.strip, KEY_PATTERN.findall(text)))
    yield from (f"{{{one}}} is not a listed key" for one in keys if one not in results.printed)
    bare = _LEVEL.sub(" ", KEY_PATTERN.sub(" ", text))
    for name in sorted((one.name for one in (*design.arms, *design.metrics)), key=len, reverse=True):
        bare = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w])", " ", bare)
    asked = {
        _strip(one)
        for part in (question.question, question.method, question.instructions)
        for one in _NUMBER.findall(part)
    }
    for number in dict.fromkeys(_NUMBER.findall(bare)):
        if _strip(number) not in asked:
            yield f"{number.strip()} is typed, and the question does not have it: print a listed value by its key"
    counts = CountedThings(re.compile("[a-z]+"), frozenset((results.seeds, len(design.arms), len(design.metrics))))
    for one in (*find_ratio_words(bare), *find_number_words(bare, (counts,))):
        yield f"{one.words!r} is a number in words: print a listed value by its key"
    known = {(one.difference.name, one.difference.condition, one.difference.other): one for one in results.comparisons}
    listed = {(one.metric, frozenset((one.arm, one.against))) for one in answer.directions}
    for one in results.pairs:
        found, used = one.difference, any(strip_form(key) == one.difference.key for key in keys)
        if used and (found.name, frozenset((found.condition, found.other))) not in listed:
            yield f"`directions` lacks the difference that it prints: {one}"
    for stated in answer.directions:
        found = known.get((stated.metric, stated.arm, stated.against))
        if found is None:
            what = f"{stated.metric} of {stated.arm} against {stated.against}"
            yield f"{what} was not compared: use the names of the design"
        elif found.shows != stated.is_:
            yield f"the results do not show {stated.is_!r}, but: {found}"


def summarize_results(results: QuestionResults) -> str:
    """Return a conclusion by the program, with keys: the difference of every two arms on every metric."""
    lines = [
        f"{one}; the difference is {{{one.difference.key}.mean}}"
        + (f", 95 % interval {{{one.difference.key}.ci}}" if one.difference.sd is not None else "")
        for one in results.pairs
    ]
    return "Measured: " + "; ".join(lines) + "."


def _strip(number: str) -> str:
    return re.sub(r"[\s,+]", "", number.replace("−", "-"))
