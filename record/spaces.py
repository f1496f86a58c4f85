"""The spaces of arms: how wide they are by now, what lies at their edges, and every setting of a small one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log

from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.decisions import Extend
from labwright.record.nouns.tuning import Hyperparameter, Setting

EDGE = 0.1
"""A value lies at the edge of a range where it is nearer to its end than this share of the range."""
MANY = 1000
"""Settings beyond which a space is as good as endless."""


def widened(plan: DataPlan, arm: str, extended: Mapping[str, Extend]) -> tuple[Hyperparameter, ...]:
    """The dimensions of an arm, those that were widened as wide as they are by now."""
    return tuple(
        one
        if one.name not in extended
        else one.model_copy(update={"low": extended[one.name].low, "high": extended[one.name].high})
        for one in plan.space_of(arm)
    )


def edges(setting: Setting, space: Iterable[Hyperparameter]) -> tuple[str, ...]:
    """The dimensions of a space at whose edge a setting lies."""
    return tuple(
        one.name
        for one in space
        if one.kind != "choice" and one.name in setting and (not EDGE <= position(one, setting[one.name]) <= 1 - EDGE)
    )


def position(one: Hyperparameter, value: object) -> float:
    """Where a value lies in a range, from 0 to 1, on the scale of its dimension."""
    assert one.low is not None and one.high is not None and isinstance(value, int | float)
    low, high, at = (log(x) if one.kind == "log" else x for x in (one.low, one.high, value))
    return (at - low) / (high - low) if high > low else 0.5


def settings_in(space: Iterable[Hyperparameter]) -> list[Setting] | None:
    """Every setting of a space; None where they are endless: a range of numbers, or more than `MANY`."""
    settings: list[Setting] = [{}]
    for one in space:
        if one.kind in ("log", "linear"):
            return None
        values = one.options if one.kind == "choice" else range(int(one.low or 0), int(one.high or 0) + 1)
        if len(values) * len(settings) > MANY:
            return None
        settings = [
            made
            for known in settings
            for made in (
                [known]
                if one.given and known.get(one.given) not in one.among
                else [known | {one.name: value} for value in values]
            )
        ]
    return settings
