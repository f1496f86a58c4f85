"""`scientist missing-ablations`: list the ablations in a draft, the parts without one, and the ablations to add.

Quotes are looked up in the paper, and marked if they are not in it. Limits: a part listed as never ablated may be
ablated in a figure, or in the omitted part of a long paper.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field
from rich.text import Text

from labwright.agent.cli.errors import DONE, check_output, format_line, print_result
from labwright.agent.cli.judge import NOT_QUOTED, format_removed
from labwright.agent.cli.status import read_run_state
from labwright.agent.forecast import check_prices_known, open_budgeted_models
from labwright.agent.settings import Settings, compose_settings, override_settings
from labwright.evals.ablationbench.data import BenchPaper
from labwright.evals.ablationbench.papers import (
    AblationPlanFile,
    PlannedAblation,
    VisiblePaper,
    entries_to_lines,
    read_plan,
    read_visible_paper,
    split_repeats,
)
from labwright.evals.ablationbench.plan_judge import ask_author_matches, ask_review_requests, ask_reviewer_matches
from labwright.evals.ablationbench.planners import to_entry
from labwright.evals.ablationbench.roles import (
    MAX_LISTED,
    PAPER_ABLATIONS,
    AblatedPart,
    ListedAblation,
    PaperAblationsInputs,
    Remark,
    WantedAblation,
)
from labwright.evals.ablationbench.scores import compute_author_score, compute_reviewer_score, find_majority
from labwright.evals.commands import MissingAblations
from labwright.inspector.safe_text import format_dollars, to_plain
from labwright.models.client import Models
from labwright.models.offline.judgements import CONFIGURE_MODEL_HINT
from labwright.pdf.layout import TITLE_PAGE
from labwright.record.errors import UsageError
from labwright.record.event_log import MemoryLog, RecordError, is_run
from labwright.record.reducers.run_state import RoleUsage, sum_usage
from labwright.record.run_folder import RunFolder, write_file
from labwright.record.schema import FrozenModel
from labwright.record.schema.paper import RemovedPassage
from labwright.record.table import Table
from labwright.record.zips import open_run_folder
from labwright.review.evidence.tex_runner import TexError
from labwright.review.judge import Paper
from labwright.review.judge.paper_reader import PaperSection, quote_is_in
from labwright.stages.paper.paper_steps import read_released_paper

# Report of `scientist missing-ablations`, and its format; quotes that are not in the paper are marked.


class CheckedPart(FrozenModel):
    """A part of the method; `quoted` says whether its passages are in the paper."""

    part: AblatedPart
    quoted: bool


class CheckedAblation(FrozenModel):
    """A requested ablation."""

    ablation: WantedAblation
    quoted: bool


class PlanScore(FrozenModel):
    """Score of a plan against gold ablations or reviews.

    `found` has one value per gold ablation, and is empty for reviews.
    """

    against: str
    judges: tuple[str, ...]
    entries: int
    wanted: int
    precision: float
    recall: float
    f1: float
    found: tuple[bool, ...] = ()


class MissingReport(FrozenModel):
    """Which parts a paper ablates, which it does not, and which ablations are missing, best first."""

    paper: str
    view: str
    model: str
    shown: tuple[str, ...] = Field(description="titles of the sections that were shown")
    cut: tuple[str, ...] = Field(default=(), description="titles of the sections that were withheld, in author mode")
    left_out: tuple[str, ...] = ()
    parts: tuple[CheckedPart, ...]
    missing: tuple[CheckedAblation, ...]
    reasoning: str
    remarks: tuple[Remark, ...] = Field(default=(), description="for the given plan, entry by entry")
    repeats: tuple[str, ...] = Field(default=(), description="entries of that plan that repeat an earlier one")
    faults: tuple[str, ...] = ()
    score: PlanScore | None = None
    removed: tuple[RemovedPassage, ...] = ()
    took: RoleUsage


def format_report(found: MissingReport) -> Iterator[Text | Table]:
    """Yield what is ablated, what is not but carries a claim, then what is missing, best first."""
    yield format_line(f"{found.paper}, read by {found.model} as its {found.view}", "bold")
    there = [one for one in found.parts if one.part.ablated]
    yield format_line(f"ablated already: {len(there)}" if there else "ablated already: none found", "bold")
    yield from (_format_item(one.part.part, "", one.part.where or one.part.quote, one.quoted, "green") for one in there)
    never = [one for one in found.parts if not one.part.ablated]
    yield format_line(f"{'not ablated before the results' if found.cut else 'never ablated'}: {len(never)}", "bold")
    yield from (
        _format_item(one.part.part, one.part.claim.removeprefix("none"), one.part.quote, one.quoted, "yellow")
        for one in never
    )
    likely = "the authors report it" if found.view == "author" else "a reviewer asks for it"
    yield format_line(f"missing, best first: {len(found.missing)}" if found.missing else "missing: none", "bold")
    for number, one in enumerate(found.missing, 1):
        wanted = one.ablation
        yield format_line(
            f"{wanted.name}: {_format_change(wanted)} (probability that {likely}: {wanted.probability:.2f})",
            "bold",
            label=f"{number}. ",
        )
        yield _format_item("tests", wanted.claim, wanted.quote, one.quoted, "")
        if wanted.metrics:
            yield format_line(f"measured by {', '.join(wanted.metrics)}", "dim")
    yield from _format_plan_score(found)
    if found.cut:
        yield format_line(f"withheld from the author: {', '.join(one for one in found.cut if one)}", "dim")
    yield from (format_line(f"not shown: {one}", "dim") for one in found.left_out)
    yield from format_removed(found.removed)
    took = found.took
    yield format_line(
        f"{took.calls} call{'s' if took.calls != 1 else ''}, {took.tokens} tokens, "
        f"{format_dollars(took.usd, took.unpriced)}",
        "dim",
    )


def _format_change(wanted: WantedAblation) -> str:
    others = "; or ".join(wanted.replacement)
    return {
        "REMOVE": f"remove {wanted.ablated_part}",
        "REPLACE": f"replace {wanted.ablated_part} by {others}",
        "ADD": f"add {others} to {wanted.ablated_part}",
    }[wanted.action]


def _format_item(head: str, text: str, quote: str, quoted: bool, style: str) -> Text:
    mark = "" if quoted else f" ({NOT_QUOTED})"
    return (
        Text(to_plain(head), style=style)
        + Text(f": {to_plain(text)}" if text else "")
        + Text(f" \u201c{to_plain(quote)}\u201d" if quote else "", style="dim")
        + Text(mark, style="bold red")
    )


def _format_plan_score(found: MissingReport) -> Iterator[Text]:
    """Yield how the paper covers the user's list, and the score of the list."""
    if found.remarks:
        yield format_line("your list", "bold")
    for one in found.remarks:
        style = {"missing": "green", "there already": "yellow", "no such part": "red"}[one.standing]
        yield (
            Text(f"{one.entry} {one.standing}", style=style)
            + Text(f": {to_plain(one.why)}")
            + Text(f" \u201c{to_plain(one.quote)}\u201d" if one.quote else "", style="dim")
        )
    yield from (format_line(one, "yellow", label="twice: ") for one in found.repeats)
    yield from (format_line(one, "yellow", label="not read: ") for one in found.faults)
    if (score := found.score) is not None:
        hits = "" if not score.found else f"; found of gold: {', '.join('yes' if one else 'no' for one in score.found)}"
        yield format_line(
            f"against {score.against} ({score.wanted}), judged by {', '.join(score.judges)}: precision "
            f"{score.precision:.2f}, recall {score.recall:.2f}, F1 {score.f1:.2f}{hits}"
        )


