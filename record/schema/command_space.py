"""User-defined study space of a repository's command: hyperparameters, arms and levels with their command-line
words."""

from __future__ import annotations

from typing import TypeVar

from pydantic import Field

from labwright.record.schema.data_plan import Arm, DataPlan, Level
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.tuning import Hyperparameter

SpaceItem = TypeVar("SpaceItem", Hyperparameter, Arm, Level)


class CommandSpace(FrozenModel):
    """Items that every plan of the study must contain unchanged."""

    hyperparameters: tuple[Hyperparameter, ...] = Field(
        default=(), description="tuned hyperparameters with their words"
    )
    arms: tuple[Arm, ...] = Field(default=(), description="arms with their words")
    levels: tuple[Level, ...] = Field(default=(), description="levels with their words")
    factor: str = Field(default="", description="the quantity that the levels vary")

    def __bool__(self) -> bool:
        return bool(self.hyperparameters or self.arms or self.levels)


_COMPARED_FIELDS = {
    "hyperparameter": ("word", "kind", "low", "high", "options", "default", "arms", "given", "among"),
    "arm": ("role", "words"),
    "level": ("value", "words"),
}
"""Fields that determine what is run, for comparing a plan with the space."""


def apply_space(plan: DataPlan, space: CommandSpace) -> tuple[DataPlan, tuple[str, ...]]:
    """Add missing items of a space to a plan, and return the contradictions between them, one sentence each."""
    faults: list[str] = []

    def merged(noun: str, ours: tuple[SpaceItem, ...], given: tuple[SpaceItem, ...]) -> tuple[SpaceItem, ...]:
        known = {one.name: one for one in ours}
        for one in given:
            other = known.setdefault(one.name, one)
            lacking = {
                field: getattr(one, field)
                for field in _COMPARED_FIELDS[noun]
                if getattr(other, field) in ("", (), None)
            }
            known[one.name] = other.model_copy(update=lacking)
            faults.extend(
                f"{noun} {one.name!r} has {field} {getattr(other, field)!r} in the plan but "
                f"{getattr(one, field)!r} in the space: use the same value, or define it in only one of them"
                for field in _COMPARED_FIELDS[noun]
                if field not in lacking and getattr(other, field) != getattr(one, field)
            )
        return tuple(known.values())

    if space.factor and plan.factor not in ("", space.factor):
        faults.append(
            f"the plan's levels vary {plan.factor!r}, but those of the space vary {space.factor!r}: a study "
            "has one factor"
        )
    made = plan.model_copy(
        update={
            "space": merged("hyperparameter", plan.space, space.hyperparameters),
            "arms": merged("arm", plan.arms, space.arms),
            "levels": merged("level", plan.levels, space.levels),
            "factor": plan.factor or space.factor,
        }
    )
    return made, tuple(faults)
