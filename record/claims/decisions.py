"""What comes of the plan's hypotheses: each effect by unit, its interval, and the first verdict that it supports.

An effect is computed for every seed from that seed's own values, so that arms are paired; its interval is Student's
over seeds. Where test examples count as a sample, too, the variance over resamples of them is added to that of the mean
over seeds, with degrees of freedom after Satterthwaite; where datasets are the unit, a value is a dataset's mean over
seeds.

By the interval, first match: `supported` (above the smallest effect), `smaller` (above zero, below the smallest),
`negligible` (within plus and minus the smallest), `opposite` (below zero), else `undecided`. The p of a hypothesis is
of "at most the smallest effect", doubled as two-sided intervals want it, the largest of its parts; Holm's correction
runs over the confirmatory hypotheses, and each interval is at the level at which its p was looked at. So at most 2.5 %
of studies call something supported that is not, however the hypotheses depend on each other. `smaller`, `negligible`
and `opposite` are read off the same intervals.

What it does not guarantee: that values are roughly normal. Preview verdicts, on validation data or seeds that the
search has used, confirm nothing.

Sources: Holm 1979; Satterthwaite 1946; Stein 1945 (n from a pilot).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil, inf, sqrt
from statistics import fmean, stdev
from types import MappingProxyType
from typing import NamedTuple

from record.claims.means import (
    LEVEL,
    MINIMUM_REPLICATES,
    students_t,
    t_quantile,
    trusted_replicates,
    winner,
)
from record.estimands import EstimandError, Gap, Place, evaluated, metric_of
from record.fold.state import RunState
from record.nouns.data import DataPlan, Measurement
from record.nouns.hypotheses import Decision, Effect, Hypothesis, PartDecided, Verdict
from record.nouns.nodes import Node
from record.rounding import differ

Found = Mapping[tuple[str, str, str], float]
"""(dataset, condition, metric) -> value, of one run on one split."""
AIM = 0.9
"""Power that n is planned for, so that 80 % are kept; measured by `benchmarks.decisions`."""
LARGEST_N = 10_000
"""More units than this are no answer to how many would decide."""


class Run(NamedTuple):
    """One execution of the winner's program: its seed, and what it measured on the split that decides and on others."""

    seed: int
    node: str
    values: Found
    others: Mapping[str, Found] = {}
    """Split -> values: dev and validation, which choices inside an estimand go by."""
    diverged: frozenset[Place] = frozenset()


Sampled = Callable[[str, int], float | None]
"""Standard deviation over resamples of the test examples of an effect's mean, by key; None where nobody resampled."""


def key_of(hypothesis: Hypothesis, number: int) -> str:
    """The key of one of what `measured_of` lists."""
    return f"hypothesis/{hypothesis.id}/{number}"


def measured_of(one: Hypothesis) -> tuple[Effect, ...]:
    """All that is estimated of a hypothesis, in the order of their keys: its effects, its alternatives, its rival's."""
    rival = () if one.rival is None else (Effect(
        estimand=one.rival.estimand, metric=one.effects[0].metric, smallest=one.effects[0].smallest),)
    return (*one.effects, *one.alternatives, *rival)


def decisions(state: RunState, levels: Mapping[str, float] | None = None) -> tuple[Decision, ...]:
    """Every hypothesis of the plan in order; on test data once it is scored, before that a preview on validation.

    All of them are exploratory in a branch of a run whose test data were scored before. `levels`, by hypothesis: at
    which each is looked at, where a family is larger than the run.
    """
    plan = state.data_plan
    if plan is None or not plan.hypotheses:
        return ()
    if state.reused:
        plan = plan.model_copy(update={"hypotheses": tuple(
            one.model_copy(update={"confirmatory": False}) for one in plan.hypotheses)})
    nodes, fresh = deciding_nodes(state)
    tested = any(node.id in state.tests for node in nodes)
    return decide(plan, [run_of(node, state.tests.get(node.id, ()) if tested else None) for node in nodes],
                  confirmed=tested and fresh, sampled=partial(_sampled, state), levels=levels or {})


def decided_together(states: Mapping[str, RunState]) -> dict[str, tuple[Decision, ...]]:
    """The decisions of several runs, those that are confirmed at levels that Holm's correction leaves over all runs."""
    alone = {name: decisions(state) for name, state in states.items()}
    levels = levels_together(alone)
    return {name: decisions(state, levels[name]) if name in levels else alone[name] for name, state in states.items()}


def levels_together(alone: Mapping[str, Sequence[Decision]]) -> dict[str, dict[str, float]]:
    """Study -> confirmed hypothesis -> the level that Holm's correction leaves it over all of them."""
    asked = [(name, one) for name, every in alone.items() for one in every if one.confirmed]
    levels: dict[str, dict[str, float]] = {}
    for (name, one), level in zip(asked, holm_levels([one.p for _, one in asked]), strict=True):
        levels.setdefault(name, {})[one.hypothesis.id] = level
    return levels


