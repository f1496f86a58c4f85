"""Whether a number was measured, as far as can be seen: by the programs behind the place that it stands in.

*measured*: a program that is not known to make up results printed it into a log, or wrote the file that holds it;
*reported*: it stands in reports, in files that a script with made-up numbers wrote, or in a log that speaks against
itself; *neither*: in none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from review.foreign.logs import Log
from review.foreign.provenance import Provenance
from review.foreign.results import WRITTEN
from review.foreign.signs import Sign
from review.foreign.verdicts import Place, Verdict

Grade = Literal["measured", "reported", "neither"]
MADE_UP = ("typed score", "drawn score", "formula for a curve", "noise on a score", "bonus for one method",
    "result of an error", "constant evaluation", "predictions from labels", "words")
AGAINST_LOG = ("elided log", "typed log", "round stamps", "line of no program", "no log", "words")
TELLING = 5
"""Lines with a stamp from which a log shows that something ran."""


@dataclass(frozen=True)
class Grader:
    """Grades numbers by what ran and what speaks against it."""

    found: Provenance
    signs: Sequence[Sign]

    @cached_property
    def making_up(self) -> frozenset[str]:
        """Scripts that make up numbers."""
        return frozenset(one.where.rpartition(":")[0] for one in self.signs if one.kind in MADE_UP and one.is_finding)

    @cached_property
    def doubted(self) -> frozenset[str]:
        """Logs that speak against themselves."""
        return frozenset(one.where.rpartition(":")[0] or one.where for one in self.signs if one.kind in AGAINST_LOG
            and one.is_finding)

    @cached_property
    def readable(self) -> bool:
        return any(one.templates for one in self.found.scripts)

    def grade(self, verdict: Verdict) -> Grade:
        """The best grade of the places that a number may be from."""
        grades = {self._place(one) for one in verdict.places}
        return "measured" if "measured" in grades else "reported" if grades else "neither"

    def _place(self, place: Place) -> Grade:
        log = next((one for one in self.found.logs if one.name == place.file), None)
        if log is not None:
            return self._line(log, place)
        if any(place.file.lower().endswith(ending) for ending in WRITTEN):
            return "reported"
        return self._file(place.file)

    def _line(self, log: Log, place: Place) -> Grade:
        number = re.search(r"line (\d+)", place.line)
        templates = self.found.matched.get((log.name, int(number[1])), ()) if number else ()
        if log.name in self.doubted:
            return "reported"
        if self.readable and number and not templates and not self._prints_freely():
            return "reported"
        if templates and all(one.file in self.making_up for one in templates):
            return "reported"
        return "measured" if templates or len(log.stamped) >= TELLING or self.readable else "reported"

    def _prints_freely(self) -> bool:
        return any(one.opaque or one.loggers for one in self.found.scripts)

    def _file(self, name: str) -> Grade:
        writers = self.found.writers.get(name, ())
        if writers:
            clean = [one for one in writers if one not in self.making_up and self.found.may_have_run(one)]
            return "measured" if clean else "reported"
        if self.found.scripts and self.readable and not _dynamic(self.found.scripts, name):
            return "reported"
        return ("measured" if any(len(log.stamped) >= TELLING and log.name not in self.doubted
            for log in self.found.logs) else "reported")


def _dynamic(scripts: Collection[object], name: str) -> bool:
    """Whether a file may be written under a name that is put together: no script names it, and some write."""
    return any(getattr(one, "writes", False) for one in scripts)


def counted(grades: Iterable[Grade]) -> dict[str, int]:
    """Numbers by grade."""
    found = Counter(grades)
    return {name: found[name] for name in ("measured", "reported", "neither")}