_TEX = re.compile(r"\\(?:end\{abstract\}|maketitle)\s*")


@dataclass(frozen=True)
class _PaperToCheck:
    """The paper with the settings for reading it."""

    path: Path
    settings: Settings
    title: str = ""
    abstract: str = ""


def find_missing_ablations(args: MissingAblations) -> int:
    if args.view not in ("author", "reviewer"):
        raise UsageError(
            f"--as {args.view!r}: give reviewer (sees the whole paper) or author (sees it up to its method)"
        )
    if ((args.gold or args.reviews) and args.plan is None) or (args.gold and args.reviews):
        raise UsageError("--gold and --reviews score the list from --plan: give --plan and one of the two")
    if args.until and args.view != "author":
        raise UsageError("--until requires --as author: a reviewer sees the whole paper")
    if args.out is not None:
        check_output(args.out, args.paper, args.plan, args.gold, *(args.reviews or ()))
        if not args.out.absolute().parent.is_dir():
            raise UsageError(f"--out {args.out} cannot be written: give a file in an existing folder")
    plan = _read_own_plan(args.plan)
    try:
        draft = _open_paper(args)
        if draft.settings.models.list_candidates(PAPER_ABLATIONS)[0].name == "offline":
            raise UsageError(f"the offline model cannot read papers: {CONFIGURE_MODEL_HINT}")
        check_prices_known(draft.settings)
        found = asyncio.run(_ask_report(args, draft, plan))
    except (TexError, RecordError) as error:
        raise UsageError(str(error)) from None
    if args.out is not None:
        write_file(args.out, entries_to_lines(to_entry(one.ablation) for one in found.missing))
    print_result(found, format_report(found), json=args.json)
    if args.out is not None and not args.json:
        print(f"written to {args.out}")
    return DONE


