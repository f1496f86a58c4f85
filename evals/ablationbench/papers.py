"""A paper as a planner or a judge sees it: read by `review.judge`, and in author mode cut after its method.

Author mode shows the sections up to and including the method: no experiments, ablations, later sections or
appendix. Comments are dropped. The end of the method is found by section titles; if they are ambiguous, the user
must name it. Limits: the sections shown may mention results.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

from labwright.evals.ablationbench.roles import Action
from labwright.models.roles.judge import ShownPaper
from labwright.record.baseline_check import Ablation, is_same_ablation
from labwright.record.schema import FrozenModel
from labwright.record.schema.paper import RemovedPassage
from labwright.review.judge.guards import guard_paper
from labwright.review.judge.paper_reader import (
    Paper,
    PaperError,
    PaperSection,
    make_excerpt,
    read_paper,
    split_numbered_text,
)

MAX_CHARACTERS = 100_000
"""Characters shown of a paper, as for a judge of papers."""
MAX_FILES = 60
"""Maximum files read from a folder without a main file, in which sections are separate files."""
_NUMBER = re.compile(r"^(?:section\s+)?(\d+|[IVX]+)((?:\.\d+)*)[.:)]?\s+", re.IGNORECASE)
_BEFORE_METHOD = re.compile(
    r"introduction|related|background|preliminar|motivat|abstract|prior work|notation", re.IGNORECASE
)
_AFTER_METHOD = re.compile(
    r"experiment|result|evaluat|ablat|empiric|conclu|discussion|finding|benchmark|case stud|analys|appendi|supplement|"
    r"referenc|bibliograph|acknowledg|limitation|future work|broader impact|tables and figures|simulation|contributes",
    re.IGNORECASE,
)
_METHOD = re.compile(
    r"method|approach|model|system|framework|architect|proposed|algorithm|technique|formulation|design", re.IGNORECASE
)
_SURELY_AFTER_METHOD = re.compile(r"experiment|result|ablat|conclu|appendi", re.IGNORECASE)
_THEORY = re.compile(r"theor|complexity|convergence|gradient analys", re.IGNORECASE)
"""An analysis of the method that is not a measurement."""
_SURELY_METHOD = re.compile(r"(?:our |the |proposed )*(?:methods?|methodology|approach)", re.IGNORECASE)


class MethodEndUnclear(PaperError):
    """The titles do not show where the method of a paper ends."""


@dataclass(frozen=True)
class VisiblePaper:
    """The part of a paper that is shown, the titles kept and cut, and what the guards removed."""

    paper: Paper
    kept: tuple[str, ...]
    cut: tuple[str, ...] = ()
    removed: tuple[RemovedPassage, ...] = ()

    @property
    def shown_paper(self) -> ShownPaper:
        found = make_excerpt(self.paper.sections, MAX_CHARACTERS)
        missing = tuple(f"included file {name!r}: missing" for name in self.paper.missing_files[:20])
        return ShownPaper(text=found.text, characters=self.paper.characters, left_out=(*found.left_out, *missing))


def find_paper_files(folder: Path) -> tuple[Path, ...]:
    """Return the files to read from a paper's folder: its main LaTeX file, or else all text files of one format by
    name.

    Raises `PaperError`.
    """
    if folder.is_file():
        return (folder,)
    for endings in ((".tex",), (".md", ".markdown"), (".txt",), (".pdf",)):
        found = sorted(
            path
            for path in folder.rglob("*")
            if path.suffix.lower() in endings and path.is_file() and path.stem.lower() not in ("readme", "license")
        )
        main = [path for path in found if path.suffix == ".tex" and r"\documentclass" in _read_head(path)]
        if main or (".pdf" in endings and found):
            return (max(main or found, key=lambda path: (path.stem in ("main", "paper"), path.stat().st_size)),)
        if found:
            return tuple(found[:MAX_FILES])
    raise PaperError(
        f"{folder} contains no paper: it needs a .tex, .md, .txt or .pdf file (as in the checkout of "
        "the benchmark; see docs/benchmarks.md)"
    )


def _read_head(path: Path) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(20_000)


async def _read_paper(path: Path) -> Paper:
    """Read the paper in a file or a folder. Raises `PaperError`."""
    files = find_paper_files(path)
    if len(files) == 1:
        return _split_by_numbers(await read_paper(files[0]))
    with tempfile.TemporaryDirectory(prefix="paper-") as name:
        joined = Path(name) / f"paper{files[0].suffix}"
        joined.write_text("\n\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files))
        return _split_by_numbers(await read_paper(joined))


async def read_visible_paper(path: Path, *, show_all: bool, until: str = "", already_cut: bool = False) -> VisiblePaper:
    """Return the whole paper, or the part that an author planner may see.

    `until` names the last section that is shown. `already_cut` means that the folder may contain only this part, as
    in the benchmark. Raises `PaperError`.
    """
    found = await guard_paper(await _read_paper(path))
    sections = found.paper.sections
    if not show_all:
        sections = sections[: _find_method_end(sections, until, path, already_cut)]
        scattered = len(find_paper_files(path)) > 1  # files in order of name, which may put results first
        sections = tuple(
            one
            for one in sections
            if not one.is_back_matter
            and not _is_always_shown(one)
            and not (scattered and _SectionTitle.from_section(one).kind == "after")
        )
    rest = [one.title for one in found.paper.sections if one not in sections]
    return VisiblePaper(
        replace(found.paper, sections=sections), tuple(one.title for one in sections), tuple(rest), found.removed
    )


def _split_by_numbers(paper: Paper) -> Paper:
    """Split a paper in Markdown or text without marked headings by numbered lines, as in a PDF."""
    if paper.form in ("Markdown", "text") and sum(bool(one.title) for one in paper.sections) < 2:
        found = split_numbered_text("\n\n".join(f"{one.title}\n{one.text}".strip() for one in paper.sections))
        return replace(paper, sections=found)
    return paper


def _is_always_shown(section: PaperSection) -> bool:
    """Return whether a section is always shown, such as floats of a LaTeX preamble, whose place is unknown."""
    return section.title == "Tables and figures"


def _find_method_end(sections: Sequence[PaperSection], until: str, path: Path, already_cut: bool) -> int:
    """Return how many sections are shown.

    Raises `MethodEndUnclear`, and `PaperError` if `until` matches no section.
    """
    titles = [_SectionTitle.from_section(section) for section in sections]
    if len(titles) > 1 and titles[0].kind in ("method", "after") and not _NUMBER.match(sections[0].title):
        titles[0] = _SectionTitle(titles[0].text, "before")  # the paper's title in Markdown
    if until:
        wanted = " ".join(until.casefold().split())
        named = [at for at, one in enumerate(titles) if wanted in one.text.casefold()]
        if not named:
            raise PaperError(
                f"--until {until!r}: no section title in {path} contains this; the titles are: {_format_titles(titles)}"
            )
        return named[-1] + 1
    methods = [at for at, one in enumerate(titles) if one.kind == "method"]
    after = [at for at, one in enumerate(titles) if one.kind == "after" and methods and at > methods[0]]
    open_end = not after and any(one.kind == "other" for one in titles[methods[-1] + 1 :]) if methods else True
    late = after and any(one.surely for one in titles[after[0] :] if one.kind == "method")
    if not open_end and not late:
        return after[0] if after else len(titles)
    if already_cut and not any(one.kind == "after" for one in titles):
        return len(titles)
    raise MethodEndUnclear(
        f"{path}: the titles do not show where the method ends: name the last section to show with "
        f"--until SECTION; the titles are: {_format_titles(titles)}"
    )


@dataclass(frozen=True)
class _SectionTitle:
    """A section title. `kind` is before, method, after, or other (including subsections)."""

    text: str
    kind: str
    surely: bool = False

    @classmethod
    def from_section(cls, section: PaperSection) -> _SectionTitle:
        number = _NUMBER.match(section.title)
        text = section.title[number.end() :] if number else section.title
        within = number is not None and bool(number[2])
        after = _SURELY_AFTER_METHOD if within else _AFTER_METHOD  # "3.2 Evaluation module" is part of a method
        if section.is_back_matter or (after.search(text) and not _THEORY.search(text)):
            return cls(text, "after")
        if _BEFORE_METHOD.search(text) or not text:
            return cls(text, "before")
        if within:
            return cls(text, "part")
        kind = "method" if _METHOD.search(text) else "other"
        return cls(text, kind, surely=_SURELY_METHOD.fullmatch(text.strip()) is not None)


def _format_titles(titles: Sequence[_SectionTitle]) -> str:
    return ", ".join(f"{one.text[:60]!r}" for one in titles[:30] if one.text)


# Ablations in the format of AblationBench's plans, gold tables and judges, parsed leniently. Source: AblationBench,
# appendix A.1. Runs of this program execute `record.baseline_check.Ablation`, which is stricter.

ACTIONS: tuple[Action, ...] = get_args(Action)
_VERBS = {"REMOVE": "remove", "REPLACE": "replace", "ADD": "add"}


class PlannedAblation(FrozenModel):
    """An ablation with the benchmark's field names; `replacement` is empty for REMOVE."""

    name: str
    ablated_part: str = ""
    action: Action
    replacement: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """Return the entry in one line, without its metrics."""
        by = f": {'; '.join(self.replacement)}" if self.replacement else ""
        return f"{self.name} ({self.action} {self.ablated_part}{by})"


