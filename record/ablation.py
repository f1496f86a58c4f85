"""An ablation as it is planned, in one typed form for both planners; and whether two of them are one and the same.

Source: AblationBench, appendix A.1 (name, ablated part, action, replacement, metrics); the reason is ours.
"""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, model_validator

from labwright.record.schema.frozen_model import FrozenModel

AblationAction = Literal["remove", "replace", "add"]

STOP_WORDS = frozenset(
    "a an and as at by for from in instead into is it its no not of off on or out the to with without ablate ablated "
    "ablation add added adding drop dropped dropping leave leaving left removal remove removed removing replace "
    "replaced replacing swap swapped take taken turn turned use used using".split()
)
"""Words that say what is done, and nothing of what it is done to."""


class Ablation(FrozenModel):
    """One change of the method that shows what a part of it carries; all else stays as it is."""

    name: str = Field(
        pattern=r"^[A-Za-z][A-Za-z0-9_-]*$",
        max_length=60,
        description="its arm: `without-<part>`, or a short identifier that names what takes its place",
    )
    part: str = Field(min_length=1, description="the part of the method that is changed, in a few words")
    action: AblationAction
    replacement: str = Field(default="", description="what takes its place, or what is added; empty for remove")
    metrics: tuple[str, ...] = Field(min_length=1, description="metrics of the data plan in which it would show")
    why: str = Field(min_length=1, description="which claim or risk it tests, in one sentence")

    @model_validator(mode="after")
    def _check_replacement(self) -> Ablation:
        if self.action != "remove" and not self.replacement.strip():
            raise ValueError(
                f"ablation {self.name!r}: action {self.action!r} needs a replacement: say what "
                f"{'takes its place' if self.action == 'replace' else 'is added'}"
            )
        return self

    @property
    def item_text(self) -> str:
        """The ablation in one line: what a node of the last stage takes up, and by which it is found again."""
        change = {
            "remove": f"take out {self.part}",
            "replace": f"replace {self.part} by {self.replacement}",
            "add": f"add {self.replacement} to {self.part}",
        }[self.action]
        return " ".join(f"{self.name}: {change}. {self.why}".split())


class MissingAblation(FrozenModel):
    """An ablation that a reviewer of the draft would ask for, and why it is not run if it is not."""

    ablation: Ablation
    refused: str = ""


def is_same_ablation(first: Ablation, second: Ablation) -> bool:
    """Whether two ablations make the same change, whatever words they use for the doing."""
    if _is_same_thing(first.name, second.name):
        return True
    return (
        first.action == second.action
        and _is_same_thing(first.part, second.part)
        and (first.action == "remove" or _is_same_thing(first.replacement, second.replacement))
    )


def _is_same_thing(one: str, other: str) -> bool:
    """Whether two texts name the same thing: the same words in any order, or the same letters in one."""
    found: list[list[str]] = []
    for text in (one, other):
        words = re.findall(r"[a-z0-9]+", text.lower())
        stems = [
            word[:-1] if len(word) > 2 and word.endswith("s") else word for word in words if word not in STOP_WORDS
        ]
        found.append(stems or words)
    return sorted(found[0]) == sorted(found[1]) or "".join(found[0]) == "".join(found[1])
