"""Compare runs by their records, and pairs of papers by a judge's preference in both orders.

Each pair is judged in both orders, and a verdict counts if both agree. A verdict that follows the position is a
tie, counted as order bias. Limits: a judge without order bias may still be wrong, or prefer a style in either
position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from labwright.models.roles.judge import Better, PaperPreference, PreferInputs, RecordFacts, ShownPaper
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import parse_arm
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.paper import Judgement, PaperDraft, Section
from labwright.review.judge import Paper, collect_record_facts
from labwright.review.judge.sections import make_excerpt

MAX_CLAIMS = 12
_EMPTY_DRAFT = PaperDraft(title="", abstract="", sections=(Section(title="", body=""),))


class KeyClaim(FrozenModel):
    """A comparison of a method on the primary metric, paired by seed: `condition - other`."""

    metric: str
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
            KeyClaim(
                metric=one.name,
                dataset=one.dataset,
                condition=one.condition,
                other=one.other,
                mean=one.mean,
                low=one.low,
                high=one.high,
                n=one.n,
                caveats=one.caveats,
            )
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
    return {("first", "second"): "a", ("second", "first"): "b"}.get((a_first, b_first), "tie")  # pyright: ignore


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
