"""Compare runs by their records, and pairs of papers by a judge's preference in both orders.

Each pair is judged in both orders, and a verdict counts if both agree. A verdict that follows the position is a
tie, counted as order bias. Limits: a judge without order bias may still be wrong, or prefer a style in either
position.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from rich.console import Console
from rich.text import Text

from labwright.agent.cli.errors import DONE, FAILED, to_terminal
from labwright.agent.cli.status import read_paper_state
from labwright.agent.forecast import open_model
from labwright.agent.settings import compose_settings
from labwright.evals.commands import Compare
from labwright.evals.intervals import format_range
from labwright.inspector.safe_text import format_dollars, format_duration, to_plain
from labwright.models.errors import CatalogueError, ModelConfigError, ModelError
from labwright.models.roles.judge import PREFER, Better, PaperPreference, PreferInputs, RecordFacts, ShownPaper
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.errors import UsageError
from labwright.record.event_log import MemoryLog
from labwright.record.reducers.run_state import RoleUsage, RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import parse_arm
from labwright.record.schema.paper import Judgement, PaperDraft, Section
from labwright.record.table import Table
from labwright.record.zips import open_run_folder
from labwright.review.evidence.tex_runner import TexError
from labwright.review.judge.attachments import collect_record_facts
from labwright.review.judge.guards import guard_paper
from labwright.review.judge.paper_reader import JudgeError, Paper, make_excerpt
from labwright.stages.paper.paper_steps import read_released_paper
from labwright.stages.paper.typesetting import select_best

MAX_CLAIMS = 12
_EMPTY_DRAFT = PaperDraft(title="", abstract="", sections=(Section(title="", body=""),))


class KeyClaim(FrozenModel):
    """A comparison of a method on the primary metric, paired by seed: `condition - other`."""

    metric: str = Field(validation_alias="name")
    dataset: str
    condition: str
    other: str
    mean: float
    low: float | None
    high: float | None
    n: int
    caveats: tuple[str, ...] = Field(default=(), description="caveats, such as tuned with fewer trials")


class ComparedRun(FrozenModel):
    """A run. All fields except `judgement` are facts from the record."""

    run: str
    idea: str
    title: str = Field(description="of the paper; of the idea if there is no paper yet")
    released: bool | None = Field(description="None: not finished")
    reasons: tuple[str, ...] = Field(default=(), description="why it was not released")
    facts: RecordFacts
    claims: tuple[KeyClaim, ...] = Field(default=(), description=f"at most {MAX_CLAIMS}")
    claims_left_out: int = 0
    judgement: Judgement | None = None
    seconds: float = Field(description="time spent on the run")
    calls: int = Field(description="of models, as counted by `status`: unlike `facts`, including the judge's own")
    usd: float
    unpriced: int = Field(description="calls of unknown price")


def build_side(run: str, state: RunState, draft: PaperDraft | None) -> ComparedRun:
    """Build the row of a started run; `draft` is the source of its paper."""
    assert state.started is not None
    idea, released = state.started.idea, state.paper.released
    plan, claims = state.search.data_plan, list[KeyClaim]()
    if plan is not None:
        methods = {arm.name for arm in plan.arms if arm.role == "method"}
        claims = [
            KeyClaim.model_validate(one, from_attributes=True)
            for one in compute_differences(state, compute_paper_claims(state))
            if one.name == plan.primary_metric.name and parse_arm(one.condition) in methods
        ]
    return ComparedRun(
        run=run,
        idea=idea.name,
        title=draft.title if draft else idea.title,
        released=released.released if released else None,
        reasons=released.reasons if released else (),
        facts=collect_record_facts(state, draft or _EMPTY_DRAFT),
        claims=tuple(claims[:MAX_CLAIMS]),
        claims_left_out=max(0, len(claims) - MAX_CLAIMS),
        judgement=state.paper.judged.judgement if state.paper.judged else None,
        seconds=round(state.active_seconds, 1),
        calls=state.calls.total_usage.calls,
        usd=round(state.calls.total_usage.usd, 6),
        unpriced=state.calls.total_usage.unpriced,
    )


# --- pairs -----------------------------------------------------------------------------------------------------------

MAX_CHARACTERS = 40_000
"""Characters shown of each paper, about 10,000 tokens."""

PairOutcome = Literal["a", "b", "tie", "order bias"]
AskPreference = Callable[[PreferInputs], Awaitable[PaperPreference]]


@dataclass(frozen=True)
class ComparedPaper:
    """A paper to compare, named after its run."""

    name: str
    paper: ShownPaper
    removed: int = 0
    """Passages that the guards removed from it."""


class JudgedPair(FrozenModel):
    """Two papers, judged with `a` first and with `b` first. `outcome` is a win if both orders prefer the same paper."""

    a: str
    b: str
    outcome: PairOutcome
    a_first: PaperPreference
    b_first: PaperPreference


class PairTally(FrozenModel):
    """The outcomes of all pairs. `followed` is the position that inconsistent verdicts preferred."""

    wins: dict[str, int]
    ties: int
    flipped: int = Field(description="pairs whose verdict changed with the order: order bias")
    followed: Literal["", "first", "second", "both"] = Field(
        description="the position that inconsistent verdicts preferred"
    )


def shorten_paper(paper: Paper) -> ShownPaper:
    """Return the part of a paper that is shown when judging a pair."""
    shortened = make_excerpt(paper.sections, MAX_CHARACTERS)
    return ShownPaper(text=shortened.text, characters=paper.characters, left_out=shortened.left_out)


async def judge_pair(a: ComparedPaper, b: ComparedPaper, ask: AskPreference) -> JudgedPair:
    """Judge a pair in both orders. Raises what `ask` raises."""
    straight = await ask(PreferInputs(first=a.paper, second=b.paper))
    reverse = await ask(PreferInputs(first=b.paper, second=a.paper))
    return JudgedPair(
        a=a.name, b=b.name, outcome=decide_outcome(straight.better, reverse.better), a_first=straight, b_first=reverse
    )


def decide_outcome(a_first: Better, b_first: Better) -> PairOutcome:
    """Return the outcome of two verdicts: a win if both prefer one paper, order bias if both prefer one position."""
    if a_first == b_first:
        return "tie" if a_first == "neither" else "order bias"
    return {("first", "second"): "a", ("second", "first"): "b"}.get((a_first, b_first), "tie")  # pyrefly: ignore


def tally_pairs(names: Sequence[str], pairs: Sequence[JudgedPair]) -> PairTally:
    """Return wins by paper, ties, and the effect of the order."""
    wins = Counter(pair.a if pair.outcome == "a" else pair.b for pair in pairs if pair.outcome in ("a", "b"))
    flipped = [pair.a_first.better for pair in pairs if pair.outcome == "order bias"]
    positions = set(flipped)
    followed = "" if not positions else "both" if len(positions) > 1 else "first" if "first" in positions else "second"
    return PairTally(
        wins={name: wins[name] for name in names},
        ties=sum(pair.outcome == "tie" for pair in pairs),
        flipped=len(flipped),
        followed=followed,
    )


# `scientist compare`: runs side by side and, with a model, their papers judged in pairs. Logs are only read.

MAX_RUNS = 8
"""Maximum runs at once: 28 pairs, 56 model calls."""


class FailedPair(FrozenModel):
    """A pair that could not be judged; `why` is the model's error."""

    a: str
    b: str
    why: str


