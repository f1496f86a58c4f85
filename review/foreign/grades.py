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

from labwright.review.foreign.logs import Log
from labwright.review.foreign.provenance import Provenance
from labwright.review.foreign.results import WRITTEN
from labwright.review.foreign.scopes import SCORE
from labwright.review.foreign.signs import Sign
from labwright.review.foreign.verdicts import Place, Verdict

Grade = Literal["measured", "reported", "neither"]
MADE_UP = (
    "typed score",
    "drawn score",
    "formula for a curve",
    "noise on a score",
    "bonus for one method",
    "result of an error",
    "constant evaluation",
    "predictions from labels",
    "words",
)
AGAINST_LOG = ("elided log", "typed log", "round stamps", "line of no program", "no log", "words")
TELLING = 5
"""Lines with a stamp from which a log shows that something ran."""


@dataclass(frozen=True)
class Grader:
    """Grades numbers by what ran and what speaks against it."""

    found: Provenance
    signs: Sequence[Sign]

    @cached_property
    def making_up(self) -> dict[str, frozenset[str]]:
        """Scripts that make up numbers, with the scores that they make up; none where it may be all."""
        made: dict[str, list[str]] = {}
        for one in self.signs:
            if one.kind in MADE_UP and one.is_finding:
                made.setdefault(one.where.rpartition(":")[0], []).append(one.of if SCORE.search(one.of) else "")
        return {path: frozenset(names if all(names) else ()) for path, names in made.items()}

    @cached_property
    def doubted(self) -> frozenset[str]:
        """Logs that speak against themselves."""
        return frozenset(
            one.where.rpartition(":")[0] or one.where
            for one in self.signs
            if one.kind in AGAINST_LOG and one.is_finding
        )

    @cached_property
    def readable(self) -> bool:
        return any(one.templates for one in self.found.scripts)

    def grade(self, verdict: Verdict) -> Grade:
        """The best grade of the places that a number may be from."""
        doubts = {self._doubt(one) for one in verdict.places}
        return "measured" if "" in doubts else "reported" if doubts else "neither"

    def why(self, verdict: Verdict) -> str:
        """Why a number that stands somewhere is not taken for measured, by the first place."""
        return f"{self._doubt(verdict.places[0])} ({verdict.places[0].file})"

    def _doubt(self, place: Place) -> str:
        """What speaks against taking a value for measured; empty where nothing does."""
        log = next((one for one in self.found.logs if one.name == place.file), None)
        if log is not None:
            return self._line(log, place)
        return self._file(place)

    def _makes_up(self, path: str, named: str) -> bool:
        """Whether a script makes up what a place names: all that it writes, but for scores of other names."""
        if path not in self.making_up:
            return False
        scores = {match[0].strip("_").lower() for match in SCORE.finditer(named)}
        made = self.making_up[path]
        return not (scores and made) or any(
            one.startswith(name[:3]) or name.startswith(one[:3]) for one in scores for name in map(str.lower, made)
        )

    def _line(self, log: Log, place: Place) -> str:
        number = re.search(r"line (\d+)", place.line)
        templates = self.found.matched.get((log.name, int(number[1])), ()) if number else ()
        if log.name in self.doubted:
            return "in a log that speaks against itself"
        if self.readable and number and not templates and not self.found.freely:
            return "on a line of a log that no code prints"
        text = log.lines[int(number[1]) - 1].text if number else place.key
        if templates and all(self._makes_up(one.file, text) for one in templates):
            return "in a log, printed by a script with signs of made-up numbers"
        told = templates or len(log.stamped) >= TELLING or self.readable
        return "" if told else "in a log without stamps, of no known code"

    def _file(self, place: Place) -> str:
        writers = self.found.writers.get(place.file, ())
        if writers:
            running = [one for one in writers if self.found.may_have_run(one)]
            if all(self._makes_up(one, f"{place.key} {place.line}") for one in running):
                return (
                    "in a file of a script with signs of made-up numbers"
                    if running
                    else "in a file of a script that did not run by the logs"
                )
            return ""
        if any(place.file.lower().endswith(ending) for ending in WRITTEN):
            return "in a report in prose, which no script is seen to write"
        stamped = any(len(log.stamped) >= TELLING and log.name not in self.doubted for log in self.found.logs)
        if stamped and not (self.found.scripts and self.readable and not _dynamic(self.found.scripts, place.file)):
            return ""
        return "in a file that no script is seen to write"


def _dynamic(scripts: Collection[object], name: str) -> bool:
    """Whether a file may be written under a name that is put together: no script names it, and some write."""
    return any(getattr(one, "writes", False) for one in scripts)


def counted(grades: Iterable[Grade]) -> dict[str, int]:
    """Numbers by grade."""
    found = Counter(grades)
    return {name: found[name] for name in ("measured", "reported", "neither")}
