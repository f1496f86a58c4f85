"""What a model is asked for: `Role`, one object for each, beside its prompt `models/roles/<name>.md`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

In = TypeVar("In", bound=BaseModel)
Out = TypeVar("Out", bound=BaseModel)
TYPICAL_IMAGE_TOKENS = 1200
"""Tokens of one picture, roughly, at the providers that say."""


@dataclass(frozen=True)
class EnvironmentField:
    """Marks a field of a role's inputs that tells of the machine or of limits, not of the research.

        node_seconds: Annotated[float, Circumstance(0.0)]

    A question is recognised by its prompt with `neutral` in these fields, so that a run which is resumed on another
    machine, or with other limits, keeps its answers. New questions carry the present values.
    """

    neutral: Any


@dataclass(frozen=True)
class Role(Generic[In, Out]):
    """A question that models answer: typed inputs, typed output, and the limits of one call.

    The prompt may use the fields of the inputs and nothing else. Outputs are validated before they are committed.
    Temperatures and limits of code, feedback and summary are those of AI-Scientist-v2 (Table 2); the others are ours.
    """

    name: str
    """As it stands in records, settings and the name of the prompt file."""
    inputs: type[In]
    output: type[Out]
    kind: Literal["text", "vision"] = "text"
    """vision: it is asked about pictures, and is nobody's where no model looks at them."""
    temperature: float = 0.5
    max_tokens: int = 8192
    """Tokens that an answer may have."""
    prompt_tokens: int = 0
    """Tokens of a prompt with its pictures that a budget keeps free: two to four times those seen; 0: not in a run."""
    typical_tokens: tuple[int, int] = (0, 0)
    """Tokens of a usual prompt and answer, for forecasts: of one run by a language model, and of rendered prompts."""
    choose_output: Callable[[In], type[Out]] | None = None
    """The output type for some inputs, where it depends on them."""
    check: Callable[[In, Out], None] | None = None
    """Raises `ValueError` where an answer is none to these inputs; a model is shown why, and asked again as if it had
    missed the schema."""

    def get_output_type(self, inputs: In) -> type[Out]:
        """What an answer to these inputs must be."""
        return self.output if self.choose_output is None else self.choose_output(inputs)

    def check_answer(self, inputs: In, answer: BaseModel) -> None:
        """Raises `ValueError`, saying why, where an answer of the role's type is none to these inputs."""
        if self.check is not None and isinstance(answer, self.output):
            self.check(inputs, answer)

    def __str__(self) -> str:
        return self.name


AnyRole = Role[Any, Any]


def neutralise_environment(inputs: In) -> In:
    """The inputs with neutral values in every field that is marked as a `Circumstance`."""
    marked = {
        name: mark.neutral
        for name, field in type(inputs).model_fields.items()
        for mark in field.metadata
        if isinstance(mark, EnvironmentField)
    }
    return inputs.model_copy(update=marked)
