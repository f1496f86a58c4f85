"""The status of a run as a single value, printed by `scientist status` (JSON fields: docs/json.md)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from labwright.inspector.diagnosis import PHASE_TEXT, RunDiagnosis, describe_phase
from labwright.inspector.event_text import describe_event, format_command
from labwright.inspector.findings import format_effect, list_effects, list_findings
from labwright.inspector.safe_text import format_clock_time, format_duration, shorten, to_plain
from labwright.inspector.tree import BranchPoint, StageFacts, list_branch_points, stage_fields
from labwright.record.cell_status import (
    CellTotals,
    PhaseHours,
    build_hours_table,
    compute_all_cells,
    compute_cell_totals,
)
from labwright.record.claims.estimates import nodes_ignoring_seed
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.setting_controls import TuningReport, build_tuning_report
from labwright.record.events import Event
from labwright.record.llm_calls import read_exchanges
from labwright.record.reducers.event_fold import apply_event
from labwright.record.reducers.run_state import RoleUsage, RunState
from labwright.record.schema import FrozenModel
from labwright.record.schema.decisions import Cost, StudiedLLMUsage
from labwright.record.schema.hypotheses import HypothesisDecision
from labwright.record.schema.nodes import SEARCH_KINDS, STUDY_STAGES, Phase, StageName, StudyKind
from labwright.record.schema.paper import Judgement
from labwright.record.table import format_quantity

RunCondition = Literal["running", "interrupted", "stopped", "done", "draft only", "failed"]
CONDITION_BY_EXIT_CODE: dict[int, RunCondition] = {0: "done", 3: "stopped", 4: "draft only", 130: "interrupted"}
"""Condition of an ended run by its exit code; any other code means failed."""

MAX_COMMANDS_SHOWN = 5
"""Maximum number of kill, mark and note commands in a status, latest first; `logs` shows all."""


class StageCounts(StageFacts):
    """Node counts of one stage. `searched` of `node_limit` are finished search nodes; `nodes` counts all nodes by
    status.

    `seedless` lists nodes whose replicates gave the same values for every seed.
    """

    searched: int
    nodes: dict[str, int]
    replicates: int
    seedless: tuple[str, ...]


class BudgetUsage(FrozenModel):
    """The limits of a run (None: no limit) and their use. `spent` includes work ended by a kill; `reserved` is set
    aside for running calls and attempts; `remaining` is the rest.
    """

    usd: float | None
    tokens: int | None
    gpu_hours: float | None
    spent: Cost
    reserved: Cost
    remaining: Cost


class LlmUsage(FrozenModel):
    """Model calls by experiments, per subject and in total, and their caps (None: no cap)."""

    each: tuple[StudiedLLMUsage, ...]
    spent: Cost
    usd: float | None
    tokens: int | None

    @property
    def used_share(self) -> float | None:
        """Return the used share of the cap that is closest to its limit; None without a cap."""
        of = [spent / cap for spent, cap in ((self.spent.usd, self.usd), (self.spent.tokens, self.tokens)) if cap]
        return max(of, default=None)


class PhaseSpending(FrozenModel):
    """USD for the model calls of one phase: as the forecast planned, and spent so far."""

    phase: Phase
    planned: float
    spent: float


class RemainingEstimate(FrozenModel):
    """Estimated cost from now to the end of a run; `usd` is None if a price is unknown."""

    calls: int
    tokens: int
    usd: float | None
    gpu_hours: float | None
    phases: tuple[PhaseSpending, ...] = Field(
        default=(), description="planned and spent USD; empty if a price is unknown"
    )
    hours: tuple[str, ...] = Field(default=(), description="lines that say what the run can decide in its time")


class EventLine(FrozenModel):
    """Time and description of an event."""

    at: str
    text: str


class RunStatus(FrozenModel):
    """Status of a run. Times are ISO 8601 in UTC; `elapsed` is seconds of work, without gaps between processes.

    `paused` states who paused the run and why, or until when no model is called; empty if the run is not paused.
    `steering` has the latest kill, mark and note commands. `answers` lists calls without a valid answer, and answers
    whose prompts have changed since. `protocol` is the outcome of the plan's review and its open findings; `prior_work`
    lists the papers read before the plan; `installed` lists the run's own packages. `cost` covers all model calls,
    `roles` those of each role, and `code_seconds` all experiments. `cells` is None if no node has cells, `tuning` if
    nothing is tuned. `collected` counts deleted folders of checkpoints and artifacts (`record.retention`), and `freed`
    is their bytes.
    """

    run: str
    kind: StudyKind = "paper"
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
    memory: str = Field(default="", description="records of earlier runs that prompts show, and that of this run")
    installed: str = ""
    stages: tuple[StageCounts, ...]
    cost: RoleUsage
    code_seconds: float
    hours: tuple[PhaseHours, ...] = Field(default=(), description="planned and spent compute time by phase")
    cells: CellTotals | None = None
    tuning: TuningReport | None = None
    collected: int = 0
    freed: int = 0
    roles: Mapping[str, RoleUsage] = Field(default_factory=dict[str, RoleUsage])
    budget: BudgetUsage | None = None
    llm_usage: LlmUsage | None = None
    remaining: RemainingEstimate | None = None
    plan: str = Field(default="", description="sha256 of the current data plan")
    amendments: int = 0
    locked: int | None = Field(default=None, description="number of fresh seeds for confirmation; null before the lock")
    looks: tuple[int, ...] = Field(default=(), description="registered numbers of fresh seeds at which they are tested")
    findings: tuple[tuple[str, str], ...] = Field(
        default=(), description="what an ablation or a question found: pairs of a label and a text"
    )
    effects: tuple[str, ...] = Field(default=(), description="its measured differences, one line each")
    decisions: tuple[HypothesisDecision, ...] = Field(default=(), description="current verdicts on the hypotheses")
    paper: str | None
    judgement: Judgement | None = None
    no_judgement: str = ""
    last_events: tuple[EventLine, ...]
    diagnosis: RunDiagnosis | None = Field(default=None, description="why it is in its state; null if not requested")


def fold_with_lines(events: Iterable[tuple[Event, float]], last: int) -> tuple[RunState, Sequence[EventLine]]:
    """Return the state after all events, and the descriptions of the last ones."""
    state, latest = RunState(), deque[EventLine](maxlen=last)
    for event, at in events:
        apply_event(state, event, at)
        if (entry := build_event_line(event, at, state)) is not None:
            latest.append(entry)
    return state, latest


def build_status(
    run: str,
    state: RunState,
    latest: Sequence[EventLine],
    process: str | None,
    *,
    now: float,
    folder: Path | None = None,
) -> RunStatus:
    """Build the status of a run from its state. `latest` are the last events, `process` names the process of the run,
    if any, `now` is in seconds since the epoch, and `folder` is the run's folder."""
    started, ended, account = state.started, state.process_end, build_tuning_report(state)
    assessed = state.paper.current.judged if state.paper.current is not None else None
    without_seed, lock = nodes_ignoring_seed(state), state.search.current_lock
    condition = find_condition(state, process)
    commands = [
        one.command.model_copy(update={"target": one.stage or ""} if one.command.verb == "note" else {})
        for one in state.user_commands
        if one.command.verb in ("kill", "mark", "note", "approve")
    ]
    later = _describe_later_draft(state) if ended and ended.exit_code != find_exit_code(state) else ""
    since = max(0.0, now - state.last_event_at) if condition == "running" and not state.is_paused else 0.0
    return RunStatus(
        run=run,
        kind=state.kind,
        title=to_plain(started.idea.title) if started else "",
        model=to_plain(started.model) if started else "",
        seed=started.seed if started else None,
        condition=condition,
        process=process,
        phase=state.phase,
        next=f"scientist write {run} writes the later draft again" if later else _describe_next(state, run, condition),
        exit_code=find_exit_code(state),
        reason=f"{later}{to_plain(ended.reason)}" if ended else "",
        started=_to_iso(state.started_at) if started else None,
        last_event=_to_iso(state.last_event_at) if state.event_count else None,
        elapsed=round(state.active_seconds + since, 3),
        ancestry=list_branch_points(state),
        paused=format_pause(state, now) if condition == "running" or state.open_gate is not None else "",
        steering=tuple(map(format_command, commands[-MAX_COMMANDS_SHOWN:])),
        answers=format_unusual_answers(state),
        protocol=format_protocol_review(state),
        prior_work=format_prior_work(state),
        memory=format_memory(state),
        installed=str(state.search.installed_packages or ""),
        stages=tuple(_count_stage(state, name, without_seed) for name in STUDY_STAGES[state.kind]),
        cost=state.calls.total_usage,
        code_seconds=round(state.experiment_seconds, 3),
        hours=build_hours_table(state) if state.search.hours is not None else (),
        cells=compute_cell_totals(state, compute_all_cells(state)),
        tuning=account.model_copy(update={"trials": ()}) if account else None,
        collected=len(state.deleted_folders),
        freed=state.freed_bytes,
        roles={role: replace(used) for role, used in state.calls.usage_by_role.items()},
        budget=_read_budget_usage(state),
        llm_usage=summarize_llm_usage(folder, state) if folder is not None else None,
        plan=state.search.plan_hash,
        amendments=len(state.search.amendments),
        locked=lock.n if lock is not None else None,
        looks=lock.looks if lock is not None else (),
        findings=tuple(list_findings(state)),
        effects=tuple(map(format_effect, list_effects(state))),
        decisions=decide_hypotheses(state),
        paper=state.paper.current.released.pdf if state.paper.current else None,
        judgement=assessed.judgement if assessed else None,
        no_judgement=to_plain(assessed.why) if assessed else "",
        last_events=tuple(latest),
    )