def _read_own_plan(path: Path | None) -> AblationPlanFile:
    """Read the user's list. Raises `UsageError`."""
    if path is None:
        return AblationPlanFile()
    found = read_plan(_read_text(path, "--plan").splitlines())
    if not found.entries or len(found.entries) > MAX_LISTED:
        why = "; ".join(found.faults[:3]) or f"{len(found.entries)} readable entries, not from 1 to {MAX_LISTED}"
        raise UsageError(f"--plan {path}: {why}: give one JSON object per line, with name, ablated_part and action")
    return found


def _read_text(path: Path, option: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {option} {path}: {error}") from None


def _open_paper(args: MissingAblations) -> _PaperToCheck:
    """Open the paper, or the paper of a run with its models. Raises `UsageError`, `RecordError`, `JudgeError`."""
    if not args.paper.exists():
        raise UsageError(f"{args.paper} does not exist: give a paper (PDF, LaTeX, Markdown) or the folder of a run")
    run = open_run_folder(args.paper)
    if not (run.is_dir() and is_run(run)):
        return _PaperToCheck(args.paper, compose_settings(config=args.config, flags=args.flags))
    state = read_run_state(run)
    if state.started is None or state.paper.released is None:
        raise UsageError(f"{args.paper} has no paper yet: finish the run first with scientist resume {args.paper}")
    paper = asyncio.run(read_released_paper(state, RunFolder(run, state.paper.version)))
    return _PaperToCheck(paper.path, override_settings(state.started.settings, state.overrides | args.flags))


async def _ask_report(args: MissingAblations, draft: _PaperToCheck, plan: AblationPlanFile) -> MissingReport:
    """Ask a model for the report, and look up its quotes. Raises `ModelError`, `JudgeError`."""
    seen = await read_visible_paper(draft.path, show_all=args.view == "reviewer", until=args.until)
    logs = [MemoryLog()]
    models = open_budgeted_models(draft.settings, logs[0])
    title, abstract = read_title_and_abstract(seen.paper)
    shown, text = seen.shown_paper, seen.paper.text
    kept, repeats = split_repeats(plan.entries)
    inputs = PaperAblationsInputs(
        view="author" if args.view == "author" else "reviewer",
        title=title,
        abstract=abstract,
        paper=shown,
        most=args.k,
        plan=tuple(_to_listed(one, number) for number, one in enumerate(kept, 1)),
    )
    found = await models.make_client(0, 0).ask(PAPER_ABLATIONS, inputs)
    score = await _score_own_plan(
        args, draft, BenchPaper("author", args.paper.name, title, abstract, draft.path), kept, seen, logs
    )
    return MissingReport(
        paper=str(args.paper),
        view=args.view,
        model=models.get_model_name(PAPER_ABLATIONS),
        shown=seen.kept,
        cut=seen.cut,
        left_out=shown.left_out,
        reasoning=found.reasoning,
        remarks=found.remarks,
        faults=plan.faults,
        score=score,
        repeats=tuple(f"{one.entry.name} = {one.like}" for one in repeats),
        removed=seen.removed,
        took=sum_usage(one.state.calls.total_usage for one in logs),
        parts=tuple(_check_part_quotes(one, text) for one in found.parts),
        missing=tuple(CheckedAblation(ablation=one, quoted=quote_is_in(one.quote, text)) for one in found.ablations),
    )


def _check_part_quotes(one: AblatedPart, text: str) -> CheckedPart:
    quotes = (one.quote, one.where if one.ablated else "")
    return CheckedPart(part=one, quoted=all(quote_is_in(quote, text) for quote in quotes if quote))


def read_title_and_abstract(paper: Paper) -> tuple[str, str]:
    """Return title and abstract of a paper, as far as its format distinguishes them."""
    sections = paper.sections
    first = sections[0] if sections else PaperSection("", "")
    named = "" if first.title == TITLE_PAGE else first.title
    title = first.text if first.title == "Title" else named or first.text.strip().partition("\n\n")[0]
    abstract = next((one.text for one in sections if "abstract" in one.title.casefold()), "")
    return " ".join(title.removeprefix("Title:").split())[:300] or paper.path.stem, _TEX.sub("", abstract)[:4000]


def _to_listed(one: PlannedAblation, number: int) -> ListedAblation:
    return ListedAblation(
        id=f"e{number}",
        name=one.name,
        ablated_part=one.ablated_part or one.name,
        action=one.action,
        replacement=one.replacement,
    )


# --- scoring a list ---------------------------------------------------------------------------------------------------


async def _score_own_plan(
    args: MissingAblations,
    draft: _PaperToCheck,
    paper: BenchPaper,
    entries: Sequence[PlannedAblation],
    seen: VisiblePaper,
    logs: list[MemoryLog],
) -> PlanScore | None:
    """Score the list against gold or reviews, by the majority of judges; None if neither is given. `logs` gains the log
    of each judge.

    Raises `ModelError`.
    """
    if not args.gold and not args.reviews:
        return None
    named = tuple(one.strip() for one in args.judges.split(",") if one.strip())
    models = draft.settings.models
    chosen = {name: models.select_model(name) for name in named} or {
        models.list_candidates(PAPER_ABLATIONS)[0].name: models
    }
    judges = dict[str, Models]()
    for name, judge in chosen.items():
        logs.append(MemoryLog())
        judges[name] = open_budgeted_models(draft.settings.model_copy(update={"models": judge}), logs[-1])
    if args.gold:
        gold = read_plan(_read_text(args.gold, "--gold").splitlines()).entries
        if not gold:
            raise UsageError(f"--gold {args.gold} contains no ablation: give one JSON object per line, as for --plan")
        return await _score_against_gold(
            judges, BenchPaper("author", paper.id, paper.title, paper.abstract, paper.folder, gold), entries
        )
    reviews = tuple(_read_text(path, "--reviews") for path in args.reviews or ())
    return await _score_against_reviews(
        judges, BenchPaper("reviewer", paper.id, paper.title, paper.abstract, paper.folder, (), reviews), entries, seen
    )


async def _score_against_gold(
    judges: dict[str, Models], paper: BenchPaper, entries: Sequence[PlannedAblation]
) -> PlanScore:
    verdicts = [
        frozenset(
            (int(one.gold[1:]) - 1, int(one.entry[1:]) - 1)
            for one in (await ask_author_matches(models.make_client(1, 0), paper, entries, f"{name} {paper.id}"))[0]
        )
        for name, models in judges.items()
    ]
    score = compute_author_score(len(paper.gold), len(entries), find_majority(verdicts) or frozenset())
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


async def _score_against_reviews(
    judges: dict[str, Models], paper: BenchPaper, entries: Sequence[PlannedAblation], seen: VisiblePaper
) -> PlanScore:
    """Score against the first judge's list of requests, so that all judges vote on the same requests."""
    first = next(iter(judges.values()))
    requests = await ask_review_requests(first.make_client(1, 0), paper)
    if not requests:
        raise UsageError("the reviews request no ablation, so the list cannot be scored")
    verdicts = [
        frozenset(
            int(one.entry[1:]) - 1
            for one in await ask_reviewer_matches(models.make_client(2, 0), paper, seen.shown_paper, requests, entries)
        )
        for models in judges.values()
    ]
    score = compute_reviewer_score(len(requests), len(entries), find_majority(verdicts) or frozenset())
    return PlanScore(
        against="reviews",
        judges=tuple(judges),
        entries=len(entries),
        wanted=len(requests),
        precision=score.precision,
        recall=score.recall,
        f1=score.f1,
    )
