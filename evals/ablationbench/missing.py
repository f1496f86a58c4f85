"""`scientist missing-ablations`: which ablations a draft reports, which of its parts never are, and what to add.

Quotes are looked up in the paper, and one that does not stand there says so. Not guaranteed: that a part which is
called never ablated is not, in a figure or in what was left out of a long paper.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labwright.agent.budget import check_priced, models_of
from labwright.agent.cli.edge import DONE, check_output
from labwright.agent.cli.paper_commands import MissingAblations
from labwright.agent.cli.shown import answer
from labwright.agent.cli.status import state_of
from labwright.agent.settings import Settings, compose, override
from labwright.evals.ablationbench.data import BenchPaper
from labwright.evals.ablationbench.entries import Entry, Plan, as_lines, read_plan, without_repeats
from labwright.evals.ablationbench.judging import author_matches, review_requests, reviewer_matches
from labwright.evals.ablationbench.missing_report import MissingReport, PlanScore, QuotedAblation, QuotedPart, lines
from labwright.evals.ablationbench.papers import Visible, visible
from labwright.evals.ablationbench.planning import entry
from labwright.evals.ablationbench.scores import author_score, majority, reviewer_score
from labwright.models.client import Models
from labwright.models.offline.assessing import CONFIGURE
from labwright.models.roles.ablations import (
    MOST_LISTED,
    PAPER_ABLATIONS,
    AblatedPart,
    ListedAblation,
    PaperAblationsInputs,
)
from labwright.record.errors import WrongUse
from labwright.record.folder import RunFolder, write_file
from labwright.record.log import MemoryLog
from labwright.record.reading import RecordError, is_run
from labwright.record.zips import open_run_folder
from labwright.review.evidence.tex import TexError
from labwright.review.judge import Paper
from labwright.review.judge.quotes import stands_in
from labwright.review.judge.sections import PaperSection
from labwright.stages.judging import paper_of

_TEX = re.compile(r"\\(?:end\{abstract\}|maketitle)\s*")


@dataclass(frozen=True)
class _Draft:
    """The paper with the settings that its reader gets."""

    path: Path
    settings: Settings
    title: str = ""
    abstract: str = ""


def missing_ablations(asked: MissingAblations) -> int:
    if asked.view not in ("author", "reviewer"):
        raise WrongUse(
            f"--as {asked.view!r}: give reviewer, which sees the whole paper, or author, which sees it up to its method"
        )
    if ((asked.gold or asked.reviews) and asked.plan is None) or (asked.gold and asked.reviews):
        raise WrongUse("--gold or --reviews score the list that --plan gives: give --plan and one of the two")
    if asked.until and asked.view != "author":
        raise WrongUse("--until belongs to --as author: a reviewer sees the whole paper")
    if asked.out is not None:
        check_output(asked.out, asked.paper, asked.plan, asked.gold, *(asked.reviews or ()))
        if not asked.out.absolute().parent.is_dir():
            raise WrongUse(f"--out {asked.out} cannot be a file: name one in a folder that is there")
    plan = _plan(asked.plan)
    try:
        draft = _draft(asked)
        if draft.settings.models.candidates(PAPER_ABLATIONS)[0].name == "offline":
            raise WrongUse(f"the offline model reads no papers: {CONFIGURE}")
        check_priced(draft.settings)
        found = asyncio.run(_report(asked, draft, plan))
    except (TexError, RecordError) as error:
        raise WrongUse(str(error)) from None
    if asked.out is not None:
        write_file(asked.out, as_lines(entry(one.ablation) for one in found.missing))
    answer(found, lines(found), json=asked.json)
    if asked.out is not None and not asked.json:
        print(f"written to {asked.out}")
    return DONE


def _plan(path: Path | None) -> Plan:
    """The list of the person. Raises `WrongUse`."""
    if path is None:
        return Plan()
    found = read_plan(_text(path, "--plan").splitlines())
    if not found.entries or len(found.entries) > MOST_LISTED:
        why = "; ".join(found.faults[:3]) or f"{len(found.entries)} entries, from 1 to {MOST_LISTED} can be read"
        raise WrongUse(f"--plan {path}: {why}: give a line of JSON each, with name, ablated_part and action")
    return found


def _text(path: Path, option: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"cannot read {option} {path}: {error}") from None


def _draft(asked: MissingAblations) -> _Draft:
    """The paper, or the paper of a run with the run's own models. Raises `WrongUse`, `RecordError`, `JudgeError`."""
    if not asked.paper.exists():
        raise WrongUse(f"there is no {asked.paper}: give a paper (PDF, LaTeX, Markdown) or the folder of a run")
    run = open_run_folder(asked.paper)
    if not (run.is_dir() and is_run(run)):
        return _Draft(asked.paper, compose(config=asked.config, flags=asked.flags))
    state = state_of(run)
    if state.started is None or state.released is None:
        raise WrongUse(f"{asked.paper} has no paper yet: finish the run first with scientist resume {asked.paper}")
    paper = asyncio.run(paper_of(state, RunFolder(run, state.version)))
    return _Draft(paper.path, override(state.started.settings, state.overrides | asked.flags))


