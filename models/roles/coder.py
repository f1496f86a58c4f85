"""An author of code: it works with tools and hands in a typed result (`models.author`)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, Field, ValidationError

from labwright.models.conversation import ToolCall
from labwright.models.roles.role import EnvironmentField, Role
from labwright.record.events.run_events import AUTHOR_ROLE, HAND_IN
from labwright.record.schema.frozen_model import FrozenModel, describe_validation_error


class HandIn(FrozenModel):
    """A result of an author."""

    reasons: str = Field(
        min_length=1, max_length=2000, description="what you did and why, for the reader of the record"
    )


class CoderFact(FrozenModel):
    """Text that the program shows under a title."""

    title: str
    text: str


AuthorTask = Literal["prepare", "parts", "experiment", "arms", "conclusion", "program"]


class CoderInputs(FrozenModel):
    """A task of an author; each task is a subclass with the type of its result."""

    result: ClassVar[type[HandIn]] = HandIn
    task: AuthorTask
    frozen: tuple[str, ...] = Field(default=(), description="patterns of files that may not change")
    known: tuple[CoderFact, ...] = Field(default=(), description="what the program knows already")
    surroundings: Annotated[str, EnvironmentField("")] = Field(default="", description="the machine and the limits")
    steps: int = Field(default=40, description="how many tools may be called")


def _check_step(inputs: CoderInputs, answer: BaseModel) -> None:
    """Refuse arguments of `hand_in` that do not fit, so that the model is asked again. Raises `ValueError`."""
    if isinstance(answer, ToolCall) and answer.tool == HAND_IN:
        try:
            inputs.result.model_validate(answer.arguments)
        except ValidationError as error:
            raise ValueError(describe_validation_error(error)) from None


CODER = Role(
    AUTHOR_ROLE, CoderInputs, ToolCall, temperature=0.2, max_tokens=16_384, prompt_tokens=60_000, check=_check_step
)