class RunsComparisonReport(FrozenModel):
    """The printed report (docs/benchmarks.md). `model` is empty if no pair was to be judged."""

    sides: tuple[ComparedRun, ...]
    model: str = ""
    pairs: tuple[JudgedPair, ...] = ()
    failed: tuple[FailedPair, ...] = ()
    tally: PairTally | None = None
    took: RoleUsage = RoleUsage()
    removed: dict[str, int] = Field(
        default_factory=dict[str, int], description="run -> passages withheld from the judge"
    )


def compare_runs(args: Compare) -> int:
    states = _read_states(args.runs)
    comparison = RunsComparisonReport(
        sides=tuple(
            build_side(name, state, select_best(state.paper.drafts).draft if state.paper.drafts else None)
            for name, (state, _) in states.items()
        )
    )
    if args.flags:
        comparison = asyncio.run(_judge_pairs(comparison, states, args.flags))
    if args.json:
        print(comparison.model_dump_json(indent=1))
    else:
        show_comparison(comparison, Console())
    return FAILED if comparison.failed else DONE


def _read_states(runs: Sequence[Path]) -> dict[str, tuple[RunState, Path]]:
    """Return the runs by unique names. Raises `UsageError`."""
    if not 2 <= len(runs) <= MAX_RUNS:
        raise UsageError(f"{len(runs)} run(s) given: compare 2 to {MAX_RUNS}")
    if len({path.resolve() for path in runs}) != len(runs):
        raise UsageError("a run is given twice: give different runs")
    names = [path.resolve().name for path in runs]
    states: dict[str, tuple[RunState, Path]] = {}
    for path, name in zip(runs, names, strict=True):
        folder = open_run_folder(path)
        state = read_paper_state(folder)
        if state.started is None:
            raise UsageError(f"{path} was interrupted before it started: there is nothing to compare")
        states[name if names.count(name) == 1 else str(path)] = state, folder
    return states


