"""Tuning of arms: hyperparameters, budget and trials; and published anchors."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal, cast

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from labwright.record.schema.frozen_model import FrozenModel, Scalar

HyperparameterSetting = dict[str, Scalar]
"""Hyperparameter -> value, for one arm."""


class Hyperparameter(FrozenModel):
    """One dimension of the search spaces. All arms that have it share one range."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="name in the code: cell.setting['learning_rate']")
    kind: Literal["log", "linear", "integer", "choice"] = Field(
        description="log: a positive number on a log scale; linear: a number; integer; choice: one of `options`"
    )
    low: float | None = Field(default=None, description="lower end of the range, inclusive; null for a choice")
    high: float | None = Field(default=None, description="upper end of the range, inclusive; null for a choice")
    closed: bool = Field(
        default=False,
        description="whether values beyond the range are impossible (a share, a dropout rate), so it is never widened",
    )
    options: tuple[Scalar, ...] = Field(default=(), description="only for a choice")
    default: Scalar = Field(description="in range; the setting that every arm starts from")
    source: str = Field(min_length=1, description="where the default comes from: a paper, a library, common practice")
    arms: tuple[str, ...] = Field(default=(), description="arms that have it; empty: every baseline and method")
    given: str = Field(default="", description="name of the choice that it depends on; empty: always active")
    among: tuple[Scalar, ...] = Field(default=(), description="options of that choice that make it active")
    word: SkipJsonSchema[str] = ""
    """Only for a repository: the word that sets it in the command, such as '--lr {value}'; empty: NAME=VALUE."""

    @model_validator(mode="before")
    @classmethod
    def _parse_number(cls, value: Any) -> Any:
        """Convert numbers such as 1e-3, which YAML reads as strings."""
        given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if given.get("kind") in ("log", "linear", "integer") and isinstance(given.get("default"), str):
            with suppress(ValueError):
                return given | {"default": float(given["default"])}
        return cast("Any", value)

    def __str__(self) -> str:
        of = ", ".join(map(str, self.options)) or f"{self.low:g} to {self.high:g}, {self.kind}"
        arms = f", of {', '.join(self.arms)}" if self.arms else ""
        given = f", where {self.given} is {' or '.join(map(str, self.among))}" if self.given else ""
        return f"{self.name} {self.default} ({of}{arms}{given})"


class TuningPlan(FrozenModel):
    """Rules for tuning arms, fixed before any code is written. Trials are always compared on validation data."""

    currency: Literal["trials", "seconds"] = Field(
        default="trials", description="the resource that is equal for all arms; seconds if their costs differ much"
    )
    budget: float = Field(
        default=24, gt=0, description="amount of the currency for each arm; the defaults count as a trial"
    )
    metric: str = Field(
        default="", description="metric of the plan that trials are compared by; empty: the primary metric"
    )
    sampler: Literal["random", "sobol", "tpe", "gp"] = Field(
        default="gp",
        description="how settings are chosen: TPE and a Gaussian process learn from earlier trials (with rungs always "
        "TPE, which also learns from trials that were stopped early)",
    )
    rungs: tuple[float, ...] = Field(
        default=(), description="increasing shares below 1 at which trials are first measured; the best third continues"
    )
    rungs_by: Literal["steps", "data"] = Field(
        default="steps", description="whether shares refer to training steps or training examples"
    )
    datasets: tuple[str, ...] = Field(
        default=(), description="datasets that trials are measured on; empty: the main dataset"
    )
    levels: tuple[str, ...] = Field(default=(), description="levels that trials are measured at; empty: all levels")

    def __str__(self) -> str:
        rungs = f", first at {', '.join(map('{:g}'.format, self.rungs))} of the {self.rungs_by}" if self.rungs else ""
        return (
            f"{self.budget:g} {self.currency} per arm, by {self.metric or 'the primary metric'} on "
            f"{', '.join(self.datasets) or 'the main dataset'}"
            f"{' at ' + ', '.join(self.levels) if self.levels else ''}{rungs}"
        )


class Trial(FrozenModel):
    """A setting that is tried for an arm. Numbers are unique in a run, from 1; 0 is the arm's defaults."""

    arm: str
    number: int = Field(ge=0)
    setting: HyperparameterSetting
    share: float = Field(default=1.0, gt=0, le=1, description="share of the training steps or examples; 1: all")


class PublishedAnchor(FrozenModel):
    """A published value of a baseline, which the measured value should match."""

    arm: str
    level: str = ""
    dataset: str
    metric: str
    value: float
    tolerance: float = Field(gt=0, description="in the metric's unit")
    source: str = Field(min_length=1, description="where it was published")

    @property
    def condition(self) -> str:
        """The condition as named in measurements: `arm` or `arm@level`."""
        return f"{self.arm}@{self.level}" if self.level else self.arm

    def __str__(self) -> str:
        return (
            f"{self.condition} on {self.dataset}: {self.metric} {self.value:g} within {self.tolerance:g} "
            f"({self.source})"
        )
