"""Reconstruct from logs, code and result files which scripts ran, and which files they wrote.

A script *ran* if only it can have printed some log line; it was *loaded* if a script that ran imports it. It was
*not seen* if it prints recognisable lines and none is in the logs, although the logs belong to this code. Other
scripts are unknown. Nothing is executed, so a log forged from the code's own strings looks real.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Literal

from labwright.review.external_papers.logs import Log, LogLine
from labwright.review.external_papers.print_templates import JSON_NAME_PREFIX
from labwright.review.external_papers.scripts import AuditedScript, PrintTemplate, extract_words

LIBRARY_LINE = re.compile(
    r"warn|deprecat|traceback|^\s+(?:File|at|raise|return|\^)\b|^\s*File \"|\bit/s\b|s/it\b|%\||^\w+Error|\b\w+Error: |"
    r"tensorflow|cuda|hugging|tokeniz|absl|pip |"
    r"^\s*[\d\[\](),.\s|=+*#_-]+$|^[-=*#_+|\s]+$|nvidia|sklearn|python|"
    r"^nohup|^exit (?:status|code)|^Ran \d+ tests?|^(?:real|user|sys)\s",
    re.I,
)
"""Lines that libraries, interpreters and shells print, and progress bars."""
_LIBRARY_WORDS = frozenset(
    "val valid validation train training loss logloss epoch iteration iter step lr accuracy acc elapsed eta "
    "learning rate grad norm runtime samples per second sec eval error auc took seconds time total real user sys "
    "info debug fold best score cv end start done progress remaining improvement tolerance objective converged "
    "min max mean std memory mb gb ms it in of at for the to and on is no with".split()
)
"""Words in lines that libraries print."""
RunStatus = Literal["ran", "loaded", "not seen", "unknown"]


@dataclass(frozen=True)
class LogLineSource:
    """A log line, and the code lines that can have printed it; empty if no code can."""

    log: Log
    line: LogLine
    templates: tuple[PrintTemplate, ...]


@dataclass
class PaperProvenance:
    """Reconstruction of the programs behind a paper.

    `ran` maps each script to the log line that shows it.
    """

    scripts: tuple[AuditedScript, ...] = ()
    logs: tuple[Log, ...] = ()
    sources: tuple[LogLineSource, ...] = ()
    run_status: dict[str, RunStatus] = field(default_factory=dict[str, RunStatus])
    shown_by: dict[str, str] = field(default_factory=dict[str, str])
    writers: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @cached_property
    def templates_by_line(self) -> Mapping[tuple[str, int], tuple[PrintTemplate, ...]]:
        """Return the code lines that can have printed a log line, by log and line."""
        return {(one.log.name, one.line.number): one.templates for one in self.sources}

    @property
    def executed_scripts(self) -> tuple[str, ...]:
        """Return the scripts that ran, those with most log lines first."""
        lines = {path: 0 for path, how in self.run_status.items() if how == "ran"}
        for one in self.sources:
            for path in {template.file for template in one.templates} & lines.keys():
                lines[path] += 1
        return tuple(sorted(lines, key=lambda path: (-lines[path], path)))

    def find_script(self, path: str) -> AuditedScript | None:
        return next((one for one in self.scripts if one.path == path), None)

    @cached_property
    def prints_freely(self) -> bool:
        """Return whether code prints text that its syntax does not show: external text, records, names and values."""
        return any(one.opaque_lines or one.logger_lines for one in self.scripts if not one.is_test)

    def is_recognisable(self, line: LogLine) -> bool:
        """Return whether code that printed a line would be recognised as its source.

        The line must not come from a library. If the code prints unpredictable text, the line must also contain words
        that are in no code: one word next to a number, otherwise more than a quarter of the words.
        """
        if not line.text.strip() or LIBRARY_LINE.search(line.text):
            return False
        words, said = extract_words(line.message), extract_words(re.sub(r"[=:]\s*\S+", "", line.message))
        numbered = re.search(r"\d\.\d", line.message) is not None
        return (
            not self.prints_freely
            or len(words & self.vocabulary) < 0.75 * len(words)
            or (numbered and not said <= self.vocabulary)
        )

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Return the words of all code, and those in lines of libraries."""
        return frozenset(word for one in self.scripts for word in one.words) | _LIBRARY_WORDS

    def may_have_run(self, path: str) -> bool:
        """Return whether there is no evidence that a script did not run."""
        return self.run_status.get(path) != "not seen"


