"""Compare judges with humans on labelled plans (JudgeEval).

An item is a gold ablation (is it matched?) or, for reviewers, an entry (is it requested?). Means are over the plans
in which humans found a match, for every judge; without one, recall is undefined. Pooled figures include all items, and
have intervals over papers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from statistics import fmean

import numpy as np
from pydantic import Field

from labwright.evals.ablationbench.data import LabelledPlan, Task
from labwright.evals.ablationbench.scores import Row, find_majority, parse_names, read_requested
from labwright.evals.intervals import SEED, percentile_interval, resample_sums
from labwright.record.schema import FrozenModel


@dataclass(frozen=True)
class LabelAgreement:
    """Counts of items of one or more plans, by the answers of humans and judge."""

    tp: int = 0
    fp: int = 0
    fn: int = 0
    tn: int = 0

    def __add__(self, other: LabelAgreement) -> LabelAgreement:
        return LabelAgreement(self.tp + other.tp, self.fp + other.fp, self.fn + other.fn, self.tn + other.tn)

    @property
    def item_count(self) -> int:
        return self.tp + self.fp + self.fn + self.tn

    @property
    def precision(self) -> float:
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else 0.0

    @property
    def recall(self) -> float:
        """Sensitivity: share of the humans' matches that the judge finds."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else 0.0

    @property
    def specificity(self) -> float | None:
        """Share of the items unmatched by humans that the judge does not match either; None without such items."""
        return self.tn / (self.tn + self.fp) if self.tn + self.fp else None

    @property
    def f1(self) -> float:
        return 2 * self.tp / (2 * self.tp + self.fp + self.fn) if self.tp else 0.0

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa; None if both give all items the same label."""
        expected = (self.tp + self.fn) * (self.tp + self.fp) + (self.tn + self.fp) * (self.tn + self.fn)
        chance = expected / self.item_count**2 if self.item_count else 1.0
        return None if chance == 1.0 else ((self.tp + self.tn) / self.item_count - chance) / (1 - chance)


@dataclass(frozen=True)
class PlanLabels:
    """Labels of humans and a judge for the items of a plan; `judge` is None if it gave no answer.

    `upstream` is how the public code reads the rows: rows of an author judge that are entirely null count as
    matches.
    """

    id: str
    human: tuple[bool, ...]
    judge: tuple[bool, ...] | None
    upstream: tuple[bool, ...] | None = None

    @property
    def agreement(self) -> LabelAgreement:
        return count_agreement(self.human, self.judge or ())


def count_agreement(human: Sequence[bool | int], judge: Sequence[bool | int]) -> LabelAgreement:
    both = list(zip(map(bool, human), map(bool, judge), strict=False))
    return LabelAgreement(
        both.count((True, True)), both.count((False, True)), both.count((True, False)), both.count((False, False))
    )


def build_labels(
    task: str, human: Iterable[Row], rows: Iterable[Row] | None, plan: Sequence[str] | None = None, *, id: str = ""
) -> PlanLabels:
    """Return the items of a plan in the humans' order.

    `plan` has the names of its entries; with None, every name counts as one.
    """
    human_matches = _find_matched(task, human, plan)
    if rows is None:
        return PlanLabels(id, tuple(human_matches.values()), None)
    judged = _find_matched(task, rows, plan)
    given = tuple(judged.get(one, False) for one in human_matches)
    null = task == "author" and not any(judged.values())
    return PlanLabels(
        id, tuple(human_matches.values()), given, tuple(one in judged for one in human_matches) if null else given
    )


def _find_matched(task: str, rows: Iterable[Row], plan: Sequence[str] | None) -> dict[str, bool]:
    """Return whether the rows match each item."""
    if task == "reviewer":
        return read_requested(rows)
    found: dict[str, bool] = {}
    for row in rows:
        hits = [one for one in parse_names(row.get("name_in_plan")) if plan is None or one in plan]
        for name in parse_names(row.get("name_in_paper")):
            found[name] = found.get(name, False) or bool(hits)
    return found


def compute_upstream_f1(task: str, one: PlanLabels) -> float:
    """Return F1 with the bug of the public code: entirely null labels of an author plan count as matches."""
    human = (True,) * len(one.human) if task == "author" and not any(one.human) else one.human
    return count_agreement(human, one.upstream or one.judge or ()).f1


MAJORITY = "majority"


class PooledFigure(FrozenModel):
    """A figure over all items, with a 95 % interval, papers resampled."""

    value: float | None
    low: float | None
    high: float | None


class JudgeTable(FrozenModel):
    """A judge on one task. `macro_*`: means over plans in which humans found a match."""

    task: Task
    judge: str
    plans: int
    items: int
    not_judged: int
    left_out: int = Field(
        description="plans in which humans found no match: recall is undefined, pooled figures include them"
    )
    macro_precision: float
    macro_recall: float
    macro_f1: float
    macro_upstream: float = Field(description="mean F1 by the public code, which published figures use")
    precision: PooledFigure
    sensitivity: PooledFigure
    specificity: PooledFigure
    f1: PooledFigure
    kappa: PooledFigure


class JudgeEval(FrozenModel):
    """All judges on the tasks that have labels."""

    judges: tuple[JudgeTable, ...]


FIGURES: dict[str, Callable[[LabelAgreement], float | None]] = {
    "precision": lambda all: all.precision,
    "sensitivity": lambda all: all.recall,
    "specificity": lambda all: all.specificity,
    "f1": lambda all: all.f1,
    "kappa": lambda all: all.kappa,
}


def build_judge_table(task: Task, judge: str, plans: Sequence[PlanLabels]) -> JudgeTable:
    """Build the results of a judge; unanswered plans are excluded and counted.

    Intervals resample papers, since plans of one paper are not independent.
    """
    answered = [one for one in plans if one.judge is not None]
    counted = [one.agreement for one in answered if any(one.human)]
    papers: dict[str, LabelAgreement] = {}
    for one in answered:
        paper = one.id.partition("/")[2]
        papers[paper] = papers.get(paper, LabelAgreement()) + one.agreement
    whole, sums = sum(papers.values(), LabelAgreement()), [astuple(one) for one in papers.values()]
    drawn = resample_sums(np.array(sums, dtype=np.float64), np.random.default_rng(SEED)) if len(sums) > 1 else sums[:0]
    resampled = [LabelAgreement(*map(round, counts)) for counts in drawn]

    def pooled(figure: Callable[[LabelAgreement], float | None]) -> PooledFigure:
        values = [value for one in resampled if (value := figure(one)) is not None]
        low, high = percentile_interval(np.array(values)) if values else (None, None)
        return PooledFigure(value=figure(whole) if whole.item_count else None, low=low, high=high)

    figures = {name: pooled(figure) for name, figure in FIGURES.items()}
    return JudgeTable(
        task=task,
        judge=judge,
        plans=len(plans),
        items=whole.item_count,
        not_judged=len(plans) - len(answered),
        left_out=len(answered) - len(counted),
        macro_precision=fmean([one.precision for one in counted] or [0.0]),
        macro_recall=fmean([one.recall for one in counted] or [0.0]),
        macro_f1=fmean([one.f1 for one in counted] or [0.0]),
        macro_upstream=fmean([compute_upstream_f1(task, one) for one in answered] or [0.0]),
        **figures,
    )


def label_plan(task: Task, plan: LabelledPlan, rows: Sequence[Row] | None) -> PlanLabels:
    """Return the items of a plan with the answers of humans and a judge."""
    return build_labels(task, plan.rows, rows, id=f"{plan.planner}/{plan.paper}")


def vote_majority(judges: Sequence[Sequence[PlanLabels]]) -> list[PlanLabels]:
    """Return the majority of judges for each item; all judges must have the same plans in the same order."""
    found = list[PlanLabels]()
    for same in zip(*judges, strict=True):
        majority = find_majority(
            [None if one.judge is None else frozenset(at for at, yes in enumerate(one.judge) if yes) for one in same]
        )
        first = same[0]
        found.append(
            PlanLabels(
                first.id,
                first.human,
                None if majority is None else tuple(at in majority for at in range(len(first.human))),
            )
        )
    return found
