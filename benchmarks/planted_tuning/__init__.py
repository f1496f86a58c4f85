"""Planted studies of known truth: the schema of a study file, and the simulated learners that it defines."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Literal

import yaml
from pydantic import Field

from benchmarks.sets import read_set
from labwright.record.schema import FrozenModel, Scalar
from labwright.record.schema.data_plan import (
    Arm,
    DataPlan,
    DatasetUse,
    Hyperparameter,
    HyperparameterSetting,
    Level,
    MetricSpec,
    TuningPlan,
)

HOME = Path(__file__).parent
SWEEPS, POINTS = 4, 200
"""Passes of the brute-force search over every dimension, and grid points per dimension."""


class Term(FrozenModel):
    """Loss from one hyperparameter, in units of the metric; 0 at its best value.

    `bowl`: `worth` for each squared decade between the value and `best` (a rate). `saturating`: `worth` times
    exp(-value / `scale`) (epochs, width). `option`: `worth` for every option except `best`. `drift`: a bowl whose
    best value is multiplied by (value of `other` / `scale`) to the power `slope` (a rate that depends on the batch
    size).
    """

    of: str = Field(description="the hyperparameter")
    kind: Literal["bowl", "saturating", "option", "drift"]
    worth: float = Field(gt=0)
    best: Scalar = ""
    scale: float = 1.0
    other: str = ""
    slope: float = 0.0
    diverges_above: float | None = Field(default=None, description="values above are not finite")

    def lost(self, setting: HyperparameterSetting) -> float:
        """Return the loss; infinite if training diverges."""
        value = setting.get(self.of)
        if value is None:  # a dimension that does not apply to this setting
            return 0.0
        if self.kind == "option":
            return 0.0 if value == self.best else self.worth
        number = float(value)
        if self.diverges_above is not None and number > self.diverges_above:
            return math.inf
        if self.kind == "saturating":
            return self.worth * math.exp(-number / self.scale)
        best = float(self.best) * ((float(setting[self.other]) / self.scale) ** self.slope if self.other else 1.0)
        return self.worth * math.log10(number / best) ** 2


class Learner(FrozenModel):
    """One arm: its best value, minus the losses of its terms."""

    top: float = Field(description="the metric at the best possible setting, even outside the search space")
    terms: tuple[Term, ...]
    sd: float = Field(gt=0, description="between seeds")

    def expected(self, setting: HyperparameterSetting) -> float:
        """Return the mean over seeds; minus infinity if training diverges. Higher is better."""
        return self.top - sum(term.lost(setting) for term in self.terms)


class PlantedStudy(FrozenModel):
    """A study of one baseline and one method; higher values of the metric are better."""

    name: str
    label: Literal["undertuned", "gain"] = Field(
        description="undertuned: the method only wins while the baseline uses its defaults"
    )
    flaw: str = Field(default="", description="of the defaults: rate, epochs or scaling")
    space: tuple[Hyperparameter, ...]
    baseline: Learner
    method: Learner
    shared_sd: float = Field(default=0.0, ge=0, description="spread of the seed effect that both arms share")
    levels: tuple[float, ...] = Field(
        default=(), description="added to both arms at each level: one comparison per level, of which one suffices"
    )

    @property
    def plan(self) -> DataPlan:
        """Return its data plan."""
        return DataPlan(
            task="simulated",
            datasets=(DatasetUse(name="digits"),),
            expected_seconds=1,
            space=self.space,
            metrics=(MetricSpec(name="accuracy", higher_is_better=True, worst=0.0),),
            tuning=TuningPlan(),
            arms=(Arm(name="baseline", role="baseline"), Arm(name="method", role="method")),
            factor="difficulty" if self.levels else "",
            levels=tuple(Level(name=str(n)) for n in range(1, len(self.levels) + 1)),
        )

    def learner(self, arm: str) -> Learner:
        """Return an arm of its plan."""
        return self.method if arm == "method" else self.baseline

    def value(self, arm: str, setting: HyperparameterSetting, *, seed: int, split: str, level: str = "") -> float:
        """Return the score of an arm with a setting and a seed at a level; not finite if training diverges.

        A seed has the same effect on both arms up to `shared_sd`; the rest is specific to each setting.
        """
        learner = self.learner(arm)
        where = f"{seed}/{split}" + (f"/{level}" if level else "")
        own = Random(_number(f"{self.name}/{arm}/{sorted(setting.items())}/{where}")).gauss(0, learner.sd)
        both = Random(_number(f"{self.name}/{where}")).gauss(0, self.shared_sd)
        return learner.expected(setting) + own + both + (self.levels[int(level) - 1] if level else 0.0)

    def best(self, arm: str, draws: int = 4000) -> float:
        """Return the best expected value within an arm's space, by brute force.

        Defaults and random draws are tried; then, for the best of each combination of choices, each dimension in
        turn over its whole range.
        """
        space, rng = self.plan.find_space(arm), Random(_number(self.name))
        expected, tops = self.learner(arm).expected, dict[tuple[Scalar, ...], HyperparameterSetting]()
        for setting in (self.plan.find_defaults(arm), *(_drawn(space, rng) for _ in range(draws))):
            choices = tuple(setting[one.name] for one in space if one.kind == "choice" and one.name in setting)
            tops[choices] = max(tops.get(choices, setting), setting, key=expected)
        return max(expected(_climbed(top, space, expected)) for top in tops.values())


def _climbed(
    setting: HyperparameterSetting,
    space: tuple[Hyperparameter, ...],
    expected: Callable[[HyperparameterSetting], float],
) -> HyperparameterSetting:
    for one in space * SWEEPS:
        if one.kind != "choice" and one.name in setting:
            setting = max((setting, *(setting | {one.name: value} for value in _grid(one))), key=expected)
    return setting


def _grid(one: Hyperparameter) -> list[float]:
    low, high = float(one.low or 0), float(one.high or 0)
    shares = [n / POINTS for n in range(POINTS + 1)]
    if one.kind == "log":
        return [low * (high / low) ** share for share in shares]
    values = [low + share * (high - low) for share in shares]
    return [float(n) for n in sorted({round(value) for value in values})] if one.kind == "integer" else values


def _drawn(space: tuple[Hyperparameter, ...], rng: Random) -> HyperparameterSetting:
    found: HyperparameterSetting = {}
    for one in space:
        if one.given and found.get(one.given) not in one.among:
            continue
        if one.kind == "choice":
            found[one.name] = rng.choice(one.options)
            continue
        low, high = float(one.low or 0), float(one.high or 0)
        found[one.name] = (
            rng.randint(int(low), int(high))
            if one.kind == "integer"
            else rng.uniform(low, high)
            if one.kind == "linear"
            else math.exp(rng.uniform(math.log(low), math.log(high)))
        )
    return found


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def read(path: Path) -> list[PlantedStudy]:
    """Return the studies of a set, or of a folder of YAML files, by name. Raises `OSError`, `ValueError`."""
    texts = {one.name: one.read_text() for one in sorted(path.glob("*.yaml"))} if path.is_dir() else read_set(path)
    return [
        PlantedStudy.model_validate({"name": name.removesuffix(".yaml")} | yaml.load(text, yaml.CSafeLoader))
        for name, text in texts.items()
    ]
