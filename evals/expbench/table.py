"""Table of a benchmark: shares with n and intervals, overall and by group, by this project's and EXP-Bench's rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

from pydantic import Field

from labwright.evals.expbench import scores as scoring
from labwright.evals.expbench.answers import ExpTask
from labwright.evals.expbench.evaluation import STEPS, AnswerFacts, Evaluated
from labwright.evals.intervals import wilson_interval
from labwright.record.schema import FrozenModel
from labwright.record.table import Table

SHARE_SCORES = frozenset(scoring.SCORE_NAMES) - {"D", "I"}
"""Scores that are true or false per task: their means are shares, with Wilson's interval."""


class ScoreCell(FrozenModel):
    percent: float | None
    n: int
    interval: tuple[float, float] | None = Field(default=None, description="95 %, of a share, in percent")


class AnswerGroup(FrozenModel):
    name: str
    scores: dict[str, ScoreCell]
    c_bound: ScoreCell


class AnswerRow(AnswerFacts):
    """One answer."""

    outcome: scoring.ScoreOutcome
    scores: dict[str, float | None] = Field(description="D and I in percent, the others 0 or 1")


class ExpTable(FrozenModel):
    """The whole benchmark. `anchor`: scored by the original harness's definitions."""

    model: str
    judge: str
    steps: tuple[str, ...]
    counts: dict[str, int]
    groups: tuple[AnswerGroup, ...]
    anchor: AnswerGroup
    ladder: dict[str, float | int | None]
    not_counted: dict[str, tuple[str, ...]] = Field(description="state -> tasks with their reasons")
    lines: tuple[AnswerRow, ...]

    @property
    def is_complete(self) -> bool:
        """Return whether every answer has scores, or belongs to a task that this machine cannot run."""
        return not {"failed", "not_begun", "not_judged"} & set(self.counts)


def build_table(
    found: Sequence[Evaluated], tasks: Mapping[str, ExpTask], *, model: str, judge: str, steps: Sequence[str] = STEPS
) -> ExpTable:
    """Build the table. In its group `anchor`, a model's suspicion decides, as in the original harness."""
    judged = [one.to_judged(steps) for one in found]
    groups = [build_group("all", found, steps)]
    keys: dict[str, Callable[[Evaluated], str]] = {
        "category": lambda one: tasks[one.task].category or "none",
        "type": lambda one: str(tasks[one.task].type),
    }
    for what, key in keys.items():
        for name in sorted({key(one) for one in found}):
            groups.append(build_group(f"{what} {name}", [one for one in found if key(one) == name], steps))
    listed: dict[str, list[str]] = {}
    for one in found:
        if (how := scoring.find_outcome(one.to_judged(steps))) not in scoring.COUNTED_OUTCOMES:
            listed.setdefault(how, []).append(
                f"{one.task}{f' ({one.variant})' if one.variant else ''}" + (f": {one.why}" if one.why else "")
            )
    return ExpTable(
        model=model,
        judge=judge,
        steps=tuple(steps),
        counts=scoring.count_outcomes(judged),
        groups=tuple(groups),
        anchor=build_group("anchor", found, steps, by_anchor=True),
        ladder=scoring.compute_step_shares(judged),
        not_counted={name: tuple(each) for name, each in sorted(listed.items())},
        lines=tuple(build_row(one, steps) for one in found),
    )


def build_group(name: str, found: Sequence[Evaluated], steps: Sequence[str], *, by_anchor: bool = False) -> AnswerGroup:
    """Return means over tasks; several answers to a task count as one value."""
    means = scoring.compute_means(one.to_judged(steps, by_anchor=by_anchor) for one in found)
    hidden = find_hidden_scores(steps)
    cells = {
        key: ScoreCell(percent=None, n=0) if key in hidden else build_cell(mean, share=key in SHARE_SCORES)
        for key, mean in means.items()
    }
    return AnswerGroup(name=name, scores=cells, c_bound=build_cell(compute_bound_share(found), share=True))


