"""`python -m labwright.evals.judge_bias PAPER... [--model M --base-url URL] [--repeats N] [--out FILE]`: measure
biases of a judge.

Each paper is judged unchanged, padded (paragraphs without content in every section) and inflated (boasts without
numbers in every section); each pair of papers is judged in both orders. The guards clean the papers first. The
report has the difference in mean scores between each change and the original, and how often the preferred position
stays the same when the papers swap places. Without `--model`, three scripted judges with a known bias and one
without validate the method; they say nothing about a real model.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

from labwright.evals.scripted_judges import make_leaning_judge
from labwright.models.backend import Backend
from labwright.models.client import Models
from labwright.models.errors import ModelError
from labwright.models.retry import open_backend
from labwright.models.roles.judge import PREFER, PreferInputs, ShownPaper
from labwright.models.settings import ModelSettings
from labwright.record.event_log import MemoryLog
from labwright.record.schema.paper import Judgement
from labwright.record.table import Table
from labwright.review.judge import GuardedPaper, JudgeCase, guard_paper, judge_case, read_paper, read_rubric
from labwright.review.judge.judge import excerpt_paper
from labwright.review.judge.paper_reader import Paper, PaperSection

FILLER = (
    "In what follows the points made above are taken up once more for the convenience of readers. The considerations "
    "of the preceding paragraphs apply here as they did there, and nothing is added to them. Each of the aspects named "
    "remains as it was described, and the description given remains valid. "
) * 3
BOAST = (
    "These groundbreaking and unprecedented results dramatically advance the state-of-the-art, and their remarkable "
    "impact on the whole field can hardly be overstated."
)


@dataclass(frozen=True)
class JudgeBias:
    """Mean differences of scores from the original, in points; `flips` of `pairs` preferences follow the order."""

    judge: str
    papers: int
    padded: float | None
    inflated: float | None
    pairs: int
    flips: int
    missing: int


def pad_paper(paper: Paper) -> Paper:
    """Add paragraphs without content to every section of the main text."""
    return _change_sections(paper, lambda text: f"{text}\n\n{FILLER}")


def inflate_paper(paper: Paper) -> Paper:
    """Add boasts at the start and end of every section of the main text."""
    return _change_sections(paper, lambda text: f"{BOAST}\n\n{text}\n\n{BOAST}")


def _change_sections(paper: Paper, change: Callable[[str], str]) -> Paper:
    sections = tuple(
        part if part.is_back_matter or not part.text else PaperSection(part.title, change(part.text))
        for part in paper.sections
    )
    return replace(paper, sections=sections)


async def measure_bias(name: str, models: Models, papers: Sequence[Paper], repeats: int) -> JudgeBias:
    """Measure the biases of one judge; failed judgements and preferences count as missing."""
    desk, missing = models.make_client(0, 0), 0
    found: dict[str, list[float]] = {"padded": [], "inflated": []}

    async def score(paper: Paper) -> float:
        case = JudgeCase(GuardedPaper(paper), read_rubric(), "paper")
        return fmean([_mean_or_none(await judge_case(case, desk, model=name)) for _ in range(repeats)])

    for paper in papers:
        try:
            before = await score(paper)
            found["padded"].append(await score(pad_paper(paper)) - before)
            found["inflated"].append(await score(inflate_paper(paper)) - before)
        except ModelError:
            missing += 1
    flips = pairs = 0
    for one, other in itertools.combinations([_shorten_paper(paper) for paper in papers], 2):
        try:
            there = await desk.ask(PREFER, PreferInputs(first=one, second=other))
            back = await desk.ask(PREFER, PreferInputs(first=other, second=one))
        except ModelError:
            missing += 1
            continue
        pairs += 1
        flips += there.better == back.better != "neither"
    return JudgeBias(
        name,
        len(papers),
        *(fmean(found[way]) if found[way] else None for way in ("padded", "inflated")),
        pairs=pairs,
        flips=flips,
        missing=missing,
    )


def _mean_or_none(found: Judgement) -> float:
    return fmean(one.score for one in found.scores)


def _shorten_paper(paper: Paper) -> ShownPaper:
    shown = excerpt_paper(paper)
    return ShownPaper(text=shown.text, characters=paper.characters, left_out=shown.left_out)


def make_scripted_judges() -> dict[str, Backend]:
    """Return judges with a known bias."""
    return {
        "scripted, no bias": make_leaning_judge(),
        "scripted, prefers length": make_leaning_judge(to_length=0.2),
        "scripted, prefers boasts": make_leaning_judge(to_claims=0.1),
        "scripted, prefers the first": make_leaning_judge(to_first=True),
    }


async def measure_biases(
    paths: Sequence[Path], backends: dict[str, Backend], settings: ModelSettings, repeats: int
) -> list[JudgeBias]:
    """Return one row per judge."""
    papers = [(await guard_paper(await read_paper(path))).paper for path in paths]
    return [
        await measure_bias(name, Models(one, MemoryLog(), settings, time.monotonic), papers, repeats)
        for name, one in backends.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("papers", type=Path, nargs="+")
    parser.add_argument("--model")
    parser.add_argument("--base-url")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    settings = ModelSettings(name=given.model or "offline", base_url=given.base_url)
    backends: dict[str, Backend] = {given.model: open_backend(settings)} if given.model else make_scripted_judges()
    found = asyncio.run(measure_biases(given.papers, backends, settings, given.repeats))
    rows = [
        (
            one.judge,
            one.papers,
            *("none" if value is None else f"{value:+.2f}" for value in (one.padded, one.inflated)),
            f"{one.flips} of {one.pairs}",
            one.missing,
        )
        for one in found
    ]
    print(Table.of(("judge", "papers", "padded", "inflated", "order followed", "missing"), rows).to_markdown())
    if given.out:
        given.out.write_text(json.dumps([asdict(one) for one in found], indent=1))


if __name__ == "__main__":
    main()
