"""State where a number that was looked up stands: printed to a log, in a file that code writes, or typed in code.

A number typed in the code that prints or writes it was not measured by it, as far as the syntax shows; a number that
code prints need not be the result of an experiment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from labwright.review.external_papers.number_matching import find_matches
from labwright.review.external_papers.provenance import PaperProvenance
from labwright.review.external_papers.verdicts import NumberVerdict, ValueLocation

OriginKind = Literal["typed", "printed", "written", "unknown", "none"]
ORIGIN_TEXTS: Mapping[OriginKind, str] = {
    "printed": "on log lines that the code prints",
    "written": "in files that the code names for writing",
    "typed": "typed in the code that prints or writes them",
    "unknown": "in files or log lines that no code is seen to write",
    "none": "not as such in a result file",
}
MIN_TYPED_DIGITS = 3
"""Minimum significant digits of a typed number; shorter ones are everywhere."""


@dataclass(frozen=True)
class Origin:
    """The origin of a number; `place` is a line of code, or empty."""

    kind: OriginKind
    place: str = ""

    def __str__(self) -> str:
        return self.kind + (f", {self.place}" if self.place else "")


@dataclass(frozen=True)
class OriginFinder:
    """Finds the origin of numbers in what is known of the programs behind a paper."""

    provenance: PaperProvenance

    @cached_property
    def typed_numbers(self) -> dict[str, dict[float, int]]:
        """Return the numbers typed in each script, with their lines."""
        return {one.path: one.list_typed_numbers() for one in self.provenance.scripts if not one.is_test}

    def find(self, verdict: NumberVerdict) -> Origin:
        """Return the most direct origin: typed, then printed, then written."""
        origins = [self._find_at(verdict, one) for one in verdict.locations]
        order: tuple[OriginKind, ...] = ("typed", "printed", "written", "unknown")
        return min(origins, key=lambda one: order.index(one.kind), default=Origin("none"))

    def _find_at(self, verdict: NumberVerdict, location: ValueLocation) -> Origin:
        line = re.search(r"line (\d+)", location.line)
        strings = self.provenance.printed_by.get((location.file, int(line[1])), ()) if line else ()
        writers = self.provenance.writers.get(location.file, ())
        for path in dict.fromkeys((*(one.file for one in strings), *writers)):
            if (typed := self._find_typed(verdict, path)) is not None:
                return Origin("typed", f"{path}:{typed}")
        if strings:
            return Origin("printed", strings[0].place)
        return Origin("written", writers[0]) if writers else Origin("unknown")

    def _find_typed(self, verdict: NumberVerdict, path: str) -> int | None:
        """Return the line on which a script has the number as a literal."""
        if verdict.claim.number.digits < MIN_TYPED_DIGITS:
            return None
        lines = list(self.typed_numbers.get(path, {}).items())
        found = find_matches(np.array([value for value, _ in lines]), verdict.claim.number) if lines else []
        return lines[found[0]][1] if found else None