@dataclass(frozen=True)
class AblationPlanFile:
    """The entries of a plan, best first, and one line per fault."""

    entries: tuple[PlannedAblation, ...] = ()
    faults: tuple[str, ...] = ()


def read_plan(lines: Iterable[str]) -> AblationPlanFile:
    """Read a plan from JSON lines; an invalid line is reported and skipped."""
    entries, faults = list[PlannedAblation](), list[str]()
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                entries.append(parse_entry(json.loads(line)))
            except json.JSONDecodeError:
                faults.append(f"line {number}: not JSON")
            except ValueError as error:
                faults.append(f"line {number}: {error}")
    return AblationPlanFile(tuple(entries), tuple(faults))


def parse_entry(given: object) -> PlannedAblation:
    """Parse an entry from a file or a model. Raises `ValueError` if it has no name or action."""
    if not isinstance(given, Mapping):
        raise ValueError("not an object")
    fields = cast(Mapping[str, Any], given)
    name, action = _to_text(fields.get("name")), _to_text(fields.get("action")).upper()
    if not name:
        raise ValueError("no name")
    if action not in ACTIONS:
        raise ValueError(f"action {action!r} is not one of {', '.join(ACTIONS)}")
    return PlannedAblation(
        name=name,
        ablated_part=_to_text(fields.get("ablated_part")),
        action=action,
        replacement=_to_texts(fields.get("replacement")),
        metrics=_to_texts(fields.get("metrics")),
    )


