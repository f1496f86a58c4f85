"""Compare the numbers of a paper with its result files: found, derivable, ambiguous or unsupported.

A number is looked up among the results whose labels share most words with its context, and the probability of a chance
match is counted among these. A number that would probably match by chance is ambiguous, as is every one-digit number,
found or not.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from labwright.record.schema.paper import AuditFacts
from labwright.review.external_papers.passages import ClaimedNumber, extract_claims, extract_passages
from labwright.review.external_papers.printed_numbers import PrintedNumber
from labwright.review.external_papers.result_files import ValueSeries, label_words, read_results
from labwright.review.judge.paper_reader import read_paper

# Match a printed number to a value that it rounds, or derive it in one step, with the probability of a chance match.
# A match is weak evidence if many numbers would match. The probability is counted: the share of numbers with as many
# decimal places, between half and twice the size, that the values would also match; for a round number, only equally
# round numbers are counted. A one-digit number has nine alternatives, whatever the values. A step is a difference,
# relative change, ratio or mean of numbers that were found and are close together: in the row or column of a cell, in
# the paragraph, or in a row or column of any table. The form of the number decides which steps are tried.

MAX_MATCH_CHANCE = 0.1
"""Probability of a chance match above which a match proves nothing."""

CHANCE_WINDOW = 60
"""Number of neighbours on either side over which the probability is counted."""


Floats = NDArray[np.float64]


def find_matches(values: Floats, number: PrintedNumber) -> list[int]:
    """Return the indices of values that the number rounds, unchanged or as a percentage.

    A printed sign must match; a number without one may state the size of a decrease.
    """
    low, high = number.magnitude_range
    sizes = np.abs(values)
    near = np.any([(sizes >= low / scale) & (sizes <= high / scale) for scale in list_scales(number)], axis=0)
    if number.sign:
        near &= (values == 0) | ((values < 0) == (number.sign == "-"))
    return np.flatnonzero(near).tolist()


def compute_match_chance(values: Floats, number: PrintedNumber) -> float:
    """Return the probability of a match for a number with as many places and equally round (see the module
    docstring).
    """
    size = round(abs(number.value) / number.step) if number.step else 0
    zeros = len(str(size)) - len(str(size).rstrip("0")) if size else 0
    sizes = np.sort(np.abs(values))
    return max(
        1 / 9 if number.digits == 1 else 0.0,
        *(_matching_share(sizes, number, step) for step in {number.step, number.step * 10**zeros}),
    )


def _matching_share(sizes: Floats, number: PrintedNumber, step: float) -> float:
    size, (least, most) = abs(number.value), number.magnitude_range
    grid = size + step * np.concatenate([np.arange(-CHANCE_WINDOW, 0), np.arange(1, CHANCE_WINDOW + 1)])
    grid = grid[(grid >= size / 2) & (grid <= size * 2) & (grid > 0)]
    if len(grid) < 4:
        grid = step * np.arange(1, 10)
    hits = [
        np.searchsorted(sizes, (grid + (most - size)) / scale, "right")
        > np.searchsorted(sizes, (grid - (size - least)) / scale, "left")
        for scale in list_scales(number)
    ]
    return float(np.any(hits, axis=0).mean())


def list_scales(number: PrintedNumber) -> tuple[float, ...]:
    """Return the factors that may have been applied before printing: share to percentage and back, and units."""
    if number.percent:
        return (1.0, 100.0)
    if number.factor or number.value == 0:
        return (1.0,)
    if number.unit_scales:
        return (1.0, *number.unit_scales)
    if abs(number.value) <= 1 and number.digits > 1:
        return (1.0, 0.01)
    return (1.0, 100.0) if number.step < 1 and abs(number.value) <= 100 else (1.0,)


MAX_LABELS = 5
"""Maximum labels of a row by which its values are grouped."""
MAX_OPERANDS = 40
"""Maximum numbers of one row, column or paragraph that are combined."""


@dataclass(frozen=True)
class Operand:
    """A number that was found: as printed, and the value behind it."""

    claim: ClaimedNumber
    value: float


@dataclass(frozen=True)
class DerivedValue:
    """A value, its formula, and the probability that some formula matches by chance."""

    value: float
    formula: str
    chance: float = 0.0


def find_derivation(claim: ClaimedNumber, operands: Sequence[Operand]) -> DerivedValue | None:
    """Return the step that derives the number, or None.

    Operands close together are tried first, nearest first, then a row or column of any table whose label shares a
    word with the number's sentence.
    """
    others = [one for one in operands if one.claim is not claim]
    same_passage = [one for one in others if one.claim.passage is claim.passage]
    if claim.cell is not None:
        near = [
            [one for one in same_passage if one.claim.cell and one.claim.cell.row == claim.cell.row],
            [one for one in same_passage if one.claim.cell and one.claim.cell.column == claim.cell.column],
        ]
    else:
        near = [[one for one in others if one.claim.context == claim.context], same_passage]
    change = claim.cell is not None and bool(_CHANGE.search(claim.cell.label))
    for group in near:
        step = first_match(claim.number, derive_values(claim.number, group, change=change))
        if step is not None:
            return step
    words = label_words(claim.context)
    lines = [line for label, line in group_by_table_line(others) if len(line) > 1 and words & label_words(label)]
    return first_match(claim.number, (step for line in lines for step in derive_values(claim.number, line)))


_CHANGE = re.compile(
    r"improve|change|gain|drop|reduction|decrease|increase|degradation|difference|delta|\u0394|\\Delta|gap|score|rel\b",
    re.I,
)
"""Names of columns and rows that hold a change, or a score out of a hundred."""


def group_by_table_line(operands: Iterable[Operand]) -> list[tuple[str, list[Operand]]]:
    """Return the label and the numbers of every row and column of all tables."""
    lines: dict[tuple[int, str, int], tuple[str, list[Operand]]] = {}
    for one in operands:
        if (cell := one.claim.cell) is not None:
            table = id(one.claim.passage)
            lines.setdefault((table, "row", cell.row), (cell.row_label, []))[1].append(one)
            lines.setdefault((table, "column", cell.column), (cell.column_label, []))[1].append(one)
    return list(lines.values())


def first_match(number: PrintedNumber, steps: Iterable[DerivedValue]) -> DerivedValue | None:
    """Return the first step whose rounded result is the number, with the probability that any step matches by
    chance; or None.
    """
    tried = list(steps)
    values = np.array([step.value for step in tried], dtype=np.float64)
    matched = find_matches(values, number)
    return replace(tried[matched[0]], chance=compute_match_chance(values, number)) if matched else None


def derive_values(
    number: PrintedNumber, operands: Sequence[Operand], *, change: bool = False
) -> Iterator[DerivedValue]:
    """Yield the results of one step on neighbouring operands.

    `change` means that a number without a percent sign may be a relative change according to its column.
    """
    chosen = operands[:MAX_OPERANDS]
    for one, other in permutations(chosen, 2):
        if one.claim.number.percent == other.claim.number.percent:
            left, right = _number_text(one.claim.number), _number_text(other.claim.number)
            for a, b in {(one.claim.number.value, other.claim.number.value), (one.value, other.value)}:
                if not number.factor:
                    yield DerivedValue(a - b, f"{left} - {right}")
                if b and (change or number.percent):
                    yield DerivedValue((a - b) / abs(b), f"({left} - {right}) / {right}")
                if b and (change or number.percent or number.factor):
                    yield DerivedValue(a / b, f"{left} / {right}")
    if number.percent or change:
        for one in chosen:
            whole = 100.0 if abs(one.claim.number.value) > 1 else 1.0
            yield DerivedValue(whole - one.claim.number.value, f"{whole:g} - {_number_text(one.claim.number)}")
    if len(chosen) > 1 and not number.factor and len({one.claim.number.percent for one in chosen}) == 1:
        shown = ", ".join(_number_text(one.claim.number) for one in chosen)
        yield DerivedValue(float(np.mean([one.value for one in chosen])), f"mean of {shown}")


def _number_text(number: PrintedNumber) -> str:
    return f"({number.text})" if number.text[0] in "+-\u2212" else number.text


def compute_statistics(series: Iterable[ValueSeries]) -> Iterator[ValueSeries]:
    """Yield mean, median, deviations and standard error of each series of two or more values, each as a series."""
    for one in series:
        if 2 <= len(one.values) <= 20_000 and not one.from_prose and len(set(one.values)) > 1:
            values = np.array(one.values)
            for name, value in (
                ("mean", values.mean()),
                ("median", np.median(values)),
                ("standard deviation (n - 1)", values.std(ddof=1)),
                ("standard deviation (n)", values.std()),
                ("standard error", values.std(ddof=1) / np.sqrt(len(values))),
            ):
                key = f"{name} of {len(one.values)} values of {one.key}"
                yield ValueSeries(one.file, key, one.words, [float(value)], [""])


_SETTING = re.compile(r"[^=]+=[-+\d.eE]+")
"""Label of a row by the number of a column."""


def pool_series(series: Iterable[ValueSeries]) -> Iterator[ValueSeries]:
    """Yield the values with one key in files whose names differ only in numbers, such as one file a seed, and those of
    the rows of a file that share one or two of their labels, or all names and up to two settings."""
    kinds: dict[tuple[str, str], list[ValueSeries]] = defaultdict(list)
    for one in series:
        if not one.from_prose:
            kinds[re.sub(r"\d+", "#", one.file), one.key].append(one)
            if found := re.search(r"\{([^{}]*)\}", one.key):
                labels = [each for each in found[1].split("; ")[:MAX_LABELS] if each]
                settings = tuple(each for each in labels if _SETTING.fullmatch(each))
                names = tuple(each for each in labels if each not in settings)
                groups = {each for size in (1, 2) for each in combinations(names, size)}
                groups |= {(*names, *each) for size in range(3) for each in combinations(settings, size)}
                for shared in groups - {(), tuple(labels), (*names, *settings)}:
                    key = f"{one.key[: found.start()]}{{{'; '.join(shared)}}}{one.key[found.end() :]}"
                    kinds[one.file, key].append(one)
    for (_, key), some in kinds.items():
        if len(some) > 1:
            values = [value for one in some for value in one.values]
            places = [place for one in some for place in one.places]
            words = frozenset[str].intersection(*(one.words for one in some))
            yield ValueSeries(some[0].file, f"{key} over {len(some)} series", words, values, places)


VerdictClass = Literal["found", "derivable", "ambiguous", "unsupported"]
CLASSES: tuple[VerdictClass, ...] = ("found", "derivable", "ambiguous", "unsupported")


@dataclass(frozen=True)
class NumberVerdict:
    """Evidence that supports a number; `from_prose`: it was found only in a prose report."""

    claim: ClaimedNumber
    kind: VerdictClass
    evidence: str = ""
    chance: float = 0.0
    value: float | None = None
    from_prose: bool = False


class _ValueIndex:
    """The values of all series in one array, and the series of each."""

    def __init__(self, series: Sequence[ValueSeries]) -> None:
        self.series = series
        self.flat = np.array([value for one in series for value in one.values], dtype=np.float64)
        self.sizes = [len(one.values) for one in series]
        self.owner = [one for one in series for _ in one.values]
        self.offset = [at for one in series for at in range(len(one.values))]

    def look_up(self, claim: ClaimedNumber) -> NumberVerdict | None:
        """Return the most likely origin of the number, and the probability that a random number would have one
        there.
        """
        matched = find_matches(self.flat, claim.number)
        if not matched:
            return None
        words = label_words(claim.context)
        shared = np.repeat([len(words & one.words) for one in self.series], self.sizes)
        most = max(int(shared[at]) for at in matched)
        chance = compute_match_chance(self.flat[shared >= most] if most >= 2 else self.flat, claim.number)
        unwritten = [at for at in matched if not self.owner[at].from_prose]
        measured = [at for at in unwritten if shared[at] >= max(2, most - 1)]
        at = max(measured or matched, key=lambda at: int(shared[at]))
        one, value = self.owner[at], float(self.flat[at])
        line = one.places[self.offset[at]]
        place = f"{one.file}, {line}" if line else f"{one.file}: {one.key}"
        return NumberVerdict(
            claim,
            "ambiguous" if chance > MAX_MATCH_CHANCE else "found",
            f"{place} ({value:.6g})",
            chance,
            value,
            from_prose=not unwritten,
        )


def classify_claims(claims: Sequence[ClaimedNumber], series: Sequence[ValueSeries]) -> tuple[NumberVerdict, ...]:
    """Return a verdict for each number, in order: by its lookup among the results, otherwise among their means and
    deviations, otherwise by a derivation in one step; ambiguous if a match or an operand is."""
    index = _ValueIndex(series)
    aggregates = _ValueIndex(list(compute_statistics([*series, *pool_series(series)])))
    looked_up: list[NumberVerdict | None] = []
    for claim in claims:
        found = index.look_up(claim)
        if found is None or found.kind != "found":
            aggregate = aggregates.look_up(claim)
            if aggregate is not None and aggregate.kind == "found":
                found = replace(aggregate, kind="derivable", from_prose=False)
            found = found or aggregate
        looked_up.append(found)
    matched = [one for one in looked_up if one is not None]
    sure = [Operand(one.claim, one.value or 0.0) for one in matched if one.kind != "ambiguous"]
    unsure = [Operand(one.claim, one.value or 0.0) for one in matched]
    return tuple(_settle(claim, found, sure, unsure) for claim, found in zip(claims, looked_up, strict=True))


def _settle(
    claim: ClaimedNumber, found: NumberVerdict | None, sure: Sequence[Operand], unsure: Sequence[Operand]
) -> NumberVerdict:
    if found is not None and found.kind != "ambiguous":
        return found
    step = find_derivation(claim, sure)
    if step is not None and step.chance <= MAX_MATCH_CHANCE:
        return NumberVerdict(claim, "derivable", step.formula, step.chance)
    if found is None and (step := step or find_derivation(claim, unsure)) is not None:
        return NumberVerdict(claim, "ambiguous", step.formula, step.chance)
    if found is None and claim.number.digits == 1:
        return NumberVerdict(claim, "ambiguous", "one digit", 1 / 9)
    return found or NumberVerdict(claim, "unsupported")


# Find printed results that are in no result file and do not follow from numbers that are. This is a fact about the
# files, not an accusation. Numbers that need not be in a file are excluded: whole numbers (counts, sizes, pages),
# settings (by the words around them), deviations, cited numbers, columns of changes, changes (differences, ratios)
# between any two numbers of the paper, and what follows from other numbers of the same sentence.

MAX_PAIRED_VALUES = 60
"""Maximum numbers of a paper between which changes are tried."""
_SIGNED_RESULT = re.compile(
    r"\b(?:chang|gain|drop|improv|reduc|increas|decreas|differ|delta|\u0394|gap|ratio|relative|advantage|higher|lower"
    r"|faster|slower|more|less|fewer|better|points|times|factor|vs\b|versus)",
    re.I,
)
"""Words next to the size of a change, or in the label of a column or row of changes."""
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=[A-Z(\[])")
CHANGE_LABEL = re.compile(r"improve|change|gain|reduction|increase|delta|\u0394|compression|speed-?up", re.I)
"""Words in the label of a column of changes, which follow from another column."""
_SPREAD = re.compile(r"(?:\u00b1|\+/?-|\\pm)\W*$|\d\D{0,30}\[(?:[^\[\]]*[,;])?\s*[-\u2212+]?$")
"""Text before a deviation, or a bound of an interval in brackets after its estimate: many methods compute these."""
_CITED = re.compile(
    r"publish|reported (?:by|in)|as reported|taken from|from the literature|quoted|copied from|et al\b|\(\d{4}\)"
    r"|\[\d+\]|\\cite|prior work|source",
    re.I,
)


def find_missing_results(verdicts: Sequence[NumberVerdict]) -> tuple[NumberVerdict, ...]:
    """Return the numbers that are results and in no result file."""
    given = {one.claim.number.text: one.claim.number for one in verdicts if one.kind != "unsupported"}
    pairs = list(permutations(list(given.values())[:MAX_PAIRED_VALUES], 2))
    missing = [one for one in verdicts if one.kind == "unsupported" and _should_be_in_a_file(one)]
    return tuple(
        one
        for one in missing
        if not (
            (_is_change_size(one) and any(gives_change(a, b, one.claim.number) for a, b in pairs))
            or _is_among(one.claim.number, _combine_others(one, verdicts))
        )
    )


def _is_among(number: PrintedNumber, values: Sequence[float]) -> bool:
    """Return whether a value rounds to the number, and not by chance."""
    sizes = np.array(values, dtype=np.float64)
    return (
        bool(values) and bool(find_matches(sizes, number)) and compute_match_chance(sizes, number) <= MAX_MATCH_CHANCE
    )


def _combine_others(one: NumberVerdict, verdicts: Sequence[NumberVerdict]) -> list[float]:
    """Return what one step gives for two other numbers of the same sentence, and what these leave of 1.

    Unsupported numbers are left out: each of "48.3 instead of 48.9, a difference of 0.6" follows from the others.
    """
    claim = one.claim
    if claim.cell is not None:
        return []
    values = [
        other.claim.number.value
        for other in verdicts
        if other.kind != "unsupported" and other.claim.passage is claim.passage and other.claim.context == claim.context
    ]
    pairs = list(permutations(dict.fromkeys(values), 2))
    combined = [value for a, b in pairs for value in (a + b, a - b, a * b, *((a / b, (a - b) / abs(b)) if b else ()))]
    return combined + [1 - value for value in combined if 0 < value < 1]


def _should_be_in_a_file(one: NumberVerdict) -> bool:
    """Return whether a number is a result by its form and its words: no count, spread, setting or cited number."""
    number, cell, (before, after) = one.claim.number, one.claim.cell, _text_around(one)
    if ("." not in number.text and not number.percent) or _SPREAD.search(before):
        return False
    if cell is None:
        return not (_CITED.search(f"{before}{after}") or SETTING_LABEL.search(before[-30:]))
    row = " ".join(other.text for other in one.claim.passage.cells if other.row == cell.row)
    is_setting = SETTING_LABEL.search(cell.label) and not SCORE_LABEL.search(cell.label)
    return not (_CITED.search(f"{cell.label} {row}") or is_setting or CHANGE_LABEL.search(cell.column_label))


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
        return _SIGNED_RESULT.search(cell.label) is not None
    return bool(number.sign) or _SIGNED_RESULT.search(f"{before[-80:]} {after[:40]}") is not None


# Find printed numbers that contradict each other by arithmetic alone; nothing is compared with files. A printed number
# stands for every value that rounds to it, and a statement is only reported if no such values fit: a count and its
# percentage, "17 of 20 (80 %)"; F1 above the mean of precision and recall, which also holds for means over classes.

ContradictionKind = Literal["count", "scores"]
SETTING_LABEL = re.compile(
    r"\b(?:rate|lr|weight|size|threshold|temperature|param\w*|epochs?|batch|layers?|dim\w*|seeds?|budget|settings?"
    r"|decay|momentum|dropout|penalty|alpha|beta|gamma|lambda|sigma|tau)\b",
    re.I,
)
SCORE_LABEL = re.compile(r"acc|error|score|f1|auc|loss|mae|mse|rmse|precision|recall|bleu|reward|r2", re.I)
_COUNT_SHARE = re.compile(
    r"(?<![\d.,/])(\d{1,6}) ?(?:of|out of|/) ?(?:the |all )?(\d{1,6})(?![\d.,]\d|/)(?: [A-Za-z-]+){0,3} "
    r"\(\s*(?:= ?)?(\d{1,3}(?:\.\d+)?) ?\\?%\s*\)"
)


@dataclass(frozen=True)
class Contradiction:
    """Printed numbers that no rounding reconciles; `description` has them and the rule."""

    kind: ContradictionKind
    where: str
    description: str


def find_contradictions(claims: Sequence[ClaimedNumber]) -> tuple[Contradiction, ...]:
    """Return all contradictions among the numbers of a paper."""
    rows: dict[tuple[int, int], dict[int, ClaimedNumber]] = defaultdict(dict)
    found: dict[Contradiction, None] = {}
    for one in claims:
        if one.cell is None:
            found |= dict.fromkeys(_check_counts(one))
        elif not re.search(r"[A-Za-z]{4}", one.cell.text):  # the first number of each cell
            rows[id(one.passage), one.cell.row].setdefault(one.cell.column, one)
    for row in rows.values():
        named = {
            name: [one for one in row.values() if one.cell and pattern.search(one.cell.column_label)]
            for name, pattern in _SCORES.items()
        }
        if all(len(some) == 1 for some in named.values()):
            found |= dict.fromkeys(_check_f1({name: some[0] for name, some in named.items()}))
    return tuple(found)


def gives_change(a: PrintedNumber, b: PrintedNumber, change: PrintedNumber) -> bool:
    """Return whether a change is a difference, relative change or ratio of two numbers, within rounding."""

    def forms(x: float, y: float) -> tuple[float, ...]:
        if change.percent:
            return 100 * (x - y) / abs(y), 100 * x / y, (x - y) * (1 if a.percent else 100), x - y
        return x / y, (x - y) / abs(y), *(() if change.factor else (x - y, 100 * (x - y) / abs(y)))

    low, high = abs(change.value) - change.rounding_slack, abs(change.value) + change.rounding_slack
    corners = list(
        product(
            (a.value - a.rounding_slack, a.value + a.rounding_slack),
            (b.value - b.rounding_slack, b.value + b.rounding_slack),
        )
    )
    if any(y == 0 for _, y in corners):
        return True
    for values in zip(*(forms(x, y) for x, y in corners), strict=True):
        sizes = [abs(value) for value in values]
        least = 0.0 if min(values) < 0 < max(values) else min(sizes)
        if least <= high and max(sizes) >= low:
            return True
    return False


def _check_counts(one: ClaimedNumber) -> Iterator[Contradiction]:
    for match in _COUNT_SHARE.finditer(one.context):
        part, whole, percent = int(match[1]), int(match[2]), float(match[3])
        step = 10.0 ** -len(match[3].partition(".")[2])
        if 0 < part <= whole and abs(100 * part / whole - percent) >= step:  # a whole step, since some truncate
            text = f"{match[0]!r}: {part} of {whole} is {100 * part / whole:.4g} %"
            yield Contradiction("count", one.where, text)


_SCORES = {
    "precision": re.compile(r"\bprec(?:ision)?\b", re.I),
    "recall": re.compile(r"\brecall\b", re.I),
    "F1": re.compile(r"\bf-?1\b", re.I),
}


def _check_f1(claims: dict[str, ClaimedNumber]) -> Iterator[Contradiction]:
    scores = {name: one.number for name, one in claims.items()}
    most = sum(scores[name].value + scores[name].rounding_slack for name in ("precision", "recall")) / 2
    alike = len({one.percent or one.value > 1 for one in scores.values()}) == 1
    if alike and scores["F1"].value - scores["F1"].rounding_slack > most + 1e-9:
        text = ", ".join(f"{name} {one.text}" for name, one in scores.items())
        yield Contradiction("scores", claims["F1"].where, f"F1 is above the mean of precision and recall: {text}")


# Audit an external paper: look its numbers up in its result files, and check their arithmetic.
#
# Nothing is executed and no model is asked. A finding is a printed result that is in no result file, or numbers that
# contradict each other. Neither says whether the results are real: a judge that reads code and log decides that.

MAX_FINDINGS = 30
"""Maximum findings that a judge is shown."""


@dataclass
class ExternalPaperAudit:
    """What is known of the numbers of a paper.

    `verdicts`, one per number, are empty without result files; `left_out` lists what was not read.
    """

    paper: str
    sha256: str
    number_count: int
    verdicts: tuple[NumberVerdict, ...] = ()
    missing_results: tuple[NumberVerdict, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    result_files: tuple[str, ...] = ()
    result_value_count: int = 0
    left_out: list[str] = field(default_factory=list[str])

    @property
    def class_counts(self) -> dict[str, int]:
        """Count the numbers of the paper by class."""
        classes = Counter(one.kind for one in self.verdicts)
        return {name: classes[name] for name in CLASSES}

    @property
    def prose_only_count(self) -> int:
        """Count found numbers that occur only in prose reports and in no file that a program typically writes."""
        return sum(one.from_prose for one in self.verdicts if one.kind == "found")

    @property
    def finding_count(self) -> int:
        return len(self.missing_results) + len(self.contradictions)


async def audit_paper(path: Path, *, results: Path | None = None) -> ExternalPaperAudit:
    """Audit a paper (.md, .tex, .pdf). Raises `PaperError`, `ResultsError`."""
    paper = await read_paper(path)
    claims = extract_claims(extract_passages(paper))
    report = ExternalPaperAudit(path.name, paper.sha256, len(claims), contradictions=find_contradictions(claims))
    report.left_out += [f"{name}, which the paper includes, does not exist" for name in paper.missing_files]
    if results is not None:
        read = read_results(results, excluded=path)
        report.verdicts = classify_claims(claims, read.series)
        report.result_files, report.result_value_count = tuple(read.files), read.value_count
        report.left_out += read.left_out
        report.missing_results = find_missing_results(report.verdicts)
    return report


async def collect_audit_facts(path: Path, *, results: Path | None = None) -> AuditFacts:
    """Audit a paper and return the findings as facts for a judge. Raises `PaperError`, `ResultsError`."""
    report = await audit_paper(path, results=results)
    against = "itself, without result files" if results is None else f"its result files in {results.name}"
    findings = [
        *(f"in no result file: {one.claim.number.text} ({one.claim.where})" for one in report.missing_results),
        *(f"{one.kind}, {one.where}: {one.description}" for one in report.contradictions),
    ]
    return AuditFacts(
        against=against,
        numbers=report.number_count,
        findings=tuple(findings[:MAX_FINDINGS]),
        counts=tuple(report.class_counts.items()) if results is not None else (),
        more=max(0, len(findings) - MAX_FINDINGS),
        left_out=tuple(report.left_out[:20]),
    )
