"""Scores of an answer and of a table of answers: exact fractions over tasks, computed without a model.

D: ground-truth variables that the stated design matches. I: requirements that the change meets. C: the conclusion,
by meaning. E: the script exits 0 within its limit. A task whose D, I or C could not be read is neither judged nor
counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Literal, NamedTuple

SCORE_NAMES = ("D", "I", "E", "I·E", "C", "C·D", "All", "All·E")
EXECUTION_SCORES = ("E", "I·E", "All·E")
"""Means over the tasks that were executed."""
AnswerState = Literal["answered", "no_answer", "invalid", "skipped", "failed", "not_begun"]
ScoreOutcome = Literal["judged", "violation", "not_judged", "no_answer", "invalid", "skipped", "failed", "not_begun"]
COUNTED_OUTCOMES: tuple[ScoreOutcome, ...] = ("judged", "violation", "no_answer")


class ItemCounts(NamedTuple):
    """Counts of items that match and that do not; items that do not apply are excluded."""

    matched: int
    total: int

    @property
    def score(self) -> Fraction | None:
        return Fraction(self.matched, self.total) if self.total else None

    @property
    def is_complete(self) -> bool | None:
        return self.matched == self.total if self.total else None


class JudgedAnswer(NamedTuple):
    """Everything known about one answer.

    `design`, `implementation` and `conclusion` are None if they could not be read.
    """

    task: str
    state: AnswerState
    design: ItemCounts | None = None
    implementation: ItemCounts | None = None
    conclusion: int | None = None
    executed: bool | None = None
    """Whether its script exits 0 within the limit; None if it was not run."""
    violation: bool = False


def parse_conclusion_score(conclusion: object) -> int | None:
    """Parse the score of a verdict on a conclusion, in the original harness's format; None if invalid."""
    if isinstance(conclusion, bool):
        return None
    if conclusion == 0 and isinstance(conclusion, int | float):
        return 0
    text = conclusion.strip().lower() if isinstance(conclusion, str) else ""
    return {"correct": 1, "incorrect": 0}.get(text)


def find_outcome(one: JudgedAnswer) -> ScoreOutcome:
    if one.state != "answered":
        return one.state
    if one.violation:
        return "violation"
    unreadable = one.design is None or one.implementation is None or one.conclusion is None
    return "not_judged" if unreadable else "judged"


def compute_scores(one: JudgedAnswer) -> dict[str, Fraction | None]:
    """Return each of `SCORE_NAMES`; None if undefined."""
    how = find_outcome(one)
    nothing: dict[str, Fraction | None] = dict.fromkeys(SCORE_NAMES)
    if how not in COUNTED_OUTCOMES:
        return nothing
    executed = None if one.executed is None else Fraction(one.executed)
    if how == "violation":
        return {name: None if name in EXECUTION_SCORES else Fraction(0) for name in SCORE_NAMES}
    design = implementation = conclusion = Fraction(0)
    if how == "judged":
        design = one.design.score if one.design is not None else None
        implementation = one.implementation.score if one.implementation is not None else None
        conclusion = Fraction(one.conclusion or 0)
    d100 = None if design is None else Fraction(design == 1)
    i100 = None if implementation is None else Fraction(implementation == 1)
    whole = _all_hold(d100, i100, conclusion)
    return {
        "D": design,
        "I": implementation,
        "E": executed,
        "I·E": _all_hold(i100, executed),
        "C": conclusion,
        "C·D": _all_hold(conclusion, d100),
        "All": whole,
        "All·E": _all_hold(whole, executed),
    }


def _all_hold(*parts: Fraction | None) -> Fraction | None:
    """Return whether all parts hold; None if one is unknown, even if another does not hold."""
    return None if None in parts else Fraction(all(parts))


# --- over tasks -----------------------------------------------------------------------------------------------------


class TaskMean(NamedTuple):
    """A mean over tasks; with its Wilson interval if it is a share."""

    exact: Fraction | None
    n: int

    @property
    def percent(self) -> float | None:
        return None if self.exact is None else to_percent(self.exact)


def to_percent(value: Fraction) -> float:
    """Return percent with one decimal, rounded half up."""
    tenths = Fraction(1000) * value
    return float(Decimal(floor(tenths + Fraction(1, 2))) / 10)


def compute_means(runs: Iterable[JudgedAnswer]) -> dict[str, TaskMean]:
    """Return the mean of each of `SCORE_NAMES` over tasks; several answers to one task count as their mean."""
    by_task: dict[str, list[dict[str, Fraction | None]]] = {}
    for one in runs:
        by_task.setdefault(one.task, []).append(compute_scores(one))
    found: dict[str, TaskMean] = {}
    for name in SCORE_NAMES:
        values = [value for each in by_task.values() if (value := _compute_mean(one[name] for one in each)) is not None]
        found[name] = TaskMean(_compute_mean(values), len(values))
    return found


def _compute_mean(values: Iterable[Fraction | None]) -> Fraction | None:
    known = [one for one in values if one is not None]
    return sum(known, Fraction(0)) / len(known) if known else None


def count_outcomes(runs: Iterable[JudgedAnswer]) -> dict[str, int]:
    return dict(sorted(Counter(find_outcome(one) for one in runs).items()))


def compute_step_shares(runs: Iterable[JudgedAnswer]) -> dict[str, float | int | None]:
    """Return the share of executed or stopped tasks that passes each step."""
    taken = [
        one for one in runs if find_outcome(one) in COUNTED_OUTCOMES and (one.executed is not None or one.violation)
    ]
    found: dict[str, float | int | None] = {"n": len(taken)}
    passed = [one for one in taken if find_outcome(one) != "violation"]
    for name, keys in (("M", ()), ("M·C·D", ("C·D",)), ("M·C·D·I", ("All",)), ("M·C·D·I·E", ("All·E",))):
        there = sum(all(compute_scores(one)[key] == 1 for key in keys) for one in passed)
        found[name] = to_percent(Fraction(there, len(taken))) if taken else None
    return found