def entries_to_lines(entries: Iterable[PlannedAblation]) -> str:
    """Format the entries as a plan file."""
    return "".join(one.model_dump_json() + "\n" for one in entries)


def _to_text(value: object) -> str:
    return "" if value is None else " ".join(str(value).split())


def _to_texts(value: object) -> tuple[str, ...]:
    """Return a tuple of strings from a string, a list, or an object (`key: value`)."""
    if isinstance(value, Mapping):
        return tuple(f"{key}: {one}" for key, one in cast(Mapping[str, object], value).items())
    listed = cast(Sequence[object], value) if isinstance(value, list | tuple) else [value]
    return tuple(text for one in listed if (text := _to_text(one)))


def split_repeats(entries: Iterable[PlannedAblation]) -> tuple[tuple[PlannedAblation, ...], tuple[str, ...]]:
    """Return the new entries, and those that repeat an earlier one in other words, as `NAME = EARLIER NAME`."""
    kept, repeats = list[PlannedAblation](), list[str]()
    for entry in entries:
        earlier = next((one for one in kept if is_same_change(one, entry)), None)
        if earlier is None:
            kept.append(entry)
        else:
            repeats.append(f"{entry.name} = {earlier.name}")
    return tuple(kept), tuple(repeats)


def is_same_change(one: PlannedAblation, other: PlannedAblation) -> bool:
    """Return whether two entries make the same change: by part, action and replacement.

    Names are ignored, since real plans call every entry "Ablation A".
    """
    return is_same_ablation(_to_ablation(one, "first"), _to_ablation(other, "second"))


def _to_ablation(entry: PlannedAblation, name: str) -> Ablation:
    """Convert the entry to the record's form; entries without a replacement are identified by their part."""
    bare = not entry.replacement
    return Ablation(
        name=name,
        part=entry.ablated_part or entry.name,
        why="-",
        metrics=entry.metrics or ("-",),
        action="remove" if bare else _VERBS[entry.action],  # pyrefly: ignore
        replacement="" if bare else " ".join(sorted(entry.replacement)),
    )
