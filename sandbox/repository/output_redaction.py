"""What of a command's output is withheld: lines that tell its test results, while anything can still be chosen.

Withheld: lines that match the expression of a `stdout:` metric or a pattern of the user's; lines with the metric's key
beside a number; lines that print the value itself, to three digits at least, however it is written: over a progress
bar, in colours, with backspaces, spaces or a decimal comma, in digits of another script, in pieces on lines that follow
each other. Not found: a value in other words, such as its complement, or a file that the code prints in an encoding of
its own.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from labwright.sandbox.repository.metric import parse_metric

WITHHELD_LINE = "[a line is withheld: it may tell test results]"
_ESCAPE_PATTERN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_NUMBER_PATTERN = re.compile(r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class OutputRedactor:
    """What lines are withheld, by regular expression."""

    patterns: tuple[re.Pattern[str], ...] = ()
    values: tuple[float, ...] = field(default=())
    """Test results of this run, once they are read."""

    @classmethod
    def from_metric(cls, test_metric: str, patterns: Iterable[str]) -> OutputRedactor:
        """Raises `MetricError`, `re.error`."""
        found = [re.compile(one) for one in patterns]
        if test_metric:
            metric = parse_metric(test_metric)
            if metric.kind == "stdout":
                found.append(re.compile(metric.name))
            else:
                key = re.escape(metric.name.rpartition(".")[2])
                found.append(re.compile(rf"(?i)(?<![a-z0-9]){key}(?![a-z0-9]).*\d|\d.*(?<![a-z0-9]){key}(?![a-z0-9])"))
        return cls(tuple(found))

    def with_values(self, *values: float | None) -> OutputRedactor:
        """The same, with values that are to be found."""
        return OutputRedactor(self.patterns, (*self.values, *(one for one in values if one is not None)))

    def redact(self, text: str) -> str:
        """The text without the lines that are withheld; a line ends where Python ends one, also at a `\\r`."""
        if not self.patterns and not self.values:
            return text
        covered = self._find_withheld_lines(text.splitlines(keepends=True))
        lines = [WITHHELD_LINE if number in covered else line for number, line in enumerate(text.splitlines())]
        return "\n".join(lines) + ("\n" if text.endswith("\n") else "")

    def _find_withheld_lines(self, ended: Sequence[str]) -> set[int]:
        """Numbers of the lines that tell a result in any of the forms in which they can be read."""
        raw = [line.splitlines()[0] for line in ended]
        plain, found = [_normalize_line(line) for line in raw], set[int]()
        for lines in (raw, plain):
            found |= {number for number, line in enumerate(lines) if self._reveals_result(line)}
            found |= _find_lines(
                lines, "\n", (one.span() for pattern in self.patterns for one in pattern.finditer("\n".join(lines)))
            )
        for lines in _iterate_line_groups(
            [not line.endswith("\r") for line in ended]
        ):  # what a terminal leaves of them
            if self._reveals_result(_render_overwritten([plain[number] for number in lines])):
                found |= set(lines)
        split = [
            not re.match(r"[\d.]{2}", line.rstrip()[-1:] + after.lstrip()[:1])
            for line, after in zip(plain, (*plain[1:], ""), strict=True)
        ]
        for lines in _iterate_line_groups(split):  # a number that was printed in pieces
            pieces = [plain[number].strip() for number in lines]
            found |= {
                lines[number]
                for number in _find_lines(
                    pieces,
                    "",
                    (
                        one.span()
                        for one in _NUMBER_PATTERN.finditer("".join(pieces))
                        if self._is_withheld_value(one[0])
                    ),
                )
            }
        return found

    def _reveals_result(self, line: str) -> bool:
        forms = {line, line.replace(",", "."), re.sub(r"(?<=[\d.,])[ _']+(?=[\d.,])", "", line).replace(",", ".")}
        return any(one.search(line) for one in self.patterns) or any(
            self._is_withheld_value(number) for form in forms for number in _NUMBER_PATTERN.findall(form)
        )

    def _is_withheld_value(self, printed: str) -> bool:
        digits = re.sub(r"[eE].*|\D", "", printed).lstrip("0")
        if len(digits) < 3:
            return False
        places = len(re.sub(r"[eE].*", "", printed).partition(".")[2])
        return any(
            abs(abs(float(printed)) - scale * abs(one))
            <= 0.51 * 10.0**-places * (float("1e" + printed.lower().partition("e")[2]) if "e" in printed.lower() else 1)
            for one in self.values
            for scale in (1, 100)
        )


def _normalize_line(line: str) -> str:
    """A line as a person reads it: digits and spaces of any script as those of ASCII, no colours, nothing unseen."""
    if line.isascii() and line.isprintable():
        return line
    text = unicodedata.normalize("NFKC", _ESCAPE_PATTERN.sub("", line)).replace("\N{MINUS SIGN}", "-")
    seen = (
        str(unicodedata.decimal(one, one))
        for one in _render_overwritten([text])
        if one == "\t" or unicodedata.category(one) not in ("Cc", "Cf", "Mn", "Me")
    )
    return "".join(" " if one.isspace() else one for one in seen)


def _render_overwritten(pieces: Iterable[str]) -> str:
    """What a terminal shows of pieces that are printed over each other from the first column, with backspaces."""
    cells: list[str] = []
    for piece in pieces:
        at = 0
        for one in piece:
            if one == "\b":
                at = max(0, at - 1)
            else:
                cells[at : at + 1] = [one]
                at += 1
    return "".join(cells)


def _iterate_line_groups(ends: Sequence[bool]) -> Iterator[range]:
    """Numbers of lines that belong together, two at least: each but the last is none at which a group ends."""
    first = 0
    for number, end in enumerate(ends):
        if end or number == len(ends) - 1:
            if number > first:
                yield range(first, number + 1)
            first = number + 1


def _find_lines(lines: Sequence[str], join: str, spans: Iterable[tuple[int, int]]) -> set[int]:
    """Numbers of the lines that spans of the joined text lie in."""
    starts = list(accumulate((len(line) + len(join) for line in lines), initial=0))[:-1]
    return {
        number
        for begins, ends in spans
        for number in range(bisect_right(starts, begins) - 1, bisect_right(starts, max(begins, ends - 1)))
    }