def reconstruct_provenance(
    scripts: Sequence[AuditedScript], logs: Sequence[Log], result_files: Sequence[str]
) -> PaperProvenance:
    """Reconstruct what ran and what it wrote."""
    sources = tuple(_match_lines(scripts, logs))
    found = PaperProvenance(tuple(scripts), tuple(logs), sources)
    found.run_status, found.shown_by = _infer_run_status(scripts, sources)
    strings = frozenset(string for one in scripts if one.tree is not None for string in one.strings)
    for name in result_files:
        writers = [one.path for one in scripts if not one.is_test and one.may_write_file(name, strings)]
        running = [path for path in writers if found.run_status.get(path) in ("ran", "loaded")]
        if running or writers:
            found.writers[name] = tuple(running or writers)
    return found


def _match_lines(scripts: Sequence[AuditedScript], logs: Sequence[Log]) -> Iterator[LogLineSource]:
    templates = [one for script in scripts for one in script.templates]
    seen: dict[str, tuple[PrintTemplate, ...]] = {}
    for log in logs:
        for line in log.lines:
            if not re.search(r"[A-Za-z]{2}", line.text):
                continue
            key = re.sub(r"\d", "0", line.text)
            if key not in seen:
                flat = re.sub(r"\s+", " ", line.text)
                seen[key] = tuple(
                    one for one in templates if re.sub(r"\s+", " ", one.words) in flat and one.pattern.search(line.text)
                )
            yield LogLineSource(log, line, seen[key])


def _infer_run_status(
    scripts: Sequence[AuditedScript], sources: Sequence[LogLineSource]
) -> tuple[dict[str, RunStatus], dict[str, str]]:
    ran: dict[str, RunStatus] = {one.path: "unknown" for one in scripts}
    shown: dict[str, str] = {}
    for one in sources:
        owners = {template.file for template in one.templates}
        if len(owners) == 1:
            owner = owners.pop()
            ran[owner] = "ran"
            shown.setdefault(owner, f"{one.log.name}:{one.line.number}")
    by_stem = {PurePosixPath(one.path).stem: one for one in scripts}
    waiting = [one for one in scripts if ran[one.path] == "ran"]
    while waiting:
        for name in waiting.pop().imported_names & by_stem.keys():
            if ran[(loaded := by_stem[name]).path] == "unknown":
                ran[loaded.path] = "loaded"
                waiting.append(loaded)
    spoken = sum(bool(one.templates) for one in sources)
    for one in scripts:
        telling = {template.words for template in one.templates if not template.words.startswith(JSON_NAME_PREFIX)}
        if ran[one.path] == "unknown" and one.is_entry and len(telling) >= 2 and spoken >= 3 and not one.is_test:
            ran[one.path] = "not seen"
    return ran, shown


_STATUS_TEXT = {
    "ran": "ran, according to the logs",
    "loaded": "imported by these",
    "writes": "no log line is specific to it, but the files that it writes exist",
    "unknown": "unknown whether it ran: no log line is specific to it",
    "not seen": "prints specific lines, none of which is in the logs",
}


def format_provenance(provenance: PaperProvenance) -> Iterator[str]:
    """Yield the known facts about the programs behind a paper, one line each."""
    by_state: dict[str, list[str]] = {}
    writing = {path for writers in provenance.writers.values() for path in writers}
    for path, how in provenance.run_status.items():
        if not path.endswith((".py", ".ipynb", ".sh", ".bash")):
            continue
        how = "writes" if how == "unknown" and path in writing else how
        by_state.setdefault(how, []).append(
            path + (f" ({provenance.shown_by[path]})" if path in provenance.shown_by else "")
        )
    for how, text in _STATUS_TEXT.items():
        if paths := by_state.get(how):
            yield f"{text}: {', '.join(paths[:12])}" + (f" and {len(paths) - 12} more" if len(paths) > 12 else "")
    for name, writers in provenance.writers.items():
        yield f"{name} is written by {', '.join(writers)}"
    yield from _format_log_lines(provenance)


def _format_log_lines(found: PaperProvenance) -> Iterator[str]:
    """Yield how many log lines the code prints, and the lines that it does not print; other lines are unknown."""
    if not any(one.templates or one.opaque_lines for one in found.scripts):
        return
    own = sum(bool(one.templates) for one in found.sources)
    others = [one for one in found.sources if not one.templates]
    of_traces = {
        (one.log.name, one.line.number + 1) for one in others if re.search(r'^\s*File "|Warning: ', one.line.text)
    }
    strange = [
        one for one in others if found.is_recognisable(one.line) and (one.log.name, one.line.number) not in of_traces
    ]
    if own:
        yield f"{own} of {len(found.sources)} log lines are printed by the code"
    if strange:
        shown = "; ".join(f"{one.log.name}:{one.line.number} {one.line.text.strip()[:100]!r}" for one in strange[:3])
        yield f"{len(strange)} of {len(found.sources)} log lines match no string in the code: {shown}"
    if unknown := len(others) - len(strange):
        yield (
            f"{unknown} log lines may or may not be printed by the code: they may come from libraries, or the "
            "code builds them at run time"
        )
