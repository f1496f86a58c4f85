"""The hypotheses of a study, registered before any code is written, and their decisions."""

from __future__ import annotations

from math import inf
from typing import Literal

from pydantic import Field

from labwright.record.schema import FrozenModel, is_empty

EffectSign = Literal["above zero", "near zero", "below zero"]
EffectDirection = Literal["positive", "negative", "equivalent", "open"]
HypothesisVerdict = Literal["supported", "refuted", "open"]
ClaimForm = Literal["positive", "at least", "at most", "within"]
PRECISE_SHARE = 1 / 3
"""Sampling ends when the half-width of an interval is this share of the smallest effect, whatever the verdict."""
IntervalUnit = Literal["seeds", "seeds and examples", "seeds and clusters", "datasets"]


class Effect(FrozenModel):
    """A number that the study estimates, and the smallest size of it that matters."""

    estimand: str = Field(
        min_length=1,
        description="an expression over cells, with its sign chosen so that the hypothesis says it is above zero: "
        "'mean(drop(adam, from=a0) - drop(sgd, from=a0), over=[a0.1, a0.3])'",
    )
    metric: str = Field(default="", description="metric of the plan that measures it; empty: the primary metric")
    smallest: float = Field(gt=0, description="smallest effect of interest, in its unit: 0.03 for three points")
    claim: ClaimForm = Field(
        default="at least",
        exclude_if=lambda value: value == "at least",
        description="what the hypothesis says of the estimand: positive (above zero), at least or at most a bound, or "
        "within plus and minus the smallest effect",
    )
    bound: float | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="of 'at least' and 'at most': 0.5 for 'at most half'; null: the smallest effect",
    )
    design: float | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="true value at which the study should support the claim with a probability of 80 %; null: one "
        "smallest effect beyond the bound, and zero for 'within'",
    )

    @property
    def limit(self) -> float:
        """The value that the claim compares the estimand with; for `within`, either sign of it."""
        if self.claim == "positive":
            return 0.0
        return self.smallest if self.bound is None or self.claim == "within" else self.bound

    @property
    def claimed_range(self) -> tuple[float, float]:
        """The values between which the claim holds, without both ends."""
        ranges = {"at most": (-inf, self.limit), "within": (-self.limit, self.limit)}
        return ranges.get(self.claim, (self.limit, inf))

    @property
    def design_value(self) -> float:
        """The true value at which the claim should be supported with a probability of 80 %."""
        if self.design is not None:
            return self.design
        steps = {"positive": 2.0, "at least": 1.0, "at most": -1.0, "within": 0.0}[self.claim]
        return steps * self.smallest if self.claim == "within" else self.limit + steps * self.smallest

    @property
    def claim_text(self) -> str:
        """The claim about the estimand: `at least 0.03`."""
        if self.claim == "positive":
            return "above zero"
        return f"within plus and minus {self.limit:g}" if self.claim == "within" else f"{self.claim} {self.limit:g}"


class RivalExplanation(FrozenModel):
    """An alternative explanation of the effect, and a measurement on which the two explanations disagree."""

    statement: str = Field(min_length=1, description="the alternative explanation, in one sentence")
    estimand: str = Field(min_length=1, description="an expression over cells of the plan that distinguishes the two")
    ours: EffectSign = Field(description="prediction of the hypothesis")
    theirs: EffectSign = Field(description="prediction of the alternative explanation, which must differ")


class PossibleOutcomes(FrozenModel):
    """What a colleague would learn from each possible outcome of a hypothesis, one sentence each."""

    supported: str = Field(min_length=1, max_length=400, description="if it is supported")
    refuted: str = Field(min_length=1, max_length=400, description="if it is refuted")
    open: str = Field(min_length=1, max_length=400, description="if the interval has the bound: what it shows")


