"""Effects of the parts of a repository: the paired difference between its result with a part and without it.

The arms are nodes: the unmodified repository, and its children without a part; every further seed of an arm is a
replicate. Once an arm has fresh seeds, which influenced no choice, its effect is over these alone. An effect is
positive if the part helps, for either direction of the metric. Runs of a command without a seed are compared unpaired.

A metric without negative values whose baseline spans orders of magnitude between seeds (a loss that falls to 1e-8 at
most seeds and to .05 at some) is tested by the ratio of both results: the test is that of the differences of their
logarithms, and no interval is given.

Source of the unpaired interval: Welch 1947, with Satterthwaite's degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import hypot, inf, log
from statistics import fmean, stdev, variance
from typing import NamedTuple

from labwright.record.claims.differences import ClaimDifference, MeanEstimate, Spread, build_difference, compute_mean_p
from labwright.record.claims.estimates import (
    MIN_REPLICATES,
    SIGNIFICANCE_LEVEL,
    Claim,
    compute_claims,
    compute_p_value,
    find_replicates,
)
from labwright.record.claims.formatting import count_claim_decimals, format_claims
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import PrintedValue, format_key, print_p_value, print_value, to_plain_text
from labwright.record.schema.nodes import Node

FIRST_FRESH_SEED = 1000
"""First of the fresh seeds, which no choice has used."""
MIN_RATIO_OF_SEEDS = 100.0
"""Minimum ratio between the baseline's largest and smallest value from which effects are tested as ratios."""


class PartEffect(NamedTuple):
    """The effect of removing the parts of one node. `p`: of the t test, uncorrected; None if it cannot be tested.
    `log_ratio`: the mean effect as a natural logarithm if it is tested as a ratio."""

    effect: ClaimDifference
    baseline: Claim
    without: Claim
    p: float | None
    log_ratio: float | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether it is over fresh seeds."""
        return self.effect.seeds[0] >= FIRST_FRESH_SEED

    @property
    def relative(self) -> float | None:
        """The effect divided by the baseline's mean; None for a metric that was negative, whose zero means nothing, and
        for one that spans orders of magnitude."""
        values = (*self.baseline.values, *self.without.values)
        has_unit = min(values) >= 0 and self.baseline.mean and self.log_ratio is None
        return self.effect.mean / self.baseline.mean if has_unit else None


def compute_part_effects(state: RunState) -> dict[str, PartEffect]:
    """Return the effect of every arm without a part that shares seeds with the baseline, by the arm's node."""
    found = {one.id: compare_arms(state, one.id) for one in state.nodes.values() if one.kind == "ablate"}
    return {node: effect for node, effect in found.items() if effect is not None}


def compare_arms(state: RunState, node: str) -> PartEffect | None:
    """Return the effect of what a node removes from its parent, on the seeds of both; None if there are none.

    It has an interval if there are enough fresh seeds for a verdict.
    """
    command, parent = state.repository.repaired_command, state.nodes[node].parent
    if command is None or parent is None:
        return None
    base, own = _list_runs(state, parent), _list_runs(state, node)
    used = {one.seed for one in own if one.seed >= FIRST_FRESH_SEED} or {one.seed for one in own}
    baseline, without = (
        next((one for one in _compute_claims(runs, used) if one.name == command.metric_name), None)
        for runs in (base, own)
    )
    if baseline is None or without is None or not set(baseline.seeds) & set(without.seeds):
        return None
    higher = command.direction == "max"
    pair = (baseline, without) if higher else (without, baseline)
    effect, p = _compare(state, *pair, higher=higher, paired=command.seeded)
    values = [one.value for run in base for one in run.measurements if one.name == baseline.name]
    log_ratio = None
    if min(*values, *without.values) > 0 and max(values) >= MIN_RATIO_OF_SEEDS * min(values):
        a, b = (one.model_copy(update={"values": tuple(map(log, one.values))}) for one in pair)
        ratio, p = _compare(state, a, b, higher=higher, paired=command.seeded)
        log_ratio = ratio.mean
    if log_ratio is not None or effect.n < MIN_REPLICATES or effect.seeds[0] < FIRST_FRESH_SEED:
        effect = effect.model_copy(update={"low": None, "high": None})
    return PartEffect(effect, baseline, without, p, log_ratio)


def _compare(
    state: RunState, a: Claim, b: Claim, *, higher: bool, paired: bool
) -> tuple[ClaimDifference, float | None]:
    """Return the difference of two claims, and its p: paired by seed, or between the means of unpaired runs."""
    effect = build_difference(state, a, b, higher=higher)
    return (effect, compute_p_value(effect.values)) if paired else _compare_unpaired(effect, a, b)


