"""Parse the result that a repository's authors report, and check whether the baseline reproduces it.

Also the description of a planned ablation, and the test for duplicates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Literal

from pydantic import Field, model_validator

from labwright.record.errors import UsageError
from labwright.record.schema import FrozenModel, is_empty
from labwright.record.schema.repository import BaselineVerdict, ExpectedResult

DEFAULT_RELATIVE_TOLERANCE = 0.05
"""Relative tolerance if the user gives none: results within 5 % of the value count as reproduced."""

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_EXPECTED_PATTERN = re.compile(rf"({_NUMBER})(%?)(?:(?:±|\+/?-)({_NUMBER})(%?))?")


class ExpectedError(UsageError):
    """The expected result cannot be parsed. The user must correct it."""


class BaselineComparison(FrozenModel):
    """The baseline compared with the expected result. `spread`: standard deviation across seeds, None for one seed."""

    mean: float | None
    spread: float | None
    seeds: int
    verdict: BaselineVerdict


def parse_expected(text: str) -> ExpectedResult:
    """Parse `0.83±0.02`, `0.83±5%` (of the value) or `0.83` (tolerance 5 %); `+-` and `+/-` stand for ±.

    Raises: ExpectedError
    """
    match = _EXPECTED_PATTERN.fullmatch("".join(text.split()))
    if match is None or not math.isfinite(value := float(match[1])):
        raise ExpectedError(f"cannot read the expected result {text!r}: write 0.83, 0.83±0.02 or 0.83±5%")
    if match[2]:  # in 79.2 % ± 1 %, the tolerance may be absolute or relative
        points = match[3] or f"{100 * DEFAULT_RELATIVE_TOLERANCE:g}"
        both = f"{match[1]}±{points} for a tolerance in the metric's own unit, or {match[1]}±{points}% of the value"
        raise ExpectedError(f"{text!r} is ambiguous: write {both}")
    tolerance = float(match[3]) if match[3] else 100 * DEFAULT_RELATIVE_TOLERANCE
    tolerance *= abs(value) / 100 if match[4] or not match[3] else 1.0
    if not (0 <= tolerance < math.inf) or (not tolerance and not match[3]):
        raise ExpectedError(f"the tolerance of {text!r} is not positive: write for example {match[1]}±0.02")
    return ExpectedResult(value=value, tolerance=tolerance)


def check_baseline(values: Sequence[float | None], expected: ExpectedResult | None) -> BaselineComparison:
    """Compare the mean over seeds with the expected result; a better result does not count as reproduced either.

    Runs without a value (None) are ignored; the verdict is `failed` if no run has a value.
    """
    measured = [one for one in values if one is not None]
    if not measured:
        return BaselineComparison(mean=None, spread=None, seeds=0, verdict="failed")
    mean = fmean(measured)
    return BaselineComparison(
        mean=mean,
        spread=stdev(measured) if len(measured) > 1 else None,
        seeds=len(measured),
        verdict=_classify_mean(mean, expected),
    )


def _classify_mean(mean: float, expected: ExpectedResult | None) -> BaselineVerdict:
    if expected is None:
        return "unchecked"
    rounding = 1e-9 * max(abs(mean), abs(expected.value))
    return "reproduced" if abs(mean - expected.value) <= expected.tolerance + rounding else "differs"


# Typed description of a planned ablation, shared by both planners, and a test for duplicates. Source: AblationBench,
# appendix A.1 (name, ablated part, action, replacement, metrics); the field `why` is an addition.

AblationAction = Literal["remove", "replace", "add"]

STOP_WORDS = frozenset(
    "a an and as at by for from in instead into is it its no not of off on or out the to with without ablate ablated "
    "ablation add added adding drop dropped dropping leave leaving left removal remove removed removing replace "
    "replaced replacing swap swapped take taken turn turned use used using".split()
)
"""Words that describe the action rather than its target."""


class Ablation(FrozenModel):
    """One change to the method that shows the contribution of a part; everything else stays the same."""

    name: str = Field(
        pattern=r"^[A-Za-z][A-Za-z0-9_-]*$",
        max_length=60,
        description="its arm: `without-<part>`, or a name of the replacement",
    )
    title: str = Field(default="", exclude_if=is_empty, description="its short name for readers: 'half the weight'")
    same_as: str = Field(
        default="", exclude_if=is_empty, description="baseline of the plan that this change makes of the method"
    )
    part: str = Field(min_length=1, description="the part of the method that is changed, in a few words, not in code")
    action: AblationAction
    replacement: str = Field(default="", description="replacement of the part, or the added part; empty for remove")
    metrics: tuple[str, ...] = Field(min_length=1, description="metrics of the data plan that would show the effect")
    why: str = Field(min_length=1, description="claim or risk that it tests, in one sentence")

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
        """The ablation in one line; it is the agenda item of its node and is used to look up the ablation."""
        change = {
            "remove": f"take out {self.part}",
            "replace": f"replace {self.part} by {self.replacement}",
            "add": f"add {self.replacement} to {self.part}",
        }[self.action]
        return " ".join(f"{self.name}: {change}. {self.why}".split())

    @property
    def change_text(self) -> str:
        """The change as sentences for prompts."""
        part, replacement = (" ".join(text.split()).rstrip(".") for text in (self.part, self.replacement))
        return {
            "remove": f"take out {part}.",
            "replace": f"replace {part}. Replacement: {replacement}.",
            "add": f"add to {part}. Addition: {replacement}.",
        }[self.action]

    @property
    def summary(self) -> str:
        """The ablation as sentences for prompts: name, change and reason."""
        return f"`{self.name}`: {self.change_text} {' '.join(self.why.split()).rstrip('.')}."


class Surprise(FrozenModel):
    """The strongest surprise among the values measured so far, and the planned ablation that is its control."""

    control: str = Field(description="`name` of the planned ablation that shows what causes it")
    conditions: tuple[str, ...] = Field(
        min_length=1, max_length=4, description="`arm` or `arm@level` whose values surprise"
    )
    finding: str = Field(min_length=1, description="what was expected and what was measured, in one sentence")


class MissingAblation(FrozenModel):
    """An ablation requested by a reviewer of the draft, with the reason if it is not run."""

    ablation: Ablation
    refused: str = ""


def is_same_ablation(first: Ablation, second: Ablation) -> bool:
    """Return whether two ablations make the same change, even if worded differently."""
    if _is_same_thing(first.name, second.name):
        return True
    return (
        first.action == second.action
        and _is_same_thing(first.part, second.part)
        and (first.action == "remove" or _is_same_thing(first.replacement, second.replacement))
    )


def _is_same_thing(first: str, second: str) -> bool:
    """Return whether two strings have the same words in any order, or the same letters when joined."""
    texts_words: list[list[str]] = []
    for text in (first, second):
        words = re.findall(r"[a-z0-9]+", text.lower())
        stems = [
            word[:-1] if len(word) > 2 and word.endswith("s") else word for word in words if word not in STOP_WORDS
        ]
        texts_words.append(stems or words)
    return sorted(texts_words[0]) == sorted(texts_words[1]) or "".join(texts_words[0]) == "".join(texts_words[1])
