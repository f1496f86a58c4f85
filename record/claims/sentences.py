r"""Text printed by `\verdict{key}`: a clause with all facts on which its verdict rests.

The order is fixed: the comparison, the metric, the data; the estimate with its interval, n and the unit; then the
direction and, after what was claimed, whether that is supported, refuted or open: "which is positive; at least 0.03:
open". An open claim has the number of units for a half-width of a third of the smallest effect. The clause has a
subject and a verb and no full stop, so that it can follow words such as "We find that". `\verdict{key.short}` prints
only the estimate and the outcome, for texts whose tables have the rest. A pair of arms that nobody registered has an
estimate, an interval and the word exploratory.

Limits: the wording of an estimand is generated; it states exactly what was computed, but may read awkwardly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL
from labwright.record.claims.formatting import count_claim_decimals, count_effect_decimals
from labwright.record.estimands import describe_estimand, find_effect_metric, is_contrast, list_cells_read
from labwright.record.printed_value import PrintedValue, escape_tex, format_tex_number, print_clause
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan, parse_arm, parse_level
from labwright.record.schema.hypotheses import (
    PRECISE_SHARE,
    Effect,
    EffectDecision,
    EffectDirection,
    Hypothesis,
    HypothesisDecision,
)

MAX_TITLE_LENGTH = 24
"""Longest dataset title in characters that a clause uses; otherwise it uses the dataset's name."""
SIGN_WORDS: frozenset[str] = frozenset({"positive", "negative"})
"""Outcomes that assert a difference."""
NULL_WORDS: frozenset[str] = frozenset({"equivalent"})
"""Outcomes that assert that there is no relevant difference."""
EXPLORATORY_WORD = "exploratory"
"""The outcome of a pair that nobody registered: an estimate without a verdict."""
_DIRECTION_PHRASES: dict[EffectDirection, str] = {
    "positive": "positive",
    "negative": "negative",
    "equivalent": "equivalent to zero within plus and minus {smallest:g}",
    "open": "open in sign",
}


def list_outcome_words(one: HypothesisDecision) -> tuple[str, ...]:
    """Return the directions of the effects of a hypothesis and its verdict, each word once."""
    return tuple(dict.fromkeys((*(part.direction for part in one.parts), one.verdict)))


def describe_outcome(part: EffectDecision) -> str:
    """Describe the direction of an effect and the verdict on its claim: `positive; at least 0.03: open`.

    Without a value, or where zero does not mean "no effect" and the claim names a bound, there is no direction: "at
    most 0.5: supported".
    """
    verdict = f"{part.effect.claim_text}: {part.verdict}"
    if not _has_direction(part):
        return verdict
    return f"{_DIRECTION_PHRASES[part.direction].format(smallest=part.effect.smallest)}; {verdict}"


def _has_direction(part: EffectDecision) -> bool:
    return part.mean is not None and (part.effect.bound is None or is_contrast(part.effect.estimand))


def describe_need(part: EffectDecision, units: str = "seeds") -> str:
    """Describe why a claim is open, or how many units would measure the effect precisely; "" if it is decided."""
    if part.why or part.verdict != "open" or part.low is None:
        return part.why
    width = f"plus and minus {PRECISE_SHARE * part.effect.smallest:.2g}"
    if part.needed is not None:
        return f"about {part.needed} {units} would measure it to {width}"
    if part.floor > PRECISE_SHARE * part.effect.smallest:
        return f"the test examples alone leave plus and minus {part.floor:.2g}, whatever the number of {units}"
    return ""


def format_verdict_clauses(
    state: RunState, decisions: Sequence[HypothesisDecision], differences: Sequence[ClaimDifference]
) -> dict[str, PrintedValue]:
    r"""Return the printed text of every key of `\verdict`."""
    plan = state.data_plan
    if plan is None:
        return {}
    titles = {one.name: one.title or one.name.replace("_", " ") for one in state.datasets}
    found = {
        **{one.key: _format_decision(one, plan, titles) for one in decisions},
        **{f"{one.key}.short": _format_decision(one, plan, titles, short=True) for one in decisions},
        **{one.key: _format_difference(one, plan, titles) for one in differences},
        **{f"{one.key}.short": _format_difference(one, plan, titles, short=True) for one in differences},
    }
    return {key: print_clause(tex) for key, tex in found.items()}


def list_effect_datasets(plan: DataPlan, effect: Effect) -> list[str]:
    """Return the datasets that an effect reads, in the plan's order."""
    found = {place.dataset for place in list_cells_read(effect.estimand, plan, find_effect_metric(effect, plan))}
    return [use.name for use in plan.datasets if use.name in found]


def _format_decision(one: HypothesisDecision, plan: DataPlan, titles: dict[str, str], *, short: bool = False) -> str:
    parts = [(_format_short_effect if short else _format_effect)(part, one, plan, titles) for part in one.parts]
    if len(parts) > 1:
        parts.append(f"so that {'both' if len(parts) == 2 else 'all'} together are {one.verdict}")
    alternatives = 0 if short else len(one.hypothesis.alternatives)
    declared = f" (holds in {one.holds} of {alternatives} declared alternatives)" if alternatives else ""
    return f"{', and '.join(parts[:2])}{''.join(f', {part}' for part in parts[2:])}{declared}"


