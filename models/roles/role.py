"""`Role`: a typed question to a model, with its prompt in `<name>.md`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

In = TypeVar("In", bound=BaseModel)
Out = TypeVar("Out", bound=BaseModel)
PROMPTS_FOLDER = Path(__file__).parent
TYPICAL_IMAGE_TOKENS = 1200
"""Approximate number of tokens of one image, at providers that publish it."""


@dataclass(frozen=True)
class EnvironmentField:
    """Marks a field of a role's inputs that describes the machine or limits, not the research.

        node_seconds: Annotated[float, EnvironmentField(0.0)]

    A question is identified by its prompt with the neutral value in these fields, so that a run resumed on another
    machine, or with other limits, keeps its answers. New questions carry the current values.
    """

    neutral: Any


@dataclass(frozen=True)
class Role(Generic[In, Out]):
    """A question that models answer: typed inputs, typed output, and the limits of one call.

    The prompt may use only the fields of the inputs. Outputs are validated before they are committed.
    Temperatures and limits of code, feedback and summary are from AI-Scientist-v2 (Table 2).
    """

    name: str
    """Name in records and settings, and of the prompt file."""
    inputs: type[In]
    output: type[Out]
    folder: Path = PROMPTS_FOLDER
    """Folder of the prompt file; the prompt may include partials of `PROMPTS_FOLDER`."""
    kind: Literal["text", "vision"] = "text"
    """vision: the question is about images, and is not asked if no model accepts them."""
    temperature: float = 0.5
    max_tokens: int = 8192
    """Maximum number of tokens of an answer."""
    prompt_tokens: int = 0
    """Tokens of a prompt with its images that a budget reserves: two to four times the observed number; 0: the role
    is not used in a run.
    """
    typical_tokens: tuple[int, int] = (0, 0)
    """Number of tokens of a typical prompt and answer, for forecasts; taken from rendered prompts and one run with
    a language model.
    """
    choose_output: Callable[[In], type[Out]] | None = None
    """Returns the output type for given inputs, if it depends on them."""
    check: Callable[[In, Out], None] | None = None
    """Raises `ValueError` if an answer does not fit the inputs; the model sees the message and is asked again, as if it
    had violated the schema."""

    @property
    def likely_tokens(self) -> tuple[int, int]:
        """Tokens of a likely prompt and answer; if not measured, derived from the amounts that a budget reserves."""
        return self.typical_tokens if any(self.typical_tokens) else (self.prompt_tokens // 3, self.max_tokens // 8)

    def get_output_type(self, inputs: In) -> type[Out]:
        """Return the type that an answer to these inputs must have."""
        return self.output if self.choose_output is None else self.choose_output(inputs)

    def check_answer(self, inputs: In, answer: BaseModel) -> None:
        """Raise `ValueError` with the reason if an answer of the role's type does not fit these inputs."""
        if self.check is not None and isinstance(answer, self.get_output_type(inputs)):
            self.check(inputs, answer)

    def __str__(self) -> str:
        return self.name


AnyRole = Role[Any, Any]


def neutralise_environment(inputs: In) -> In:
    """Return the inputs with neutral values in every field marked as an `EnvironmentField`."""
    marked = {
        name: mark.neutral
        for name, field in inputs.__class__.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, EnvironmentField)
    }
    return inputs.model_copy(update=marked)
