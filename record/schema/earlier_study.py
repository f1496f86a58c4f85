"""A finished study as a record of it for later studies: what it decided, what failed, and which code and settings it
used on which data, each with the evidence in the log of that run."""

from __future__ import annotations

from pydantic import Field

from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import HyperparameterSetting
from labwright.record.schema.hypotheses import HypothesisVerdict


class EarlierEffect(FrozenModel):
    """The measurement behind a verdict. All values are in the unit of the estimand."""

    estimand: str
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: int = 0


class EarlierVerdict(FrozenModel):
    """The verdict on a hypothesis. `confirmed`: on test data and fresh seeds, after a lock."""

    key: str = Field(description="id of the hypothesis in the plan of that run")
    statement: str
    verdict: HypothesisVerdict
    confirmed: bool
    effects: tuple[EarlierEffect, ...] = ()


class EarlierFailure(FrozenModel):
    """A failure of experiments, and how many had it."""

    kind: str
    message: str
    nodes: tuple[str, ...]


class EarlierCode(FrozenModel):
    """The code of the experiment that the study reports."""

    node: str
    title: str
    plan: str
    varies: str = ""
    sha256: str = Field(description="hash of its files")
    settings: dict[str, HyperparameterSetting] = Field(default={}, description="arm -> its selected setting")
    files: dict[str, str] = Field(default={}, description="path -> text; empty if they are too long to keep")


class EarlierStudy(FrozenModel):
    """A record of a finished study. `digest` is the hash of the events of its log up to the end of the study."""

    id: str = Field(pattern=r"^[0-9a-f]{12}$")
    run: str = Field(description="name of the run's folder")
    digest: str
    finished_at: float = Field(description="in seconds since the epoch")
    version: str = Field(default="", description="version of the program")
    name: str = Field(description="name of the idea")
    title: str
    short_hypothesis: str = ""
    idea_sha256: str = Field(description="hash of title and hypothesis, without case, spacing and punctuation")
    failed: str = Field(default="", description="why the study has no paper; empty if it has one")
    datasets: tuple[str, ...] = ()
    metrics: tuple[str, ...] = Field(default=(), description="names and titles of its metrics")
    verdicts: tuple[EarlierVerdict, ...] = ()
    failures: tuple[EarlierFailure, ...] = ()
    code: EarlierCode | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the study decided a hypothesis, or none of its experiments worked, so that its question is not asked
        again."""
        return bool(self.failed and self.code is None) or any(one.verdict != "open" for one in self.verdicts)

    @property
    def values(self) -> tuple[float, ...]:
        """Every measured value of the record."""
        return tuple(
            value
            for verdict in self.verdicts
            for one in verdict.effects
            for value in (one.mean, one.low, one.high)
            if value is not None
        )


class RecalledStudy(FrozenModel):
    """A record that prompts of a later study show, and the reason."""

    study: EarlierStudy
    why: str
