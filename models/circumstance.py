"""What a prompt tells of the machine and of limits, not of the research: it may change while an answer stays good.

A field of a role's inputs is marked as such where it is declared:

    node_seconds: Annotated[float, Circumstance(0.0)]

A question is known again by its prompt with the neutral values in these fields (`models.door`), so that a run which is
resumed on another machine, or with other limits, keeps what it was answered. What is asked anew is told how it is now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

Inputs = TypeVar("Inputs", bound=BaseModel)


@dataclass(frozen=True)
class Circumstance:
    """Marks a field; `neutral` stands in it where a question is known again."""

    neutral: Any


def neutral(inputs: Inputs) -> Inputs:
    """The inputs with neutral values in all that is marked."""
    marked = {name: mark.neutral for name, field in type(inputs).model_fields.items()
              for mark in field.metadata if isinstance(mark, Circumstance)}
    return inputs.model_copy(update=marked)
