"""Where a run stands, in one value: what `scientist status` prints and `--json` writes (see docs/command-line.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from pydantic import Field

from inspector.lines import asked_for, described
from inspector.origin import Origin, origins_of
from inspector.text import countdown, plain, short
from inspector.tree import SEARCH_KINDS, ceiling_of, owes
from record.claims import seedless
from record.events.event import Event
from record.events.running import Commanded
from record.fold.apply import apply
from record.fold.state import RunState
from record.judgement import Judgement
from record.nouns.calls import Spending
from record.nouns.frozen import Frozen
from record.nouns.stages import STAGES, Phase, StageName

RunCondition = Literal["running", "interrupted", "stopped", "done", "draft only", "failed"]

STEERED = 8
"""Kills, marks and notes that a status tells."""

IN_WORDS: Mapping[Phase, str] = {
    "prepare": "make the data plan and fetch its datasets",
    "score": "score the sealed test predictions",
    "figures": "draw the final figures from the record",
    "write": "write the paper",
    "cite": "gather citations that the draft needs",
    "reflect": "mend what the binder and LaTeX found in the paper",
    "missing": "run the ablations that a reviewer of the draft asks for",
    "release": "build and release the paper",
    "judge": "have the paper judged",
    "done": "nothing: the run is over",
}


class StageCounts(Frozen):
    """One stage in numbers. `searched` of `ceiling` are finished nodes of the search; `nodes` counts all by status.

    `limited` is a ceiling of the stage that was reached, `owes` what it still has to do beside the next search,
    `seedless` its nodes whose replicates gave the same values for every seed.
    """

    stage: StageName
    searched: int
    ceiling: int | None
    nodes: dict[str, int]
    replicates: int
    best: str | None
    ended: str | None
    limited: str | None
    owes: tuple[str, ...]
    seedless: tuple[str, ...]


class Cost(Frozen):
    """What the model calls and the experiments took. `usd` leaves out `unpriced` calls, whose price is unknown."""

    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int = Field(description="of the input, read from the providers' caches, as far as they say")
    cache_write_tokens: int
    cached_usd: float = Field(description="of `usd`, what the cached tokens took")
    usd: float
    unpriced: int
    model_seconds: float
    code_seconds: float


class RoleCost(Frozen):
    """What the calls of one role took. `usd` leaves out `unpriced` calls."""

    role: str
    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int = Field(description="of the input, read from the providers' caches, as far as they say")
    cache_write_tokens: int
    cached_usd: float = Field(description="of `usd`, what the cached tokens took")
    usd: float
    unpriced: int
    seconds: float


class BudgetUse(Frozen):
    """The caps of a run (None: no cap) and what counts against them. `spent` includes what a kill cut off; `reserved`
    is set aside for calls and attempts under way, `left` is what is neither."""

    usd: float | None
    tokens: int | None
    gpu_hours: float | None
    spent: Spending
    reserved: Spending
    left: Spending


class Ahead(Frozen):
    """What a run is likely to take from here to its end; `usd` None where a price is unknown."""

    calls: int
    tokens: int
    usd: float | None
    gpu_hours: float | None


def answers_of(state: RunState) -> tuple[str, ...]:
    """Calls without a usable answer, and answers whose questions were not the same when they came up again."""
    kept = ", ".join(map(str, state.drifted))
    anew = ", ".join(dict.fromkeys(str(one.key) for one in state.superseded))
    lacking = ", ".join(f"{one.key} ({one.then})" for one in state.unanswered.values())
    return (*[f"not usable: {lacking}"] * bool(lacking),
            *[f"kept, though machine or limits are not what their questions told: {kept}"] * bool(kept),
            *[f"asked anew, since plan, code, results or question changed (both answers were paid for): {anew}"]
            * bool(anew))


class Happened(Frozen):
    """An event in words, and when."""

    at: str
    text: str


class Status(Frozen):
    """Where a run stands. Times are ISO 8601 in UTC; `elapsed` is seconds worked on it, without the gaps between.

    `paused` says who holds the run and why, or why no model is asked at present, and until when; it is empty while
    neither is so. `steering` tells the latest kills, marks and notes, `answers` calls without a usable answer, and
    answers whose questions had changed when they came up again.
    """

    run: str
    title: str
    model: str
    seed: int | None
    condition: RunCondition
    process: str | None
    phase: Phase
    next: str
    exit_code: int | None
    reason: str
    started: str | None
    last_event: str | None
    elapsed: float
    ancestry: tuple[Origin, ...] = ()
    paused: str = ""
    steering: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    stages: tuple[StageCounts, ...]
    cost: Cost
    roles: tuple[RoleCost, ...] = ()
    budget: BudgetUse | None = None
    ahead: Ahead | None = None
    paper: str | None
    judgement: Judgement | None = None
    no_judgement: str = ""
    last_events: tuple[Happened, ...]


def status_of(
    run: str, events: Sequence[tuple[Event, float]], process: str | None, *, now: float, last: int = 8,
) -> Status:
    """The status of a run from its events. `process` names who works on it now; `now` is seconds since the epoch."""
    state, told = _told(events)
    return status_in(run, state, told[-last:], process, now=now)


def status_in(run: str, state: RunState, told: Sequence[Happened], process: str | None, *, now: float) -> Status:
    """The same of a state that is folded already; `told` is what happened last."""
    started, ended = state.started, state.ended
    condition = condition_of(state, process)
    open_end = max(0.0, now - state.last_at) if condition == "running" and not state.paused else 0.0
    return Status(
        run=run, title=plain(started.idea.title) if started else "", model=plain(started.model) if started else "",
        seed=started.seed if started else None, condition=condition, process=process, phase=state.phase,
        next=_next(state, run, condition), exit_code=ended.exit_code if ended else None,
        reason=plain(ended.reason) if ended else "", started=_iso(state.started_at) if started else None,
        last_event=_iso(state.last_at) if state.events else None,
        elapsed=round(state.active_seconds + open_end, 3), ancestry=origins_of(state),
        paused=paused_of(state, now) if condition == "running" else "", steering=steering_of(state),
        answers=answers_of(state),
        stages=tuple(_counts(state, name) for name in STAGES), cost=_cost(state), roles=_roles(state),
        budget=_budget(state),
        paper=state.released.pdf if state.released else None,
        judgement=state.assessed.judgement if state.assessed else None,
        no_judgement=plain(state.assessed.why) if state.assessed else "", last_events=tuple(told))


def paused_of(state: RunState, now: float) -> str:
    """Who holds the run and why; else until when no model is asked, and why. `now` is seconds since the epoch."""
    if state.held is not None:
        return held_words(state.held)
    if state.outage is None:
        return ""
    return f"no model is asked {countdown(state.outage.until, now)}: {short(state.outage.reason, 200)}"


def held_words(held: Commanded) -> str:
    """That a person holds the run, and what goes on meanwhile."""
    who = short(held.by, 40) or "a person"
    why = f" ({short(held.text, 160)})" if held.text else ""
    return f"by {who}{why}: nothing new is begun, what runs comes to its end; go on with: scientist resume"


def steering_of(state: RunState) -> tuple[str, ...]:
    """The latest kills, marks and notes, oldest first."""
    told = [one for one in state.steered if one.command.verb in ("kill", "mark", "note")][-STEERED:]
    of = [{"target": one.stage or ""} if one.command.verb == "note" else {} for one in told]
    return tuple(asked_for(one.command.model_copy(update=change)) for one, change in zip(told, of, strict=True))


def condition_of(state: RunState, process: str | None) -> RunCondition:
    """Whether a run is worked on, over, or waits to be resumed."""
    if process is not None:
        return "running"
    if state.ended is None:
        return "interrupted"
    conditions: dict[int, RunCondition] = {0: "done", 3: "stopped", 4: "draft only", 130: "interrupted"}
    return conditions.get(state.ended.exit_code, "failed")


def happened(event: Event, at: float, state: RunState) -> Happened | None:
    """An event in the words it had when it was folded into the state; None for steps too small to be told."""
    text = described(event, state)
    return Happened(at=_iso(at), text=text) if text is not None else None


def _told(events: Sequence[tuple[Event, float]]) -> tuple[RunState, list[Happened]]:
    """The folded state, and each event worth telling in the words it had when it happened."""
    state, told = RunState(), list[Happened]()
    for event, at in events:
        apply(state, event, at)
        one = happened(event, at, state)
        if one is not None:
            told.append(one)
    return state, told


def _next(state: RunState, run: str, condition: RunCondition) -> str:
    reporting = any(name == state.phase and stage.settled for name, stage in state.stages.items())
    step = IN_WORDS.get(state.phase) or f"{'report on' if reporting else 'search'} the {state.phase} stage"
    given_up = condition == "draft only" and state.phase != "write"  # what a writer failed at may be tried again
    if condition in ("running", "done") or given_up:
        return step if condition == "running" else IN_WORDS["done"]
    if state.phase == "done":
        return IN_WORDS["done"]
    return f"{step}; take it up again with: scientist resume {run}"


def _counts(state: RunState, stage: StageName) -> StageCounts:
    nodes = state.stage_nodes(stage)
    return StageCounts(
        stage=stage, searched=sum(node.kind in SEARCH_KINDS and node.finished for node in nodes),
        ceiling=ceiling_of(state, stage), nodes=dict(Counter(node.status for node in nodes)),
        replicates=sum(node.kind == "replicate" and node.finished for node in nodes),
        best=state.stages[stage].best, ended=state.stages[stage].ended, limited=state.stages[stage].limited,
        owes=owes(state, stage),
        seedless=tuple(node for node in seedless(state) if state.nodes[node].stage == stage))


def _cost(state: RunState) -> Cost:
    total = state.total
    return Cost(
        calls=total.calls, input_tokens=total.input_tokens, output_tokens=total.output_tokens,
        cached_tokens=total.cached_tokens, cache_write_tokens=total.cache_write_tokens,
        cached_usd=round(total.cached_usd, 6),
        usd=round(total.usd, 6), unpriced=total.unpriced, model_seconds=round(total.seconds, 3),
        code_seconds=round(state.seconds_of_code, 3))


def _roles(state: RunState) -> tuple[RoleCost, ...]:
    return tuple(RoleCost(
        role=role, calls=one.calls, input_tokens=one.input_tokens, output_tokens=one.output_tokens,
        cached_tokens=one.cached_tokens, cache_write_tokens=one.cache_write_tokens,
        cached_usd=round(one.cached_usd, 6),
        usd=round(one.usd, 6), unpriced=one.unpriced, seconds=round(one.seconds, 3))
        for role, one in state.usage.items())


def _budget(state: RunState) -> BudgetUse | None:
    """The use of the budget; None where the run has none."""
    usd, tokens, hours = (state.setting(f"budget.{name}") for name in ("usd", "tokens", "gpu_hours"))
    if usd is None and tokens is None and hours is None:
        return None
    reserved = sum((one.spending for one in state.reserved.values()), start=Spending())
    cap = Spending(usd=usd or 0.0, tokens=tokens or 0, gpu_seconds=3600 * (hours or 0.0))
    return BudgetUse(usd=usd, tokens=tokens, gpu_hours=hours, spent=state.spent.above(reserved), reserved=reserved,
                     left=cap.above(state.spent))


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
