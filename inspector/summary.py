"""Short summaries of a run: five lines at its end, one line of its status, one row of a list of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from statistics import fmean
from typing import Literal, NamedTuple

from rich.text import Text

from labwright.inspector.render import UNDECIDED
from labwright.inspector.safe_text import format_count, format_dollars, format_duration, shorten, to_plain
from labwright.inspector.status import RunCondition, RunStatus
from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import compute_paper_claims, compute_test_claims
from labwright.record.claims.formatting import count_claim_decimals, count_effect_decimals
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.estimands import describe_estimand, find_effect_metric
from labwright.record.reducers.run_state import RunState
from labwright.record.schema import FrozenModel
from labwright.record.schema.hypotheses import EffectDecision, HypothesisDecision
from labwright.record.schema.nodes import StudyKind
from labwright.record.schema.paper import Judgement
from labwright.record.table import format_quantity

LAST_FINDINGS = ("answer", "most important", "baseline")
"""Labels of the findings of a repository that sum up its study, best first."""


class RunListRow(FrozenModel):
    """One run of `scientist list`. `hours` are hours of work; `age` is seconds since the last event."""

    run: str
    kind: StudyKind
    title: str
    condition: RunCondition
    phase: str
    verdicts: str
    hours: float
    tokens: int
    usd: float
    age: float | None


def build_list_row(status: RunStatus, now: float) -> RunListRow:
    """Summarise a run for a list. `now` is in seconds since the epoch."""
    last = datetime.fromisoformat(status.last_event).timestamp() if status.last_event else None
    return RunListRow(
        **status.model_dump(include={"run", "kind", "title", "condition", "phase"}),
        verdicts=count_verdicts(status),
        hours=round(status.elapsed / 3600, 3),
        tokens=status.cost.input_tokens + status.cost.output_tokens,
        usd=status.cost.usd,
        age=None if last is None else round(max(0.0, now - last), 1),
    )


def count_verdicts(status: RunStatus) -> str:
    """Count the verdicts on the confirmatory hypotheses, such as `2 supported, 1 open so far`; for the study of a
    repository, its main finding."""
    if status.kind != "paper":
        return shorten(_find_main_finding(status), 60)
    claims = [one for one in status.decisions if one.hypothesis.confirmatory]
    counts = Counter(one.verdict for one in claims)
    so_far = " so far" * any(not one.confirmed for one in claims)
    return ", ".join(f"{number} {verdict}" for verdict, number in counts.items()) + so_far


def format_ending(status: RunStatus, report: Sequence[str]) -> list[Text]:
    """Format the five lines at the end of a run: verdicts, paper, page, cost, and what to do next. `report` lists the
    files of the report on a repository."""
    run, cost = to_plain(status.run), status.cost
    tokens = cost.input_tokens + cost.output_tokens
    spent = format_dollars(cost.usd, cost.unpriced) + (f", {format_count(tokens)} tokens" if tokens else "")
    took = f"{format_duration(status.elapsed)} of work, {format_duration(status.code_seconds)} running code"
    rows = (
        ("verdicts", "; ".join(_list_verdicts(status)) or "none: nothing was decided"),
        ("paper" if status.kind == "paper" else "report", _describe_result(status, report)),
        ("page", f"scientist view {run}"),
        ("cost", f"{spent} for {format_quantity(cost.calls, 'call')} to {status.model}; {took}"),
        ("next", describe_next_step(status)),
    )
    return [Text(f"{name:<10}", style="cyan") + Text(value) for name, value in rows]


def _list_verdicts(status: RunStatus) -> Iterator[str]:
    if status.kind != "paper":
        yield shorten(_find_main_finding(status), 200)
        return
    over = any(one.confirmed for one in status.decisions)
    for one in status.decisions:
        verdict = one.verdict if one.confirmed else f"{one.verdict} (exploratory)" if over else UNDECIDED
        yield f"{verdict}: {shorten(one.hypothesis.statement, 120)}"


def _find_main_finding(status: RunStatus) -> str:
    found = {name: text for name, text in status.findings if name}
    return next((f"{name}: {found[name]}" for name in LAST_FINDINGS if name in found), "")


def _describe_result(status: RunStatus, report: Sequence[str]) -> str:
    run = to_plain(status.run)
    files = [f"{run}/{name}" for name in (report if status.kind != "paper" else [status.paper] if status.paper else [])]
    result = ", ".join(map(to_plain, files)) or "none"
    if status.condition == "done":
        return f"{result}; {shorten(status.reason, 300)}" if _has_later_draft(status) else result
    why = f": {shorten(status.reason, 200)}" if status.reason else ""
    how = f"{status.condition} (exit code {status.exit_code})"
    return f"{result}; {'a DRAFT' if status.condition == 'draft only' and files else how}{why}"


def _has_later_draft(status: RunStatus) -> bool:
    """Return whether a version of the paper after the released one is a draft."""
    return status.condition == "done" and status.next.startswith("scientist write")


def describe_next_step(status: RunStatus) -> str:
    """Say what the user may do with a run that has ended."""
    run = to_plain(status.run)
    if status.condition == "draft only":
        return f"scientist write {run} writes the paper again; --model NAME takes another model"
    if status.paper is not None and "done" in (status.condition, status.phase) and not _has_later_draft(status):
        return (
            f"scientist trace {run} NUMBER shows the source of a printed number; scientist reproduce {run} repeats them"
        )
    return status.next


# Main results of a run, shown at the top of its page and in the list of runs: hypotheses, method vs. baseline, judge.

MAX_DIGITS = 4


class ShownEffect(NamedTuple):
    """An effect of a hypothesis: its decision, a description of its estimand, and the number of decimals to show."""

    part: EffectDecision
    words: str
    digits: int


class Headline(NamedTuple):
    """`compared` has the improvements of methods over baselines by the primary metric on `split`, above zero where the
    method is better: `baseline - method` if lower values of the metric are better."""

    decisions: tuple[HypothesisDecision, ...]
    effects: tuple[tuple[ShownEffect, ...], ...]
    """Effects of each decision."""
    compared: tuple[ClaimDifference, ...]
    digits: int
    """Number of decimals of the differences."""
    split: Literal["test", "validation"]
    metric: str

    @property
    def mean_difference(self) -> float | None:
        """Mean improvement on the first dataset, for lists; None before it was measured."""
        means = [one.mean for one in self.compared if one.dataset == self.compared[0].dataset]
        return fmean(means) if means else None


def build_headline(state: RunState) -> Headline | None:
    """Build the headline; None before the data plan exists."""
    plan = state.search.data_plan
    if plan is None:
        return None
    methods = {arm.name for arm in plan.arms if arm.role == "method"}
    found = tuple(
        one if plan.primary_metric.higher_is_better else _exchange_sides(one)
        for one in compute_differences(state, compute_paper_claims(state))
        if one.name == plan.primary_metric.name and one.arm in methods
    )
    decided = decide_hypotheses(state)

    def show(part: EffectDecision) -> ShownEffect:
        metric = find_effect_metric(part.effect, plan).display_name
        words = f"{describe_estimand(part.effect.estimand, plan)}, in {metric}"
        return ShownEffect(part, words, min(MAX_DIGITS, count_effect_decimals(part)))

    effects = tuple(tuple(map(show, one.parts)) for one in decided)
    digits = max((min(MAX_DIGITS, count_claim_decimals(one)) for one in found), default=3)
    return Headline(
        decided,
        effects,
        found,
        digits,
        "test" if compute_test_claims(state) else "validation",
        plan.primary_metric.display_name,
    )


def _exchange_sides(one: ClaimDifference) -> ClaimDifference:
    """Return the difference `other - condition` of a difference `condition - other`."""
    low, high = (None if end is None else -end for end in (one.high, one.low))
    values = tuple(0.0 - value for value in one.values)
    sides = {"condition": one.other, "other": one.condition}
    return one.model_copy(update=sides | {"values": values, "mean": 0.0 - one.mean, "low": low, "high": high})


def overall_score(judgement: Judgement) -> tuple[float, int]:
    """Return a judge's overall score and its maximum; if the rubric has no overall score, the mean of all scores."""
    every = judgement.scores
    of = [one for one in every if "overall" in one.dimension.lower()] or [*every]
    return sum(one.score for one in of) / len(of), of[0].highest