def _format_effect(part: EffectDecision, whole: HypothesisDecision, plan: DataPlan, titles: dict[str, str]) -> str:
    effect, metric = part.effect, find_effect_metric(part.effect, plan)
    on = _join_names([_format_dataset(name, titles) for name in list_effect_datasets(plan, effect)])
    what = f"{escape_tex(describe_estimand(effect.estimand, plan))}, in {escape_tex(metric.display_name)}"
    where = f" on {escape_tex(on)},"
    if part.mean is None:
        return f"{what}{where} was not measured ({escape_tex(part.why)}); {describe_outcome(part)}"
    digits = count_effect_decimals(part)
    interval = (
        ""
        if part.low is None or part.high is None
        else (f" [{format_tex_number(part.low, digits)}, {format_tex_number(part.high, digits)}]")
    )
    kind = f"{_format_percent(whole.level)} interval, " if interval else ""
    unit = _format_effect_units(part, whole)
    basis = "test data" if whole.confirmed else "a preview" if whole.hypothesis.confirmatory else "exploratory"
    looks = "" if whole.look is None else f", look {whole.look + 1}"
    early = ", an estimate that stopping early makes optimistic" if part.optimistic else ""
    lost = "".join(f"; {text}" for text in format_lost_seeds(part, whole.hypothesis))
    need = describe_need(part, _format_units(whole))
    link = ", which is " if _has_direction(part) else "; "
    return (
        f"{what}{where} is {format_tex_number(part.mean, digits)}{interval} ({kind}$n$ = {unit}, "
        f"{basis}{looks}{early}{escape_tex(lost)}){link}{describe_outcome(part)}"
        f"{f' ({escape_tex(need)})' if need else ''}"
    )


def format_lost_seeds(part: EffectDecision, hypothesis: Hypothesis) -> Iterator[str]:
    """Yield the disclosure of diverged seeds, by arm, and of seeds without a value; nothing if every seed has one."""
    if any(part.diverged.values()):
        rates = _join_names([f"{count} of {arm}" for arm, count in part.diverged.items()])
        counts = "left out" if hypothesis.diverged == "left out" else "counted as the worst value"
        yield f"of {part.ran} that ran, training diverged with {rates}, {counts}"
    if part.left_out:
        yield f"{len(part.left_out)} without a value, left out"


def _format_short_effect(
    part: EffectDecision, whole: HypothesisDecision, plan: DataPlan, titles: dict[str, str]
) -> str:
    metric = find_effect_metric(part.effect, plan)
    on = _join_names([_format_dataset(name, titles) for name in list_effect_datasets(plan, part.effect)])
    where = escape_tex(f"{on} in {metric.display_name}")
    if part.mean is None:
        return f"the effect on {where} was not measured ({describe_outcome(part)})"
    basis = "" if whole.confirmed else "; a preview" if whole.hypothesis.confirmatory else "; exploratory"
    lost = "; training diverged with some seeds" if any(part.diverged.values()) else ""
    return (
        f"the effect on {where} is {format_tex_number(part.mean, count_effect_decimals(part))} "
        f"({describe_outcome(part)}{basis}{lost})"
    )


def _format_dataset(name: str, titles: dict[str, str]) -> str:
    """Return the dataset's title if it is short, otherwise its name; the paper gives the full title once."""
    title = titles.get(name, "").partition(" (")[0]
    return title if 0 < len(title) < MAX_TITLE_LENGTH else name.replace("_", " ")


def _format_units(whole: HypothesisDecision) -> str:
    return "datasets" if whole.hypothesis.unit == "datasets" else "seeds"


def _format_effect_units(part: EffectDecision, whole: HypothesisDecision) -> str:
    sampled = {"seeds and examples": " and the test examples", "seeds and clusters": " and clusters of examples"}
    more = sampled.get(whole.hypothesis.unit, "") if part.examples else ""
    return f"{len(part.values)} {_format_units(whole)}{more}"


def _format_difference(one: ClaimDifference, plan: DataPlan, titles: dict[str, str], *, short: bool = False) -> str:
    metric = next((each for each in plan.metrics if each.name == one.name), None)
    title = escape_tex(metric.display_name) if metric else escape_tex(one.name)
    (arm, level), (other, _) = (_format_condition(side, plan) for side in (one.condition, one.other))
    digits = count_claim_decimals(one)
    interval = (
        "" if one.low is None else f" [{format_tex_number(one.low, digits)}, {format_tex_number(one.high, digits)}]"
    )
    better = f"; {'higher' if metric.higher_is_better else 'lower'} is better" if metric else ""
    kind = f"{_format_percent(SIGNIFICANCE_LEVEL)} interval, " if interval else ""
    at = f" at {level}" if level else ""
    units = f"{one.n} seeds{' and the test examples' * one.examples}"
    basis = "" if short else f"{kind}$n$ = {units}, {one.split} data{better}; "
    return (
        f"the {title} of {arm} minus that of {other}{at} on {escape_tex(_format_dataset(one.dataset, titles))} is "
        f"{format_tex_number(one.mean, digits)}{interval} ({basis}{one.basis_text})"
    )


def _format_condition(condition: str, plan: DataPlan) -> tuple[str, str]:
    """Return the arm and level of a condition in words, as TeX."""
    arm, level = parse_arm(condition), parse_level(condition)
    planned = next((each.title or re.sub("[_-]", " ", arm) for each in plan.arms if each.name == arm), f"the arm {arm}")
    return escape_tex(planned), escape_tex(
        next((each.title for each in plan.levels if each.name == level and each.title), level)
    )


def _format_percent(level: float) -> str:
    return rf"{100 * (1 - level):.3g}\%"


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
