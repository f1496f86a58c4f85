"""What a reader finds in the sentences of a paper: the label of each sentence, and its claims in typed form."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.record.schema import FrozenModel, is_empty
from labwright.record.schema.hypotheses import HypothesisVerdict

SentenceLabel = Literal["outcome", "setup", "background", "question", "cited"]
ClaimKind = Literal[
    "direction", "no difference", "size", "ratio", "trend", "cause", "generality", "registered", "measured", "ambiguous"
]
ClaimDirection = Literal["better", "worse", "higher", "lower", "none"]
Certainty = Literal["shown", "observed", "suggested", "open", "conjectured"]


class ReadClaim(FrozenModel):
    """A claim of a sentence. Names are those of the study's vocabulary; empty: the text does not say."""

    kind: ClaimKind
    subject: str = Field(default="", description="the arm, condition (arm@level) or level that the claim is about")
    other: str = Field(default="", description="what it is compared with")
    metric: str = ""
    datasets: tuple[str, ...] = Field(default=(), description="datasets for which the claim is made")
    other_dataset: str = Field(default="", description="dataset with which that on `datasets` is compared")
    levels: tuple[str, ...] = Field(default=(), description="levels for which the claim is made")
    direction: ClaimDirection = Field(
        default="none",
        description="better or worse than other; higher or lower value; trend: from the first level to the last",
    )
    denied: bool = Field(default=False, description="direction, trend, cause: the sentence says that it does not hold")
    certainty: Certainty = "observed"
    amount: Literal["small", "large", ""] = Field(
        default="", description="size: in words; no difference: small if one may remain"
    )
    of_subject: str = Field(default="", description="ratio: the subject of the quantity that is divided by")
    of_other: str = Field(default="", description="ratio: what that is compared with; empty for a plain value")
    at_least: float | None = Field(default=None, description="ratio, or bounded difference: smallest value allowed")
    at_most: float | None = Field(default=None, description="the same: largest value")
    count: int | None = Field(default=None, description="number of datasets, levels, arms or pairs in which it holds")
    hypothesis: str = Field(default="", description="id of the hypothesis that is reported, or that states the cause")
    verdict: HypothesisVerdict | Literal[""] = Field(default="", description="its outcome according to the sentence")

    @property
    def is_bounded(self) -> bool:
        """Whether the words allow only some values."""
        return self.at_least is not None or self.at_most is not None


class ReadSentence(FrozenModel):
    """The label and claims of one numbered sentence."""

    number: int
    label: SentenceLabel
    quote: str = Field(description="three to six consecutive words of the sentence, copied")
    claims: tuple[ReadClaim, ...] = Field(default=(), description="every claim of an outcome; empty for other labels")
    also_setup: bool = Field(default=False, description="it also says how the study was planned, done, tuned or scored")
    points: tuple[str, ...] = Field(default=(), description="ids of the listed points that the sentence makes in full")


class SentenceReading(FrozenModel):
    """What one reading or two found in a sentence, kept under the hash of the sentence and what it depends on."""

    sha256: str
    labels: tuple[SentenceLabel, ...] = Field(min_length=1, description="one for each reading")
    claims: tuple[ReadClaim, ...] = Field(default=(), description="claims that either reading found")
    points: tuple[str, ...] = Field(default=(), description="points that either reading found")
    also_setup: bool = Field(default=False, exclude_if=is_empty)
    """Whether a reading found set-up in a sentence with another label."""

    @property
    def has_setup(self) -> bool:
        """Whether the sentence says how the study was done."""
        return self.also_setup or "setup" in self.labels


SetupVerdict = Literal["supported", "contradicted", "not in the facts"]


class ComparedSentence(FrozenModel):
    """A sentence on the set-up, compared with numbered facts of the record."""

    number: int
    verdict: SetupVerdict
    quote: str = Field(description="two to eight words of the sentence, copied; the wrong ones if it is contradicted")
    fact: int | None = Field(default=None, description="number of the fact that decides; null: not in the facts")
    fact_quote: str = Field(default="", description="two to eight consecutive words of that fact, copied")
    correction: str = Field(default="", description="if contradicted: what the record has, in one sentence")


class SetupReading(FrozenModel):
    """The comparison of a sentence with the facts, kept under the hash of both."""

    sha256: str
    verdict: SetupVerdict
    fact: str = Field(default="", description="the fact that decides, or the quoted line of code")
    quote: str = Field(default="", description="the wrong words of a contradicted sentence")
    correction: str = Field(default="", description="what the record has instead")
