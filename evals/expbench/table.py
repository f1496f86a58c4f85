"""What a bench of answers came to: shares with n and intervals, overall and by group, by our rules and the anchor's."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

from pydantic import Field

from labwright.evals.expbench import scores as scoring
from labwright.evals.expbench.evaluating import STEPS, Evaluated
from labwright.evals.expbench.tasks import Task
from labwright.evals.shares import wilson
from labwright.record.nouns.frozen import Frozen

SHARES = frozenset(scoring.NAMES) - {"D", "I"}
"""Scores that a task has or has not: their means are shares, with Wilson's interval."""


class Cell(Frozen):
    percent: float | None
    n: int
    interval: tuple[float, float] | None = Field(default=None, description="95 %, of a share, in percent")


class Group(Frozen):
    name: str
    scores: dict[str, Cell]
    c_bound: Cell


class Line(Frozen):
    """One answer."""

    task: str
    variant: str
    outcome: scoring.Outcome
    scores: dict[str, float | None] = Field(description="D and I in percent, the others 0 or 1")
    c_bound: bool | None = None
    outputs: bool | None = None
    checked: bool = True
    anchor: str = ""
    reasons: tuple[str, ...] = ()
    suspicions: tuple[str, ...] = ()
    why: str = ""
    seconds: float = 0.0
    minutes: float | None = None
    usd: float | None = None
    judging_usd: float = 0.0


class ExpTable(Frozen):
    """The whole bench. `anchor`: scored by the anchor's own definitions."""

    model: str
    judge: str
    steps: tuple[str, ...]
    counts: dict[str, int]
    groups: tuple[Group, ...]
    anchor: Group
    ladder: dict[str, float | int | None]
    not_counted: dict[str, tuple[str, ...]] = Field(description="state -> tasks with their reasons")
    lines: tuple[Line, ...]

    @property
    def complete(self) -> bool:
        """Whether every answer came to scores, or is of a task that cannot be set here."""
        return not {"failed", "not_begun", "not_judged"} & set(self.counts)


def table(
    found: Sequence[Evaluated],
    tasks: Mapping[str, Task],
    *,
    model: str,
    judge: str,
    steps: Sequence[str] = STEPS,
    by_anchor: bool = False,
) -> ExpTable:
    """`by_anchor`: what a model suspects decides, as in the anchor's harness; the anchor's own column is so anyway."""
    if by_anchor:
        found = [one.model_copy(update={"flags": one.flags | {"anchor": one.anchor == "violation"}}) for one in found]
    judged = [one.judged(steps) for one in found]
    groups = [group("all", found, steps)]
    for what, key in (("category", by_category(tasks)), ("type", by_type(tasks))):
        for name in sorted({key(one) for one in found}):
            groups.append(group(f"{what} {name}", [one for one in found if key(one) == name], steps))
    listed: dict[str, list[str]] = {}
    for one in found:
        if (how := scoring.outcome(one.judged(steps))) not in scoring.COUNTED:
            listed.setdefault(how, []).append(
                f"{one.task}{f' ({one.variant})' if one.variant else ''}" + (f": {one.why}" if one.why else "")
            )
    return ExpTable(
        model=model,
        judge=judge,
        steps=tuple(steps),
        counts=scoring.counts(judged),
        groups=tuple(groups),
        anchor=group("anchor", found, steps, by_anchor=True),
        ladder=scoring.ladder(judged),
        not_counted={name: tuple(each) for name, each in sorted(listed.items())},
        lines=tuple(line_of(one, steps) for one in found),
    )


def by_category(tasks: Mapping[str, Task]) -> Callable[[Evaluated], str]:
    return lambda one: tasks[one.task].category or "none"


def by_type(tasks: Mapping[str, Task]) -> Callable[[Evaluated], str]:
    return lambda one: str(tasks[one.task].type)


def group(name: str, found: Sequence[Evaluated], steps: Sequence[str], *, by_anchor: bool = False) -> Group:
    """Means over tasks; several answers to a task are one value of it."""
    means = scoring.means(one.judged(steps, by_anchor=by_anchor) for one in found)
    hidden = hidden_by(steps)
    cells = {
        key: Cell(percent=None, n=0) if key in hidden else cell(mean, share=key in SHARES)
        for key, mean in means.items()
    }
    return Group(name=name, scores=cells, c_bound=cell(bound_share(found), share=True))


