"""Where a run stands, in one value: what `scientist status` prints and `--json` writes (see docs/command-line.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from labwright.inspector.describe import command_text, describe
from labwright.inspector.text import countdown, plain, short
from labwright.inspector.tree import BranchPoint, Cells, StageFacts, branch_points, stage_facts
from labwright.record.cells import CellTotals, all_cells, totals_of
from labwright.record.claims.decisions import decisions
from labwright.record.claims.means import seedless
from labwright.record.effort import Account, account_of
from labwright.record.events import Event
from labwright.record.events.running import Commanded
from labwright.record.exchanges import spent_in, uses_of
from labwright.record.fold.apply import apply
from labwright.record.fold.facts import RoleUsage
from labwright.record.fold.state import RunState
from labwright.record.nouns.decisions import Spending
from labwright.record.nouns.frozen import Frozen
from labwright.record.nouns.hypotheses import Decision
from labwright.record.nouns.nodes import SEARCH_KINDS, STAGES, Phase, StageName
from labwright.record.nouns.papers import Judgement
from labwright.record.nouns.subjects import SubjectUse

RunCondition = Literal["running", "interrupted", "stopped", "done", "draft only", "failed"]
CONDITIONS: dict[int, RunCondition] = {0: "done", 3: "stopped", 4: "draft only", 130: "interrupted"}
"""What a run that ended is, by its exit code; all others: failed."""

STEERED = 5
"""Kills, marks and notes that a status shows, the latest; `logs` has all."""

PHASE_TEXT: Mapping[Phase, str] = {
    "prepare": "make the data plan and fetch its datasets",
    "score": "score the sealed test predictions",
    "figures": "draw the final figures from the record",
    "write": "write the paper",
    "cite": "gather citations that the draft needs",
    "reflect": "fix what the binder and LaTeX found in the paper",
    "missing": "run the ablations that a reviewer of the draft asks for",
    "release": "build and release the paper",
    "judge": "have the paper judged",
    "done": "nothing: the run is over",
}


class StageCounts(StageFacts):
    """One stage in numbers. `searched` of `node_limit` are finished nodes of the search; `nodes` counts all by status.

    `seedless`: its nodes whose replicates gave the same values for every seed.
    """

    searched: int
    nodes: dict[str, int]
    replicates: int
    seedless: tuple[str, ...]


class BudgetUse(Frozen):
    """The limits of a run (None: no limit) and what counts against them. `spent` includes work that a kill ended;
    `reserved` is set aside for calls and attempts under way, `left` is the rest."""

    usd: float | None
    tokens: int | None
    gpu_hours: float | None
    spent: Spending
    reserved: Spending
    left: Spending


class SubjectsUse(Frozen):
    """What experiments asked language models, each and all together, and the most that they may take (None: no cap)."""

    each: tuple[SubjectUse, ...]
    spent: Spending
    usd: float | None
    tokens: int | None

    @property
    def share(self) -> float | None:
        """Of the cap that is nearest; None without one."""
        of = [spent / cap for spent, cap in ((self.spent.usd, self.usd), (self.spent.tokens, self.tokens)) if cap]
        return max(of, default=None)


class Ahead(Frozen):
    """What a run is likely to take from here to its end; `usd` None where a price is unknown."""

    calls: int
    tokens: int
    usd: float | None
    gpu_hours: float | None
    design: str = Field(default="", description="what the pilot asks for, and a smaller design where that is too much")


class Happened(Frozen):
    """An event in words, and when."""

    at: str
    text: str


class Status(Frozen):
    """Where a run stands. Times are ISO 8601 in UTC; `elapsed` is seconds worked on it, without the gaps between.

    `paused` says who paused the run and why, or why no model is called at present, and until when; else it is empty.
    `steering` has the latest kills, marks and notes, `answers` calls without a usable answer, and answers whose
    questions had changed when they came up again; `protocol` what came of the plan's review, and what of it is open;
    `prior_work` the papers that were read before the plan; `installed` the packages that the run has of its own; `cost`
    is what all model calls took, `roles` those of each role, `code_seconds` what the experiments took; `cells` is None
    where no node owes any, `tuning` where the program tunes nothing; `collected` counts folders of checkpoints and
    artifacts that went (`record.keeping`), `freed` is in bytes.
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
    ancestry: tuple[BranchPoint, ...] = ()
    paused: str = ""
    steering: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    protocol: tuple[str, ...] = ()
    prior_work: str = ""
    installed: str = ""
    stages: tuple[StageCounts, ...]
    cost: RoleUsage
    code_seconds: float
    cells: CellTotals | None = None
    tuning: Account | None = None
    collected: int = 0
    freed: int = 0
    roles: Mapping[str, RoleUsage] = Field(default_factory=dict[str, RoleUsage])
    budget: BudgetUse | None = None
    subjects: SubjectsUse | None = None
    ahead: Ahead | None = None
    plan: str = Field(default="", description="sha256 of the data plan as it is by now")
    amendments: int = 0
    locked: int | None = Field(default=None, description="fresh seeds that decide; null before the lock")
    decisions: tuple[Decision, ...] = Field(default=(), description="what the hypotheses come to by now")
    paper: str | None
    judgement: Judgement | None = None
    no_judgement: str = ""
    last_events: tuple[Happened, ...]