def format_protocol_review(state: RunState) -> tuple[str, ...]:
    """Return the outcome of the plan's review and each open finding; empty before the review."""
    review = state.search.protocol_review
    found = (review.message, *(one.summary_line for one in review.open_findings)) if review is not None else ()
    return tuple(map(to_plain, found))


def format_prior_work(state: RunState) -> str:
    """List the papers read before the plan, or say that none was read; empty before the plan."""
    papers = state.paper.prior_work.papers if state.paper.prior_work is not None else ()
    return "; ".join(f"{shorten(one.title, 80)} ({format_quantity(len(one.uses), 'entry')})" for one in papers) or (
        "none read" if state.search.data_plan is not None else ""
    )


def format_memory(state: RunState) -> str:
    """List the records of earlier runs that prompts show, and the record of this run; empty without a memory."""
    lines: list[str] = []
    if (found := state.recalled_studies) is not None:
        shown = (f"{one.study.id} {shorten(one.study.run, 40)} ({shorten(one.why, 80)})" for one in found.shown)
        lines.append(f"read: {'; '.join(shown) or 'no record'}")
    if (kept := state.kept_study) is not None:
        lines.append(f"record {kept.id} {'not kept: ' + shorten(kept.why, 120) if kept.why else 'kept'}")
    return "; ".join(lines)


