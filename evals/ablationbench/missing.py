"""`scientist missing-ablations`: which ablations a draft reports, which of its parts never are, and what to add.

Quotes are looked up in the paper, and one that does not stand there says so. Not guaranteed: that a part which is
called never ablated is not, in a figure or in what was left out of a long paper.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field
from rich.table import Table
from rich.text import Text

from agent.budget import check_priced, models_of
from agent.cli.edge import DONE
from agent.cli.judge import removed_lines
from agent.cli.paper_commands import MissingAblations
from agent.cli.shown import answer, line
from agent.cli.status import state_of
from agent.settings import Settings, compose, override
from evals.ablationbench.data import BenchPaper
from evals.ablationbench.entries import Entry, Plan, as_lines, read_plan, without_repeats
from evals.ablationbench.judging import author_matches, review_requests, reviewer_matches
from evals.ablationbench.papers import Visible, visible
from evals.ablationbench.planning import entry
from evals.ablationbench.scores import author_score, majority, reviewer_score
from inspector.text import dollars, plain
from models.client import Models
from models.offline.assessing import CONFIGURE
from models.roles.ablations import (
    MOST_LISTED,
    PAPER_ABLATIONS,
    AblatedPart,
    ListedAblation,
    PaperAblationsInputs,
    Remark,
    WantedAblation,
)
from record.errors import WrongUse
from record.fold.facts import RoleUsage
from record.folder import RunFolder, write_file
from record.log import MemoryLog
from record.nouns.frozen import Frozen
from record.nouns.papers import Removed
from record.reading import RecordError, is_run
from review.evidence.tex import TexError
from review.judge import Paper
from review.judge.quotes import stands_in
from review.judge.sections import PaperSection
from stages.judging import paper_of

NOT_QUOTED = "not in the paper"
_TEX = re.compile(r"\\(?:end\{abstract\}|maketitle)\s*")


class QuotedPart(Frozen):
    """A part of the method; `quoted` says whether its passages stand in the paper."""

    part: AblatedPart
    quoted: bool


class QuotedAblation(Frozen):
    """An ablation that is asked for."""

    ablation: WantedAblation
    quoted: bool


class PlanScore(Frozen):
    """A plan against gold ablations or reviews. `found`: of each gold ablation, or empty for reviews."""

    against: str
    judges: tuple[str, ...]
    entries: int
    wanted: int
    precision: float
    recall: float
    f1: float
    found: tuple[bool, ...] = ()


class MissingReport(Frozen):
    """What a paper ablates, what it does not, and what is missing, best first."""

    paper: str
    view: str
    model: str
    shown: tuple[str, ...] = Field(description="titles of the sections that were shown")
    cut: tuple[str, ...] = Field(default=(), description="titles of those that were not, in author mode")
    left_out: tuple[str, ...] = ()
    parts: tuple[QuotedPart, ...]
    missing: tuple[QuotedAblation, ...]
    reasoning: str
    remarks: tuple[Remark, ...] = Field(default=(), description="on the plan that was handed in, entry by entry")
    repeats: tuple[str, ...] = Field(default=(), description="entries of that plan that repeat an earlier one")
    faults: tuple[str, ...] = ()
    score: PlanScore | None = None
    removed: tuple[Removed, ...] = ()
    took: RoleUsage


@dataclass(frozen=True)
class _Draft:
    """The paper with the settings that its reader gets."""

    path: Path
    settings: Settings
    title: str = ""
    abstract: str = ""


def missing_ablations(asked: MissingAblations) -> int:
    if asked.view not in ("author", "reviewer"):
        raise WrongUse(f"--as {asked.view!r}: give reviewer, which sees the whole paper, or author, which sees it "
                       "up to its method")
    if ((asked.gold or asked.reviews) and asked.plan is None) or (asked.gold and asked.reviews):
        raise WrongUse("--gold or --reviews score the list that --plan gives: give --plan and one of the two")
    if asked.until and asked.view != "author":
        raise WrongUse("--until belongs to --as author: a reviewer sees the whole paper")
    if asked.out is not None and (asked.out.is_dir() or not asked.out.absolute().parent.is_dir()):
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
    if not (asked.paper.is_dir() and is_run(asked.paper)):
        return _Draft(asked.paper, compose(config=asked.config, flags=asked.flags))
    state = state_of(asked.paper)
    if state.started is None or state.released is None:
        raise WrongUse(f"{asked.paper} has no paper yet: finish the run first with scientist resume {asked.paper}")
    paper = asyncio.run(paper_of(state, RunFolder(asked.paper, state.version)))
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
        view="author" if asked.view == "author" else "reviewer", title=title, abstract=abstract, paper=shown,
        most=asked.k, plan=tuple(_listed(one, number) for number, one in enumerate(kept, 1)))
    found = await models.at(0, 0).ask(PAPER_ABLATIONS, inputs)
    score = await _score(asked, draft, BenchPaper("author", asked.paper.name, title, abstract, draft.path), kept, seen)
    return MissingReport(
        paper=str(asked.paper), view=asked.view, model=models.name_of(PAPER_ABLATIONS), shown=seen.kept, cut=seen.cut,
        left_out=shown.left_out, reasoning=found.reasoning, remarks=found.remarks, faults=plan.faults, score=score,
        repeats=tuple(f"{one.entry.name} = {one.like}" for one in repeats), removed=seen.removed, took=log.state.total,
        parts=tuple(_quoted_part(one, text) for one in found.parts),
        missing=tuple(QuotedAblation(ablation=one, quoted=stands_in(one.quote, text)) for one in found.ablations))


def _quoted_part(one: AblatedPart, text: str) -> QuotedPart:
    quotes = (one.quote, one.where if one.ablated else "")
    return QuotedPart(part=one, quoted=all(stands_in(quote, text) for quote in quotes if quote))


def about(paper: Paper) -> tuple[str, str]:
    """Title and abstract of a paper, as far as its form tells them apart."""
    sections = paper.sections
    first = sections[0] if sections else PaperSection("", "")
    title = first.text if first.title == "Title" else first.title or first.text.strip().partition("\n")[0]
    abstract = next((one.text for one in sections if "abstract" in one.title.casefold()), "")
    return " ".join(title.removeprefix("Title:").split())[:300] or paper.path.stem, _TEX.sub("", abstract)[:4000]


def _listed(one: Entry, number: int) -> ListedAblation:
    return ListedAblation(id=f"e{number}", name=one.name, ablated_part=one.ablated_part or one.name, action=one.action,
                          replacement=one.replacement)


# --- scoring a list ---------------------------------------------------------------------------------------------------


async def _score(asked: MissingAblations, draft: _Draft, paper: BenchPaper, entries: Sequence[Entry], seen: Visible
                 ) -> PlanScore | None:
    """The list against gold or reviews, by the majority of judges; None where neither is given. Raises `ModelError`."""
    if not asked.gold and not asked.reviews:
        return None
    named = tuple(one.strip() for one in asked.judges.split(",") if one.strip())
    judges = {name: models_of(draft.settings.model_copy(update={"models": draft.settings.models.alone(name)}),
                              MemoryLog()) for name in named} or {
        draft.settings.models.candidates(PAPER_ABLATIONS)[0].name: models_of(draft.settings, MemoryLog())}
    if asked.gold:
        gold = read_plan(_text(asked.gold, "--gold").splitlines()).entries
        if not gold:
            raise WrongUse(f"--gold {asked.gold} holds no ablation: give a line of JSON each, as for --plan")
        return await _against_gold(judges, BenchPaper("author", paper.id, paper.title, paper.abstract, paper.folder,
                                                      gold), entries)
    reviews = tuple(_text(path, "--reviews") for path in asked.reviews or ())
    return await _against_reviews(judges, BenchPaper("reviewer", paper.id, paper.title, paper.abstract, paper.folder,
                                                     (), reviews), entries, seen)


async def _against_gold(judges: dict[str, Models], paper: BenchPaper, entries: Sequence[Entry]) -> PlanScore:
    said = [frozenset((int(one.gold[1:]) - 1, int(one.entry[1:]) - 1) for one in (await author_matches(
        models.at(1, 0), paper, entries, f"{name} {paper.id}"))[0]) for name, models in judges.items()]
    score = author_score(len(paper.gold), len(entries), majority(said) or frozenset())
    return PlanScore(against="gold", judges=tuple(judges), entries=len(entries), wanted=len(paper.gold),
                     precision=score.precision, recall=score.recall, f1=score.f1, found=score.found)


async def _against_reviews(judges: dict[str, Models], paper: BenchPaper, entries: Sequence[Entry], seen: Visible
                           ) -> PlanScore:
    """Against what the first judge lists, so that all judges vote on the same requests."""
    first = next(iter(judges.values()))
    requests = await review_requests(first.at(1, 0), paper)
    if not requests:
        raise WrongUse("the reviews ask for no ablation: there is nothing to score the list against")
    said = [frozenset(int(one.entry[1:]) - 1 for one in await reviewer_matches(
        models.at(2, 0), paper, seen.shown, requests, entries)) for models in judges.values()]
    score = reviewer_score(len(requests), len(entries), majority(said) or frozenset())
    return PlanScore(against="reviews", judges=tuple(judges), entries=len(entries), wanted=len(requests),
                     precision=score.precision, recall=score.recall, f1=score.f1)


# --- what is shown ----------------------------------------------------------------------------------------------------


def lines(found: MissingReport) -> Iterator[Text | Table]:
    """What is ablated, what is not and carries a claim, then what is missing, best first."""
    yield line(f"{found.paper}, read by {found.model} as its {found.view}", "bold")
    there = [one for one in found.parts if one.part.ablated]
    yield line(f"ablated already: {len(there)}" if there else "ablated already: nothing that was found", "bold")
    yield from (_item(one.part.part, "", one.part.where or one.part.quote, one.quoted, "green") for one in there)
    never = [one for one in found.parts if not one.part.ablated]
    yield line(f"never ablated: {len(never)}", "bold")
    yield from (_item(one.part.part, one.part.claim.removeprefix("none"), one.part.quote, one.quoted, "yellow")
                for one in never)
    yield line(f"missing, best first: {len(found.missing)}" if found.missing else "missing: none", "bold")
    for number, one in enumerate(found.missing, 1):
        wanted = one.ablation
        yield line(f"{wanted.name}: {_change(wanted)} (likely to be asked for: {wanted.probability:.2f})", "bold",
                   label=f"{number}. ")
        yield _item("tests", wanted.claim, wanted.quote, one.quoted, "")
        if wanted.metrics:
            yield line(f"measured by {', '.join(wanted.metrics)}", "dim")
    yield from _of_plan(found)
    if found.cut:
        yield line(f"not shown to the author: {', '.join(one for one in found.cut if one)}", "dim")
    yield from (line(f"not shown: {one}", "dim") for one in found.left_out)
    yield from removed_lines(found.removed)
    yield line(f"{found.took.calls} calls, {found.took.input_tokens + found.took.output_tokens} tokens, "
               f"{dollars(found.took.usd, found.took.unpriced)}", "dim")


def _change(wanted: WantedAblation) -> str:
    others = "; or ".join(wanted.replacement)
    return {"REMOVE": f"take out {wanted.ablated_part}", "REPLACE": f"replace {wanted.ablated_part} by {others}",
            "ADD": f"add {others} to {wanted.ablated_part}"}[wanted.action]


def _item(head: str, text: str, quote: str, quoted: bool, style: str) -> Text:
    mark = "" if quoted else f" ({NOT_QUOTED})"
    return (Text(plain(head), style=style) + Text(f": {plain(text)}" if text else "")
            + Text(f" \u201c{plain(quote)}\u201d" if quote else "", style="dim") + Text(mark, style="bold red"))


def _of_plan(found: MissingReport) -> Iterator[Text]:
    """What the paper says to the person's own list, and its score."""
    if found.remarks:
        yield line("your list", "bold")
    for one in found.remarks:
        style = {"missing": "green", "there already": "yellow", "no such part": "red"}[one.standing]
        yield Text(f"{one.entry} {one.standing}", style=style) + Text(f": {plain(one.why)}") + Text(
            f" \u201c{plain(one.quote)}\u201d" if one.quote else "", style="dim")
    yield from (line(one, "yellow", label="twice: ") for one in found.repeats)
    yield from (line(one, "yellow", label="not read: ") for one in found.faults)
    if (score := found.score) is not None:
        hits = "" if not score.found else f"; found of gold: {', '.join('yes' if one else 'no' for one in score.found)}"
        yield line(f"against {score.against} ({score.wanted}), judged by {', '.join(score.judges)}: precision "
                   f"{score.precision:.2f}, recall {score.recall:.2f}, F1 {score.f1:.2f}{hits}")
