"""How every arm gets to its best: its hyperparameters, what it may spend, what is tried; and published anchors."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal, cast

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from labwright.record.schema.frozen_model import FrozenModel, Scalar

HyperparameterSetting = dict[str, Scalar]
"""Hyperparameter -> value, of one arm."""


class Hyperparameter(FrozenModel):
    """One dimension of the arms' spaces. Arms that have it share it: one range for all of them."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="as the code reads it: cell.setting['learning_rate']")
    kind: Literal["log", "linear", "integer", "choice"] = Field(
        description="log: a positive number on a log scale; linear: a number; integer; choice: one of `options`"
    )
    low: float | None = Field(default=None, description="of the range, included; null for a choice")
    high: float | None = Field(default=None, description="of the range, included; null for a choice")
    closed: bool = Field(
        default=False,
        description="whether the range ends where values end (a share, a dropout rate): it is never widened then",
    )
    options: tuple[Scalar, ...] = Field(default=(), description="of a choice alone")
    default: Scalar = Field(description="in range; the setting that every arm starts from")
    source: str = Field(min_length=1, description="where the default comes from: a paper, a library, common practice")
    arms: tuple[str, ...] = Field(default=(), description="that have it; empty: every baseline and method")
    given: str = Field(default="", description="the choice that it hangs on; empty: it always counts")
    among: tuple[Scalar, ...] = Field(default=(), description="the options of that choice for which it counts")
    word: SkipJsonSchema[str] = ""
    """Of a study of a repository alone: how its command is given it, such as '--lr {value}'; empty: NAME=VALUE."""

    @model_validator(mode="before")
    @classmethod
    def _parse_number(cls, value: Any) -> Any:
        """YAML reads 1e-3 as text."""
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
    """How arms are tuned, fixed before any code is written. Trials are compared on validation data, always."""

    currency: Literal["trials", "seconds"] = Field(
        default="trials", description="what arms get equally much of; seconds where arms differ much in cost"
    )
    budget: float = Field(default=24, gt=0, description="of the currency, for each arm; the defaults are a trial, too")
    metric: str = Field(default="", description="one of the plan's that trials are compared by; empty: the primary")
    sampler: Literal["random", "sobol", "tpe", "gp"] = Field(
        default="gp",
        description="how settings are found: TPE and a Gaussian process learn of those before (with "
        "rungs always TPE, which learns of trials that were cut short, too)",
    )
    rungs: tuple[float, ...] = Field(
        default=(), description="shares below 1, rising, at which trials are measured first; the better third goes on"
    )
    rungs_by: Literal["steps", "data"] = Field(
        default="steps", description="whether a share is of the training steps or of the training examples"
    )
    datasets: tuple[str, ...] = Field(default=(), description="that trials are measured on; empty: the main one")
    levels: tuple[str, ...] = Field(default=(), description="that trials are measured at; empty: all")

    def __str__(self) -> str:
        rungs = f", first at {', '.join(map('{:g}'.format, self.rungs))} of the {self.rungs_by}" if self.rungs else ""
        return (
            f"{self.budget:g} {self.currency} an arm, by {self.metric or 'the primary metric'} on "
            f"{', '.join(self.datasets) or 'the main dataset'}"
            f"{' at ' + ', '.join(self.levels) if self.levels else ''}{rungs}"
        )


class Trial(FrozenModel):
    """A setting that is tried for an arm. Numbers count through a run, from 1; 0 is the arm's defaults."""

    arm: str
    number: int = Field(ge=0)
    setting: HyperparameterSetting
    share: float = Field(default=1.0, gt=0, le=1, description="of the training steps or examples; 1: the whole")


class PublishedAnchor(FrozenModel):
    """A published value of a baseline, which ours must come near to."""

    arm: str
    level: str = ""
    dataset: str
    metric: str
    value: float
    tolerance: float = Field(gt=0, description="in the metric's unit")
    source: str = Field(min_length=1, description="where it was published")

    @property
    def condition(self) -> str:
        """As measurements name what it is a value of: `arm`, or `arm@level`."""
        return f"{self.arm}@{self.level}" if self.level else self.arm

    def __str__(self) -> str:
        return (
            f"{self.condition} on {self.dataset}: {self.metric} {self.value:g} within {self.tolerance:g} "
            f"({self.source})"
        )