def find_condition(state: RunState, process: str | None) -> RunCondition:
    """Return whether a run is running, ended or interrupted."""
    if process is not None:
        return "running"
    code = find_exit_code(state)
    if state.kind != "paper" and state.phase == "done" and code is not None:  # a report was written
        return "stopped" if state.limit_reason is not None else "done"
    return CONDITION_BY_EXIT_CODE.get(code, "failed") if code is not None else "interrupted"


def find_exit_code(state: RunState) -> int | None:
    """Return the exit code of an ended run; None before its end. A later draft that is not released does not change
    it.
    """
    if state.process_end is None:
        return None
    if state.process_end.exit_code == 4 and state.paper.current is not None and state.paper.current.released.released:
        return 3 if state.limit_reason else 0
    return state.process_end.exit_code


def format_pause(state: RunState, now: float) -> str:
    """Describe who paused the run and why, or until when no model is called and why. `now` is seconds since the
    epoch."""
    if (gate := state.open_gate) is not None:
        cost = f"; cost: {to_plain(gate.reached.cost)}" if gate.reached.cost else ""
        refused = f"; your change was refused: {shorten('; '.join(gate.refused), 400)}" if gate.refused else ""
        following = f"at the gate {gate.reached.gate}, next: {to_plain(gate.reached.comes_next)}{cost}{refused}"
        return f"{following}; continue with: scientist approve RUN [--edit FILE]"
    if (pause := state.paused_by) is not None:
        who = f"by {shorten(pause.by, 40) or 'the user'}" + (f" ({shorten(pause.text, 160)})" if pause.text else "")
        return f"{who}: nothing new starts, running work finishes; continue with: scientist resume"
    if (outage := state.outage) is None:
        return ""
    until = f"{format_clock_time(outage.until)} (in {format_duration(outage.until - now)})"
    return f"no model is called until {until}: {shorten(outage.reason, 200)}"


