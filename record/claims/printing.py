"""Claims, differences and settings as they are printed: a key with the form as its suffix, and its TeX text."""

from __future__ import annotations

import math
from collections.abc import Iterable

from labwright.record.claims.caveats import anchored
from labwright.record.claims.differences import Difference
from labwright.record.claims.means import LEVEL, Claim, trusted_replicates, winner
from labwright.record.fold.state import RunState
from labwright.record.nouns.frozen import Scalar
from labwright.record.nouns.hypotheses import PartDecided
from labwright.record.printed import (
    PrintedValue,
    count,
    interval,
    name,
    probability,
    setting,
    significant,
    spread,
    value_of,
)
from labwright.record.tuning import chosen

MOST_DIGITS = 6
"""Digits after the point that are printed at most."""


def printed(claims: Iterable[Claim]) -> dict[str, PrintedValue]:
    """Every form in which a claim may stand in a paper: key with suffix -> what it prints.

    `.mean .sd .n .low .high`, `.pm` (mean and sd), `.ci` (interval). Of a difference also `.ci_examples` (interval over
    test examples), `.p`, `.p_adjusted` (corrected for its family) and `.mde` (smallest detectable difference). What is
    missing prints as n/a.
    """
    values: dict[str, PrintedValue] = {}
    for claim in claims:
        digits = decimals(claim)
        values |= {
            f"{claim.key}.{form}": value_of(value, digits)
            for form, value in (("mean", claim.mean), ("sd", claim.sd), ("low", claim.low), ("high", claim.high))
        }
        values |= {
            f"{claim.key}.n": count(claim.n),
            f"{claim.key}.pm": spread(claim.mean, claim.sd, digits),
            f"{claim.key}.ci": interval((claim.low, claim.high), digits),
        }
        if isinstance(claim, Difference):
            over = claim.over_examples
            ends = (over.low, over.high) if over is not None else (None, None)
            values |= {
                f"{claim.key}.ci_examples": interval(ends, digits),
                f"{claim.key}.p": _probability(claim.p),
                f"{claim.key}.p_adjusted": _probability(claim.p_adjusted),
                f"{claim.key}.mde": value_of(claim.detectable, digits),
            }
    return values


def _probability(p: float | None) -> PrintedValue:
    """Three digits after the point, or more where it stands at the level that decides."""
    digits = 3
    while p is not None and digits < MOST_DIGITS and (p > LEVEL) != (round(p, digits) > LEVEL):
        digits += 1
    return probability(p, digits)


def decimals(claim: Claim) -> int:
    """Digits after the point: three as a rule, fewer for large values, more where a bound or value would print as zero.

    An interval that excludes zero must not print as if it ended there.
    """
    largest = max(abs(value) for value in claim.values)
    if largest >= 100:
        return 1
    digits = 3 if largest >= 0.01 or largest == 0 else min(MOST_DIGITS, 2 - math.floor(math.log10(largest)))
    bounds = [claim.low, claim.high]
    if isinstance(claim, Difference):
        over = claim.over_examples
        bounds += [claim.detectable] if over is None else [claim.detectable, over.low, over.high]
    while digits < MOST_DIGITS and any(bound and round(bound, digits) == 0 for bound in bounds):
        digits += 1
    return digits


def decimals_of(part: PartDecided) -> int:
    """Digits after the point of an effect: three, or more where a bound would print as zero or the smallest effect."""
    smallest = part.effect.smallest
    digits = 1 if abs(part.mean or 0.0) >= 100 else 3
    values = [one for one in (part.low, part.high, part.mean, smallest) if one]
    while digits < MOST_DIGITS and any(
        one != edge and round(one, digits) == round(edge, digits) for one in values for edge in (0.0, smallest)
    ):
        digits += 1
    return digits


def setups(state: RunState) -> dict[str, PrintedValue]:
    """What a paper may print without a measurement: constants and settings of the winner, data, names of datasets and
    of the primary metric. A text that states something is not among them (`record.printed.setting`)."""
    known: dict[str, Scalar] = {}
    values: dict[str, PrintedValue] = {}
    best, plan = winner(state), state.data_plan
    if best is not None:
        known |= {f"code.{constant}": value for constant, value in state.nodes[best].setups.items()}
        values["run.seeds"] = count(len(trusted_replicates(state, best)))
        for arm in plan.tuned_arms if plan is not None else ():
            chosen_one = state.setting_of(arm, state.nodes[best].trials.get(arm, 0))
            known |= {f"tuned.{arm}.{dimension}": value for dimension, value in chosen_one.items()}
        for arm, one in chosen(state, best).items() if plan is not None and best in state.owed else ():
            values[f"tuned.{arm}.trials"] = count(one.study)
    for facts in state.datasets:
        key = f"data.{facts.name}"
        values |= {f"{key}.{split}": count(size) for split, size in facts.sizes.items()}
        values |= {
            f"{key}.classes": count(facts.classes),
            f"{key}.features": count(facts.features),
            f"{key}.duplicates": count(facts.duplicates),
            f"{key}.title": name(facts.title or facts.name.replace("_", " ")),
        }
    if plan is not None:
        values["metric.title"] = name(plan.primary.words)
    for level in plan.levels if plan is not None else ():
        if level.value is not None:
            values[f"level.{level.name}"] = significant(level.value, 6)
    for one in anchored(plan, ()):
        values |= {
            f"{one.key}.value": significant(one.anchor.value, 6),
            f"{one.key}.source": name(one.anchor.source),
            f"{one.key}.tolerance": significant(one.anchor.tolerance, 6),
        }
    if state.campaign is not None:
        values["campaign.ideas"] = count(state.campaign.ideas)
        values |= {f"campaign.tests.{dataset}": count(uses) for dataset, uses in state.campaign.tests.items()}
    values["run.nodes"] = count(
        sum(node.kind not in ("replicate", "trial", "aggregate", "rung") for node in state.nodes.values())
    )
    values["run.executions"] = count(sum(len(node.attempts) for node in state.nodes.values()))
    return {**{key: printable for key, value in known.items() if (printable := setting(value)) is not None}, **values}