# --- pairs ----------------------------------------------------------------------------------------------------------


async def _judge_pairs(
    comparison: RunsComparisonReport, states: dict[str, tuple[RunState, Path]], flags: dict[str, Any]
) -> RunsComparisonReport:
    """Judge the pairs of the comparison. Raises `ModelConfigError`, `CatalogueError`."""
    log = MemoryLog()
    models = open_model(compose_settings(flags=flags).models, log)
    entrants: list[ComparedPaper] = []
    for name, (state, path) in states.items():
        try:
            clean = await guard_paper(await read_released_paper(state, RunFolder(path, state.paper.version)))
        except (JudgeError, TexError) as error:
            raise UsageError(f"{path}: {error}; without --model, the runs are compared by their records only") from None
        entrants.append(ComparedPaper(name, shorten_paper(clean.paper), len(clean.removed)))
    pairs, failed = list[JudgedPair](), list[FailedPair]()
    for number, (a, b) in enumerate(itertools.combinations(entrants, 2)):
        client = models.make_client(number, 0)
        try:
            pairs.append(await judge_pair(a, b, lambda asked, client=client: client.ask(PREFER, asked)))
        except (CatalogueError, ModelConfigError):
            raise
        except ModelError as error:
            failed.append(FailedPair(a=a.name, b=b.name, why=str(error)))
    return comparison.model_copy(
        update={
            "model": models.get_model_name(PREFER),
            "pairs": tuple(pairs),
            "failed": tuple(failed),
            "tally": tally_pairs([one.name for one in entrants], pairs),
            "took": log.state.calls.total_usage,
            "removed": {one.name: one.removed for one in entrants if one.removed},
        }
    )


# --- the page -------------------------------------------------------------------------------------------------------


def show_comparison(comparison: RunsComparisonReport, console: Console) -> None:
    """Print the runs as columns, their claims, then the pairs."""
    table = Table.of(("", *(side.run for side in comparison.sides)), _build_rows(comparison.sides))
    console.print(to_terminal(table))
    for side in comparison.sides:
        console.print(
            Text(f"{to_plain(side.run)}: ", style="bold")
            + Text("" if side.claims else "no comparison on the primary metric"),
            soft_wrap=True,
        )
        for claim in side.claims:
            console.print(_format_claim(claim), soft_wrap=True)
        if side.claims_left_out:
            console.print(Text(f"  ... {side.claims_left_out} more: --json", style="dim"))
    for line in _format_verdicts(comparison):
        console.print(line, soft_wrap=True)


