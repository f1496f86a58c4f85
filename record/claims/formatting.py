"""Printed forms of claims, differences and settings: key with form suffix -> TeX text."""

from __future__ import annotations

import math
from collections.abc import Iterable

from labwright.record.claims.caveats import compare_anchors
from labwright.record.claims.estimates import Claim, find_trusted_replicates, find_winner
from labwright.record.printed_value import (
    PrintedValue,
    print_count,
    print_interval,
    print_name,
    print_setting,
    print_significant,
    print_spread,
    print_value,
)
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.frozen_model import Scalar
from labwright.record.schema.hypotheses import EffectDecision
from labwright.record.tuning_results import find_chosen

MAX_DECIMALS = 6
"""Maximum number of decimal places."""


def format_claims(claims: Iterable[Claim]) -> dict[str, PrintedValue]:
    """Return every printed form of the claims: key with suffix -> printed value.

    Suffixes: `.mean .sd .n .low .high`, `.pm` (mean and sd), `.ci` (interval). Missing values print as n/a.
    """
    values: dict[str, PrintedValue] = {}
    for claim in claims:
        digits = count_claim_decimals(claim)
        values |= {
            f"{claim.key}.{form}": print_value(value, digits)
            for form, value in (("mean", claim.mean), ("sd", claim.sd), ("low", claim.low), ("high", claim.high))
        }
        values |= {
            f"{claim.key}.n": print_count(claim.n),
            f"{claim.key}.pm": print_spread(claim.mean, claim.sd, digits),
            f"{claim.key}.ci": print_interval((claim.low, claim.high), digits),
        }
    return values


def count_claim_decimals(claim: Claim) -> int:
    """Return the number of decimals: usually three, fewer for large values, and more if a bound or value would print as
    zero.

    An interval that excludes zero must not be printed as ending at zero.
    """
    largest = max(abs(value) for value in claim.values)
    if largest >= 100:
        return 1
    digits = 3 if largest >= 0.01 or largest == 0 else min(MAX_DECIMALS, 2 - math.floor(math.log10(largest)))
    bounds = [claim.low, claim.high]
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
    and the titles of datasets and of the primary metric. Strings that make statements are excluded
    (`record.printed_value.print_setting`).
    """
    known: dict[str, Scalar] = {}
    values: dict[str, PrintedValue] = {}
    best, plan = find_winner(state), state.data_plan
    if best is not None:
        known |= {f"code.{constant}": value for constant, value in state.nodes[best].setups.items()}
        values["run.seeds"] = print_count(len(find_trusted_replicates(state, best)))
        for arm in plan.tuned_arms if plan is not None else ():
            chosen_one = state.find_setting(arm, state.nodes[best].trials.get(arm, 0))
            known |= {f"tuned.{arm}.{dimension}": value for dimension, value in chosen_one.items()}
        for arm, one in find_chosen(state, best).items() if plan is not None and best in state.required_cells else ():
            values[f"tuned.{arm}.trials"] = print_count(one.study)
    for facts in state.datasets:
        key = f"data.{facts.name}"
        values |= {f"{key}.{split}": print_count(size) for split, size in facts.sizes.items()}
        values |= {
            f"{key}.classes": print_count(facts.classes),
            f"{key}.features": print_count(facts.features),
            f"{key}.duplicates": print_count(facts.duplicates),
            f"{key}.title": print_name(facts.title or facts.name.replace("_", " ")),
        }
    if plan is not None:
        values["metric.title"] = print_name(plan.primary_metric.display_name)
    for level in plan.levels if plan is not None else ():
        if level.value is not None:
            values[f"level.{level.name}"] = print_significant(level.value, 6)
    for one in compare_anchors(plan, ()):
        values |= {
            f"{one.key}.value": print_significant(one.anchor.value, 6),
            f"{one.key}.source": print_name(one.anchor.source),
            f"{one.key}.tolerance": print_significant(one.anchor.tolerance, 6),
        }
    if state.campaign is not None:
        values["campaign.ideas"] = print_count(state.campaign.ideas)
        values |= {f"campaign.tests.{dataset}": print_count(uses) for dataset, uses in state.campaign.tests.items()}
    values["run.nodes"] = print_count(
        sum(node.kind not in ("replicate", "trial", "aggregate", "rung") for node in state.nodes.values())
    )
    values["run.executions"] = print_count(sum(len(node.attempts) for node in state.nodes.values()))
    return {
        **{key: printable for key, value in known.items() if (printable := print_setting(value)) is not None},
        **values,
    }
