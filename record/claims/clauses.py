r"""What `\verdict{key}` prints: a clause of a sentence, with all that its verdict rests on.

The order is fixed: what is compared, in which metric, on which data; the estimate with its interval, n and the unit;
then the verdict, against the smallest effect of interest where one was registered. The clause has a subject and a verb
of its own and no full stop, so that it follows words such as "We find that". `\verdict{key.short}` prints the estimate
and the word of the verdict, for texts whose tables have the rest.

What it does not guarantee: that an estimand in words reads as a person would say it; it is what was computed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from labwright.record.claims.differences import Difference
from labwright.record.claims.means import LEVEL, MINIMUM_REPLICATES
from labwright.record.claims.printing import decimals, decimals_of
from labwright.record.estimands import described, metric_of, places_of
from labwright.record.fold.state import RunState
from labwright.record.nouns.data import DataPlan, arm_of, level_of
from labwright.record.nouns.hypotheses import Decision, Effect, Hypothesis, PartDecided, Verdict
from labwright.record.printed import PrintedValue, clause, escaped, number

MOST_OF_A_TITLE = 24
"""Characters: a dataset whose title is longer goes by its name in a clause."""
SHOWN: frozenset[str] = frozenset({"supported", "smaller", "opposite", "improved", "worsened"})
"""Verdicts that say that there is a difference."""
ALIKE: frozenset[str] = frozenset({"negligible", "not significant"})
"""Verdicts that say that there is none to speak of."""
_FOUND: dict[Verdict, str] = {
    "supported": "which is above the smallest effect of interest, {smallest} (supported)",
    "smaller": "which is above zero but below the smallest effect of interest, {smallest} (smaller)",
    "negligible": "which is within plus and minus the smallest effect of interest, {smallest} (negligible)",
    "opposite": "which is below zero, where more than {smallest} was expected (opposite)",
    "undecided": r"which leaves it open whether it is above the smallest effect of interest, {smallest} (undecided)",
}
_BELOW = "which is below the smallest effect of interest, {smallest}, and leaves open whether there is any (undecided)"
"""What is undecided, though its whole interval lies below the smallest effect."""


def clauses(
    state: RunState, decisions: Sequence[Decision], differences: Sequence[Difference]
) -> dict[str, PrintedValue]:
    r"""What every key of `\verdict` prints."""
    plan = state.data_plan
    if plan is None:
        return {}
    titles = {one.name: one.title or one.name.replace("_", " ") for one in state.datasets}
    found = {
        **{one.key: _decision(one, plan, titles) for one in decisions},
        **{f"{one.key}.short": _decision(one, plan, titles, short=True) for one in decisions},
        **{one.key: _difference(one, plan, titles) for one in differences},
        **{f"{one.key}.short": _difference(one, plan, titles, short=True) for one in differences},
    }
    return {key: clause(tex) for key, tex in found.items()}


def measured_on(plan: DataPlan, effect: Effect) -> list[str]:
    """The datasets that an effect is read on, in the plan's order."""
    found = {place.dataset for place in places_of(effect.estimand, plan, metric_of(effect, plan))}
    return [use.name for use in plan.datasets if use.name in found]


def _decision(one: Decision, plan: DataPlan, titles: dict[str, str], *, short: bool = False) -> str:
    parts = [(_brief if short else _part)(part, one, plan, titles) for part in one.parts]
    if len(parts) > 1:
        together = "both" if len(parts) == 2 else "all"
        refuted = one.verdict == "undecided" and any(
            part.verdict in ("smaller", "negligible", "opposite") for part in one.parts
        )
        parts.append(
            f"so that {together} together are not supported, whatever is true of what is open (undecided)"
            if refuted
            else f"so that {together} together are {one.verdict}"
        )
    alternatives = 0 if short else len(one.hypothesis.alternatives)
    declared = f" (holds in {one.holds} of {alternatives} declared alternatives)" if alternatives else ""
    return f"{', and '.join(parts[:2])}{''.join(f', {part}' for part in parts[2:])}{declared}"


def _part(part: PartDecided, whole: Decision, plan: DataPlan, titles: dict[str, str]) -> str:
    effect, metric = part.effect, metric_of(part.effect, plan)
    on = _listed([_dataset(name, titles) for name in measured_on(plan, effect)])
    what = f"{escaped(described(effect.estimand, plan))}, in {escaped(metric.words)}"
    where = f" on {escaped(on)},"
    if part.mean is None:
        return f"{what}{where} was not measured ({escaped(part.why)}), which leaves it open (undecided)"
    digits = decimals_of(part)
    interval = (
        "" if part.low is None or part.high is None else (f" [{number(part.low, digits)}, {number(part.high, digits)}]")
    )
    kind = f"{_percent(whole.level)} interval, " if interval else ""
    unit = _unit(part, whole)
    basis = "test data" if whole.confirmed else "a preview" if whole.hypothesis.confirmatory else "exploratory"
    below = part.verdict == "undecided" and part.high is not None and part.high < effect.smallest
    found = (_BELOW if below else _FOUND[part.verdict]).format(smallest=f"{effect.smallest:g}")
    if part.verdict == "undecided" and (part.why or part.decides):
        found = (
            found[:-1]
            + "; "
            + (escaped(part.why) or f"about {part.decides} {_units(whole)} would decide it as it stands")
            + ")"
        )
    lost = "".join(f"; {text}" for text in lost_seeds(part, whole.hypothesis))
    return (
        f"{what}{where} is {number(part.mean, digits)}{interval} ({kind}$n$ = {unit}, {basis}{escaped(lost)}), {found}"
    )


