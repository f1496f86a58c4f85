"""What becomes of a node, from its proposal to its verdict, and what is found out about it after the search."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from record.nouns.figures import Figure, FigureReview
from record.nouns.frozen import Frozen, Scalar
from record.nouns.measurements import Measurement, OverExamples
from record.nouns.nodes import Attempt, Failure, Finding, NodeStatus, NodeStep, Verdict


class Proposed(Frozen):
    """The node of decision k has a plan and a source (sealed in nodes/<id>/source)."""

    type: Literal["proposed"] = "proposed"
    node: str
    decision: int
    title: str
    plan: str
    varies: str
    source_sha256: str
    setups: dict[str, Scalar] = Field(default_factory=dict)
    author: str = Field(default="", description="the person who wrote the source; empty: a model")


class Stepped(Frozen):
    """Work on a node went over to another step. `proposed` and `done` follow from its decision and its verdict."""

    type: Literal["stepped"] = "stepped"
    node: str
    step: NodeStep


class Executed(Frozen):
    """An attempt of a node ran to its end, its folder is sealed."""

    type: Literal["executed"] = "executed"
    node: str
    attempt: Attempt


class Plotted(Frozen):
    """A node's plots ran for the n-th time; with `failure` they drew nothing that can be used."""

    type: Literal["plotted"] = "plotted"
    node: str
    n: int
    figures: tuple[Figure, ...] = ()
    failure: Failure | None = None
    seconds: float = 0.0


class Reviewed(Frozen):
    """The n-th plots of a node were reviewed."""

    type: Literal["reviewed"] = "reviewed"
    node: str
    n: int
    reviews: tuple[FigureReview, ...]
    looked: bool = Field(default=True, description="whether a model looked at the figures; the lint alone did if not")


class Judged(Frozen):
    """A node is finished."""

    type: Literal["judged"] = "judged"
    node: str
    status: NodeStatus
    reasons: tuple[str, ...] = ()
    failure: Failure | None = None
    verdict: Verdict | None = None


class Suspected(Frozen):
    """A node's code was checked and something was found; `suspect` findings keep its numbers out."""

    type: Literal["suspected"] = "suspected"
    node: str
    findings: tuple[Finding, ...]


class Probed(Frozen):
    """A winner was run again, after the search, with something changed that must move its numbers."""

    type: Literal["probed"] = "probed"
    node: str
    probe: Literal["labels", "seed"] = Field(description="labels: training labels permuted; seed: another seed")
    seconds: float = 0.0
    measurements: tuple[Measurement, ...] = ()
    outcome: Literal["moved", "still", "unclear"]
    why: str


class Unsealed(Frozen):
    """The sealed test predictions of a frozen node were scored: once, after the last stage."""

    type: Literal["unsealed"] = "unsealed"
    node: str
    measurements: tuple[Measurement, ...]
    failure: Failure | None = Field(default=None, description="why a frozen scorer gave no values")


class Resampled(Frozen):
    """The test examples were resampled, once, for every difference that the paper may print."""

    type: Literal["resampled"] = "resampled"
    found: tuple[OverExamples, ...]


NodeEvent = Proposed | Stepped | Executed | Plotted | Reviewed | Judged | Suspected | Probed | Unsealed | Resampled
"""Any of these."""
