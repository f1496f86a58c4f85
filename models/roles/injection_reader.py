"""Role `influence`: find passages of a paper, or of its files, that address its judge instead of its readers.

The answer is only a list of numbers, so a passage cannot influence anything here, whatever it asks for.
"""

from __future__ import annotations

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from labwright.models.roles.judge import ExhibitKind
from labwright.models.roles.role import Role
from labwright.record.schema.frozen_model import FrozenModel


class NumberedPassage(FrozenModel):
    """A sentence, or some lines, of the text."""

    number: int = Field(ge=1)
    text: str
    source: ExhibitKind | None = Field(default=None, description="kind of file; None: the paper")


class InfluenceInputs(FrozenModel):
    about: str = Field(default="", description="headings of the paper")
    passages: tuple[NumberedPassage, ...] = Field(min_length=1, description="in order, grouped by text")


class Influence(FrozenModel):
    """Passages that address whoever judges the paper or try to influence the judgement; empty if there are none."""

    passages: tuple[int, ...] = Field(default=(), description="their numbers")
    unread: SkipJsonSchema[bool] = Field(default=False, description="set by the offline model, which reads nothing")


def _check_passage_numbers(inputs: InfluenceInputs, found: Influence) -> None:
    known = {one.number for one in inputs.passages}
    if beyond := sorted(set(found.passages) - known):
        raise ValueError(
            f"passages: there is no passage {beyond[0]}; they are numbered from {min(known)} to {max(known)}"
        )


MAX_CALLS = 6
"""Maximum number of passages of a run's own paper, which has no other files: enough for its longest excerpt
(`review.judge.injection_screening`).
"""

INFLUENCE = Role(
    "influence",
    InfluenceInputs,
    Influence,
    temperature=0.0,
    max_tokens=2048,
    prompt_tokens=16_000,
    typical_tokens=(6500, 30),
    check=_check_passage_numbers,
)
