"""Parse the result that a repository's authors report, and check whether the baseline reproduces it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from statistics import fmean, stdev

from labwright.record.errors import UsageError
from labwright.record.schema.frozen_model import FrozenModel
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
    if match[2]:
        raise ExpectedError(_explain_ambiguity(text, match))
    tolerance = float(match[3]) if match[3] else 100 * DEFAULT_RELATIVE_TOLERANCE
    tolerance *= abs(value) / 100 if match[4] or not match[3] else 1.0
    if not (0 <= tolerance < math.inf) or (not tolerance and not match[3]):
        raise ExpectedError(f"the tolerance of {text!r} is not positive: write for example {match[1]}±0.02")
    return ExpectedResult(value=value, tolerance=tolerance)


def _explain_ambiguity(text: str, match: re.Match[str]) -> str:
    """Explain why a percentage is ambiguous: in 79.2 % ± 1 %, the tolerance may be absolute or relative."""
    value, points = float(match[1]), float(match[3] or 100 * DEFAULT_RELATIVE_TOLERANCE)
    share = f"{100 * points / abs(value):.2g}" if value else "5"
    return (
        f"{text!r} is ambiguous: in the metric's own unit write {match[1]}±{points:g} for this absolute tolerance, or "
        f"{match[1]}±{share}% for the same as a relative tolerance"
    )


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
