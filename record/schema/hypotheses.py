"""What a study decides: its hypotheses, registered before any code is written, and what came of each."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel

EffectSign = Literal["above zero", "near zero", "below zero"]
HypothesisVerdict = Literal["supported", "smaller", "negligible", "opposite", "undecided"]
IntervalUnit = Literal["seeds", "seeds and examples", "seeds and clusters", "datasets"]


class Effect(FrozenModel):
    """A number that the study estimates, and how large it has to be to matter."""

    estimand: str = Field(
        min_length=1,
        description=(
            "an expression over cells (docs/statistics.md), oriented so that the hypothesis says it is above zero: "
            "'mean(drop(adam, from=a0) - drop(sgd, from=a0), over=[a0.1, a0.3])'"
        ),
    )
    metric: str = Field(default="", description="one of the plan's that the cells are read in; empty: the primary")
    smallest: float = Field(
        gt=0,
        description=("smallest effect of interest, in the unit of the estimand: 0.03 for three points of accuracy"),
    )


class RivalExplanation(FrozenModel):
    """Another explanation of the effect, and a measurement on which the two disagree."""

    statement: str = Field(min_length=1, description="the other explanation, one sentence")
    estimand: str = Field(min_length=1, description="an expression over cells of the plan that tells them apart")
    ours: EffectSign = Field(description="what the hypothesis predicts of it")
    theirs: EffectSign = Field(description="what the other explanation predicts: something else")


class Hypothesis(FrozenModel):
    """One thing that the study decides. It holds where all its effects are there."""

    id: str = Field(pattern=r"^[a-z][a-z0-9-]*$", description="short identifier: 'excess-drop'")
    statement: str = Field(min_length=1, description="what is claimed, one sentence that measurements can refute")
    effects: tuple[Effect, ...] = Field(min_length=1, max_length=3, description="'A and B' has two, and needs both")
    reason: str = Field(min_length=1, description="why smaller effects would not matter, one phrase")
    unit: IntervalUnit = Field(
        default="seeds and examples",
        description=("over what the interval generalises; what is trained or sampled has the seed in any case"),
    )
    cluster: str = Field(
        default="",
        description=(
            "the column of examples that belong together, for seeds and clusters: five values of it in test at least"
        ),
    )
    diverged: Literal["left out", "worst value"] = Field(
        default="left out",
        exclude_if=lambda value: value == "left out",
        description=(
            "what a seed counts with which training of an arm that is read diverged: left out, with the rate of each "
            "arm told; or the metric's worst value, which takes about a hundred seeds to support anything, since "
            "fewer do not show that divergence is rare"
        ),
    )
    rival: RivalExplanation | None = Field(default=None, description="of every confirmatory hypothesis")
    confirmatory: bool = Field(default=True, description="whether it is decided; else it is only looked at")
    alternatives: tuple[Effect, ...] = Field(
        default=(),
        max_length=6,
        description=("the same question asked otherwise (another metric, other levels): told as 'holds in k of m'"),
    )


class EffectDecision(FrozenModel):
    """What came of one effect. `values` run with `seeds`; all in the unit of the estimand."""

    effect: Effect
    values: tuple[float, ...] = Field(description="one for each seed (each dataset, where these are the unit)")
    seeds: tuple[int, ...] = Field(default=(), description="empty where datasets are the unit")
    mean: float | None = None
    low: float | None = Field(default=None, description="of the interval at `level`")
    high: float | None = None
    sd: float | None = Field(default=None, description="over the values")
    examples: bool = Field(
        default=False, description="whether the spread over test examples, or clusters of them, is in the interval"
    )
    diverged: dict[str, int] = Field(
        default={}, description=("arm that it reads -> seeds with which its training diverged; empty where no seed ran")
    )
    ran: int = Field(default=0, description="seeds, by dataset where these are the unit, with a value or diverged")
    left_out: tuple[str, ...] = Field(
        default=(), description=("seeds without a value, for other reasons than divergence, each with what is missing")
    )
    verdict: HypothesisVerdict = "undecided"
    why: str = Field(default="", description="why it is undecided, where that is not the width of the interval")
    decides: int | None = Field(default=None, description="n that would decide, where the interval is too wide")


class HypothesisDecision(FrozenModel):
    """What came of a hypothesis."""

    hypothesis: Hypothesis
    parts: tuple[EffectDecision, ...]
    verdict: HypothesisVerdict
    p: float | None = Field(default=None, description="of effects of at most the smallest, the largest of its parts")
    level: float = Field(description="1 minus the confidence of its intervals, as Holm's correction leaves it")
    family: int = Field(ge=1, description="confirmatory hypotheses that the correction is over")
    confirmed: bool = Field(description="on test data and fresh seeds, after a lock; else it is a preview")
    holds: int = Field(default=0, description="of the declared alternatives, those that are supported, too")
    others: tuple[EffectDecision, ...] = Field(default=(), exclude=True, description="what came of these alternatives")
    rival: EffectDecision | None = Field(
        default=None,
        description=(
            "what came of the measurement on which the rival explanation disagrees; near zero is an interval "
            "that has zero "
            "in it and lies within plus and minus the smallest effect of the first part"
        ),
    )

    @property
    def rival_sign(self) -> EffectSign | None:
        """What was found of it; None where it is left open. An interval without zero is never near zero."""
        one = self.rival
        if one is None or one.low is None or one.high is None:
            return None
        if one.low > 0 or one.high < 0:
            return "above zero" if one.low > 0 else "below zero"
        return "near zero" if -one.effect.smallest < one.low and one.high < one.effect.smallest else None

    @property
    def n(self) -> int:
        """Units that all its parts have."""
        return min(len(part.values) for part in self.parts)

    @property
    def key(self) -> str:
        return f"hypothesis/{self.hypothesis.id}"