class Hypothesis(FrozenModel):
    """A hypothesis that the study decides. It holds if all its effects hold."""

    id: str = Field(pattern=r"^[a-z][a-z0-9-]*$", description="short identifier: 'excess-drop'")
    title: str = Field(default="", exclude_if=is_empty, description="short name for readers, without numbers")
    statement: str = Field(min_length=1, description="the claim, in one sentence that measurements can refute")
    effects: tuple[Effect, ...] = Field(min_length=1, max_length=3, description="'A and B' has two and needs both")
    reason: str = Field(min_length=1, description="why smaller effects would not matter, in one phrase")
    unit: IntervalUnit = Field(default="seeds and examples", description="what the interval generalises over")
    cluster: str = Field(default="", description="for unit 'seeds and clusters': column with five values in test")
    rival: RivalExplanation | None = Field(default=None, description="required for every confirmatory hypothesis")
    confirmatory: bool = Field(default=True, description="whether it is confirmatory rather than exploratory")
    presupposes: str = Field(default="", exclude_if=is_empty, description="id of a hypothesis that has to hold first")
    outcomes: PossibleOutcomes | None = Field(
        default=None, exclude_if=is_empty, description="what each outcome would teach; required if confirmatory"
    )
    alternatives: tuple[Effect, ...] = Field(
        default=(), max_length=6, description="the question in other forms (another metric, other levels)"
    )

    @property
    def name(self) -> str:
        """The name that readers see: the title, or the id in words."""
        return self.title or self.id.replace("-", " ")


class EffectDecision(FrozenModel):
    """The decision on one effect. `values` and `seeds` have the same order; all values are in the unit of the
    estimand."""

    effect: Effect
    values: tuple[float, ...] = Field(description="one for each seed (or dataset, if datasets are the unit)")
    seeds: tuple[int, ...] = Field(default=(), description="empty if datasets are the unit")
    mean: float | None = Field(default=None, description="mean of the values; of a quotient, the ratio of the means")
    low: float | None = Field(default=None, description="lower end of the interval at `level`")
    high: float | None = None
    sd: float | None = Field(default=None, description="standard deviation of the values")
    examples: bool = False
    """Whether the interval includes the spread over test examples, or clusters of them."""
    floor: float = 0.0
    """Half-width due to the test examples, which more seeds cannot reduce; 0 without them."""
    diverged: dict[str, int] = Field(default={})
    """Arm that it reads -> number of diverged seeds; empty if no seed ran."""
    ran: int = 0
    """Number of seeds (per dataset, if datasets are the unit) that have a value or diverged."""
    left_out: tuple[str, ...] = ()
    """Seeds without a value for reasons other than divergence, each with the missing cells."""
    direction: EffectDirection = "open"
    """Where the interval lies; equivalent: within plus and minus the smallest effect."""
    verdict: HypothesisVerdict = Field(default="open", description="whether the claim about the effect holds")
    why: str = ""
    """Why it is open, if not because of the width of the interval; or that it was decided earlier."""
    needed: int | None = None
    """If the verdict is open, the number of units at which half the interval's width is a third of the smallest effect.
    """
    optimistic: bool = False
    """Whether sampling ended early because this was decided, so that the estimate is likely too large."""

    @property
    def half_width(self) -> float | None:
        """Half of the width of the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def is_precise(self) -> bool:
        """Whether the half-width is at most `PRECISE_SHARE` of the smallest effect, which ends sampling."""
        return self.half_width is not None and self.half_width <= PRECISE_SHARE * self.effect.smallest


class HypothesisDecision(FrozenModel):
    """The decision on a hypothesis: supported if all its effects are supported, refuted if one is refuted."""

    hypothesis: Hypothesis
    parts: tuple[EffectDecision, ...]
    verdict: HypothesisVerdict
    p: float | None = None
    """Two-sided p of the claim: the largest over its parts; with several looks, the smallest p divided by weight."""
    level: float
    """1 minus the confidence of its intervals: after Holm's correction, times the weight of the look."""
    family: int = Field(ge=1, description="number of confirmatory hypotheses, or chains of them, in the correction")
    confirmed: bool = Field(description="on test data and fresh seeds, after a lock; otherwise a preview")
    look: int | None = Field(default=None, description="index of the last look; None in a study without looks")
    after: str = ""
    """Id of a hypothesis that it presupposes and that is not supported, so that it is open."""
    floored: str = Field(default="", exclude_if=is_empty)
    """Why it is open whatever its intervals say: no arm that it reads is better than a constant prediction."""
    saturated: str = Field(default="", exclude_if=is_empty)
    """That every arm that it reads is as good as the metric can be; it does not change the verdict."""
    holds: int = Field(default=0, description="number of declared alternatives that are supported")
    others: tuple[EffectDecision, ...] = Field(default=(), exclude=True, description="decisions on these alternatives")
    rival: EffectDecision | None = None
    """Decision on the measurement on which the rival explanation disagrees; near zero: the interval contains zero and
    lies within plus and minus the smallest effect of the first part."""

    @property
    def rival_sign(self) -> EffectSign | None:
        """The sign of the rival's measurement; None if it is open. An interval that excludes zero never counts as
        near zero.
        """
        one = self.rival
        if one is None or one.low is None or one.high is None or self.floored:
            return None
        if one.low > 0 or one.high < 0:
            return "above zero" if one.low > 0 else "below zero"
        return "near zero" if -one.effect.smallest < one.low and one.high < one.effect.smallest else None

    @property
    def has_effect(self) -> bool:
        """Whether the effect was found that the rival explains otherwise."""
        return self.parts[0].direction == "positive" or self.parts[0].verdict == "supported"

    @property
    def n(self) -> int:
        """Number of units that all its parts have in common."""
        return min(len(part.values) for part in self.parts)

    @property
    def key(self) -> str:
        return f"hypothesis/{self.hypothesis.id}"

    @property
    def parts_by_key(self) -> dict[str, EffectDecision]:
        """Everything that was estimated by its key: `hypothesis/ID/K` with K from 1, `hypothesis/ID/alternative-K`, and
        `hypothesis/ID/rival`."""
        return {
            **{f"{self.key}/{number}": part for number, part in enumerate(self.parts, 1)},
            **{f"{self.key}/alternative-{number}": part for number, part in enumerate(self.others, 1)},
            **({f"{self.key}/rival": self.rival} if self.rival is not None else {}),
        }


