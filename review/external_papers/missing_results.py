"""Find printed results that are in no result file and do not follow from numbers that are.

This is a fact about the files, not an accusation. Numbers that need not be in a file are excluded: whole numbers
(counts, sizes, pages), settings, deviations, cited numbers, and changes (differences, ratios) between any two numbers
of the paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import permutations

from labwright.review.external_papers.arithmetic import gives_change
from labwright.review.external_papers.verdicts import NumberVerdict

MAX_PAIRED_VALUES = 60
"""Maximum numbers of a paper between which changes are tried."""
_CHANGE = re.compile(
    r"\b(?:chang|gain|drop|improv|reduc|increas|decreas|differ|delta|\u0394|gap|ratio|relative|advantage|higher|lower"
    r"|faster|slower|more|less|fewer|better|points|times|vs\b|versus)",
    re.I,
)
"""Words next to the size of a change, or in the label of a column or row of changes."""
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=[A-Z(\[])")
_SETTING = re.compile(
    r"\b(?:rate|lr|weight|size|threshold|temperature|param\w*|epochs?|batch|layers?|dim\w*|seeds?|budget|settings?"
    r"|decay|momentum|dropout|penalty|alpha|beta|gamma|lambda|sigma|tau)\b",
    re.I,
)
_SCORE = re.compile(r"acc|error|score|f1|auc|loss|mae|mse|rmse|precision|recall|bleu|reward|r2", re.I)
_CITED = re.compile(
    r"publish|reported (?:by|in)|as reported|taken from|from the literature|quoted|copied from|et al\b|\(\d{4}\)"
    r"|\[\d+\]|\\cite|prior work|source",
    re.I,
)


def find_missing_results(verdicts: Sequence[NumberVerdict]) -> tuple[NumberVerdict, ...]:
    """Return the numbers that are results and in no result file."""
    given = {one.claim.number.text: one.claim.number for one in verdicts if one.kind != "unsupported"}
    pairs = list(permutations(list(given.values())[:MAX_PAIRED_VALUES], 2))
    missing = [one for one in verdicts if one.kind == "unsupported" and not any(_absence_reasons(one))]
    return tuple(
        one
        for one in missing
        if not (_is_change_size(one) and any(gives_change(a, b, one.claim.number) for a, b in pairs))
    )


def _absence_reasons(one: NumberVerdict) -> Iterator[bool]:
    """Yield, for each reason why a number may be in no file, whether it applies."""
    number, cell, (before, after) = one.claim.number, one.claim.cell, _text_around(one)
    yield "." not in number.text and not number.percent  # a count
    yield re.search(r"(?:\u00b1|\+/?-|\\pm)\W*$", before) is not None  # a deviation, which can be computed in many ways
    if cell is not None:
        row = " ".join(other.text for other in one.claim.passage.cells if other.row == cell.row)
        yield _CITED.search(f"{cell.label} {row}") is not None
        yield _SETTING.search(cell.label) is not None and _SCORE.search(cell.label) is None
        return
    yield _CITED.search(f"{before}{after}") is not None
    yield _SETTING.search(before[-30:]) is not None


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
    if number.factor or "point" in number.text or "pp" in number.text or number.sign == "-":
        return True
    if cell is not None:
        return _CHANGE.search(cell.label) is not None
    return bool(number.sign) or _CHANGE.search(f"{before[-80:]} {after[:40]}") is not None
