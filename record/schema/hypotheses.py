"""The hypotheses of a study, registered before any code is written, and their decisions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel

EffectSign = Literal["above zero", "near zero", "below zero"]
HypothesisVerdict = Literal["supported", "smaller", "negligible", "opposite", "undecided"]
ClaimForm = Literal["positive", "at least", "at most", "within"]
IntervalUnit = Literal["seeds", "seeds and examples", "seeds and clusters", "datasets"]


class Effect(FrozenModel):
    """A number that the study estimates, and the smallest size that matters."""

    estimand: str = Field(
        min_length=1,
        description=(
            "an expression over cells (docs/statistics.md), oriented so that the hypothesis says it is above zero: "
            "'mean(drop(adam, from=a0) - drop(sgd, from=a0), over=[a0.1, a0.3])'"
        ),
    )
    metric: str = Field(
        default="", description="metric of the plan in which the cells are read; empty: the primary one"
    )
    smallest: float = Field(
        gt=0,
        description=("smallest effect of interest, in the unit of the estimand: 0.03 for three points of accuracy"),
    )
    claim: ClaimForm = Field(
        default="at least",
        description=(
            "what the hypothesis says of the estimand: positive (above zero), at least or at most a bound, or within "
            "plus and minus the smallest effect"
        ),
    )
    bound: float | None = Field(
        default=None,
        description="bound of 'at least' and 'at most': 0.5 for 'keeps at most half'; null: the smallest effect",
    )


class RivalExplanation(FrozenModel):
    """An alternative explanation of the effect, and a measurement on which the two disagree."""

    statement: str = Field(min_length=1, description="the alternative explanation, in one sentence")
    estimand: str = Field(min_length=1, description="an expression over cells of the plan that distinguishes the two")
    ours: EffectSign = Field(description="prediction of the hypothesis")
    theirs: EffectSign = Field(description="prediction of the alternative explanation, which must differ")


class Hypothesis(FrozenModel):
    """A hypothesis that the study decides. It holds if all its effects do."""

    id: str = Field(pattern=r"^[a-z][a-z0-9-]*$", description="short identifier: 'excess-drop'")
    statement: str = Field(min_length=1, description="the claim, in one sentence that measurements can refute")
    effects: tuple[Effect, ...] = Field(
        min_length=1, max_length=3, description="'A and B' has two effects and needs both"
    )
    reason: str = Field(min_length=1, description="why smaller effects would not matter, in one phrase")
    unit: IntervalUnit = Field(
        default="seeds and examples",
        description=("what the interval generalises over; trained or sampled results always include seeds"),
    )
    cluster: str = Field(
        default="",
        description=(
            "for unit 'seeds and clusters': the column that groups examples; it needs at least five values in test"
        ),
    )
    diverged: Literal["left out", "worst value"] = Field(
        default="left out",
        exclude_if=lambda value: value == "left out",
        description=(
            "how a seed counts if training of an arm that is read diverged: left out, with the rate of each arm "
            "reported; or as the metric's worst value, which takes about a hundred seeds to support anything, since "
            "fewer do not show that divergence is rare"
        ),
    )
    rival: RivalExplanation | None = Field(default=None, description="required for every confirmatory hypothesis")
    confirmatory: bool = Field(default=True, description="whether it is decided; otherwise it is exploratory")
    presupposes: str = Field(
        default="", description="id of a hypothesis without which this one has no meaning; it is tested after that one"
    )
    alternatives: tuple[Effect, ...] = Field(
        default=(),
        max_length=6,
        description=("the same question in other forms (another metric, other levels): reported as 'holds in k of m'"),
    )


class EffectDecision(FrozenModel):
    """The decision on one effect. `values` and `seeds` have the same order; all values are in the unit of the
    estimand."""

    effect: Effect
    values: tuple[float, ...] = Field(description="one for each seed (or dataset, if these are the unit)")
    seeds: tuple[int, ...] = Field(default=(), description="empty if datasets are the unit")
    mean: float | None = None
    low: float | None = Field(default=None, description="lower end of the interval at `level`")
    high: float | None = None
    sd: float | None = Field(default=None, description="standard deviation of the values")
    examples: bool = Field(
        default=False, description="whether the interval includes the spread over test examples, or clusters of them"
    )
    diverged: dict[str, int] = Field(
        default={}, description=("arm that it reads -> number of diverged seeds; empty if no seed ran")
    )
    ran: int = Field(default=0, description="seeds (per dataset, if these are the unit) with a value or diverged")
    left_out: tuple[str, ...] = Field(
        default=(), description=("seeds without a value for reasons other than divergence, each with what is missing")
    )
    verdict: HypothesisVerdict = "undecided"
    why: str = Field(default="", description="why it is undecided, if not because of the width of the interval")
    decides: int | None = Field(default=None, description="n that would decide, if the interval is too wide")


class HypothesisDecision(FrozenModel):
    """The decision on a hypothesis."""

    hypothesis: Hypothesis
    parts: tuple[EffectDecision, ...]
    verdict: HypothesisVerdict
    p: float | None = Field(default=None, description="p of effects of at most the smallest, the largest of its parts")
    level: float = Field(description="1 minus the confidence of its intervals, after Holm's correction")
    family: int = Field(ge=1, description="number of confirmatory hypotheses in the correction")
    confirmed: bool = Field(description="on test data and fresh seeds, after a lock; otherwise a preview")
    holds: int = Field(default=0, description="number of declared alternatives that are supported")
    others: tuple[EffectDecision, ...] = Field(default=(), exclude=True, description="decisions on these alternatives")
    rival: EffectDecision | None = Field(
        default=None,
        description=(
            "decision on the measurement on which the rival explanation disagrees; near zero: the interval contains "
            "zero and lies within plus and minus the smallest effect of the first part"
        ),
    )

    @property
    def rival_sign(self) -> EffectSign | None:
        """The sign of the rival's measurement; None if open. An interval without zero is never near zero."""
        one = self.rival
        if one is None or one.low is None or one.high is None:
            return None
        if one.low > 0 or one.high < 0:
            return "above zero" if one.low > 0 else "below zero"
        return "near zero" if -one.effect.smallest < one.low and one.high < one.effect.smallest else None

    @property
    def n(self) -> int:
        """Number of units that all its parts have."""
        return min(len(part.values) for part in self.parts)

    @property
    def key(self) -> str:
        return f"hypothesis/{self.hypothesis.id}"