# The review of the data plan before any code is written: findings, answers and open points.


class ProtocolFinding(FrozenModel):
    """One problem of a plan."""

    kind: Literal["question", "baseline", "leakage", "confound", "control", "metric", "power", "scope", "estimand"]
    severity: Literal["blocks", "should", "could"] = Field(
        description="blocks: the claim cannot be decided as planned; should: a reader would doubt the result; could: "
        "an improvement"
    )
    what: str = Field(min_length=1, max_length=1200, description="the problem, and the results that it invalidates")
    where: str = Field(
        description="path of a field of the plan: 'arms', 'arms[1].description', 'arms[plain]', "
        "'hypotheses[0].effects[0].smallest'"
    )
    mend: str = Field(min_length=1, max_length=1200, description="the smallest change of the plan that fixes it")


class FindingAnswer(FrozenModel):
    """The planner's answer to a finding."""

    finding: int = Field(ge=1, description="number of the finding")
    changed: bool = Field(description="whether the plan was changed because of it; otherwise the plan stays the same")
    reason: str = Field(min_length=1, max_length=1200, description="the change of the plan, or why there is none")


class UnresolvedFinding(FrozenModel):
    """A finding that the reviewer maintains after reading the answer."""

    finding: int = Field(ge=1, description="number of the finding")
    why: str = Field(min_length=1, max_length=600, description="the problem that remains")


class ReviewedFinding(ProtocolFinding):
    """A finding with the answer and whether it is open."""

    answer: str = Field(default="", description="the planner's answer; empty: none")
    changed: bool = False
    open: str = Field(default="", description="reason why it is open; empty if it is closed")

    @property
    def summary_line(self) -> str:
        """The finding in one or two sentences, and the reason why it is open, as printed in papers and listings."""
        answer = f" The plan {'was changed' if self.changed else 'stays'}: {self.answer}" if self.answer else ""
        still_open = f" Open: {self.open}" if self.open else ""
        return f"{self.kind} ({self.severity}), at {self.where}: {self.what}{answer}{still_open}"