def _build_rows(sides: Sequence[ComparedRun]) -> Iterator[tuple[str, ...]]:
    facts = [side.facts for side in sides]
    yield "title", *(to_plain(side.title) for side in sides)
    yield (
        "released",
        *("not finished" if side.released is None else "yes" if side.released else "no: draft only" for side in sides),
    )
    yield "nodes (failed)", *(f"{one.nodes} ({one.failed})" for one in facts)
    yield "replicates (failed)", *(f"{one.replicates} ({one.replicates_failed})" for one in facts)
    yield "fewest seeds per value", *(str(one.fewest_seeds) for one in facts)
    yield "datasets, ablations", *(f"{one.datasets}, {one.ablations}" for one in facts)
    yield "values by grade", *(", ".join(f"{count} {grade}" for grade, count in one.grades) or "none" for one in facts)
    yield "pages, references", *(f"{one.pages if one.pages is not None else '-'}, {one.references}" for one in facts)
    yield from _score_rows(sides)
    yield "model", *(to_plain(", ".join(one.models)) or "-" for one in facts)
    yield "cost", *(f"{format_dollars(side.usd, side.unpriced)}, {side.calls} calls" for side in sides)
    yield (
        "time",
        *(f"{format_duration(side.seconds)}, experiments {format_duration(side.facts.code_seconds)}" for side in sides),
    )


def _score_rows(sides: Sequence[ComparedRun]) -> Iterator[tuple[str, ...]]:
    """Yield one row per dimension; scores from other rubrics or models are included, with both named."""
    given = [
        {one.dimension: f"{one.score}/{one.highest}" for one in side.judgement.scores} if side.judgement else {}
        for side in sides
    ]
    for name in dict.fromkeys(name for scores in given for name in scores):
        yield to_plain(name), *(scores.get(name, "-") for scores in given)
    yield (
        "judged by",
        *(
            "not judged"
            if side.judgement is None
            else f"{to_plain(side.judgement.model)}, {to_plain(side.judgement.rubric)}"
            for side in sides
        ),
    )


def _format_claim(claim: KeyClaim) -> Text:
    return Text(
        f"  {to_plain(claim.metric)} on {to_plain(claim.dataset)}, {to_plain(claim.condition)} - "
        f"{to_plain(claim.other)}: {claim.mean:+.4g} ({format_range(claim.low, claim.high)}, "
        f"n = {claim.n}): {', '.join(('exploratory', *claim.caveats))}"
    )


def _format_verdicts(comparison: RunsComparisonReport) -> Iterator[Text]:
    for pair in comparison.pairs:
        outcome = {
            "a": f"{to_plain(pair.a)} in both orders",
            "b": f"{to_plain(pair.b)} in both orders",
            "tie": "a tie",
            "order bias": "a tie: the verdict changed with the order",
        }[pair.outcome]
        yield Text(f"{to_plain(pair.a)} against {to_plain(pair.b)}: ", style="bold") + Text(outcome)
        for first, one in ((pair.a, pair.a_first), (pair.b, pair.b_first)):
            yield Text(f"  {to_plain(first)} shown first: {one.better}: {to_plain(one.deciding)}", style="dim")
    for name, count in comparison.removed.items():
        yield Text(
            f"{to_plain(name)}: {count} hidden or injected passage(s) were withheld from the judge; to "
            "see them: scientist judge RUN",
            style="yellow",
        )
    for one in comparison.failed:
        yield Text(f"{to_plain(one.a)} against {to_plain(one.b)}: not judged: {to_plain(one.why)}", style="red")
    if (tally := comparison.tally) is not None:
        wins = ", ".join(f"{to_plain(name)} {count}" for name, count in tally.wins.items())
        followed = f", towards the paper shown {tally.followed}" if tally.followed in ("first", "second") else ""
        usage = comparison.took
        yield Text(
            f"judged by {to_plain(comparison.model)}, which saw only the papers: wins {wins}; ties "
            f"{tally.ties}; order bias in {tally.flipped} of {len(comparison.pairs)} pairs{followed}; "
            f"{usage.calls} calls, {format_dollars(usage.usd, usage.unpriced)}"
        )
