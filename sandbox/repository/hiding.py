"""What of a command's output is withheld: lines that tell its test results, while anything can still be chosen.

Withheld: lines that match the expression of a `stdout:` metric or a pattern of the user's; lines with the metric's key
beside a number; lines that print the value itself, to three digits at least. Not found: a value in other words, such
as its complement, or a file that the code prints in an encoding of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from sandbox.repository.metric import parse_metric

WITHHELD = "[a line is withheld: it may tell test results]"
_NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Hidden:
    """What lines are withheld, by regular expression."""

    patterns: tuple[re.Pattern[str], ...] = ()
    values: tuple[float, ...] = field(default=())
    """Test results of this run, once they are read."""

    @classmethod
    def of(cls, test_metric: str, patterns: Iterable[str]) -> Hidden:
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

    def knowing(self, *values: float | None) -> Hidden:
        """The same, with values that are to be found."""
        return Hidden(self.patterns, (*self.values, *(one for one in values if one is not None)))

    def shown(self, text: str) -> str:
        """The text without the lines that are withheld."""
        if not self.patterns and not self.values:
            return text
        whole = text.splitlines()
        across = self._across(text)
        lines = [WITHHELD if number in across or self._tells(line) else line for number, line in enumerate(whole)]
        return "\n".join(lines) + ("\n" if text.endswith("\n") else "")

    def _tells(self, line: str) -> bool:
        return any(one.search(line) for one in self.patterns) or any(
            self._is_value(number) for number in _NUMBER.findall(line))

    def _across(self, text: str) -> set[int]:
        """Numbers of the lines that a match over several lines covers."""
        return {number for one in self.patterns for found in one.finditer(text)
                for number in range(text.count("\n", 0, found.start()), text.count("\n", 0, found.end()) + 1)
                if "\n" in found[0]}

    def _is_value(self, printed: str) -> bool:
        digits = re.sub(r"[eE].*|\D", "", printed).lstrip("0")
        if len(digits) < 3:
            return False
        places = len(re.sub(r"[eE].*", "", printed).partition(".")[2])
        return any(abs(float(printed) - scale * one) <= 0.51 * 10.0 ** -places * (
            float("1e" + printed.lower().partition("e")[2]) if "e" in printed.lower() else 1)
            for one in self.values for scale in (1, 100))
