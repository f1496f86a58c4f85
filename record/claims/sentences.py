"""Outcomes of hypotheses in words, for tables, status and the web page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from labwright.record.claims.estimates import Claim
from labwright.record.estimands import classify_scale, find_effect_metric, is_contrast, list_cells_read
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import format_key
from labwright.record.schema.data_plan import DataPlan, PublishedAnchor
from labwright.record.schema.hypotheses import (
    PRECISE_SHARE,
    Effect,
    EffectDecision,
    EffectDirection,
    HypothesisDecision,
)
from labwright.record.tuning_results import ChosenSetting, collect_trial_results, find_chosen

_DIRECTION_PHRASES: dict[EffectDirection, str] = {
    "positive": "positive",
    "negative": "negative",
    "equivalent": "equivalent to zero within plus and minus {smallest:g}",
    "open": "open in sign",
}


def describe_support(part: EffectDecision) -> str:
    """Describe what the record supports about an effect: `it is above zero; open whether it is at least 0.03`."""
    claim = part.effect.claim_text
    said = {"supported": f"it is {claim}", "refuted": f"it is not {claim}", "open": f"open whether it is {claim}"}
    if part.mean is None:
        return f"not measured ({part.why})"
    if not _has_direction(part) or (part.effect.claim, part.verdict) == ("positive", "supported"):
        return said[part.verdict]
    small = f"within plus and minus {part.effect.smallest:g}, too small to matter"
    direction = {
        "positive": "it is above zero",
        "negative": "it is below zero",
        "equivalent": f"it is {small}",
        "open": "its sign is open, which is not evidence of no effect",
    }[part.direction]
    is_small = part.direction in ("positive", "negative") and _is_too_small(part)
    return f"{direction}{f', and {small}' * is_small}; {said[part.verdict]}"


def _is_too_small(part: EffectDecision) -> bool:
    """Return whether the interval of a difference lies within plus and minus its smallest effect."""
    ends = (part.low, part.high)
    known = classify_scale(part.effect.estimand) == "difference" and None not in ends
    return known and all(abs(end) < part.effect.smallest for end in ends if end is not None)


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
    """Describe why a claim is open, or how many more units than it has would measure the effect precisely; "" if it is
    decided or measured precisely."""
    if part.why or part.verdict != "open" or part.low is None:
        return part.why
    width = f"plus and minus {PRECISE_SHARE * part.effect.smallest:.2g}"
    if part.needed is not None and part.needed > len(part.values):
        return f"about {part.needed} {units} would measure it to {width}"
    if part.floor > PRECISE_SHARE * part.effect.smallest:
        return f"the test examples alone leave plus and minus {part.floor:.2g}, whatever the number of {units}"
    return ""


def list_effect_datasets(plan: DataPlan, effect: Effect) -> list[str]:
    """Return the datasets that an effect reads, in the plan's order."""
    found = {place.dataset for place in list_cells_read(effect.estimand, plan, find_effect_metric(effect, plan))}
    return [use.name for use in plan.datasets if use.name in found]


def format_lost_seeds(part: EffectDecision) -> Iterator[str]:
    """Yield the disclosure of diverged seeds, by arm, and of seeds without a value; nothing if every seed has one."""
    if any(part.diverged.values()):
        rates = [f"{count} of {arm}" for arm, count in part.diverged.items()]
        yield f"of {part.ran} that ran, training diverged with {join_names(rates)}, left out"
    if part.left_out:
        yield f"{len(part.left_out)} without a value, left out; the first: {part.left_out[0]}"


def describe_units(one: HypothesisDecision, part: EffectDecision) -> str:
    """Describe the number of units behind an estimate: `5 seeds and the test examples`."""
    unit = "datasets" if one.hypothesis.unit == "datasets" else "seeds"
    sampled = {"seeds and examples": " and the test examples", "seeds and clusters": " and clusters of examples"}
    more = sampled.get(one.hypothesis.unit, "") if part.examples else ""
    return f"{len(part.values)} {unit}{more}"


def join_names(names: Iterable[str]) -> str:
    """Join names as in a sentence: `a`, `a and b`, `a, b and c`."""
    *others, last = ["", *names]
    return " and ".join(filter(None, (", ".join(others[1:]), last)))


# Caveats that qualify a verdict without changing it: incomplete tuning, and baselines that miss a published value.
# Limits: a baseline without an anchor may still be far from its published value.

Caveat = Literal["not tuned", "tuned with fewer trials", "tuning not converged", "unanchored"]


class AnchorComparison(NamedTuple):
    """A published value and the measured test result; `claim` is None if no test result was measured."""

    anchor: PublishedAnchor
    claim: Claim | None

    @property
    def key(self) -> str:
        """Prefix of the keys that `record.claims.formatting.format_setups` prints for the anchor."""
        return ".".join(("anchor", *map(format_key, (self.anchor.dataset, self.anchor.metric, self.anchor.condition))))

    @property
    def is_missed(self) -> bool:
        """Whether the measured mean differs from the published value by more than the tolerance."""
        return self.claim is not None and abs(self.claim.mean - self.anchor.value) > self.anchor.tolerance


def compare_anchors(plan: DataPlan | None, claims: Iterable[Claim]) -> tuple[AnchorComparison, ...]:
    """Pair every anchor of a plan with the measured test mean."""
    known = {one.key: one for one in claims}
    return tuple(
        AnchorComparison(one, known.get(f"test/{one.dataset}/{one.metric}/{one.condition}"))
        for one in (plan.anchors if plan is not None else ())
    )


class CaveatFinder:
    """Find the caveats of comparisons between these claims."""

    def __init__(self, state: RunState, claims: Sequence[Claim]) -> None:
        plan = state.search.data_plan
        self._state = state
        self._unanchored = {one.anchor.arm for one in compare_anchors(plan, claims) if one.is_missed}
        # settings are only expected to be tuned once the tuning stage is over
        has_tuning = claims and plan is not None and plan.tuned_arms and state.required_cells
        tunes = has_tuning and state.search.stages["tuning"].is_settled
        self._found = collect_trial_results(state) if tunes else None
        self._chosen: dict[str, dict[str, ChosenSetting]] = {}

    def find_caveats(self, claim: Claim, other: Claim) -> tuple[Caveat, ...]:
        """Return the caveats of comparing two claims."""
        settings = [one for each in (claim, other) if (one := self._find_setting(each)) is not None]
        stale = any(one.stale for one in settings)
        untuned = stale and all(one.study <= 1 for one in settings)  # the defaults alone
        applies: dict[Caveat, bool] = {
            "not tuned": untuned,
            "tuned with fewer trials": stale and not untuned,
            "tuning not converged": any(one.gaining for one in settings),
            "unanchored": other.split == "test" and other.arm in self._unanchored,
        }
        return tuple(one for one, holds in applies.items() if holds)

    def _find_setting(self, claim: Claim) -> ChosenSetting | None:
        """Return the setting used by the arm of a claim; None if nothing is tuned."""
        first = self._state.nodes.get(claim.nodes[0])
        if self._found is None or first is None:
            return None
        node = first.parent or "" if first.kind == "replicate" else first.id
        if node not in self._state.required_cells or node not in self._state.nodes:
            return None
        if node not in self._chosen:
            self._chosen[node] = find_chosen(self._state, node, self._found)
        return self._chosen[node].get(claim.arm)
