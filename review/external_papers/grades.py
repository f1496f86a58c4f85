"""Grade whether a number was measured, based on the programs that wrote the file in which it was found.

*measured*: a program without signs of fabrication printed it to a log, or wrote its file. *reported*: it is in
reports, in files of a script with made-up numbers, or in a suspicious log. *neither*: it was not found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from labwright.review.external_papers.logs import Log
from labwright.review.external_papers.name_scopes import SCORE_NAME
from labwright.review.external_papers.provenance import PaperProvenance
from labwright.review.external_papers.result_files import PROSE_SUFFIXES
from labwright.review.external_papers.signs import Sign
from labwright.review.external_papers.verdicts import NumberVerdict, ValueLocation

Grade = Literal["measured", "reported", "neither"]
MADE_UP_KINDS = (
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
LOG_DOUBT_KINDS = ("elided log", "typed log", "round stamps", "line of no program", "no log", "words")
MIN_STAMPED_LINES = 5
"""Minimum timestamped lines for a log to show that something ran."""


@dataclass(frozen=True)
class Grader:
    """Grades numbers by the programs that ran and by the signs against them."""

    provenance: PaperProvenance
    signs: Sequence[Sign]

    @cached_property
    def scripts_making_up(self) -> dict[str, frozenset[str]]:
        """Return scripts that make up numbers, with the names of the made-up scores; no names if all scores may be
        made up.
        """
        made: dict[str, list[str]] = {}
        for one in self.signs:
            if one.kind in MADE_UP_KINDS and one.is_finding:
                made.setdefault(one.where.rpartition(":")[0], []).append(one.of if SCORE_NAME.search(one.of) else "")
        return {path: frozenset(names if all(names) else ()) for path, names in made.items()}

    @cached_property
    def doubted_logs(self) -> frozenset[str]:
        """Return the logs with signs against them."""
        return frozenset(
            one.where.rpartition(":")[0] or one.where
            for one in self.signs
            if one.kind in LOG_DOUBT_KINDS and one.is_finding
        )

    @cached_property
    def is_readable(self) -> bool:
        return any(one.templates for one in self.provenance.scripts)

    def grade(self, verdict: NumberVerdict) -> Grade:
        """Return the best grade of the places where a number may come from."""
        doubts = {self._find_doubt(one) for one in verdict.locations}
        return "measured" if "" in doubts else "reported" if doubts else "neither"

    def explain(self, verdict: NumberVerdict) -> str:
        """Explain why a found number does not count as measured, based on the first place where it was found."""
        return f"{self._find_doubt(verdict.locations[0])} ({verdict.locations[0].file})"

    def _find_doubt(self, place: ValueLocation) -> str:
        """Return the reason for not counting a value as measured; "" if there is none."""
        log = next((one for one in self.provenance.logs if one.name == place.file), None)
        if log is not None:
            return self._doubt_line(log, place)
        return self._doubt_file(place)

    def _makes_up(self, path: str, named: str) -> bool:
        """Return whether a script makes up a value: any value that it writes, except scores with other names."""
        if path not in self.scripts_making_up:
            return False
        scores = {match[0].strip("_").lower() for match in SCORE_NAME.finditer(named)}
        made = self.scripts_making_up[path]
        return not (scores and made) or any(
            one.startswith(name[:3]) or name.startswith(one[:3]) for one in scores for name in map(str.lower, made)
        )

    def _doubt_line(self, log: Log, place: ValueLocation) -> str:
        number = re.search(r"line (\d+)", place.line)
        templates = self.provenance.templates_by_line.get((log.name, int(number[1])), ()) if number else ()
        if log.name in self.doubted_logs:
            return "in a log with signs against it"
        if self.is_readable and number and not templates and not self.provenance.prints_freely:
            return "on a log line that no code prints"
        text = log.lines[int(number[1]) - 1].text if number else place.key
        if templates and all(self._makes_up(one.file, text) for one in templates):
            return "in a log, printed by a script with signs of made-up numbers"
        is_evidence = templates or len(log.stamped_lines) >= MIN_STAMPED_LINES or self.is_readable
        return "" if is_evidence else "in a log without timestamps, from unknown code"

    def _doubt_file(self, place: ValueLocation) -> str:
        writers = self.provenance.writers.get(place.file, ())
        if writers:
            running = [one for one in writers if self.provenance.may_have_run(one)]
            if all(self._makes_up(one, f"{place.key} {place.line}") for one in running):
                return (
                    "in a file of a script with signs of made-up numbers"
                    if running
                    else "in a file of a script that did not run according to the logs"
                )
            return ""
        if any(place.file.lower().endswith(ending) for ending in PROSE_SUFFIXES):
            return "in a prose report, which no script is seen to write"
        stamped = any(
            len(log.stamped_lines) >= MIN_STAMPED_LINES and log.name not in self.doubted_logs
            for log in self.provenance.logs
        )
        if stamped and not (
            self.provenance.scripts
            and self.is_readable
            and not _may_be_written_dynamically(self.provenance.scripts, place.file)
        ):
            return ""
        return "in a file that no script is seen to write"


def _may_be_written_dynamically(scripts: Collection[object], name: str) -> bool:
    """Return whether a script may write the file under a name built at run time, because no script names it
    although some write files.
    """
    return any(getattr(one, "writes", False) for one in scripts)


def count_grades(grades: Iterable[Grade]) -> dict[str, int]:
    """Count numbers by grade."""
    found = Counter(grades)
    return {name: found[name] for name in ("measured", "reported", "neither")}
