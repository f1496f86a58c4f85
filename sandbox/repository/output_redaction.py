"""Redact lines of a command's output that reveal test results while selection could still use them.

The redacted lines are those that match the expression of a `stdout:` metric or a user's pattern; lines with the
metric's key and a number; lines that print the value itself to at least three digits, in any notation: over a progress
bar, in colours, with backspaces, spaces or a decimal comma, in other scripts' digits, or split over consecutive lines.
Limits: derived values (such as the complement) and output in an unusual encoding are not found.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from labwright.sandbox.errors import SubmissionRefused
from labwright.sandbox.limited_process import call_limited
from labwright.sandbox.repository.metric import parse_metric

WITHHELD_LINE = "[line withheld: it may reveal test results]"
_ESCAPE_PATTERN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
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
            if metric.kind == "stdout":
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
        covered = self._find_withheld_lines(text.splitlines(keepends=True))
        lines = [WITHHELD_LINE if number in covered else line for number, line in enumerate(text.splitlines())]
        return "\n".join(lines) + ("\n" if text.endswith("\n") else "")

    def _find_withheld_lines(self, ended: Sequence[str]) -> set[int]:
        """Return the numbers of the lines that reveal a result in any readable form."""
        raw = [line.splitlines()[0] for line in ended]
        plain, found = [_normalize_line(line) for line in raw], set[int]()
        for lines in (raw, plain):
            found |= {number for number, line in enumerate(lines) if self._reveals_result(line)}
            found |= _find_lines(
                lines, "\n", (match.span() for pattern in self.patterns for match in pattern.finditer("\n".join(lines)))
            )
        # in the form shown by a terminal
        for lines in _iterate_line_groups([not line.endswith("\r") for line in ended]):
            if self._reveals_result(_render_overwritten([plain[number] for number in lines])):
                found |= set(lines)
        split = [
            not re.match(r"[\d.]{2}", line.rstrip()[-1:] + after.lstrip()[:1])
            for line, after in zip(plain, (*plain[1:], ""), strict=True)
        ]
        for lines in _iterate_line_groups(split):  # a number printed in pieces
            pieces = [plain[number].strip() for number in lines]
            found |= {
                lines[number]
                for number in _find_lines(
                    pieces,
                    "",
                    (
                        match.span()
                        for match in _NUMBER_PATTERN.finditer("".join(pieces))
                        if self._is_withheld_value(match[0])
                    ),
                )
            }
        return found

    def _reveals_result(self, line: str) -> bool:
        forms = {line, line.replace(",", "."), re.sub(r"(?<=[\d.,])[ _']+(?=[\d.,])", "", line).replace(",", ".")}
        return any(pattern.search(line) for pattern in self.patterns) or any(
            self._is_withheld_value(number) for form in forms for number in _NUMBER_PATTERN.findall(form)
        )

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


def _normalize_line(line: str) -> str:
    """Reduce a line to the characters that a reader sees: ASCII digits and spaces, no colours or invisible
    characters.
    """
    if line.isascii() and line.isprintable():
        return line
    text = unicodedata.normalize("NFKC", _ESCAPE_PATTERN.sub("", line)).replace("\N{MINUS SIGN}", "-")
    visible = (
        str(unicodedata.decimal(char, char))
        for char in _render_overwritten([text])
        if char == "\t" or unicodedata.category(char) not in ("Cc", "Cf", "Mn", "Me")
    )
    return "".join(" " if char.isspace() else char for char in visible)


def _render_overwritten(pieces: Iterable[str]) -> str:
    """Return the line that a terminal shows after pieces were printed over each other, from the first column or
    after backspaces.
    """
    cells: list[str] = []
    for piece in pieces:
        at = 0
        for char in piece:
            if char == "\b":
                at = max(0, at - 1)
            else:
                cells[at : at + 1] = [char]
                at += 1
    return "".join(cells)


def _iterate_line_groups(ends: Sequence[bool]) -> Iterator[range]:
    """Yield groups of two or more lines; `ends` marks the lines that end a group."""
    first = 0
    for number, end in enumerate(ends):
        if end or number == len(ends) - 1:
            if number > first:
                yield range(first, number + 1)
            first = number + 1


def _find_lines(lines: Sequence[str], join: str, spans: Iterable[tuple[int, int]]) -> set[int]:
    """Return the numbers of the lines that contain the given spans of the joined text."""
    starts = list(accumulate((len(line) + len(join) for line in lines), initial=0))[:-1]
    return {
        number
        for begins, ends in spans
        for number in range(bisect_right(starts, begins) - 1, bisect_right(starts, max(begins, ends - 1)))
    }