def format_unusual_answers(state: RunState) -> tuple[str, ...]:
    """List calls without a valid answer, and answers whose prompts have changed since."""
    found = {
        "invalid": [f"{one.key} ({one.then})" for one in state.calls.unanswered_calls.values()],
        "reused although the machine or the limits have changed": map(str, state.calls.changed_prompts),
        "repeated because plan, code, results or prompt changed (both answers billed)": dict.fromkeys(
            str(one.key) for one in state.calls.superseded_answers
        ),
    }
    return tuple(f"{what}: {keys}" for what, all_keys in found.items() if (keys := ", ".join(all_keys)))


def build_event_line(event: Event, at: float, state: RunState) -> EventLine | None:
    """Describe an event right after it was applied to the state; None for small steps."""
    text = describe_event(event, state)
    return EventLine(at=_to_iso(at), text=text) if text is not None else None


def _describe_later_draft(state: RunState) -> str:
    """Return the start of a sentence on the draft after a released paper: its version and its files."""
    released, answered = state.paper.released, state.paper.answered
    files = [released.pdf] if released is not None and released.pdf else []
    files += [one for one in (answered.files if answered is not None else ()) if one.endswith("response.md")]
    return f"version {state.paper.version} is a DRAFT (" + ", ".join(files or ["no PDF"]) + "), not released: "


def _describe_next(state: RunState, run: str, condition: RunCondition) -> str:
    step = describe_phase(state, state.phase)
    given_up = condition == "draft only" and state.phase != "write"  # a failed draft can be retried
    if condition == "running":
        return step
    if state.kind != "paper" and state.phase == "done" and state.limit_reason is not None:
        return f"nothing within this limit; with another one: scientist resume {run}"
    if condition == "done" or given_up or state.phase == "done":
        return PHASE_TEXT["done"]
    return f"{step}; continue with: scientist resume {run}"


def _count_stage(state: RunState, stage: StageName, without_seed: Sequence[str]) -> StageCounts:
    nodes = state.list_stage_nodes(stage)
    return StageCounts(
        **stage_fields(state, stage),
        searched=sum(node.kind in SEARCH_KINDS and node.is_finished for node in nodes),
        nodes=dict(Counter[str](node.status for node in nodes)),
        replicates=sum(node.kind == "replicate" and node.is_finished for node in nodes),
        seedless=tuple(node for node in without_seed if state.nodes[node].stage == stage),
    )


def summarize_llm_usage(folder: Path, state: RunState) -> LlmUsage | None:
    """Summarise the model calls of a run's experiments; None if there were none."""
    exchanges = read_exchanges(folder)
    if not exchanges.usage:
        return None
    return LlmUsage(
        each=exchanges.usage,
        spent=exchanges.spent,
        usd=state.read_setting("budget.subject_usd"),
        tokens=state.read_setting("budget.subject_tokens"),
    )


def _read_budget_usage(state: RunState) -> BudgetUsage | None:
    """Return the use of the budget; None if the run has none."""
    caps = {name: state.read_setting(f"budget.{name}") for name in ("usd", "tokens", "gpu_hours")}
    if all(cap is None for cap in caps.values()):
        return None
    reserved = sum((one.spending for one in state.calls.reservations.values()), start=Cost())
    hours = caps["gpu_hours"] or 0.0
    limit = Cost(usd=caps["usd"] or 0.0, tokens=caps["tokens"] or 0, gpu_seconds=3600 * hours)
    return BudgetUsage(
        **caps,
        spent=state.calls.spent_cost.subtract_floored(reserved),
        reserved=reserved,
        remaining=limit.subtract_floored(state.calls.spent_cost),
    )


def _to_iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