def deciding_nodes(state: RunState) -> tuple[list[Node], bool]:
    """The replicates that decide, and whether they are the fresh ones of the lock: others only give a preview."""
    best = winner(state)
    if best is None:
        return [], False
    nodes = [one for one in trusted_replicates(state, best) if one.finished]
    return nodes, bool(nodes) and state.lock is not None and {one.seed for one in nodes} <= {*state.lock.seeds}


def run_of(node: Node, tests: Sequence[Measurement] | None = None) -> Run:
    """What a replicate measured on validation data, or on test data, where these are given."""
    values = {split: {(one.dataset, one.condition, one.name): one.value
                      for one in (*node.measurements, *(tests or ()))
                      if one.split == split and one.step is None} for split in ("dev", "validation", "test")}
    lines = node.attempts[-1].cells if node.attempts else ()
    return Run(node.seed, node.id, values["validation" if tests is None else "test"], values, frozenset(
        Place(one.cell.dataset, one.cell.arm, one.cell.level) for one in lines if one.diverged))


def _sampled(state: RunState, key: str, runs: int) -> float | None:
    found = state.resampled.get(key)
    return found.sd if found is not None and len(found.nodes) == runs else None


def decide(
    plan: DataPlan, runs: Sequence[Run], *, confirmed: bool, sampled: Sampled = lambda key, runs: None,
    levels: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Decision, ...]:
    """What these runs say of every hypothesis of a plan."""
    measured = {one.id: [_part(plan, one, effect, runs, number, sampled)
                         for number, effect in enumerate(measured_of(one))] for one in plan.hypotheses}
    asked = [one for one in plan.hypotheses if one.confirmatory]
    found = {one.id: _p(measured[one.id][:len(one.effects)]) for one in plan.hypotheses}
    own = holm_levels([found[one.id] for one in asked])
    level_of = {one.id: level for one, level in zip(asked, own, strict=True)} | dict(levels)
    return tuple(_decision(one, measured[one.id], found[one.id], level_of.get(one.id, LEVEL),
                           family=len(asked) if one.confirmatory else 1,
                           confirmed=confirmed and one.confirmatory) for one in plan.hypotheses)


def holm_levels(p_values: Sequence[float | None]) -> list[float]:
    """The level at which each p is looked at by Holm's correction; after the first that fails, all at its level."""
    ordered = sorted(range(len(p_values)), key=lambda place: inf if (p := p_values[place]) is None else p)
    levels, failed = [LEVEL] * len(p_values), 0.0
    for rank, place in enumerate(ordered):
        level = failed or LEVEL / (len(p_values) - rank)
        p = p_values[place]
        if p is None or p > level:
            failed = level
        levels[place] = level
    return levels


class _Measured(NamedTuple):
    """An effect before its interval: the mean's standard error and degrees of freedom, or why there is none."""

    effect: Effect
    values: tuple[float, ...] = ()
    seeds: tuple[int, ...] = ()
    error: float | None = None
    freedom: float = 0.0
    over_examples: float = 0.0
    """Of the squared error, what more units do not make smaller."""
    why: str = ""


def _part(
    plan: DataPlan, one: Hypothesis, effect: Effect, runs: Sequence[Run], number: int, sampled: Sampled
) -> _Measured:
    try:
        values = effect_values(plan, one, effect, runs)
    except (Gap, EstimandError) as gap:
        return _Measured(effect, why=f"{gap} was not measured" if isinstance(gap, Gap) else str(gap))
    seeds = () if one.unit == "datasets" else tuple(run.seed for run in runs)
    if len(values) < 2:
        return _Measured(effect, values, seeds, why="one unit shows no spread" if values else "nothing was measured")
    spread = stdev(values) if differ(values) else 0.0
    over_units = spread ** 2 / len(values)
    over_examples = (sampled(key_of(one, number), len(runs)) or 0.0) ** 2 if "and" in one.unit else 0.0
    if not over_units + over_examples:
        return _Measured(effect, values, seeds, why="every seed gave the same: the spread is unknown")
    freedom = (len(values) - 1) * ((over_units + over_examples) / over_units) ** 2 if over_units else 1e6
    return _Measured(effect, values, seeds, sqrt(over_units + over_examples), min(freedom, 1e6), over_examples)


def effect_values(plan: DataPlan, one: Hypothesis, effect: Effect, runs: Sequence[Run]) -> tuple[float, ...]:
    """The value of an effect in each unit: a seed, or a dataset with its mean over seeds. Raises `Gap`."""
    if one.unit == "datasets":
        uses = plan.datasets if runs else ()
        return tuple(fmean(_value(plan, effect, run, use.name) for run in runs) for use in uses)
    return tuple(_value(plan, effect, run, "") for run in runs)