def status_of(
    run: str,
    events: Sequence[tuple[Event, float]],
    process: str | None,
    *,
    now: float,
    last: int = 8,
    folder: Path | None = None,
) -> Status:
    """The status of a run from its events. `process` names who works on it now; `now` is seconds since the epoch."""
    state, latest = RunState(), list[Happened]()
    for event, at in events:
        apply(state, event, at)
        if (entry := happened(event, at, state)) is not None:
            latest.append(entry)
    return status_in(run, state, latest[-last:], process, now=now, folder=folder)


def status_in(
    run: str,
    state: RunState,
    latest: Sequence[Happened],
    process: str | None,
    *,
    now: float,
    folder: Path | None = None,
    cells: Cells | None = None,
) -> Status:
    """The status of a run whose events are folded already; `latest` is what happened last, `folder` is the run's,
    `cells` are all of its cells, where they are known."""
    started, ended, account = state.started, state.ended, account_of(state)
    assessed = state.standing.assessed if state.standing is not None else None
    without_seed = seedless(state)
    condition = condition_of(state, process)
    later = "a later draft was not released: " if ended and ended.exit_code != exit_code_of(state) else ""
    since = max(0.0, now - state.last_at) if condition == "running" and not state.paused else 0.0
    return Status(
        run=run,
        title=plain(started.idea.title) if started else "",
        model=plain(started.model) if started else "",
        seed=started.seed if started else None,
        condition=condition,
        process=process,
        phase=state.phase,
        next=_next(state, run, condition),
        exit_code=exit_code_of(state),
        reason=f"{later}{plain(ended.reason)}" if ended else "",
        started=_iso(state.started_at) if started else None,
        last_event=_iso(state.last_at) if state.events else None,
        elapsed=round(state.active_seconds + since, 3),
        ancestry=branch_points(state),
        paused=paused_text(state, now) if condition == "running" else "",
        steering=tuple(  # a note with the stage that it is for
            command_text(
                one.command
                if one.command.verb != "note"
                else one.command.model_copy(update={"target": one.stage or ""})
            )
            for one in state.steered
            if one.command.verb in ("kill", "mark", "note")
        )[-STEERED:],
        answers=unusual_answers(state),
        protocol=protocol_lines(state),
        prior_work=prior_work_text(state),
        installed=str(state.installed or ""),
        stages=tuple(_counts(state, name, without_seed) for name in STAGES),
        cost=state.total,
        code_seconds=round(state.seconds_of_code, 3),
        cells=totals_of(state, all_cells(state) if cells is None else cells),
        tuning=account.model_copy(update={"trials": ()}) if account else None,
        collected=len(state.collected),
        freed=state.freed,
        roles={role: replace(used) for role, used in state.usage.items()},
        budget=_budget(state),
        subjects=subjects_in(folder, state) if folder is not None else None,
        plan=state.plan_hash,
        amendments=len(state.amendments),
        locked=state.lock.n if state.lock is not None else None,
        decisions=decisions(state),
        paper=state.standing.released.pdf if state.standing else None,
        judgement=assessed.judgement if assessed else None,
        no_judgement=plain(assessed.why) if assessed else "",
        last_events=tuple(latest),
    )


def protocol_lines(state: RunState) -> tuple[str, ...]:
    """What came of the review of the plan, then each finding that is open; nothing before it."""
    review = state.protocol
    return () if review is None else (plain(review.told), *(plain(one.line) for one in review.open))


