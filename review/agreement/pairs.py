"""Which scores are compared: the rules, and a warning for every paper that they touch.

- The usual number of reviews is the commonest one of at least two; of several equally common, the largest.
- Human-human: all pairs of reviews of one paper, of papers with the usual number of reviews, each by another reviewer.
  A paper with another number leaves this set: its pairs would weigh more, or there are none. So does a paper that a
  reviewer reviewed twice, since two readings by one person are not two opinions.
- Judge-human: the judge against every review of a paper that both files have, those above too. A second review by
  the same reviewer counts as a review; a row that says the same as another in every column counts once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from review.agreement.errors import NoPairsError
from review.agreement.tables import PaperName, Review


@dataclass(frozen=True)
class Subject:
    """A paper that both scored. `humans` are sorted by score, so that nothing depends on names or order of rows."""

    paper: PaperName
    judge: float
    humans: tuple[float, ...]
    paired: bool


@dataclass(frozen=True)
class Compared:
    """Papers in order of their names, by dimension, and what the reader should know of them."""

    subjects: dict[str, tuple[Subject, ...]]
    reviews: int
    reviewers: int
    usual: int
    warnings: tuple[str, ...]


def compare(humans: tuple[Review, ...], judge: dict[PaperName, Review], dimensions: tuple[str, ...]) -> Compared:
    """The scores to compare. Raises `NoPairsError`."""
    once, warnings = _without_copies(humans)
    by_paper: dict[PaperName, list[Review]] = defaultdict(list)
    for one in once:
        by_paper[one.paper].append(one)
    warnings += [f"{paper} has {len(by_paper[paper])} reviews and no score of the judge: left out"
                 for paper in sorted(by_paper) if paper not in judge]
    if unread := sorted(set(judge) - set(by_paper)):
        warnings.append(f"{len(unread)} papers that the judge scored have no review and are left out: "
                        f"{', '.join(map(str, unread[:5]))}{', ...' if len(unread) > 5 else ''}")
    shared = {paper: by_paper[paper] for paper in sorted(by_paper) if paper in judge}
    if not shared:
        raise NoPairsError(f"no paper is in both files: the humans have {min(by_paper)}, the judge {min(judge)}; "
                           "a paper is its workshop_name with its model_name, letter by letter")
    usual = _usual(shared)
    unpaired = {paper: why for paper, reviews in shared.items() if (why := _why_unpaired(reviews, usual))}
    warnings += [f"{paper} leaves the human-human set: {why}" for paper, why in unpaired.items()]
    if len(unpaired) == len(shared):
        raise NoPairsError("no paper is left on which two reviewers can be compared: " + "; ".join(
            f"{paper} {why}" for paper, why in list(unpaired.items())[:3]))
    subjects = {
        name: tuple(Subject(paper, judge[paper].scores[name], tuple(sorted(one.scores[name] for one in reviews)),
                            paper not in unpaired) for paper, reviews in shared.items())
        for name in dimensions}
    kept = [one for reviews in shared.values() for one in reviews]
    return Compared(subjects, len(kept), len({one.reviewer for one in kept}), usual, tuple(warnings))


def _without_copies(humans: tuple[Review, ...]) -> tuple[list[Review], list[str]]:
    seen: dict[tuple[str, PaperName, tuple[float, ...]], int] = {}
    kept: list[Review] = []
    warnings: list[str] = []
    for one in humans:
        key = (one.reviewer, one.paper, tuple(one.scores.values()))
        if key in seen:
            warnings.append(f"row {one.row} of the human reviews says the same as row {seen[key]}: counted once")
            continue
        seen[key] = one.row
        kept.append(one)
    return kept, warnings


def _usual(papers: dict[PaperName, list[Review]]) -> int:
    counts = Counter(len(reviews) for reviews in papers.values() if len(reviews) > 1)
    return max(counts, key=lambda size: (counts[size], size), default=2)


def _why_unpaired(reviews: list[Review], usual: int) -> str:
    twice = [name for name, count in sorted(Counter(one.reviewer for one in reviews).items()) if count > 1]
    whys = [f"it has {len(reviews)} review{'s' * (len(reviews) != 1)}, not {usual}"] if len(reviews) != usual else []
    if twice:
        whys.append(f"reviewer {twice[0]} reviewed it more than once (rows "
                    f"{', '.join(str(one.row) for one in reviews if one.reviewer == twice[0])})")
    return "; ".join(whys)
