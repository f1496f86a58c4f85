"""What a person says can be set of a repository's command: hyperparameters, and arms and levels by their words."""

from __future__ import annotations

from typing import TypeVar

from pydantic import Field

from labwright.record.schema.data_plan import Arm, DataPlan, Level
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.tuning import Hyperparameter

SpaceItem = TypeVar("One", Hyperparameter, Arm, Level)


class CommandSpace(FrozenModel):
    """What every plan of the study has as it stands here, whoever makes it."""

    hyperparameters: tuple[Hyperparameter, ...] = Field(default=(), description="what is tuned, each with its word")
    arms: tuple[Arm, ...] = Field(default=(), description="each with its words")
    levels: tuple[Level, ...] = Field(default=(), description="each with its words")
    factor: str = Field(default="", description="what the levels are levels of")

    def __bool__(self) -> bool:
        return bool(self.hyperparameters or self.arms or self.levels)


_COMPARED_FIELDS = {
    "hyperparameter": ("word", "kind", "low", "high", "options", "default", "arms", "given", "among"),
    "arm": ("role", "words"),
    "level": ("value", "words"),
}
"""Of what stands in a plan as well, the fields that say what is run."""


def apply_space(plan: DataPlan, space: CommandSpace) -> tuple[DataPlan, tuple[str, ...]]:
    """A plan with what it lacks of a space, and where it says something else, one sentence each."""
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
                f"{noun} {one.name!r} has {field} {getattr(other, field)!r} in the plan and "
                f"{getattr(one, field)!r} in the space: make them agree, or name it in one alone"
                for field in _COMPARED_FIELDS[noun]
                if field not in lacking and getattr(other, field) != getattr(one, field)
            )
        return tuple(known.values())

    if space.factor and plan.factor not in ("", space.factor):
        faults.append(
            f"the plan's levels are of {plan.factor!r}, and those of the space of {space.factor!r}: a study "
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