def bound_share(found: Sequence[Evaluated]) -> scoring.Mean:
    """The mean over tasks of the share of answers whose conclusion is right by its measurements."""
    by_task: dict[str, list[bool]] = {}
    for one in found:
        if one.c_bound is not None:
            by_task.setdefault(one.task, []).append(one.c_bound)
    shares = [Fraction(sum(each), len(each)) for each in by_task.values()]
    return scoring.Mean(sum(shares, Fraction(0)) / len(shares) if shares else None, len(shares))


def hidden_by(steps: Sequence[str]) -> set[str]:
    """Scores that are not known without steps that nobody asked for."""
    letters = dict(zip(STEPS, "DIEC", strict=True))
    missing = {letters[step] for step in STEPS if step not in steps}
    parts = {"I·E": "IE", "C·D": "CD", "All": "DIC", "All·E": "DICE"}
    return {name for name in scoring.NAMES if set(parts.get(name, name)) & missing}


def cell(mean: scoring.Mean, *, share: bool) -> Cell:
    interval = None
    if share and mean.exact is not None and mean.n:
        found = wilson(round(float(mean.exact * mean.n)), mean.n)
        interval = None if found is None else (round(100 * found[0], 1), round(100 * found[1], 1))
    return Cell(percent=mean.percent, n=mean.n, interval=interval)


def line_of(one: Evaluated, steps: Sequence[str]) -> Line:
    hidden = hidden_by(steps)
    values = {
        name: None
        if value is None or name in hidden
        else scoring.percent(value)
        if name in ("D", "I")
        else float(value)
        for name, value in scoring.scores(one.judged(steps)).items()
    }
    return Line(
        task=one.task,
        variant=one.variant,
        outcome=scoring.outcome(one.judged(steps)),
        scores=values,
        c_bound=one.c_bound,
        outputs=one.outputs,
        checked=one.checked,
        anchor=one.anchor,
        reasons=one.reasons,
        suspicions=one.suspicions,
        why=one.why,
        seconds=one.seconds,
        minutes=one.minutes,
        usd=one.usd,
        judging_usd=one.judging_usd,
    )


def as_csv(found: ExpTable) -> str:
    """A row an answer; an empty cell is no score."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            "task",
            "variant",
            "outcome",
            *scoring.NAMES,
            "C_bound",
            "outputs",
            "checked",
            "anchor",
            "reasons",
            "suspicions",
            "minutes",
            "usd",
            "judging_usd",
            "seconds",
            "why",
        ]
    )
    for one in found.lines:
        shown = ["" if one.scores[name] is None else f"{one.scores[name]:g}" for name in scoring.NAMES]
        writer.writerow(
            [
                one.task,
                one.variant,
                one.outcome,
                *shown,
                *map(_told, (one.c_bound, one.outputs)),
                one.checked,
                one.anchor,
                "; ".join(one.reasons),
                "; ".join(one.suspicions),
                "" if one.minutes is None else one.minutes,
                "" if one.usd is None else one.usd,
                one.judging_usd,
                one.seconds,
                one.why,
            ]
        )
    return out.getvalue()


def _told(value: bool | None) -> str:
    return "" if value is None else str(int(value))


def of_all(found: ExpTable) -> Iterator[tuple[str, ...]]:
    """Score, percent, 95 % interval, n, and percent by the anchor's rules: over all tasks."""
    whole = found.groups[0]
    for name in scoring.NAMES:
        one = whole.scores[name]
        yield name, _percent(one), _interval(one), str(one.n), _percent(found.anchor.scores[name])
    yield "C bound", _percent(whole.c_bound), _interval(whole.c_bound), str(whole.c_bound.n), ""


def by_group(found: ExpTable) -> Iterator[tuple[str, ...]]:
    """A line a category and a type: percents, and the most tasks that one is over."""
    for one in found.groups[1:]:
        yield (
            one.name,
            str(max(each.n for each in one.scores.values())),
            *(_percent(one.scores[name]) for name in scoring.NAMES),
            _percent(one.c_bound),
        )


def _percent(one: Cell) -> str:
    return "-" if one.percent is None else f"{one.percent:.1f}"


def _interval(one: Cell) -> str:
    return "" if one.interval is None else f"{one.interval[0]:g} to {one.interval[1]:g}"
