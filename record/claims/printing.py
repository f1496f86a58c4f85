"""Claims, differences and settings as they are printed: a key with the form as its suffix, and its TeX text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from record.claims.caveats import anchored
from record.claims.differences import Difference
from record.claims.means import LEVEL, Claim, trusted_replicates, winner
from record.fold.state import RunState
from record.nouns.hypotheses import PartDecided
from record.tuning import chosen

MOST_DIGITS = 6
"""Digits after the point that are printed at most."""


def printed(claims: Iterable[Claim]) -> dict[str, str]:
    """Every form in which a claim may stand in a paper: key with suffix -> TeX text.

    `.mean .sd .n .low .high`, `.pm` (mean and sd), `.ci` (interval). Of a difference also `.ci_examples` (interval over
    test examples), `.p`, `.p_adjusted` (corrected for its family) and `.mde` (smallest detectable difference). What is
    missing prints as n/a.
    """
    texts: dict[str, str] = {}
    for claim in claims:
        digits = decimals(claim)
        mean, sd, low, high = (number(value, digits) for value in (claim.mean, claim.sd, claim.low, claim.high))
        texts |= {
            f"{claim.key}.mean": mean, f"{claim.key}.sd": sd, f"{claim.key}.low": low, f"{claim.key}.high": high,
            f"{claim.key}.n": str(claim.n),
            f"{claim.key}.pm": mean if claim.sd is None else rf"{mean}\,\ensuremath{{\pm}}\,{sd}",
            f"{claim.key}.ci": "n/a" if claim.low is None else f"[{low}, {high}]",
        }
        if isinstance(claim, Difference):
            over = claim.over_examples
            ends = [number(end, digits) for end in (over.low, over.high)] if over is not None else ["n/a"]
            texts |= {
                f"{claim.key}.ci_examples": "n/a" if "n/a" in ends else f"[{', '.join(ends)}]",
                f"{claim.key}.p": _probability(claim.p), f"{claim.key}.p_adjusted": _probability(claim.p_adjusted),
                f"{claim.key}.mde": number(claim.detectable, digits)}
    return texts


def _probability(p: float | None) -> str:
    """Three digits after the point; more where it stands at the level that decides, and none below a thousandth."""
    if p is None:
        return "n/a"
    if p < 0.001:
        return r"\ensuremath{<}0.001"
    digits = 3
    while digits < MOST_DIGITS and (p > LEVEL) != (round(p, digits) > LEVEL):
        digits += 1
    return f"{p:.{digits}f}"


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
            one != edge and round(one, digits) == round(edge, digits) for one in values for edge in (0.0, smallest)):
        digits += 1
    return digits


def number(value: float | None, digits: int) -> str:
    """A value as TeX with so many digits after the point."""
    if value is None:
        return "n/a"
    text = f"{value:.{digits}f}"
    return rf"\ensuremath{{-}}{text[1:]}" if text.startswith("-") and float(text) != 0 else text.lstrip("-")


def setups(state: RunState) -> dict[str, str]:
    """What a paper may print without a measurement: constants and settings of the winner, data."""
    texts: dict[str, str] = {}
    best = winner(state)
    if best is not None:
        texts |= {f"code.{name}": str(value) for name, value in state.nodes[best].setups.items()}
        texts["run.seeds"] = str(len(trusted_replicates(state, best)))
        plan = state.data_plan
        for arm in plan.tuned_arms if plan is not None else ():
            setting = state.setting_of(arm, state.nodes[best].trials.get(arm, 0))
            texts |= {f"tuned.{arm}.{name}": str(value) for name, value in setting.items()}
        for arm, one in chosen(state, best).items() if plan is not None and best in state.owed else ():
            texts[f"tuned.{arm}.trials"] = str(one.study)
    for facts in state.datasets:
        texts |= {f"data.{facts.name}.{split}": str(size) for split, size in facts.sizes.items()}
        texts |= {f"data.{facts.name}.classes": str(facts.classes), f"data.{facts.name}.features": str(facts.features),
                  f"data.{facts.name}.duplicates": str(facts.duplicates)}
    for level in state.data_plan.levels if state.data_plan else ():
        if level.value is not None:
            texts[f"level.{level.name}"] = f"{level.value:g}"
    for one in anchored(state.data_plan, ()):
        texts |= {f"{one.key}.value": f"{one.anchor.value:g}", f"{one.key}.tolerance": f"{one.anchor.tolerance:g}",
                  f"{one.key}.source": re.sub(r"[\\{}$]", "", one.anchor.source)}
    if state.campaign is not None:
        texts["campaign.ideas"] = str(state.campaign.ideas)
        texts |= {f"campaign.tests.{name}": str(uses) for name, uses in state.campaign.tests.items()}
    texts["run.nodes"] = str(sum(
        node.kind not in ("replicate", "trial", "aggregate", "rung") for node in state.nodes.values()))
    texts["run.executions"] = str(sum(len(node.attempts) for node in state.nodes.values()))
    return texts
