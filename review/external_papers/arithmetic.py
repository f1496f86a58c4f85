"""Find printed numbers that contradict each other by arithmetic alone; nothing is compared with files.

A printed number stands for every value that rounds to it, and a statement is only reported if no such values fit:

- a change that does not follow from the two numbers that it is stated for, in "from A to B, a C % reduction", or in a
  table in which the changes of most rows follow from the same two columns;
- a count and its percentage, "17 of 20 (80 %)";
- F1 above the mean of precision and recall, which also holds for means over classes or runs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

from labwright.review.external_papers.passages import ClaimedNumber
from labwright.review.external_papers.printed_numbers import PrintedNumber

ContradictionKind = Literal["change", "count", "scores"]
MIN_ESTABLISHED_ROWS = 3
"""Minimum rows of a table whose changes follow from the same two columns."""

_FROM_TO = re.compile(r"\bfrom\s+\$?\x00(\d+)\x00[^.;,\x00]{0,20}?\s+to\s+\$?\x00(\d+)\x00")
_CHANGE_AFTER = re.compile(
    r"[\s)]*(?:\w+ )?(?:reduc\w+|improve\w+|increase|decrease|gain|drop|lower|higher|faster|slower|fewer|less|more)\b",
    re.I,
)
_CHANGE_LABEL = re.compile(r"\b(?:improve\w*|change|gain|reduction|decrease|increase|difference|delta)\b|\u0394", re.I)
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
    sentences: dict[tuple[int, str], list[ClaimedNumber]] = defaultdict(list)
    tables: dict[int, list[ClaimedNumber]] = defaultdict(list)
    for claim in claims:
        if claim.cell is None:
            sentences[id(claim.passage), claim.context].append(claim)
        else:
            tables[id(claim.passage)].append(claim)
    found = [
        *(one for stated in sentences.values() for one in _check_sentence(stated)),
        *(one for cells in tables.values() for one in _check_table(cells)),
    ]
    return tuple(dict.fromkeys(found))


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


def follows_as_change(a: PrintedNumber, b: PrintedNumber, change: PrintedNumber) -> bool:
    """Return whether a change follows from two numbers, in either direction."""
    return gives_change(a, b, change) or gives_change(b, a, change)


def _is_alike(a: PrintedNumber, b: PrintedNumber) -> bool:
    """Return whether numbers are printed in one way; others are seldom of one quantity."""
    return a.percent == b.percent and a.step == b.step


# --- sentences --------------------------------------------------------------------------------------------------------


def _check_sentence(stated: Sequence[ClaimedNumber]) -> Iterator[Contradiction]:
    context, where = stated[0].context, stated[0].where
    yield from _check_from_to(stated)
    for match in _COUNT_SHARE.finditer(context):
        part, whole, percent = int(match[1]), int(match[2]), float(match[3])
        step = 10.0 ** -len(match[3].partition(".")[2])
        if 0 < part <= whole and abs(100 * part / whole - percent) >= step:  # a whole step, since some truncate
            yield Contradiction("count", where, f"{match[0]!r}: {part} of {whole} is {100 * part / whole:.4g} %")


def _check_from_to(stated: Sequence[ClaimedNumber]) -> Iterator[Contradiction]:
    """Check "from A to B", if the sentence states one change and A and B are printed alike."""
    text, ends = stated[0].passage.text, [one.number.at + len(one.number.text) for one in stated]
    changes = [
        one.number
        for one, end in zip(stated, ends, strict=True)
        if (one.number.percent or one.number.factor) and _CHANGE_AFTER.match(text[end : end + 40])
    ]
    marked, begin = list[str](), stated[0].number.at - 40
    for at, (one, end) in enumerate(zip(stated, ends, strict=True)):
        marked += [text[max(0, begin) : one.number.at], f"\0{at}\0"]
        begin = end
    pairs = [(stated[int(one[1])].number, stated[int(one[2])].number) for one in _FROM_TO.finditer("".join(marked))]
    if len(pairs) != 1 or len(changes) != 1 or changes[0].bound:
        return
    (a, b), change = pairs[0], changes[0]
    if _is_alike(a, b) and change not in (a, b) and not follows_as_change(a, b, change):
        yield Contradiction(
            "change",
            stated[0].where,
            f"{change.text} does not follow from {a.text} and {b.text}: {stated[0].context!r}",
        )


# --- tables -----------------------------------------------------------------------------------------------------------


def _check_table(claims: Sequence[ClaimedNumber]) -> Iterator[Contradiction]:
    """Check the first number of each cell by row."""
    rows: dict[int, dict[int, ClaimedNumber]] = defaultdict(dict)
    for one in claims:
        if one.cell is not None and not re.search(r"[A-Za-z]{4}", one.cell.text):
            rows[one.cell.row].setdefault(one.cell.column, one)
    yield from _check_changes([*rows.values()])
    for row in rows.values():
        named = {
            name: [one for one in row.values() if one.cell and pattern.search(one.cell.column_label)]
            for name, pattern in _SCORES.items()
        }
        if all(len(found) == 1 for found in named.values()):
            yield from _check_f1({name: found[0] for name, found in named.items()})


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


def _check_changes(rows: Sequence[dict[int, ClaimedNumber]]) -> Iterator[Contradiction]:
    """Check columns of changes against the two columns from which the changes of most rows follow."""
    columns = {one.cell.column: one.cell.column_label for row in rows for one in row.values() if one.cell}
    changes = [column for column, label in columns.items() if _CHANGE_LABEL.search(label)]
    settings = [one for one, label in columns.items() if SETTING_LABEL.search(label) and not SCORE_LABEL.search(label)]
    for column in changes:
        for a, b in combinations([one for one in columns if one not in (*changes, *settings)], 2):
            complete = [row for row in rows if {a, b, column} <= row.keys() and _is_alike(row[a].number, row[b].number)]
            wrong = [row for row in complete if not follows_as_change(*(row[at].number for at in (a, b, column)))]
            if len(complete) - len(wrong) >= max(MIN_ESTABLISHED_ROWS, 2 * len(wrong)):
                for row in wrong:
                    numbers = [row[at].number.text for at in (column, a, b)]
                    text = "{} does not follow from {} and {}, as the changes of other rows do".format(*numbers)
                    yield Contradiction("change", row[column].where, text)
                break
