"""Find printed numbers that contradict each other by arithmetic alone; nothing is compared with files.

A printed number stands for every value that rounds to it, and a statement is only reported if no such values fit:

- a count and its percentage, "17 of 20 (80 %)";
- F1 above the mean of precision and recall, which also holds for means over classes or runs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from labwright.review.external_papers.passages import ClaimedNumber
from labwright.review.external_papers.printed_numbers import PrintedNumber

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
