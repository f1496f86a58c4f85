"""What the record has about a comparison: the effects of hypotheses, requested estimates, and pairs of conditions.

A comparison is a linear contrast of cells, arm by level by dataset. An effect that is one (a difference, a mean of
differences, a drop, a slope) is recognised whatever its estimand looks like; a contrast that nobody registered is
computed over the seeds that its cells share, with a 95 % t interval, or taken from the recorded differences.

A quotient of two linear combinations of cells is a ratio; one that nobody registered is the ratio of the means over
common seeds, with Fieller's interval.

Limits: other effects that are no linear contrast (the worst of several levels) support sizes and the outcome of their
hypothesis, but no claim about a direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from random import Random
from statistics import fmean
from typing import Literal, NamedTuple

from labwright.models.roles.claim_reader import NumberReference
from labwright.record.claims.differences import ClaimDifference, RatioEstimate, find_sign
from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL, Claim, compute_t_interval
from labwright.record.estimands import (
    CellRef,
    EstimandError,
    Expression,
    MissingCell,
    evaluate_estimand,
    find_effect_metric,
    is_change,
    list_cells_read,
    split_quotient,
)
from labwright.record.reference_baselines import REFERENCE_ARM_TITLES
from labwright.record.result_macros import ClaimKey, strip_form
from labwright.record.schema.data_plan import ArmRole, DataPlan, MetricSpec, parse_arm, parse_level
from labwright.record.schema.hypotheses import Effect, EffectDecision, HypothesisDecision

Cell = tuple[str, str, str]
"""Dataset, arm and level."""
Contrast = Mapping[Cell, float]
ComparisonSource = Literal["effect", "alternative", "rival", "estimate", "pair"]
_TOLERANCE = 1e-6


class RecordedComparison(NamedTuple):
    """A contrast in one metric with its estimate; `decision` is that of the hypothesis, if one covers it.

    A ratio has a `divisor`, and both are any weighted sums of cells.
    """

    key: str
    contrast: Contrast
    metric: str
    mean: float | None
    low: float | None
    high: float | None
    source: ComparisonSource
    margin: float | None = None
    """Smallest size that matters; None if nothing in this metric was registered."""
    part: EffectDecision | None = None
    decision: HypothesisDecision | None = None
    divisor: Contrast | None = None

    @property
    def sign(self) -> int:
        """The sign that the interval shows; 0 if it contains zero or there is none."""
        return find_sign(self.low, self.high)

    @property
    def is_confirmed(self) -> bool:
        """Whether it is a measurement of a hypothesis that was decided on test data after a lock."""
        return self.source in ("effect", "rival") and self.decision is not None and self.decision.confirmed

    @property
    def is_registered(self) -> bool:
        """Whether it is a measurement of a confirmatory hypothesis."""
        return self.decision is not None and self.decision.hypothesis.confirmatory

    @property
    def is_supported(self) -> bool:
        """Whether a claim of a hypothesis about it holds: of an effect; of a rival's measurement, whether it is as the
        hypothesis predicts, and not its rival; of an estimate, whether its interval excludes zero."""
        if self.decision is None:
            return self.source == "estimate" and self.sign != 0
        if self.source == "rival":
            rival = self.decision.hypothesis.rival
            return rival is not None and self.decision.rival_sign == rival.ours
        return self.source == "effect" and self.decision.verdict == "supported"

    @property
    def is_absent(self) -> bool:
        """Whether there is no difference that matters: the interval of a registered effect or alternative within its
        smallest effect, or values that are all equal."""
        if self.source == "rival" and self.decision is not None:
            return self.decision.rival_sign == "near zero"
        part = self.part if self.source in ("effect", "alternative") else None
        is_within = part is not None and part.direction == "equivalent"
        return is_within or self.low == self.high == 0

    @property
    def is_too_small(self) -> bool:
        """Whether the interval lies within the smallest size that matters, on either side of zero or across it."""
        known = self.margin is not None and self.low is not None and self.high is not None and self.divisor is None
        return known and -(self.margin or 0.0) < (self.low or 0.0) and (self.high or 0.0) < (self.margin or 0.0)

    def find_sign(self, contrast: Contrast) -> int:
        """Return 1 or -1 if it estimates a contrast, or its negative; 0 if neither."""
        factor = _find_factor(self.contrast, contrast)
        return (factor > 0) - (factor < 0)

    def flip(self) -> RecordedComparison:
        """Return the comparison with its sides exchanged."""
        mean, low, high = (None if one is None else -one for one in (self.mean, self.high, self.low))
        return self._replace(
            contrast={cell: -weight for cell, weight in self.contrast.items()}, mean=mean, low=low, high=high
        )

    def __str__(self) -> str:
        if self.mean is None:
            return f"{self.key} was not measured"
        interval = "" if self.low is None or self.high is None else f" [{self.low:.4g}, {self.high:.4g}]"
        if self.decision is None or self.part is None:
            return f"{self.key} = {self.mean:.4g}{interval}, exploratory"
        kind = "" if self.decision.confirmed else ", not confirmed"
        rival = self.decision.hypothesis.rival
        if self.source == "rival" and rival is not None:  # it has predictions, and no bound
            observed = self.decision.rival_sign or "open"
            answer = f"predicted {rival.ours}, by the rival {rival.theirs}: {observed} in {rival.estimand}"
        else:
            answer = f"{self.part.effect.claim_text}: {self.part.verdict}"
            if self.mean == self.part.mean:  # its sides are not exchanged
                answer = f"direction {self.part.direction}, {answer}"
        return f"{self.key} = {self.mean:.4g}{interval}, {answer}{kind}"


@dataclass(frozen=True)
class ClaimRecord:
    """The part of a record with which claims are compared. `estimates` are those of the outline, by name; `separating`
    are the keys of those that its outline planned to separate explanations, `points` what the paper must say, by id."""

    plan: DataPlan
    decisions: Sequence[HypothesisDecision] = ()
    means: Sequence[Claim] = ()
    differences: Sequence[ClaimDifference] = ()
    estimates: Mapping[str, EffectDecision] = field(default_factory=dict[str, EffectDecision])
    separating: frozenset[str] = frozenset()
    points: Mapping[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """The arms of the plan, then measured arms outside of it (ablations), in order."""
        return tuple(dict.fromkeys((*(one.name for one in self.plan.arms), *(one.arm for one in self.means))))

    @cached_property
    def roles(self) -> Mapping[str, ArmRole]:
        """Arm -> role. A measured arm outside the plan is a reference model or an ablation."""
        outside: dict[str, ArmRole] = {
            arm: "baseline" if arm in REFERENCE_ARM_TITLES else "ablation" for arm in self.arms
        }
        return {**outside, **{one.name: one.role for one in self.plan.arms}}

    @cached_property
    def metrics(self) -> Mapping[str, MetricSpec | None]:
        """The metrics of the plan, then values that only the code reports, whose direction is unknown (None)."""
        planned = {one.name: one for one in self.plan.metrics}
        return {**planned, **{one.name: None for one in self.means if one.name not in planned}}

    def name_arm(self, arm: str) -> str:
        """Return the name of an arm that readers see."""
        return REFERENCE_ARM_TITLES.get(arm) or self.plan.name_arm(arm)

    @cached_property
    def values(self) -> Mapping[tuple[str, str, str, str], Mapping[int, float]]:
        """(metric, dataset, arm, level) -> seed -> value."""
        return {
            (one.name, one.dataset, one.arm, one.level): dict(zip(one.seeds, one.values, strict=True))
            for one in self.means
        }

    @cached_property
    def twins(self) -> Mapping[str, str]:
        """Arm -> the first arm with the same values wherever both were measured, if that is all places of one of them:
        their predictions are identical, and claims may name either."""
        values: dict[str, dict[tuple[str, str, str], Mapping[int, float]]] = {}
        for (metric, dataset, arm, level), known in self.values.items():
            values.setdefault(arm, {})[metric, dataset, level] = known
        found: dict[str, str] = {}
        for arm, other in combinations(
            (one for one in self.arms if one in values and one not in REFERENCE_ARM_TITLES), 2
        ):
            common = values[arm].keys() & values[other].keys()
            whole = common in (values[arm].keys(), values[other].keys())
            if whole and arm not in found and all(values[arm][one] == values[other][one] for one in common):
                found.setdefault(other, arm)
        return found

    def unify_arm(self, arm: str) -> str:
        """Return the arm that stands for all with the same values."""
        return self.twins.get(arm, arm)

    def find_sign(self, known: RecordedComparison, contrast: Contrast) -> int:
        """Return 1 or -1 if a comparison estimates a contrast, or its negative, also with another arm of the same
        values; 0 if neither."""
        if sign := known.find_sign(contrast):
            return sign
        first, second = (
            sum_cells((weight, (dataset, self.unify_arm(arm), level)) for (dataset, arm, level), weight in one.items())
            for one in (known.contrast, contrast)
        )
        return known._replace(contrast=first).find_sign(second) if self.twins else 0

    @cached_property
    def registered(self) -> tuple[RecordedComparison, ...]:
        """The comparisons of hypotheses, then the requested estimates."""
        return tuple(self._list_registered())

    def find_registered(self, contrast: Contrast, metric: str) -> Iterator[RecordedComparison]:
        """Yield the registered comparisons that estimate a contrast, with its sign."""
        for one in self.registered:
            if one.metric == metric and one.divisor is None and (sign := self.find_sign(one, contrast)):
                yield one if sign > 0 else one.flip()

    def find_all(self, contrast: Contrast, metric: str) -> list[RecordedComparison]:
        """Return the registered comparisons that estimate a contrast, otherwise its estimate, if it was measured."""
        pair = self.estimate_contrast(contrast, metric)
        return list(self.find_registered(contrast, metric)) or ([pair] if pair is not None else [])

    def estimate_ratio(self, above: Contrast, below: Contrast, metric: str) -> RecordedComparison | None:
        """Return the ratio of two sums of cells: a registered one, also of the remaining share, or that over the seeds
        that all cells share; None if a cell was not measured."""
        rest = sum_cells((sign * one[cell], cell) for sign, one in ((1, below), (-1, above)) for cell in one)
        for one in self.registered:
            divisor = _find_factor(below, one.divisor or {})
            if one.metric == metric and divisor:
                if abs(_find_factor(above, one.contrast) - divisor) < _TOLERANCE:
                    return one
                if abs(_find_factor(rest, one.contrast) - divisor) < _TOLERANCE:
                    mean, low, high = (None if each is None else 1 - each for each in (one.mean, one.high, one.low))
                    return one._replace(key=f"1 - {one.key}", contrast=above, mean=mean, low=low, high=high)
        both = self._list_sums(metric, above, below)
        if not both or abs(fmean(divisor for _, divisor in both)) < _TOLERANCE:
            return None
        found = RatioEstimate(tuple(one for one, _ in both), tuple(one for _, one in both))
        low, high = found.compute_interval(SIGNIFICANCE_LEVEL) if len(both) > 1 else (None, None)
        key = f"({describe_contrast(above, metric)}) / ({describe_contrast(below, metric)})"
        return RecordedComparison(key, above, metric, found.mean, low, high, "pair", divisor=below)

    def _list_sums(self, metric: str, *contrasts: Contrast) -> list[tuple[float, ...]]:
        """Return the sums of contrasts for each seed that all their cells share. A reference model has no levels and no
        seeds: its value counts at each of them."""
        measured = {seed for one in contrasts for cell in one for seed in self.values.get((metric, *cell), ())}

        def list_values(dataset: str, arm: str, level: str) -> Mapping[int, float]:
            twins = (name for name in self.arms if self.unify_arm(name) == self.unify_arm(arm))
            places = ((metric, dataset, name, level) for name in (arm, *twins))
            place = next((one for one in places if one in self.values), (metric, dataset, arm, level))
            values = self.values.get(place, {})
            key = (metric, dataset, arm, "")
            fixed: Mapping[int, float] = self.values.get(key, {}) if arm in REFERENCE_ARM_TITLES else {}
            return dict.fromkeys(measured or fixed, fmean(fixed.values())) if fixed else values

        cells = [[(weight, list_values(*cell)) for cell, weight in one.items()] for one in contrasts]
        values = [each for one in cells for _, each in one]
        seeds = sorted(set[int].intersection(*(set(each) for each in values))) if values else []
        return [tuple(sum(weight * each[seed] for weight, each in one) for one in cells) for seed in seeds]

    def estimate_contrast(self, contrast: Contrast, metric: str) -> RecordedComparison | None:
        """Return the estimate of a contrast over the seeds that its cells share; None if a cell was not measured."""
        values = [one for (one,) in self._list_sums(metric, contrast)]
        if not values:
            return None
        mean = fmean(values)
        _, low, high = compute_t_interval(values)
        if len(values) > 1 and not any(values):
            low = high = 0.0
        key, margin = describe_contrast(contrast, metric), self.find_margin(metric)
        found = RecordedComparison(key, contrast, metric, mean, low, high, "pair", margin)
        for one in self.differences:  # their intervals also cover the test examples
            other = (one.dataset, parse_arm(one.other), parse_level(one.other))
            pair = {(one.dataset, one.arm, one.level): 1.0, other: -1.0}
            known = found._replace(key=one.key, contrast=pair, mean=one.mean, low=one.low, high=one.high)
            if one.name == metric and (sign := self.find_sign(known, contrast)):
                return known if sign > 0 else known.flip()
        return found

    def describe_key(self, key: str) -> NumberReference | None:
        r"""Return what the number of a `\result` key refers to; None for a key of another form."""
        claim = ClaimKey.parse_key(key)
        if claim is not None:
            sides = [claim.condition, *filter(None, [claim.other])]
            return NumberReference(
                key=key,
                kind="difference" if claim.other else "value",
                arms=tuple(dict.fromkeys(map(parse_arm, sides))),
                metric=claim.metric,
                datasets=(claim.dataset,),
                levels=tuple(dict.fromkeys(filter(None, map(parse_level, sides)))),
            )
        found: dict[str, tuple[EffectDecision, HypothesisDecision | None]] = {
            each: (part, one) for one in self.decisions for each, part in one.parts_by_key.items()
        }
        found |= {f"estimate/{name}": (part, None) for name, part in self.estimates.items()}
        if (effect := found.get(strip_form(key))) is None:
            return None
        part, decision = effect
        try:
            metric = find_effect_metric(part.effect, self.plan)
            read = list_cells_read(part.effect.estimand, self.plan, metric)
        except EstimandError:
            return None
        contrast = expand_contrast(part.effect, self.plan) or {}
        read = sorted(read, key=lambda place: contrast.get((place.dataset, place.arm, place.level), 0.0) <= 0)
        return NumberReference(
            key=key,
            kind="effect",
            arms=tuple(dict.fromkeys(place.arm for place in read)),
            metric=metric.name,
            datasets=tuple(one.name for one in self.plan.datasets)
            if decision is not None and decision.hypothesis.unit == "datasets"
            else tuple(dict.fromkeys(place.dataset for place in read)),
            levels=tuple(dict.fromkeys(place.level for place in read if place.level)),
            hypothesis=decision.hypothesis.id if decision is not None else "",
        )

    def find_margin(self, metric: str) -> float | None:
        """Return the smallest size that matters in a metric; None if no effect in it was registered."""
        return min(
            (
                part.effect.smallest
                for one in self.decisions
                for part in one.parts
                if (part.effect.metric or self.plan.primary_metric.name) == metric
            ),
            default=None,
        )

    def _list_registered(self) -> Iterator[RecordedComparison]:
        for one in self.decisions:
            for key, part in one.parts_by_key.items():
                last = key.rpartition("/")[2]
                source = "rival" if part is one.rival else "effect" if last.isdecimal() else "alternative"
                if part.mean is None and source != "effect":
                    continue  # what no fresh seed measured may have an exploratory estimate
                if (found := self._build_comparison(key, source, part, one)) is not None:
                    yield found
        for name, part in self.estimates.items():
            if (found := self._build_comparison(f"estimate/{name}", "estimate", part, None)) is not None:
                yield found._replace(margin=self.find_margin(found.metric))

    def _build_comparison(
        self, key: str, source: ComparisonSource, part: EffectDecision, decision: HypothesisDecision | None
    ) -> RecordedComparison | None:
        everywhere = decision is not None and decision.hypothesis.unit == "datasets"
        datasets = [one.name for one in self.plan.datasets] if everywhere else [""]
        effect, plan = part.effect, self.plan
        quotient = None if is_change(effect.estimand) else split_quotient(effect.estimand)
        sums: list[Contrast] = []
        for whole in quotient or (None,):
            terms: list[tuple[float, Cell]] = []
            for dataset in datasets:
                found = _expand_sum(effect, plan, whole, dataset) if whole else expand_contrast(effect, plan, dataset)
                if not found:
                    return None
                terms += [(weight / len(datasets), cell) for cell, weight in found.items()]
            sums.append(sum_cells(terms))
        return RecordedComparison(
            key=key,
            contrast=sums[0],
            metric=effect.metric or plan.primary_metric.name,
            mean=part.mean,
            low=part.low,
            high=part.high,
            source=source,
            margin=effect.smallest,
            part=part,
            decision=decision,
            divisor=sums[1] if quotient else None,
        )


def expand_contrast(effect: Effect, plan: DataPlan, dataset: str = "") -> Contrast | None:
    """Return an effect as a contrast of cells, of a relative change its numerator; None if it is not linear."""
    quotient = split_quotient(effect.estimand) if is_change(effect.estimand) else None
    found = _expand_sum(effect, plan, quotient[0] if quotient else None, dataset)
    return found if found and abs(sum(found.values())) < _TOLERANCE else None


def _expand_sum(effect: Effect, plan: DataPlan, part: Expression | None, dataset: str) -> Contrast | None:
    """Return an effect, or a part of its estimand, as a weighted sum of cells; None if it is not linear."""
    try:
        metric = find_effect_metric(effect, plan)
        read = list_cells_read(effect.estimand, plan, metric, dataset=dataset)
        places, whole = [place for place in read if not place.selection_split], part or effect.estimand

        def evaluate(values: Mapping[CellRef, float]) -> float:
            return float(evaluate_estimand(whole, plan, metric, lambda place: values.get(place, 0.0), dataset=dataset))

        base = evaluate({})
        found = {place: evaluate({place: 1.0}) - base for place in places}
        rng = Random(0)
        drawn = {place: rng.uniform(-1, 1) for place in places}
        linear = (
            abs(base) < _TOLERANCE
            and abs(evaluate(drawn) - sum(weight * drawn[place] for place, weight in found.items())) < _TOLERANCE
        )
    except (EstimandError, MissingCell):
        return None
    contrast = {(at.dataset, at.arm, at.level): weight for at, weight in found.items() if abs(weight) > _TOLERANCE}
    return contrast if linear else None


def describe_contrast(contrast: Contrast, metric: str) -> str:
    """Describe a contrast: `log_loss of method@noise20 minus baseline@noise20 on digits`."""
    above, below = (
        [f"{arm}@{level}" if level else arm for (_, arm, level), weight in contrast.items() if sign * weight > 0]
        for sign in (1, -1)
    )
    datasets = ", ".join(dict.fromkeys(dataset for dataset, _, _ in contrast))
    minus = f" minus {', '.join(dict.fromkeys(below))}" if below else ""
    return f"{metric} of {', '.join(dict.fromkeys(above))}{minus} on {datasets}"


def sum_cells(terms: Iterable[tuple[float, Cell]]) -> dict[Cell, float]:
    """Return the sum of weighted cells, without cells of weight zero."""
    found: dict[Cell, float] = {}
    for weight, cell in terms:
        found[cell] = found.get(cell, 0.0) + weight
    return {cell: weight for cell, weight in found.items() if abs(weight) > _TOLERANCE}


def _find_factor(one: Contrast, other: Contrast) -> float:
    """Return the number by which a contrast is a multiple of another; 0 if it is none."""
    if one.keys() != other.keys() or not one:
        return 0.0
    factors = [one[cell] / other[cell] for cell in one]
    return factors[0] if max(factors) - min(factors) < _TOLERANCE * max(1.0, abs(factors[0])) else 0.0