def prior_work_text(state: RunState) -> str:
    """The papers that were read before the plan, or that none was; empty before that."""
    papers = state.prior_work.papers if state.prior_work is not None else ()
    return "; ".join(f"{short(one.title, 80)} ({len(one.uses)} entries)" for one in papers) or (
        "unread" if state.data_plan is not None else ""
    )


def condition_of(state: RunState, process: str | None) -> RunCondition:
    """Whether a run is worked on, over, or waits to be resumed."""
    if process is not None:
        return "running"
    code = exit_code_of(state)
    return CONDITIONS.get(code, "failed") if code is not None else "interrupted"


def exit_code_of(state: RunState) -> int | None:
    """The exit code that a run ended with; None before. A later draft that was not released takes nothing back."""
    if state.ended is None:
        return None
    released = state.standing is not None and state.standing.released.released
    return (3 if state.limited else 0) if state.ended.exit_code == 4 and released else state.ended.exit_code


def paused_text(state: RunState, now: float) -> str:
    """Who paused the run and why; else until when no model is called, and why. `now` is seconds since the epoch."""
    if state.held is not None:
        return held_text(state.held)
    if state.outage is None:
        return ""
    return f"no model is called {countdown(state.outage.until, now)}: {short(state.outage.reason, 200)}"


def held_text(held: Commanded) -> str:
    """That a person paused the run, and what goes on meanwhile."""
    why = f" ({short(held.text, 160)})" if held.text else ""
    return (
        f"by {short(held.by, 40) or 'a person'}{why}: nothing new is started, running work is finished; to go on: "
        "scientist resume"
    )


def unusual_answers(state: RunState) -> tuple[str, ...]:
    """Calls without a usable answer, and answers whose questions had changed when they came up again."""
    found = {
        "not usable": [f"{one.key} ({one.then})" for one in state.unanswered.values()],
        "kept, although the machine or the limits have changed since": map(str, state.drifted),
        "asked again, since plan, code, results or question changed (both answers were paid for)": dict.fromkeys(
            str(one.key) for one in state.superseded
        ),
    }
    return tuple(f"{what}: {keys}" for what, all_keys in found.items() if (keys := ", ".join(all_keys)))


def happened(event: Event, at: float, state: RunState) -> Happened | None:
    """An event in words, right after it was folded into the state; None for small steps."""
    text = describe(event, state)
    return Happened(at=_iso(at), text=text) if text is not None else None


def _next(state: RunState, run: str, condition: RunCondition) -> str:
    reporting = any(name == state.phase and stage.settled for name, stage in state.stages.items())
    step = PHASE_TEXT.get(state.phase) or f"{'report on' if reporting else 'search'} the {state.phase} stage"
    given_up = condition == "draft only" and state.phase != "write"  # a failed draft may be tried again
    if condition == "running":
        return step
    if condition == "done" or given_up or state.phase == "done":
        return PHASE_TEXT["done"]
    return f"{step}; to go on: scientist resume {run}"


def _counts(state: RunState, stage: StageName, without_seed: Sequence[str]) -> StageCounts:
    nodes = state.stage_nodes(stage)
    return StageCounts(
        **stage_facts(state, stage),
        searched=sum(node.kind in SEARCH_KINDS and node.finished for node in nodes),
        nodes=dict(Counter(node.status for node in nodes)),
        replicates=sum(node.kind == "replicate" and node.finished for node in nodes),
        seedless=tuple(node for node in without_seed if state.nodes[node].stage == stage),
    )


def subjects_in(folder: Path, state: RunState) -> SubjectsUse | None:
    """What the experiments of the run in a folder asked up to now; None where they asked nobody."""
    uses = uses_of(folder)
    if not uses:
        return None
    return SubjectsUse(
        each=uses,
        spent=spent_in(folder),
        usd=state.setting("budget.subject_usd"),
        tokens=state.setting("budget.subject_tokens"),
    )


def _budget(state: RunState) -> BudgetUse | None:
    """The use of the budget; None where the run has none."""
    usd, tokens, hours = (state.setting(f"budget.{name}") for name in ("usd", "tokens", "gpu_hours"))
    if usd is None and tokens is None and hours is None:
        return None
    reserved = sum((one.spending for one in state.reserved.values()), start=Spending())
    limit = Spending(usd=usd or 0.0, tokens=tokens or 0, gpu_seconds=3600 * (hours or 0.0))
    return BudgetUse(
        usd=usd,
        tokens=tokens,
        gpu_hours=hours,
        spent=state.spent.above(reserved),
        reserved=reserved,
        left=limit.above(state.spent),
    )


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
