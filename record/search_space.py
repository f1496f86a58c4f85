"""Search spaces of arms: current ranges, edges, and the settings of a small space."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log

from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan, Hyperparameter, HyperparameterSetting
from labwright.record.schema.decisions import WidenDimension

EDGE_SHARE = 0.1
"""A value lies at the edge of a range if it is closer to its end than this share of the range."""
MAX_LISTED_SETTINGS = 1000
"""Number of settings above which a space counts as infinite."""


class WidenedHyperparameter(Hyperparameter):
    """A hyperparameter whose range was widened during tuning."""

    planned: str
    """The range of the plan, as text."""
    arm: str
    """The arm whose chosen setting lay at the edge of the planned range."""

    def __str__(self) -> str:
        return f"{super().__str__()}; planned {self.planned}, widened since the best of {self.arm} lay at its edge"


def build_effective_plan(state: RunState, before: int | None = None) -> DataPlan:
    """Return the plan as prompts show it: with the ranges widened by the decisions before `before` (None: all)."""
    plan = state.search.data_plan
    assert plan is not None
    earlier = (one.action for k, one in state.decisions.items() if before is None or k < before)
    widened = {one.dimension: one for one in earlier if isinstance(one, WidenDimension)}

    def widen(one: Hyperparameter) -> Hyperparameter:
        if (wider := widened.get(one.name)) is None:
            return one
        ranges = {"low": wider.low, "high": wider.high, "planned": f"{one.low:g} to {one.high:g}", "arm": wider.arm}
        return WidenedHyperparameter.model_validate(one.model_dump() | ranges)

    return plan.model_copy(update={"space": tuple(map(widen, plan.space))}) if widened else plan


def widen_space(plan: DataPlan, arm: str, extended: Mapping[str, WidenDimension]) -> tuple[Hyperparameter, ...]:
    """Return the dimensions of an arm with their current ranges."""
    ranges = {name: {"low": one.low, "high": one.high} for name, one in extended.items()}
    space = plan.find_space(arm)
    return tuple(one.model_copy(update=ranges[one.name]) if one.name in ranges else one for one in space)


def find_edges(setting: HyperparameterSetting, space: Iterable[Hyperparameter]) -> tuple[str, ...]:
    """Return the dimensions whose chosen value is at an edge of their range."""
    return tuple(
        one.name
        for one in space
        if one.kind != "choice"
        and one.name in setting
        and (not EDGE_SHARE <= compute_position(one, setting[one.name]) <= 1 - EDGE_SHARE)
    )


def compute_position(dimension: Hyperparameter, value: object) -> float:
    """Return the position of a value in a range, from 0 to 1, on the scale of its dimension."""
    assert dimension.low is not None and dimension.high is not None and isinstance(value, int | float)
    low, high, at = (log(x) if dimension.kind == "log" else x for x in (dimension.low, dimension.high, value))
    return (at - low) / (high - low) if high > low else 0.5


def list_settings(space: Iterable[Hyperparameter]) -> list[HyperparameterSetting] | None:
    """Return every setting of a space; None if it is infinite: a range of numbers, or more than
    `MAX_LISTED_SETTINGS`."""
    settings: list[HyperparameterSetting] = [{}]
    for one in space:
        if one.kind in ("log", "linear"):
            return None
        values = one.options if one.kind == "choice" else range(int(one.low or 0), int(one.high or 0) + 1)
        if len(values) * len(settings) > MAX_LISTED_SETTINGS:
            return None
        made: list[HyperparameterSetting] = []
        for known in settings:
            is_active = not one.given or known.get(one.given) in one.among
            made += [known | {one.name: value} for value in values] if is_active else [known]
        settings = made
    return settings
