"""What ran, reconstructed from logs, code and result files: which scripts, and which of them wrote which file.

A script *ran* where a line of a log can only be its own; it was *loaded* where one that ran imports it. It was *not
seen* where it prints lines of its own and no log has one, although the logs are those of this code. Of others nothing
is said. Nothing is executed, so that a log that was typed after the code's own strings looks like a real one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Literal

from review.foreign.logs import Log, LogLine
from review.foreign.scripts import Script, Template

Ran = Literal["ran", "loaded", "not seen", "unknown"]


@dataclass(frozen=True)
class Source:
    """The line of a log, and the lines of code that can have printed it; none where no code can."""

    log: Log
    line: LogLine
    templates: tuple[Template, ...]


@dataclass
class Provenance:
    """What is known of the programs behind a paper. `ran` is by script, with the line of the log that shows it."""

    scripts: tuple[Script, ...] = ()
    logs: tuple[Log, ...] = ()
    sources: tuple[Source, ...] = ()
    ran: dict[str, Ran] = field(default_factory=dict[str, Ran])
    shown_by: dict[str, str] = field(default_factory=dict[str, str])
    writers: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @cached_property
    def matched(self) -> Mapping[tuple[str, int], tuple[Template, ...]]:
        """The lines of code that can have printed a line of a log, by log and line."""
        return {(one.log.name, one.line.number): one.templates for one in self.sources}

    @property
    def executed(self) -> tuple[str, ...]:
        """Scripts that ran, those with most lines in the logs first."""
        lines = {path: 0 for path, how in self.ran.items() if how == "ran"}
        for one in self.sources:
            for path in {template.file for template in one.templates} & lines.keys():
                lines[path] += 1
        return tuple(sorted(lines, key=lambda path: (-lines[path], path)))

    def script(self, path: str) -> Script | None:
        return next((one for one in self.scripts if one.path == path), None)

    def may_have_run(self, path: str) -> bool:
        """Whether nothing shows that a script did not run."""
        return self.ran.get(path) != "not seen"


def reconstruct(scripts: Sequence[Script], logs: Sequence[Log], result_files: Sequence[str]) -> Provenance:
    """What ran, and what it wrote."""
    sources = tuple(_sources(scripts, logs))
    found = Provenance(tuple(scripts), tuple(logs), sources)
    found.ran, found.shown_by = _ran(scripts, sources)
    for name in result_files:
        writers = [one.path for one in scripts if not one.is_test and one.writes_file(name)]
        running = [path for path in writers if found.ran.get(path) in ("ran", "loaded")]
        if running or writers:
            found.writers[name] = tuple(running or writers)
    return found


def _sources(scripts: Sequence[Script], logs: Sequence[Log]) -> Iterator[Source]:
    templates = [one for script in scripts for one in script.templates]
    seen: dict[str, tuple[Template, ...]] = {}
    for log in logs:
        for line in log.lines:
            if not re.search(r"[A-Za-z]{2}", line.text):
                continue
            key = re.sub(r"\d+", "0", line.text)
            if key not in seen:
                flat = re.sub(r"\s+", " ", line.text)
                seen[key] = tuple(
                    one for one in templates if re.sub(r"\s+", " ", one.words) in flat and one.pattern.search(line.text)
                )
            yield Source(log, line, seen[key])


def _ran(scripts: Sequence[Script], sources: Sequence[Source]) -> tuple[dict[str, Ran], dict[str, str]]:
    ran: dict[str, Ran] = {one.path: "unknown" for one in scripts}
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
        for name in waiting.pop().imports & by_stem.keys():
            if ran[(loaded := by_stem[name]).path] == "unknown":
                ran[loaded.path] = "loaded"
                waiting.append(loaded)
    spoken = sum(bool(one.templates) for one in sources)
    for one in scripts:
        telling = {template.words for template in one.templates}
        if ran[one.path] == "unknown" and one.is_entry and len(telling) >= 2 and spoken >= 3 and not one.is_test:
            ran[one.path] = "not seen"
    return ran, shown


_SAID: dict[Ran, str] = {
    "ran": "ran, by the logs", "loaded": "imported by these", "unknown": "nothing shows whether it ran",
    "not seen": "prints lines of its own, none of which is in the logs"}


def provenance_lines(found: Provenance) -> Iterator[str]:
    """What is known of the programs behind a paper, a line each."""
    by_state: dict[Ran, list[str]] = {}
    for path, how in found.ran.items():
        by_state.setdefault(how, []).append(path + (f" ({found.shown_by[path]})" if path in found.shown_by else ""))
    for how, text in _SAID.items():
        if paths := by_state.get(how):
            yield f"{text}: {', '.join(paths[:12])}" + (f" and {len(paths) - 12} more" if len(paths) > 12 else "")
    for name, writers in found.writers.items():
        yield f"{name} is written by {', '.join(writers)}"
    told = sum(bool(one.templates) for one in found.sources)
    if found.scripts and found.sources:
        yield f"{told} of {len(found.sources)} lines of {len(found.logs)} logs are lines that the code prints"
