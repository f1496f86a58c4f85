"""Printed forms of claims, differences, effects and settings: key with form suffix -> TeX text.

  .mean .low .high .ci .n    an estimate, the ends of its interval, the interval, and the number of units
  .sd .pm                    of a mean: standard deviation, and both together
  .confidence                of an effect: confidence of its interval in per cent
  .percent .percent_ci       a share (of a metric from 0 to 1), a ratio or a relative change, times 100
  .points .points_ci         a difference of shares in percentage points

`_ci` in text prints an interval in words: `2.0 to 3.5`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from labwright.record.ablation_results import add_measured_arms
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.estimates import Claim, find_trusted_replicates, find_winner, select_whole_replicates
from labwright.record.claims.sentences import compare_anchors
from labwright.record.estimands import EstimandScale, classify_scale, find_effect_metric, find_swapped_arms
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import (
    PrintedValue,
    print_count,
    print_interval,
    print_name,
    print_range,
    print_setting,
    print_significant,
    print_spread,
    print_value,
)
from labwright.record.schema import Scalar
from labwright.record.schema.data_plan import DataPlan, Hyperparameter, MetricSpec, to_words
from labwright.record.schema.hypotheses import EffectDecision, HypothesisDecision
from labwright.record.tuning_results import build_effective_plan, compute_efforts

MAX_DECIMALS = 6


def format_claims(claims: Iterable[Claim], plan: DataPlan | None = None) -> dict[str, PrintedValue]:
    """Return every printed form of the claims: key with suffix -> printed value. Missing values print as n/a.

    Forms in per cent and points exist for the plan's metrics that range from 0 to 1.
    """
    values: dict[str, PrintedValue] = {}
    shares = {one.name for one in plan.metrics if is_share(one)} if plan is not None else set[str]()
    for claim in claims:
        digits = count_claim_decimals(claim)
        numbers = {"mean": claim.mean, "sd": claim.sd, "low": claim.low, "high": claim.high}
        values |= {f"{claim.key}.{form}": print_value(value, digits) for form, value in numbers.items()}
        values |= {
            f"{claim.key}.n": print_count(claim.n),
            f"{claim.key}.pm": print_spread(claim.mean, claim.sd, digits),
            f"{claim.key}.ci": print_interval((claim.low, claim.high), digits),
        }
        if claim.name in shares:
            scale = "difference" if isinstance(claim, ClaimDifference) else "value"
            values |= _format_share(claim.key, scale, (claim.mean, claim.low, claim.high), digits)
    return values


def format_decisions(decisions: Iterable[HypothesisDecision], plan: DataPlan | None) -> dict[str, PrintedValue]:
    """Return the printed forms of every effect, alternative and rival of the hypotheses that has an estimate, by key
    with suffix."""
    if plan is None:
        return {}
    return {
        key: value
        for one in decisions
        for stem, part in one.parts_by_key.items()
        for key, value in _format_effect(stem, part, one.level, plan)
    }


def format_estimate(key: str, part: EffectDecision, level: float, plan: DataPlan) -> dict[str, PrintedValue]:
    """Return the printed forms of an estimate that is not registered; `level` is 1 minus its confidence."""
    return dict(_format_effect(key, part, level, plan))


def is_share(metric: MetricSpec) -> bool:
    """Return whether a metric ranges from 0 to 1, so that it can be printed in per cent."""
    return (metric.low, metric.high) == (0.0, 1.0)


def _format_effect(key: str, part: EffectDecision, level: float, plan: DataPlan) -> Iterator[tuple[str, PrintedValue]]:
    if part.mean is None:
        return
    digits = count_effect_decimals(part)
    yield f"{key}.mean", print_value(part.mean, digits)
    yield f"{key}.n", print_count(len(part.values))
    if part.low is not None and part.high is not None:
        yield f"{key}.low", print_value(part.low, digits)
        yield f"{key}.high", print_value(part.high, digits)
        yield f"{key}.ci", print_interval((part.low, part.high), digits)
        yield f"{key}.confidence", print_significant(100 * (1 - level), 3)
    scale = classify_scale(part.effect.estimand)
    if scale == "ratio" or is_share(find_effect_metric(part.effect, plan)):
        yield from _format_share(key, scale, (part.mean, part.low, part.high), digits).items()


def _format_share(
    key: str, scale: EstimandScale, numbers: tuple[float, float | None, float | None], digits: int
) -> dict[str, PrintedValue]:
    """Return an estimate with its interval in per cent, or in points for a difference; nothing on another scale."""
    if scale == "other":
        return {}
    form, (mean, low, high) = "points" if scale == "difference" else "percent", numbers
    digits = max(1, digits - 2)
    found = {f"{key}.{form}": print_value(100 * mean, digits)}
    if low is not None and high is not None:
        found[f"{key}.{form}_ci"] = print_range((100 * low, 100 * high), digits)
    return found


def _format_range(one: Hyperparameter) -> dict[str, PrintedValue]:
    """Return the range of a hyperparameter, or its options and how many there are, and its default."""
    key = f"space.{one.name}"
    found = {f"{key}.default": print_setting(one.default)}
    if one.options:
        found |= {key: print_setting(", ".join(map(str, one.options))), f"{key}.values": print_count(len(one.options))}
    elif one.low is not None and one.high is not None:
        found |= {f"{key}.low": print_significant(one.low, 6), f"{key}.high": print_significant(one.high, 6)}
    return {name: value for name, value in found.items() if value is not None}


def count_claim_decimals(claim: Claim) -> int:
    """Return the number of decimals: usually three, fewer for large values, and more if a bound or value would print as
    zero.

    An interval that excludes zero must not be printed as ending at zero.
    """
    largest = max(abs(value) for value in claim.values)
    if largest >= 100:
        return 1
    least = 0.001 if isinstance(claim, ClaimDifference) else 0.01  # differences of a table have one precision
    digits = 3 if largest >= least or largest == 0 else min(MAX_DECIMALS, 2 - math.floor(math.log10(largest)))
    decided = not isinstance(claim, ClaimDifference) or claim.excludes_zero
    bounds = [claim.low, claim.high] if decided else []
    while digits < MAX_DECIMALS and any(bound and round(bound, digits) == 0 for bound in bounds):
        digits += 1
    return digits


def count_effect_decimals(part: EffectDecision) -> int:
    """Return the decimals of an effect: three, or more if an end would otherwise print as zero, the smallest effect or
    the bound of the claim."""
    edges = (0.0, part.effect.smallest, part.effect.limit)
    digits = 1 if abs(part.mean or 0.0) >= 100 else 3
    values = [one for one in (part.low, part.high, part.mean, *edges) if one]
    while digits < MAX_DECIMALS and any(
        one != edge and round(one, digits) == round(edge, digits) for one in values for edge in edges
    ):
        digits += 1
    return digits


def format_setups(state: RunState) -> dict[str, PrintedValue]:
    """Return the values that a paper may print without a measurement: constants and settings of the winner, data facts,
    counts in the plan's descriptions of arms, and the titles of datasets and metrics. Strings that make
    statements are excluded (`record.result_macros.print_setting`).
    """
    known: dict[str, Scalar] = {}
    values: dict[str, PrintedValue] = {}
    best, plan = find_winner(state), state.search.data_plan
    if best is not None:
        known |= {f"code.{constant}": value for constant, value in state.nodes[best].setups.items()}
        trusted = find_trusted_replicates(state, best)
        if len(select_whole_replicates(state, trusted)) == sum(one.status == "good" for one in trusted):
            values["run.seeds"] = print_count(len(trusted))  # otherwise arms have different numbers of seeds
        for arm in plan.tuned_arms if plan is not None else ():
            chosen_one = state.search.find_setting(arm, state.nodes[best].trials.get(arm, 0))
            known |= {f"tuned.{arm}.{dimension}": value for dimension, value in chosen_one.items()}
        for one in compute_efforts(state) if plan is not None and best in state.required_cells else ():
            values[f"tuned.{one.arm}.trials"] = print_count(one.trials)
    for one in build_effective_plan(state).space if plan is not None else ():
        values |= _format_range(one)
    for facts in state.search.datasets:
        key = f"data.{facts.name}"
        values |= {f"{key}.{split}": print_count(size) for split, size in facts.sizes.items()}
        counts = {"classes": facts.classes, "features": facts.features, "duplicates": facts.duplicates}
        counts["examples"] = facts.example_count
        values |= {f"{key}.{name}": print_count(count) for name, count in counts.items()}
        values[f"{key}.title"] = print_name(plan.name_dataset(facts.name) if plan else to_words(facts.name))
        values[f"{key}.source"] = print_name(facts.title or to_words(facts.name))
        if facts.shape:
            values[f"{key}.shape"] = print_name(" x ".join(map(str, facts.shape)))
    if plan is not None:
        values["metric.title"] = print_name(plan.primary_metric.display_name)
        values |= {f"metric.{one.name}.title": print_name(one.display_name) for one in plan.metrics[1:]}
        values |= {f"level.{one.name}.title": print_name(plan.name_level(one.name)) for one in plan.levels}
        named = add_measured_arms(state, plan)
        arms = (*(one.name for one in named.arms), *find_swapped_arms(plan))
        values |= {f"arm.{arm}.title": print_name(named.name_arm(arm)) for arm in arms}
        described = (re.findall(r"(?<![\w.,-])\d{2,}(?![\w%-]|[.,]\d| ?%)", one.description) for one in plan.arms)
        values |= {f"plan.{number}": print_count(int(number)) for found in described for number in found}
        values |= {f"hypothesis.{one.id}.title": print_name(one.name) for one in plan.hypotheses}
        effects = ((one.id, number, effect) for one in plan.hypotheses for number, effect in enumerate(one.effects, 1))
        for name, number, effect in effects:
            values[f"margin.{name}.{number}"] = print_significant(effect.smallest, 6)
            if effect.bound is not None:
                values[f"bound.{name}.{number}"] = print_significant(effect.bound, 6)
            if is_share(find_effect_metric(effect, plan)) and classify_scale(effect.estimand) == "difference":
                values[f"margin.{name}.{number}.points"] = print_significant(100 * effect.smallest, 6)
        numbers = {level.name: level.value for level in plan.levels if level.value is not None}
        values |= {f"level.{name}": print_significant(value, 6) for name, value in numbers.items()}
    for one in compare_anchors(plan, ()):
        values |= {
            f"{one.key}.value": print_significant(one.anchor.value, 6),
            f"{one.key}.source": print_name(one.anchor.source),
            f"{one.key}.tolerance": print_significant(one.anchor.tolerance, 6),
        }
    if state.campaign is not None:
        values["campaign.ideas"] = print_count(state.campaign.ideas)
        values |= {f"campaign.tests.{dataset}": print_count(uses) for dataset, uses in state.campaign.tests.items()}
    extra = ("replicate", "trial", "aggregate", "rung")
    values["run.nodes"] = print_count(sum(node.kind not in extra for node in state.nodes.values()))
    values["run.executions"] = print_count(sum(len(node.attempts) for node in state.nodes.values()))
    printed = {key: print_setting(value) for key, value in known.items()}
    return {key: value for key, value in printed.items() if value is not None} | values