def compute_bound_share(found: Sequence[Evaluated]) -> scoring.TaskMean:
    """Return the mean over tasks of the share of answers whose conclusion is right and supported by measurements."""
    by_task: dict[str, list[bool]] = {}
    for one in found:
        if one.c_bound is not None:
            by_task.setdefault(one.task, []).append(one.c_bound)
    shares = [Fraction(sum(each), len(each)) for each in by_task.values()]
    return scoring.TaskMean(sum(shares, Fraction(0)) / len(shares) if shares else None, len(shares))


def find_hidden_scores(steps: Sequence[str]) -> set[str]:
    """Return the scores that are unknown without the steps that were not requested."""
    letters = dict(zip(STEPS, "DIEC", strict=True))
    missing = {letters[step] for step in STEPS if step not in steps}
    parts = {"I·E": "IE", "C·D": "CD", "All": "DIC", "All·E": "DICE"}
    return {name for name in scoring.SCORE_NAMES if set(parts.get(name, name)) & missing}


def build_cell(mean: scoring.TaskMean, *, share: bool) -> ScoreCell:
    interval = None
    if share and mean.exact is not None and mean.n:
        found = wilson_interval(round(float(mean.exact * mean.n)), mean.n)
        interval = None if found is None else (round(100 * found[0], 1), round(100 * found[1], 1))
    return ScoreCell(percent=mean.percent, n=mean.n, interval=interval)


def build_row(one: Evaluated, steps: Sequence[str]) -> AnswerRow:
    hidden = find_hidden_scores(steps)
    values = {
        name: None
        if value is None or name in hidden
        else scoring.to_percent(value)
        if name in ("D", "I")
        else float(value)
        for name, value in scoring.compute_scores(one.to_judged(steps)).items()
    }
    facts = one.model_dump(include=set(AnswerFacts.model_fields))
    return AnswerRow(**facts, outcome=scoring.find_outcome(one.to_judged(steps)), scores=values)


def table_to_csv(found: ExpTable) -> str:
    """Return one row per answer; an empty cell means no score."""
    rows = (
        (
            one.task,
            one.variant,
            one.outcome,
            *(None if one.scores[name] is None else f"{one.scores[name]:g}" for name in scoring.SCORE_NAMES),
            *(None if value is None else int(value) for value in (one.c_bound, one.outputs)),
            one.checked,
            one.anchor,
            "; ".join(one.reasons),
            "; ".join(one.suspicions),
            one.minutes,
            one.usd,
            one.judging_usd,
            one.seconds,
            one.why,
        )
        for one in found.lines
    )
    head = ("task", "variant", "outcome", *scoring.SCORE_NAMES, "C_bound", "outputs", "checked", "anchor", "reasons")
    return Table.of((*head, "suspicions", "minutes", "usd", "judging_usd", "seconds", "why"), rows).to_csv()


def format_overall(found: ExpTable) -> Iterator[tuple[str, ...]]:
    """Yield score, percent, 95 % interval, n, and percent by EXP-Bench's rules, over all tasks."""
    whole = found.groups[0]
    for name in scoring.SCORE_NAMES:
        one = whole.scores[name]
        yield name, _format_percent(one), _format_interval(one), str(one.n), _format_percent(found.anchor.scores[name])
    yield "C bound", _format_percent(whole.c_bound), _format_interval(whole.c_bound), str(whole.c_bound.n), ""


def format_groups(found: ExpTable) -> Iterator[tuple[str, ...]]:
    """Yield a row per category and type: percents, and the largest number of tasks behind a score."""
    for one in found.groups[1:]:
        yield (
            one.name,
            str(max(each.n for each in one.scores.values())),
            *(_format_percent(one.scores[name]) for name in scoring.SCORE_NAMES),
            _format_percent(one.c_bound),
        )


def _format_percent(one: ScoreCell) -> str:
    return "-" if one.percent is None else f"{one.percent:.1f}"


def _format_interval(one: ScoreCell) -> str:
    return "" if one.interval is None else f"{one.interval[0]:g} to {one.interval[1]:g}"