def _value(plan: DataPlan, effect: Effect, run: Run, dataset: str) -> float:
    metric = metric_of(effect, plan)

    def read(place: Place) -> float:
        values = run.others.get(place.by, {}) if place.by else run.values
        found = values.get((place.dataset, place.condition, metric.name))
        if found is None and place._replace(by="") in run.diverged:
            found = metric.worst
        if found is None:
            raise Gap(place)
        return found

    try:
        return float(evaluated(effect.estimand, plan, metric, read, dataset=dataset))
    except Gap as gap:
        raise Gap(gap.place, f" with seed {run.seed}") from None


def _p(parts: Sequence[_Measured]) -> float | None:
    found: list[float] = []
    for part in parts:
        if part.error is None:
            return None
        t = (fmean(part.values) - part.effect.smallest) / part.error
        found.append(min(1.0, 2 * students_t(-t, part.freedom)))
    return max(found)


def _decision(
    one: Hypothesis, measured: Sequence[_Measured], p: float | None, level: float, *, family: int, confirmed: bool
) -> Decision:
    parts = [_decided(part, level) for part in measured]
    end = len(one.effects) + len(one.alternatives)
    own, others, rival = parts[:len(one.effects)], parts[len(one.effects):end], parts[end:]
    verdicts = [part.verdict for part in own]
    against: tuple[Verdict, ...] = ("opposite", "negligible", "smaller")
    whole = all(part.low is not None for part in own)  # what has a gap is open, whatever its other parts say
    refuted: tuple[Verdict, ...] = tuple(name for name in against if whole and name in verdicts)
    verdict: Verdict = "supported" if set(verdicts) == {"supported"} else (*refuted, "undecided")[0]
    return Decision(hypothesis=one, parts=tuple(own), verdict=verdict, p=p, level=level, family=family,
                    confirmed=confirmed, holds=sum(part.verdict == "supported" for part in others),
                    others=tuple(others),
                    rival=rival[0] if rival else None)


def _decided(part: _Measured, level: float) -> PartDecided:
    base = PartDecided(effect=part.effect, values=part.values, seeds=part.seeds, why=part.why,
                       mean=fmean(part.values) if part.values else None)
    if part.error is None:
        return base
    mean, half = fmean(part.values), t_quantile(1 - level / 2, part.freedom) * part.error
    verdict = verdict_of(mean - half, mean + half, part.effect.smallest)
    return base.model_copy(update={
        "low": mean - half, "high": mean + half, "verdict": verdict, "examples": part.over_examples > 0,
        "sd": stdev(part.values) if differ(part.values) else None,
        "decides": n_deciding(part, mean, level) if verdict == "undecided" else None})


def verdict_of(low: float, high: float, smallest: float) -> Verdict:
    """The first verdict that an interval supports."""
    if low > smallest:
        return "supported"
    if low > 0 and high < smallest:
        return "smaller"
    if -smallest < low and high < smallest:
        return "negligible"
    return "opposite" if high < 0 else "undecided"


def n_deciding(part: _Measured, mean: float, level: float) -> int | None:
    """Units whose interval would decide, were mean and spread what they are now; None where no number would."""
    smallest, error = part.effect.smallest, part.error or 0.0
    if mean > smallest:
        room = mean - smallest
    elif mean > -smallest:
        room = max(smallest - abs(mean), -mean)
    else:
        room = -mean
    variance = max(0.0, error ** 2 - part.over_examples) * len(part.values)
    return next((n for n in _sizes() if t_quantile(1 - level / 2, n - 1) * sqrt(
        variance / n + part.over_examples) < room), None)


def n_planned(sd: float, pilot: int, smallest: float, level: float) -> int:
    """Fresh units that decide effects of zero and of twice the smallest with a power of 80 %, from a pilot's spread.

    At twice the smallest effect the interval is to lie above the smallest, at zero within plus and minus it. As in
    Stein's rule the quantiles have the pilot's degrees of freedom, so that a spread which came out small by chance does
    not take the power; since the spread of the fresh units is an estimate as well, `AIM` is aimed at.
    """
    both = t_quantile(1 - level / 2, pilot - 1) + t_quantile((1 + AIM) / 2, pilot - 1)
    return max(MINIMUM_REPLICATES, min(LARGEST_N, ceil((both * sd / smallest) ** 2)))


def _sizes() -> Sequence[int]:
    """Numbers of units that are tried, each up to 200, then in steps of a twentieth."""
    sizes = [*range(2, 200)]
    while sizes[-1] < LARGEST_N:
        sizes.append(ceil(sizes[-1] * 1.05))
    return sizes
