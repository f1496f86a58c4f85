"""What a repository's authors report, as a person writes it, and whether the baseline comes near it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from statistics import fmean, stdev

from labwright.record.errors import UsageError
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.repository import BaselineVerdict, ExpectedResult

DEFAULT_RELATIVE_TOLERANCE = 0.05
"""The share of the value within which a result counts as the same, where nobody says otherwise: as published."""

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_EXPECTED_PATTERN = re.compile(rf"({_NUMBER})(%?)(?:(?:±|\+/?-)({_NUMBER})(%?))?")


class ExpectedError(UsageError):
    """An expected result that cannot be read. Who acts: whoever wrote it."""


class BaselineComparison(FrozenModel):
    """The baseline beside what is expected. `spread`: standard deviation between seeds, None of one."""

    mean: float | None
    spread: float | None
    seeds: int
    verdict: BaselineVerdict


def parse_expected(text: str) -> ExpectedResult:
    """`0.83±0.02`, `0.83±5%` (of the value) or `0.83` (5 % of it); `+-` and `+/-` stand for ±.

    Raises: ExpectedError
    """
    found = _EXPECTED_PATTERN.fullmatch("".join(text.split()))
    if found is None or not math.isfinite(value := float(found[1])):
        raise ExpectedError(f"cannot read the expected result {text!r}: write 0.83, 0.83±0.02 or 0.83±5%")
    if found[2]:
        raise ExpectedError(_explain_ambiguity(text, found))
    tolerance = float(found[3]) if found[3] else 100 * DEFAULT_RELATIVE_TOLERANCE
    tolerance *= abs(value) / 100 if found[4] or not found[3] else 1.0
    if not (0 <= tolerance < math.inf) or (not tolerance and not found[3]):
        raise ExpectedError(f"the tolerance of {text!r} is none: write a positive one, like {found[1]}±0.02")
    return ExpectedResult(value=value, tolerance=tolerance)


def _explain_ambiguity(text: str, found: re.Match[str]) -> str:
    """Of 79.2 % ± 1 %, the second may be points or a share of the first."""
    value, points = float(found[1]), float(found[3] or 100 * DEFAULT_RELATIVE_TOLERANCE)
    share = f"{100 * points / abs(value):.2g}" if value else "5"
    return (
        f"{text!r} can be read in two ways: write {found[1]}±{points:g} for points, which is "
        f"{found[1]}±{share}% as a share, in the unit that the metric has"
    )


def check_baseline(values: Sequence[float | None], expected: ExpectedResult | None) -> BaselineComparison:
    """The mean over seeds against what is expected; better than expected is not reproduced either.

    A run without a value (None) is no seed; `failed` where none has one.
    """
    found = [one for one in values if one is not None]
    if not found:
        return BaselineComparison(mean=None, spread=None, seeds=0, verdict="failed")
    mean = fmean(found)
    return BaselineComparison(
        mean=mean,
        spread=stdev(found) if len(found) > 1 else None,
        seeds=len(found),
        verdict=_classify_mean(mean, expected),
    )


def _classify_mean(mean: float, expected: ExpectedResult | None) -> BaselineVerdict:
    if expected is None:
        return "unchecked"
    rounding = 1e-9 * max(abs(mean), abs(expected.value))
    return "reproduced" if abs(mean - expected.value) <= expected.tolerance + rounding else "differs"
