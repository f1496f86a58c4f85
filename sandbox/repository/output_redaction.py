"""Redact lines of a command's output that reveal test results while selection could still use them.

The redacted lines are those that match the expression of a `stdout:` metric or a user's pattern; lines with the
metric's key and a number; lines that print the value itself to at least three digits, also as a percentage, with a
decimal comma, in colours or over a progress bar. Limits: what code disguises is not found (derived values such as the
complement, other encodings, numbers printed in pieces).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from labwright.sandbox.errors import SubmissionRefused
from labwright.sandbox.limited_process import call_limited
from labwright.sandbox.output import strip_colours
from labwright.sandbox.repository.metric import PRINTED_KINDS, parse_metric

WITHHELD_LINE = "[line withheld: it may reveal test results]"
_NUMBER_PATTERN = re.compile(r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class OutputRedactor:
    """Regular expressions and values of the lines to redact."""

    patterns: tuple[re.Pattern[str], ...] = ()
    values: tuple[float, ...] = field(default=())
    """Test results of this run, once known."""

    @classmethod
    def from_metric(cls, test_metric: str, patterns: Iterable[str]) -> OutputRedactor:
        """Build the redactor of a test metric and the user's patterns. Raises `MetricError`, `re.error`."""
        found = [re.compile(pattern) for pattern in patterns]
        if test_metric:
            metric = parse_metric(test_metric)
            if metric.kind in PRINTED_KINDS:
                found.append(re.compile(metric.name))
            else:
                key = re.escape(metric.name.rpartition(".")[2])
                found.append(re.compile(rf"(?i)(?<![a-z0-9]){key}(?![a-z0-9]).*\d|\d.*(?<![a-z0-9]){key}(?![a-z0-9])"))
        return cls(tuple(found))

    def with_values(self, *values: float | None) -> OutputRedactor:
        """Return a redactor that finds these values as well."""
        return OutputRedactor(self.patterns, (*self.values, *(value for value in values if value is not None)))

    def redact(self, text: str) -> str:
        """Replace the lines to redact, or all of them if that takes too long; lines end where Python ends them, also at
        `\\r`.
        """
        if not self.patterns and not self.values:
            return text
        try:  # an expression may need exponential time, in which no other thread runs
            return call_limited(OutputRedactor._redact, self, text, subject="the output")
        except SubmissionRefused:
            return WITHHELD_LINE

    def _redact(self, text: str) -> str:
        lines = text.splitlines()
        plain = [unicodedata.normalize("NFKC", strip_colours(line)).replace("\N{MINUS SIGN}", "-") for line in lines]
        covered = {number for number, line in enumerate(plain) if self._prints_value(line)}
        starts = list(accumulate((len(line) + 1 for line in plain), initial=0))
        for match in (match for pattern in self.patterns for match in pattern.finditer("\n".join(plain))):
            first, last = bisect_right(starts, match.start()), bisect_right(starts, max(match.start(), match.end() - 1))
            covered.update(range(first - 1, last))
        shown = "\n".join(WITHHELD_LINE if number in covered else line for number, line in enumerate(lines))
        return shown + "\n" * text.endswith("\n")

    def _prints_value(self, line: str) -> bool:
        forms = {line, line.replace(",", ".")}
        return any(self._is_withheld_value(number) for form in forms for number in _NUMBER_PATTERN.findall(form))

    def _is_withheld_value(self, printed: str) -> bool:
        digits = re.sub(r"[eE].*|\D", "", printed).lstrip("0")
        if len(digits) < 3:
            return False
        places = len(re.sub(r"[eE].*", "", printed).partition(".")[2])
        return any(
            abs(abs(float(printed)) - scale * abs(value))
            <= 0.51 * 10.0**-places * (float("1e" + printed.lower().partition("e")[2]) if "e" in printed.lower() else 1)
            for value in self.values
            for scale in (1, 100)
        )
