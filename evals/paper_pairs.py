"""Runs beside each other: what their records say of each, and which of two papers a judge prefers, in both orders.

Each pair of papers is judged twice, in either order, and a verdict counts where both agree. A verdict that follows the
position and not the paper is a tie, counted as order bias. Not guaranteed: that a judge without order bias is right, or
that one who likes a style likes it any less in either position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from labwright.models.roles.judge import Better, PaperPreference, PreferInputs, RecordFacts, ShownPaper
from labwright.record.claims.differences import DifferenceOutcome, compute_differences
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
    called: DifferenceOutcome = Field(
        description="of `condition`, corrected for the comparisons of its own paper alone"
    )
    verdict: str = Field(description="`called` in words, with the comparisons that it was corrected for and `caveats`")
    caveats: tuple[str, ...] = Field(default=(), description="what stands beside it, as stale tuning")


class ComparedRun(FrozenModel):
    """One run. Nothing in it is an opinion but `judgement`."""

    run: str
    idea: str
    title: str = Field(description="of the paper; of the idea where there is no paper yet")
    released: bool | None = Field(description="None: not at its end yet")
    reasons: tuple[str, ...] = Field(default=(), description="why it was not released")
    facts: RecordFacts
    claims: tuple[KeyClaim, ...] = Field(default=(), description=f"at most {MAX_CLAIMS}")
    claims_left_out: int = 0
    judgement: Judgement | None = None
    seconds: float = Field(description="that the run was worked on")
    calls: int = Field(description="of models, as `status` counts them: unlike in facts, the judge's own too")
    usd: float
    unpriced: int = Field(description="calls whose price is unknown")


def build_side(run: str, state: RunState, draft: PaperDraft | None) -> ComparedRun:
    """The side of a run that has begun; `draft` is what its paper was made from."""
    assert state.started is not None
    idea, released = state.started.idea, state.released
    plan, claims = state.data_plan, list[KeyClaim]()
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
                called=one.significance,
                verdict=one.verdict_text,
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
        judgement=state.judged.judgement if state.judged else None,
        seconds=round(state.active_seconds, 1),
        calls=state.total_usage.calls,
        usd=round(state.total_usage.usd, 6),
        unpriced=state.total_usage.unpriced,
    )


# --- pairs -----------------------------------------------------------------------------------------------------------

MAX_CHARACTERS = 40_000
"""Of each paper that is shown, about 10,000 tokens."""

PairOutcome = Literal["a", "b", "tie", "order bias"]
AskPreference = Callable[[PreferInputs], Awaitable[PaperPreference]]


@dataclass(frozen=True)
class ComparedPaper:
    """A paper that enters a comparison, under the name of its run."""

    name: str
    paper: ShownPaper
    removed: int = 0
    """Passages that the judge's guards took out of it."""


class JudgedPair(FrozenModel):
    """Two papers, judged with `a` first and with `b` first. `outcome` is a win where both orders name one paper."""

    a: str
    b: str
    outcome: PairOutcome
    a_first: PaperPreference
    b_first: PaperPreference


class PairTally(FrozenModel):
    """The outcomes of all pairs. `followed` is the position that flipped verdicts named."""

    wins: dict[str, int]
    ties: int
    flipped: int = Field(description="pairs whose verdict turned with the order: order bias")
    followed: Literal["", "first", "second", "both"] = Field(description="the position that flipped verdicts named")


def shorten_paper(paper: Paper) -> ShownPaper:
    """What of a paper is shown to a judge of two."""
    shortened = make_excerpt(paper.sections, MAX_CHARACTERS)
    return ShownPaper(text=shortened.text, characters=paper.characters, left_out=shortened.left_out)


async def judge_pair(a: ComparedPaper, b: ComparedPaper, ask: AskPreference) -> JudgedPair:
    """The pair, judged in both orders. Raises what `ask` raises."""
    straight = await ask(PreferInputs(first=a.paper, second=b.paper))
    reverse = await ask(PreferInputs(first=b.paper, second=a.paper))
    return JudgedPair(
        a=a.name, b=b.name, outcome=decide_outcome(straight.better, reverse.better), a_first=straight, b_first=reverse
    )


def decide_outcome(a_first: Better, b_first: Better) -> PairOutcome:
    """The outcome of two verdicts: a win where both name one paper, order bias where both name one position."""
    if a_first == b_first:
        return "tie" if a_first == "neither" else "order bias"
    return {("first", "second"): "a", ("second", "first"): "b"}.get((a_first, b_first), "tie")  # pyright: ignore


def tally_pairs(names: Sequence[str], pairs: Sequence[JudgedPair]) -> PairTally:
    """Wins by paper, ties, and the effect of the order."""
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
