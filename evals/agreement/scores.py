"""Read scores from CSV files and select which to compare.

Human reviews have one row per review, a judge's scores one row per paper. A paper is the pair (workshop_name,
model_name). Case, spaces, hyphens and a byte order mark in headers are ignored, as is white space around cells.
Every other column of the human file is a dimension, unless dimensions are named; further columns of the judge's
file are ignored.

The rules for pairs, with a warning for every affected paper:

- The usual number of reviews is the most common one of at least two; of several equally common, the largest.
- Human-human: all pairs of reviews of one paper by different reviewers, for papers with the usual number of
  reviews. Other papers are excluded because their pairs would weigh more, or there are none. So are papers that one
  reviewer reviewed twice, since two readings by one reviewer are not two opinions.
- Judge-human: the judge against every review of a paper in both files, including the papers above. A second review
  by the same reviewer counts; identical rows count once.

Errors: `TableError`: a file of scores cannot be used; `NoPairsError`: the two files share no paper, or no paper has two
reviews.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from labwright.record.errors import UsageError

REVIEWER_COLUMN, SYSTEM_COLUMN, TASK_COLUMN = "reviewer_id", "model_name", "workshop_name"
MAX_BYTES = 20_000_000


class TableError(UsageError):
    """A file of scores cannot be used."""


class NoPairsError(UsageError):
    """There is nothing to compare."""


@dataclass(frozen=True, order=True)
class PaperName:
    """Identifies a paper: the task it was made for and the system that made it."""

    task: str
    system: str

    def __str__(self) -> str:
        return f"{self.task}/{self.system}"


@dataclass(frozen=True)
class Review:
    """One review of a paper.

    `reviewer` is empty for the judge; `row` counts from 1, the header.
    """

    reviewer: str
    paper: PaperName
    scores: dict[str, float]
    row: int


@dataclass(frozen=True)
class ScaleRange:
    """The lowest and the highest possible score."""

    lowest: int = 1
    highest: int = 10

    @property
    def scores(self) -> range:
        return range(self.lowest, self.highest + 1)


@dataclass(frozen=True)
class ScoreTable:
    """A CSV file: normalised column names, and rows with as many cells."""

    path: Path
    columns: tuple[str, ...]
    rows: tuple[tuple[int, dict[str, str]], ...]

    def require_columns(self, *names: str) -> None:
        """Raise `TableError` if one of the columns is missing."""
        for name in names:
            if name not in self.columns:
                raise TableError(
                    f"{self.path} has no column {name!r}, only {', '.join(self.columns)}: add it, or name "
                    "the dimensions to compare with --dimensions"
                )


def read_humans(path: Path, scale: ScaleRange, dimensions: tuple[str, ...] = ()) -> tuple[Review, ...]:
    """Return the human reviews of a file, in its order. Raises `TableError`."""
    table = read_table(path)
    table.require_columns(REVIEWER_COLUMN, SYSTEM_COLUMN, TASK_COLUMN)
    wanted = dimensions or tuple(
        name for name in table.columns if name not in (REVIEWER_COLUMN, SYSTEM_COLUMN, TASK_COLUMN)
    )
    if not wanted:
        raise TableError(
            f"{path} has no column with scores besides {REVIEWER_COLUMN}, {SYSTEM_COLUMN} and {TASK_COLUMN}"
        )
    table.require_columns(*wanted)
    return tuple(_parse_review(table, row, cells, wanted, scale) for row, cells in table.rows)


def read_judge(path: Path, scale: ScaleRange, dimensions: tuple[str, ...]) -> dict[PaperName, Review]:
    """Return the judge's scores for these dimensions, by paper.

    Raises `TableError`, also if a paper has two rows.
    """
    table = read_table(path)
    table.require_columns(SYSTEM_COLUMN, TASK_COLUMN, *dimensions)
    found: dict[PaperName, Review] = {}
    for row, cells in table.rows:
        one = _parse_review(table, row, cells, dimensions, scale)
        if one.paper in found:
            raise TableError(
                f"{path}: rows {found[one.paper].row} and {row} both score {one.paper}, but a judge needs one "
                "row per paper: use the mean, or one of them"
            )
        found[one.paper] = one
    return found


def normalize_column(text: str) -> str:
    """Normalise a column name: `Workshop Name` becomes `workshop_name`."""
    return "_".join(text.replace("-", " ").replace("_", " ").casefold().split())


def read_table(path: Path) -> ScoreTable:
    """Read the table in a CSV file. Raises `TableError`."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TableError(f"{path} is larger than {MAX_BYTES // 10**6} MB: give a file with only the scores")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror}; give a CSV file") from None
    except UnicodeDecodeError:
        raise TableError(f"{path} is not UTF-8 text: give a CSV file") from None
    try:
        lines = [
            (number, row)
            for number, row in enumerate(csv.reader(io.StringIO(text), strict=True), 1)
            if any(cell.strip() for cell in row)
        ]
    except csv.Error as error:
        raise TableError(f"{path} is not CSV: {error}") from None
    if len(lines) < 2:
        raise TableError(f"{path} has no rows below the header")
    columns = tuple(normalize_column(cell) for cell in lines[0][1])
    if twice := [name for name, count in Counter(columns).items() if count > 1]:
        raise TableError(f"{path} has the column {twice[0]!r} twice: keep one")
    for number, row in lines[1:]:
        if len(row) != len(columns):
            raise TableError(f"{path}: row {number} has {len(row)} cells for {len(columns)} columns")
    return ScoreTable(path, columns, tuple((number, dict(zip(columns, row, strict=True))) for number, row in lines[1:]))


def _parse_review(
    table: ScoreTable, row: int, cells: dict[str, str], dimensions: tuple[str, ...], scale: ScaleRange
) -> Review:
    for name in (TASK_COLUMN, SYSTEM_COLUMN, REVIEWER_COLUMN):
        if not cells.get(name, "unasked").strip():
            raise TableError(f"{table.path}: row {row}: {name} is empty")
    scores = {name: parse_score(cells[name].strip(), f"{table.path}: row {row}: {name}", scale) for name in dimensions}
    return Review(
        cells.get(REVIEWER_COLUMN, "").strip(),
        PaperName(cells[TASK_COLUMN].strip(), cells[SYSTEM_COLUMN].strip()),
        scores,
        row,
    )


def parse_score(text: str, where: str, scale: ScaleRange) -> float:
    """Parse a score of the scale. Raises `TableError`, with `where` in it."""
    try:
        value = float(text)
    except ValueError:
        raise TableError(f"{where} is {text!r}, which is not a number") from None
    if not math.isfinite(value) or not scale.lowest <= value <= scale.highest:
        raise TableError(
            f"{where} is {text}, outside the scale {scale.lowest}-{scale.highest}; for another scale: --scale "
            "LOWEST-HIGHEST"
        )
    return value


# --- pairs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoredPaper:
    """A paper scored by both. `humans` are sorted by score, so results do not depend on names or row order."""

    paper: PaperName
    judge: float
    humans: tuple[float, ...]
    paired: bool


@dataclass(frozen=True)
class ComparedScores:
    """Papers in order of name, by dimension, and warnings for the reader."""

    subjects: dict[str, tuple[ScoredPaper, ...]]
    reviews: int
    reviewers: int
    usual: int
    warnings: tuple[str, ...]


def select_compared(
    humans: tuple[Review, ...], judge: dict[PaperName, Review], dimensions: tuple[str, ...]
) -> ComparedScores:
    """Select the scores to compare. Raises `NoPairsError`."""
    once, warnings = _drop_duplicates(humans)
    by_paper: dict[PaperName, list[Review]] = defaultdict(list)
    for one in once:
        by_paper[one.paper].append(one)
    warnings += [
        f"{paper} has {len(by_paper[paper])} reviews but no score by the judge: ignored"
        for paper in sorted(by_paper)
        if paper not in judge
    ]
    if unread := sorted(set(judge) - set(by_paper)):
        warnings.append(
            f"{len(unread)} papers that the judge scored have no review and are ignored: "
            f"{', '.join(map(str, unread[:5]))}{', ...' if len(unread) > 5 else ''}"
        )
    shared = {paper: by_paper[paper] for paper in sorted(by_paper) if paper in judge}
    if not shared:
        raise NoPairsError(
            f"no paper is in both files: the humans have {min(by_paper)}, the judge {min(judge)}; "
            "workshop_name and model_name must match exactly"
        )
    usual = _usual_review_count(shared)
    unpaired = {paper: why for paper, reviews in shared.items() if (why := _explain_unpaired(reviews, usual))}
    warnings += [f"{paper} is excluded from the human-human set: {why}" for paper, why in unpaired.items()]
    if len(unpaired) == len(shared):
        raise NoPairsError(
            "there is no paper on which two reviewers can be compared: "
            + "; ".join(f"{paper} {why}" for paper, why in list(unpaired.items())[:3])
        )
    subjects = {
        name: tuple(
            ScoredPaper(
                paper,
                judge[paper].scores[name],
                tuple(sorted(one.scores[name] for one in reviews)),
                paper not in unpaired,
            )
            for paper, reviews in shared.items()
        )
        for name in dimensions
    }
    kept = [one for reviews in shared.values() for one in reviews]
    return ComparedScores(subjects, len(kept), len({one.reviewer for one in kept}), usual, tuple(warnings))


def _drop_duplicates(humans: tuple[Review, ...]) -> tuple[list[Review], list[str]]:
    seen: dict[tuple[str, PaperName, tuple[float, ...]], int] = {}
    kept: list[Review] = []
    warnings: list[str] = []
    for one in humans:
        key = (one.reviewer, one.paper, tuple(one.scores.values()))
        if key in seen:
            warnings.append(f"row {one.row} of the human reviews is identical to row {seen[key]}: counted once")
            continue
        seen[key] = one.row
        kept.append(one)
    return kept, warnings


def _usual_review_count(papers: dict[PaperName, list[Review]]) -> int:
    counts = Counter(len(reviews) for reviews in papers.values() if len(reviews) > 1)
    return max(counts, key=lambda size: (counts[size], size), default=2)


def _explain_unpaired(reviews: list[Review], usual: int) -> str:
    twice = [name for name, count in sorted(Counter(one.reviewer for one in reviews).items()) if count > 1]
    whys = [f"it has {len(reviews)} review{'s' * (len(reviews) != 1)}, not {usual}"] if len(reviews) != usual else []
    if twice:
        whys.append(
            f"reviewer {twice[0]} reviewed it more than once (rows "
            f"{', '.join(str(one.row) for one in reviews if one.reviewer == twice[0])})"
        )
    return "; ".join(whys)