async def _report(asked: MissingAblations, draft: _Draft, plan: Plan) -> MissingReport:
    """What a model says of the paper, its quotes looked up. Raises `ModelError`, `JudgeError`."""
    seen = await visible(draft.path, whole=asked.view == "reviewer", until=asked.until)
    log = MemoryLog()
    models = models_of(draft.settings, log)
    title, abstract = about(seen.paper)
    shown, text = seen.shown, seen.paper.text
    kept, repeats = without_repeats(plan.entries)
    inputs = PaperAblationsInputs(
        view="author" if asked.view == "author" else "reviewer",
        title=title,
        abstract=abstract,
        paper=shown,
        most=asked.k,
        plan=tuple(_listed(one, number) for number, one in enumerate(kept, 1)),
    )
    found = await models.at(0, 0).ask(PAPER_ABLATIONS, inputs)
    score = await _score(asked, draft, BenchPaper("author", asked.paper.name, title, abstract, draft.path), kept, seen)
    return MissingReport(
        paper=str(asked.paper),
        view=asked.view,
        model=models.name_of(PAPER_ABLATIONS),
        shown=seen.kept,
        cut=seen.cut,
        left_out=shown.left_out,
        reasoning=found.reasoning,
        remarks=found.remarks,
        faults=plan.faults,
        score=score,
        repeats=tuple(f"{one.entry.name} = {one.like}" for one in repeats),
        removed=seen.removed,
        took=log.state.total,
        parts=tuple(_quoted_part(one, text) for one in found.parts),
        missing=tuple(QuotedAblation(ablation=one, quoted=stands_in(one.quote, text)) for one in found.ablations),
    )


def _quoted_part(one: AblatedPart, text: str) -> QuotedPart:
    quotes = (one.quote, one.where if one.ablated else "")
    return QuotedPart(part=one, quoted=all(stands_in(quote, text) for quote in quotes if quote))


def about(paper: Paper) -> tuple[str, str]:
    """Title and abstract of a paper, as far as its form tells them apart."""
    sections = paper.sections
    first = sections[0] if sections else PaperSection("", "")
    title = first.text if first.title == "Title" else first.title or first.text.strip().partition("\n\n")[0]
    abstract = next((one.text for one in sections if "abstract" in one.title.casefold()), "")
    return " ".join(title.removeprefix("Title:").split())[:300] or paper.path.stem, _TEX.sub("", abstract)[:4000]


def _listed(one: Entry, number: int) -> ListedAblation:
    return ListedAblation(
        id=f"e{number}",
        name=one.name,
        ablated_part=one.ablated_part or one.name,
        action=one.action,
        replacement=one.replacement,
    )


# --- scoring a list ---------------------------------------------------------------------------------------------------


async def _score(
    asked: MissingAblations, draft: _Draft, paper: BenchPaper, entries: Sequence[Entry], seen: Visible
) -> PlanScore | None:
    """The list against gold or reviews, by the majority of judges; None where neither is given. Raises `ModelError`."""
    if not asked.gold and not asked.reviews:
        return None
    named = tuple(one.strip() for one in asked.judges.split(",") if one.strip())
    judges = {
        name: models_of(draft.settings.model_copy(update={"models": draft.settings.models.alone(name)}), MemoryLog())
        for name in named
    } or {draft.settings.models.candidates(PAPER_ABLATIONS)[0].name: models_of(draft.settings, MemoryLog())}
    if asked.gold:
        gold = read_plan(_text(asked.gold, "--gold").splitlines()).entries
        if not gold:
            raise WrongUse(f"--gold {asked.gold} holds no ablation: give a line of JSON each, as for --plan")
        return await _against_gold(
            judges, BenchPaper("author", paper.id, paper.title, paper.abstract, paper.folder, gold), entries
        )
    reviews = tuple(_text(path, "--reviews") for path in asked.reviews or ())
    return await _against_reviews(
        judges, BenchPaper("reviewer", paper.id, paper.title, paper.abstract, paper.folder, (), reviews), entries, seen
    )


async def _against_gold(judges: dict[str, Models], paper: BenchPaper, entries: Sequence[Entry]) -> PlanScore:
    said = [
        frozenset(
            (int(one.gold[1:]) - 1, int(one.entry[1:]) - 1)
            for one in (await author_matches(models.at(1, 0), paper, entries, f"{name} {paper.id}"))[0]
        )
        for name, models in judges.items()
    ]
    score = author_score(len(paper.gold), len(entries), majority(said) or frozenset())
    return PlanScore(
        against="gold",
        judges=tuple(judges),
        entries=len(entries),
        wanted=len(paper.gold),
        precision=score.precision,
        recall=score.recall,
        f1=score.f1,
        found=score.found,
    )


async def _against_reviews(
    judges: dict[str, Models], paper: BenchPaper, entries: Sequence[Entry], seen: Visible
) -> PlanScore:
    """Against what the first judge lists, so that all judges vote on the same requests."""
    first = next(iter(judges.values()))
    requests = await review_requests(first.at(1, 0), paper)
    if not requests:
        raise WrongUse("the reviews ask for no ablation: there is nothing to score the list against")
    said = [
        frozenset(
            int(one.entry[1:]) - 1
            for one in await reviewer_matches(models.at(2, 0), paper, seen.shown, requests, entries)
        )
        for models in judges.values()
    ]
    score = reviewer_score(len(requests), len(entries), majority(said) or frozenset())
    return PlanScore(
        against="reviews",
        judges=tuple(judges),
        entries=len(entries),
        wanted=len(requests),
        precision=score.precision,
        recall=score.recall,
        f1=score.f1,
    )