def _list_runs(state: RunState, node: str) -> list[Node]:
    """Return the good nodes that ran an arm: its own and its replicates, without traced runs."""
    first = state.nodes[node]
    same = (one for one in find_replicates(state, node) if one.source_sha256 == first.source_sha256)
    return [one for one in (first, *same) if one.status == "good" and not one.suspect]


def _compute_claims(nodes: Sequence[Node], seeds: Collection[int]) -> list[Claim]:
    return compute_claims("validation", [(one, one.measurements) for one in nodes if one.seed in seeds])


def _compare_unpaired(effect: ClaimDifference, a: Claim, b: Claim) -> tuple[ClaimDifference, float | None]:
    """Return the difference of two means of unpaired runs, and its p. `sd` is that of one difference."""
    spread, p = compute_unpaired_spread(a.values, b.values), None
    mean, interval = fmean(a.values) - fmean(b.values), (None, None)
    if spread is not None:
        found = MeanEstimate(mean, spread)
        interval, p = found.compute_interval(SIGNIFICANCE_LEVEL), compute_mean_p(found._replace(mean=abs(mean)), 0.0)
    sd = hypot(stdev(a.values), stdev(b.values)) if spread is not None else None
    return effect.model_copy(update={"mean": mean, "sd": sd, "low": interval[0], "high": interval[1]}), p


def compute_unpaired_spread(a: Sequence[float], b: Sequence[float]) -> Spread | None:
    """Return the spread of the difference of two means of unpaired runs; None if no value differs from another."""
    groups = [(variance(one) / len(one), len(one) - 1) for one in (a, b) if len(one) > 1]
    total = sum(error for error, _ in groups)
    if len(groups) < 2 or not total:
        return None
    return Spread(total, total**2 / sum(error**2 / freedom for error, freedom in groups), 0.0, inf)


# --- printed forms ----------------------------------------------------------------------------------------------------


def compute_baseline_claim(state: RunState, *, fresh: bool = False) -> Claim | None:
    """Return the result of the unmodified repository as it was checked, or on all its fresh seeds; None if it has
    none."""
    baseline, command = state.repository.baseline, state.repository.repaired_command
    if baseline is None or command is None or baseline.node not in state.nodes:
        return None
    runs, name = _list_runs(state, baseline.node), "fresh" if fresh else "reproduction"
    seeds = {one.seed for one in runs if one.seed >= FIRST_FRESH_SEED} if fresh else baseline.seeds
    found = next((one for one in _compute_claims(runs, seeds) if one.name == command.metric_name), None)
    key = found and format_key(name, found.dataset, found.name, found.condition)
    return found.model_copy(update={"key": key}) if found is not None else None


def list_report_claims(state: RunState) -> list[Claim]:
    """Return the results of the unmodified repository and the effects of the reported parts."""
    found, baselines = state.ablation.results, [compute_baseline_claim(state, fresh=fresh) for fresh in (False, True)]
    rows = [compare_arms(state, row.node) for row in found.results if row.node] if found is not None else []
    return [*(one for one in baselines if one is not None), *(one.effect for one in rows if one is not None)]


def list_measured_claims(state: RunState) -> list[Claim]:
    """Return the claims of all arms over all their seeds."""
    first = [one.id for one in state.nodes.values() if one.kind != "replicate"]
    runs = [_list_runs(state, node) for node in first]
    return [claim for nodes in runs for claim in _compute_claims(nodes, {one.seed for one in nodes})]


def format_report_claims(state: RunState) -> dict[str, PrintedValue]:
    """Return every number of the report and its section in its printed form, by key with suffix."""
    found, claims = state.ablation.results, list_report_claims(state)
    values, digits = format_claims(claims), {one.key: count_claim_decimals(one) for one in claims}
    for row in found.results if found is not None else ():
        if row.relative is not None:
            values[f"{row.key}.relative"] = print_value(100 * row.relative, 1)
        if row.p is not None:
            values[f"{row.key}.p"] = print_p_value(row.p)
        if row.detectable is not None and row.key in digits:
            values[f"{row.key}.detectable"] = print_value(row.detectable, digits[row.key])
    return values


def format_report_texts(state: RunState) -> dict[str, str]:
    """Return these numbers as plain text; a positive effect has its sign."""
    texts = {key: to_plain_text(value) for key, value in format_report_claims(state).items()}
    found = state.ablation.results
    for row in found.results if found is not None else ():
        for form in ("mean", "relative") if (row.mean or 0.0) > 0 else ():
            if (key := f"{row.key}.{form}") in texts:
                texts[key] = f"+{texts[key]}"
    return texts