def lost_seeds(part: PartDecided, one: Hypothesis) -> Iterator[str]:
    """What is told of seeds that diverged, by arm, and of those without a value; nothing where every seed has one."""
    if any(part.diverged.values()):
        rates = _listed([f"{count} of {arm}" for arm, count in part.diverged.items()])
        counts = "left out" if one.diverged == "left out" else "counted as the worst value"
        yield f"of {part.ran} that ran, training diverged with {rates}, {counts}"
    if part.left_out:
        yield f"{len(part.left_out)} without a value, left out"


def _brief(part: PartDecided, whole: Decision, plan: DataPlan, titles: dict[str, str]) -> str:
    metric = metric_of(part.effect, plan)
    on = _listed([_dataset(name, titles) for name in measured_on(plan, part.effect)])
    where = escaped(f"{on} in {metric.words}")
    if part.mean is None:
        return f"the effect on {where} was not measured, which leaves it open (undecided)"
    basis = "" if whole.confirmed else ", a preview" if whole.hypothesis.confirmatory else ", exploratory"
    lost = ", where training diverged with some seeds" if any(part.diverged.values()) else ""
    return f"the effect on {where} is {number(part.mean, decimals_of(part))} ({part.verdict}{basis}{lost})"


def _dataset(name: str, titles: dict[str, str]) -> str:
    """Its title where that is short, else its name: the text says once what it is in full."""
    title = titles.get(name, "").partition(" (")[0]
    return title if 0 < len(title) < MOST_OF_A_TITLE else name.replace("_", " ")


def _units(whole: Decision) -> str:
    return "datasets" if whole.hypothesis.unit == "datasets" else "seeds"


def _unit(part: PartDecided, whole: Decision) -> str:
    sampled = {"seeds and examples": " and the test examples", "seeds and clusters": " and clusters of examples"}
    more = sampled.get(whole.hypothesis.unit, "") if part.examples else ""
    return f"{len(part.values)} {_units(whole)}{more}"


def _difference(one: Difference, plan: DataPlan, titles: dict[str, str], *, short: bool = False) -> str:
    metric = next((each for each in plan.metrics if each.name == one.name), None)
    title = escaped(metric.words) if metric else escaped(one.name)
    (arm, level), (other, _) = (_names(side, plan) for side in (one.condition, one.other))
    digits = decimals(one)
    interval = "" if one.low is None else f" [{number(one.low, digits)}, {number(one.high, digits)}]"
    better = f"; {'higher' if metric.higher_is_better else 'lower'} is better" if metric else ""
    kind = f"{_percent(LEVEL)} interval, " if interval else ""
    at = f" at {level}" if level else ""
    basis = "exploratory" if short else f"{kind}$n$ = {one.n} seeds, {one.split} data, exploratory{better}"
    return (
        f"the {title} of {arm} minus that of {other}{at} on {escaped(_dataset(one.dataset, titles))} is "
        f"{number(one.mean, digits)}{'' if short else interval} ({basis}), "
        f"{_called(one, arm, digits, short=short)}{''.join(f', {caveat}' for caveat in one.caveats)}"
    )


def _called(one: Difference, arm: str, digits: int, *, short: bool) -> str:
    if one.called in ("improved", "worsened"):
        return f"so that {arm} is measurably {'better' if one.called == 'improved' else 'worse'}"
    if one.called == "unknown":
        return (
            "which are too few pairs of seeds for a verdict"
            if one.n < MINIMUM_REPLICATES
            else ("where all pairs gave the same, so that the spread is unknown")
        )
    unseen = (
        ""
        if short or one.detectable is None
        else (f" (one below {number(one.detectable, digits)} may have gone unseen)")
    )
    return f"which is {one.called if short and not one.by_examples else one.outcome}{unseen}"


def _names(condition: str, plan: DataPlan) -> tuple[str, str]:
    """Arm and level of a condition in words, as TeX."""
    arm, level = arm_of(condition), level_of(condition)
    title = next((each.title for each in plan.arms if each.name == arm and each.title), re.sub("[_-]", " ", arm))
    return escaped(title), escaped(
        next((each.title for each in plan.levels if each.name == level and each.title), level)
    )


def _percent(level: float) -> str:
    return rf"{100 * (1 - level):.3g}\%"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
