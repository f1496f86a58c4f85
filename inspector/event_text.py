"""Descriptions of events, one line each, for plain output, `status` and logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from labwright.inspector.safe_text import format_clock_time, format_duration, shorten, to_plain
from labwright.record.claims.estimates import compute_node_score
from labwright.record.events import Event
from labwright.record.events.paper_events import (
    ClaimsRead,
    ContextRead,
    DraftAssessed,
    FiguresDrawn,
    FiguresReviewed,
    LibraryChecked,
    PaperJudged,
    PaperReleased,
    RequestsRead,
    ReviewersAnswered,
    RewriteStarted,
    WorksChosen,
    WorksFound,
)
from labwright.record.events.repository_events import (
    AblationsConcluded,
    BaselineChecked,
    CommandFound,
    EnvironmentBuilt,
    MutationTried,
    PartsFound,
    QuestionAnswered,
    QuestionDesigned,
    RepairMade,
    RepositoryImported,
)
from labwright.record.events.run_events import (
    AUTHOR_ROLE,
    CTRL_C,
    HAND_IN,
    CallAnswered,
    CallUnanswered,
    ClockMoved,
    CommandIgnored,
    CommandReceived,
    FoldersDeleted,
    GateEditRefused,
    GateReached,
    LimitReached,
    ProcessEnded,
    PromptChanged,
    ProviderOutage,
    ProviderRecovered,
    RunBranched,
    RunResumed,
    RunStarted,
    StudiesRecalled,
    StudyKept,
    ToolUsed,
)
from labwright.record.events.search_events import (
    AblationsPlanned,
    AddendumRegistered,
    AttemptExecuted,
    CellExecuted,
    CellsRequired,
    ConfirmationLocked,
    DecisionMade,
    HoursSetAside,
    LookTaken,
    MissingAblationsNamed,
    NodeJudged,
    NodePlotted,
    NodesCompared,
    PlanAmended,
    PlanPrepared,
    PlotsReviewed,
    ProtocolReviewed,
    SealedTestResampled,
    SealedTestScored,
    StageSummarised,
    StageWinnerChosen,
)
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.decisions import CompareNodes, ExpandTree, WidenDimension
from labwright.record.schema.nodes import KIND_NAMES, describe_limit_change, format_node_id, iterate_retries
from labwright.record.schema.repository import format_command_line
from labwright.record.table import format_quantity

_COMMAND_SOURCES = {"person": "given by you", "model": "chosen by the model"}
_STATUS_TEXT = {"good": "ok", "buggy": "failed"}


def describe_event(event: Event, state: RunState) -> str | None:
    """Describe an event in one line safe for a terminal; return None for small steps."""
    describe = _DESCRIPTIONS.get(type(event))
    return describe(event, state) if describe is not None else None


def _describe_built(event: EnvironmentBuilt, _: RunState) -> str:
    unmet = (f"{shorten(one.wanted, 60)} ({shorten(one.found, 80) or 'missing'})" for one in event.deviations)
    added = f", {format_quantity(len(event.packages), 'package')} added" * bool(event.packages)
    return f"Python {event.python}{added}" + "".join(f"; not met: {one}" for one in unmet)


def _describe_baseline(event: BaselineChecked, _: RunState) -> str:
    mean = f", mean {event.mean:.6g}" if event.mean is not None else ""
    again = f"; first seed repeated: {event.same_seed}" if event.same_seed is not None else ""
    return f"baseline {event.verdict}{mean}{again}{_add('; ', event.why, 200)}"


def _describe_tool(event: ToolUsed, _: RunState) -> str | None:
    """Describe that an author handed its result in; other tools are small steps."""
    if event.tool != HAND_IN:
        return None
    steps = format_quantity(event.key.ordinal + 1, "step")
    refused = f"result refused after {steps}: {shorten(event.result, 160)}"
    return f"author {event.key.decision}: {refused if event.failed else f'handed in after {steps}'}"


def _describe_answer(event: CallAnswered, state: RunState) -> str | None:
    """Describe an author's first call and repeated calls; others are small steps."""
    if (event.key.role, event.key.ordinal) == (AUTHOR_ROLE, 0):
        return f"author {event.key.decision}: started, first call: {shorten(str(event.answer.get('tool')), 40)}"
    repeated = state.calls.superseded_answers
    same = repeated and repeated[-1].key == event.key
    return f"{event.key} repeated: its prompt has changed since it was answered" if same else None


def _describe_ignored(event: CommandIgnored, _: RunState) -> str:
    more = f"; and {event.number - len(event.messages)} more" if event.number > len(event.messages) else ""
    return f"command ignored: {'; '.join(shorten(line, 200) for line in event.messages)}{more}"


def _describe_recalled(event: StudiesRecalled, _: RunState) -> str:
    shown = ", ".join(f"{one.study.id} ({shorten(one.study.run, 40)})" for one in event.shown)
    problems = "".join(f"; {shorten(line, 120)}" for line in event.problems[:3])
    return f"records of earlier runs: {shown or 'none'}; {event.left_out} not shown{problems}"


def _describe_kept(event: StudyKept, _: RunState) -> str:
    where = f"in {shorten(event.memory, 120)}"
    not_kept = f"record {event.id} not kept {where}: {shorten(event.why, 120)}"
    return not_kept if event.why else f"record {event.id} of this study kept {where}"


def format_arm(action: ExpandTree) -> str:
    """Format the arm or trials of a node: ` (4 settings of method)`; empty if there is none."""
    if action.kind == "trial":
        arms = dict.fromkeys(to_plain(one.arm) for one in action.trials)
        return f" ({format_quantity(len(action.trials), 'setting')} of {' and '.join(arms)})"
    return f" (for {to_plain(action.arm)})" if action.arm else ""


def format_required_cells(event: CellsRequired, state: RunState) -> str:
    """Format the required cells of a node and the reused ones: `n0007: 12 cells to run, 4 reused from n0003`."""
    nodes = [state.cells[run][0] if run in state.cells else "a missing node" for run in event.taken.values()]
    by_node = ", ".join(f"{nodes.count(node)} reused from {node}" for node in dict.fromkeys(nodes))
    number = len(event.cells) - len(nodes)
    return f"{event.node}: {format_quantity(number, 'cell')} to run{f', {by_node}' if by_node else ''}"


def format_execution(event: CellExecuted, state: RunState) -> str:
    """Format one execution of a cell and its primary metric, if measured."""
    run, plan = event.run, state.search.data_plan
    head = f"{event.node} ran {shorten(str(run.cell), 100)}, seed {run.cell.seed} in {format_duration(run.seconds)}"
    if run.failure is not None:
        return f"{head}: {shorten(run.failure.line, 110)}"
    values = [one for one in run.measurements if plan is not None and one.name == plan.primary_metric.name]
    shown = ", ".join(f"{to_plain(one.name)} {one.value:.4g}" for one in values)
    return f"{head}: {shown or f'{len(run.measurements)} measurements'}"


def _describe_plan(event: PlanPrepared, _: RunState) -> str:
    plan = event.data_plan
    names = ", ".join(to_plain(dataset.name) for dataset in plan.datasets)
    return (
        f"prepared: {shorten(plan.task, 60)} on {names}; {len(plan.conditions)} conditions; "
        f"{to_plain(plan.primary_metric.name)} is the selection metric"
    )


def _describe_decision(event: DecisionMade, _: RunState) -> str | None:
    match event.action:
        case CompareNodes(a=a, b=b, stage=stage):
            return f"{stage}: asking a model which of {a} and {b} is sounder"
        case ExpandTree() as action:
            origin = f" of {action.parent}" if action.parent else ""
            started = f"{format_node_id(event.k)} {KIND_NAMES[action.kind]}{origin}"
            return f"{started} in {action.stage}{format_arm(action)}"
        case WidenDimension() as action:
            widened = f"search range of {to_plain(action.dimension)} widened to {action.low:g} to {action.high:g}"
            return f"{widened} for every arm: the best setting of {to_plain(action.arm)} is at its edge"
        case _:
            return None


def _describe_execution(event: AttemptExecuted, state: RunState) -> str:
    attempt, node = event.attempt, state.nodes.get(event.node)
    retries = iterate_retries(node) if node is not None else ()
    again = "".join(f" again, {describe_limit_change(*pair)}" for pair in retries if pair[1] == attempt)
    took = f"{event.node} ran {format_duration(attempt.seconds)}{again}"
    if attempt.failure is not None:
        return f"{took}: {shorten(attempt.failure.line, 90)}"
    done = sum(one.outcome in ("measured", "taken over") for one in attempt.cells)
    made = attempt.measurements
    found = [format_quantity(len(made), "measurement")] if made or not attempt.cells else []
    cells = [f"{done} of {format_quantity(len(attempt.cells), 'cell')}"] if attempt.cells else []
    return f"{took}: {' of '.join(found + cells)}"


def _describe_plots(event: PlotsReviewed, _: RunState) -> str | None:
    refused = [review for review in event.reviews if not review.readable]
    issues = "; ".join(issue for review in refused for issue in review.issues)
    return f"{event.node} figures rejected: {shorten(issues, 80)}" if refused else None


def _describe_verdict(event: NodeJudged, state: RunState) -> str:
    node, plan = state.nodes.get(event.node), state.search.data_plan
    score = compute_node_score(node, plan) if node is not None else None
    value = f", {to_plain(plan.primary_metric.name)} {score:.4g}" if plan is not None and score is not None else ""
    why = f": {shorten(event.failure.message, 80)}" if event.failure else ""
    kind = f" {KIND_NAMES[node.kind]}" if node is not None else ""
    return f"{event.node}{kind} {_STATUS_TEXT.get(event.status, event.status)}{value}{why}"


def _describe_look(event: LookTaken, _: RunState) -> str:
    after = f"sampling ends: {shorten(event.ends, 100)}" if event.ends else "sampling goes on"
    return f"look {event.look + 1} at {format_quantity(len(event.seeds), 'fresh seed')}: {after}"


def _describe_documents(event: ContextRead, _: RunState) -> str:
    read = ", ".join(f"{shorten(one.file, 60)} ({len(one.statements)} statements)" for one in event.documents)
    return f"documents read: {read or 'none'}" + "".join(f"; not read: {shorten(one, 200)}" for one in event.refused)


def _describe_figures(event: FiguresDrawn, _: RunState) -> str:
    if event.failure:
        return f"figures rejected: {shorten(event.failure.message, 80)}"
    left_out = f", {len(event.left_out)} left out" if event.left_out else ""
    return f"{len(event.descriptions)} final figures drawn{left_out}"


def _describe_figure_reviews(event: FiguresReviewed, _: RunState) -> str | None:
    bad = [one.name for one in event.reviews if not (one.image.ok and one.caption.ok and one.references.ok)]
    issues = f"issues with {', '.join(bad)}" if bad else "no issues"
    reviewed = f"figures in the PDF of round {event.round}: {len(event.reviews)} reviewed, {issues}"
    return reviewed if event.looked else None


def _describe_claims(event: ClaimsRead, _: RunState) -> str:
    found = "; ".join(shorten(line, 160) for line in event.violations)
    unread = f"; {format_quantity(event.unread, 'sentence')} unread" if event.unread else ""
    return f"round {event.round}: {f'overclaims: {found}' if found else 'no overclaims found'}{unread}"


def _describe_library(event: LibraryChecked, _: RunState) -> str:
    left = [f"{entry.key} ({entry.why})" for entry in event.entries if entry.why]
    counts = f"{len(event.entries) - len(left)} of {len(event.entries)} entries may be cited"
    notes = "".join(f"; {shorten(note, 100)}" for note in event.notes[:3])
    return f"bibliography: {counts}{_add('; not cited: ', '; '.join(left), 300)}{notes}"


def _describe_works(event: WorksFound, _: RunState) -> str:
    outages = "; ".join(sorted({why for search in event.searches for why in search.outages}))
    counts = f"{len(event.searches)} searches, {len(event.works)} works"
    return f"citations, round {event.round}: {counts}{_add('; ', outages, 160)}"


def _describe_draft(event: DraftAssessed, _: RunState) -> str:
    pages = f", {format_quantity(event.pages, 'page')}" if event.pages is not None else ""
    left_out = f", {len(event.left_out)} required statements left out" if event.left_out else ""
    return f"paper text, round {event.round}: {format_quantity(len(event.violations), 'violation')}{left_out}{pages}"


def _describe_release(event: PaperReleased, _: RunState) -> str:
    which = f", text of round {event.round}" if event.round is not None else ""
    refused = f"paper NOT released: {shorten('; '.join(event.reasons), 80)}"
    pdf = to_plain(event.pdf) if event.pdf else "no PDF: sources only"
    return f"{f'paper released{which}' if event.released else refused} ({pdf})"


def _describe_rewriting(event: RewriteStarted, _: RunState) -> str:
    if event.reviews:
        return f"revising the paper after {format_quantity(len(event.reviews), 'review')}: version {event.version}"
    return f"rewriting the paper: version {event.version} (model {to_plain(event.model)})"


def _describe_stop(event: CommandReceived, state: RunState) -> str:
    """Describe a request to stop, and what ends first."""
    left = sum(not one.is_finished for one in state.nodes.values())
    first = f"{format_quantity(left, 'experiment')} {'ends' if left == 1 else 'end'}" if left else "the step ends"
    again = f"; press {CTRL_C} again to stop at once" * (event.by == CTRL_C)
    return f"stopping{_add(' for ', event.by, 40)}{_add(': ', event.text, 160)}: {first} first{again}"


def format_command(event: CommandReceived) -> str:
    """Describe a user's command and its reason."""
    what = {
        "mark": f"mark {shorten(event.target, 40)} {event.mark}",
        "kill": f"kill {shorten(event.target, 40)}",
        "note": f"note for {shorten(event.target, 40) or 'this stage'}",
        "approve": f"approve the {shorten(event.target, 40)}" + " with changes" * bool(event.plan or event.draft),
    }.get(event.verb, event.verb)
    return f"command{_add(' by ', event.by, 40)}: {what}{_add(': ', event.text, 160)}"


def format_judgement(event: PaperJudged) -> str:
    """Format the scores of a paper, or the reason why there are none."""
    if event.judgement is None:
        return f"not judged: {shorten(event.why, 200)}"
    return f"judged: {to_plain(event.judgement.score_line)}"


def _short(text: str) -> str:
    return shorten(text, 100)


def _add(before: str, text: str, width: int, after: str = "") -> str:
    """Return a shortened text between others; empty if there is none."""
    return f"{before}{shorten(text, width)}{after}" if text else ""


_DESCRIPTIONS: Final[Mapping[type, Callable[[Any, RunState], str | None]]] = {
    RepositoryImported: lambda e, _: (
        f"checked out commit {e.commit[:12]}: {format_quantity(e.files, 'file')}, {e.bytes / 1e6:.1f} MB"
        + "".join(f"; {shorten(fault, 160)}" for fault in e.faults)
    ),
    EnvironmentBuilt: _describe_built,
    CommandFound: lambda e, _: (
        f"command ({_COMMAND_SOURCES[e.by]}): {shorten(format_command_line(e.command.argv), 160)}"
        + _add(" (", e.why, 200, ")")
    ),
    RepairMade: lambda e, _: f"fixed: {shorten(e.reason, 160)}",
    BaselineChecked: _describe_baseline,
    PartsFound: lambda e, _: (
        f"{format_quantity(len(e.parts), 'part')} found, {format_quantity(len(e.rest), 'candidate')} excluded; at most "
        f"{format_quantity(e.budget, 'run')}"
    ),
    MutationTried: lambda e, _: f"{shorten(e.part, 80)}: {e.gate}{_add(' (', e.why, 120, ')')}",
    QuestionDesigned: lambda e, _: (
        f"designed: {', '.join(one.name for one in e.design.arms)}; {format_quantity(e.design.seeds, 'seed')}; "
        f"{shorten(e.design.hypothesis, 160)}"
    ),
    QuestionAnswered: lambda e, _: f"answered: {shorten(e.conclusion, 300)}" if e.conclusion else f"no answer: {e.why}",
    AblationsConcluded: lambda e, _: (
        f"finished after {format_quantity(e.runs, 'run')}: "
        f"{', '.join(shorten(name, 60) for name in e.top) or 'nothing helps'}" + (f"; {e.stopped}" if e.stopped else "")
    ),
    RunStarted: lambda e, _: f"started: {shorten(e.idea.title, 80)} (model {to_plain(e.model)}, seed {e.seed})",
    RunBranched: lambda e, _: (
        f"branched from {shorten(e.parent, 80)} at {shorten(e.point, 20)}, keeping the first "
        f"{format_quantity(e.events, 'event')}"
    ),
    RunResumed: lambda e, _: (
        "resumed" + (f"; stopped {e.reaped} process{'es' * (e.reaped != 1)} left by a killed run" if e.reaped else "")
    ),
    CallUnanswered: lambda e, _: f"no valid answer for {e.key}: {_short(e.why)}; {e.then}",
    ToolUsed: _describe_tool,
    CallAnswered: _describe_answer,
    PromptChanged: lambda e, _: f"answer {e.key} reused although the machine or the limits have changed",
    CommandReceived: lambda e, state: _describe_stop(e, state) if e.verb == "stop" else format_command(e),
    CommandIgnored: _describe_ignored,
    GateReached: lambda e, _: (
        f"waits at the gate {e.gate}; next: {shorten(e.comes_next, 200)}{f'; {to_plain(e.cost)}' if e.cost else ''}; "
        "scientist approve RUN"
    ),
    GateEditRefused: lambda e, _: f"change at the gate {e.gate} refused: {shorten('; '.join(e.reasons), 300)}",
    StudiesRecalled: _describe_recalled,
    StudyKept: _describe_kept,
    LimitReached: lambda e, _: f"limit {f'of {e.stage} ' if e.stage else ''}reached: {shorten(e.reason, 80)}",
    ProviderOutage: lambda e, _: f"paused until {format_clock_time(e.until)}: {shorten(e.reason, 160)}",
    ProviderRecovered: lambda e, _: f"model available again after {format_duration(e.seconds)}",
    FoldersDeleted: lambda e, _: (
        f"deleted {format_quantity(len(e.folders), 'folder')} of checkpoints and artifacts (keep={e.keep}): "
        f"{e.bytes / 1e9:.2f} GB freed"
    ),
    ClockMoved: lambda e, _: (
        f"the system clock jumped by {format_duration(e.seconds)} (sleep or clock change); not counted towards limits"
    ),
    ProcessEnded: lambda e, _: f"ended with exit code {e.exit_code}{_add(': ', e.reason, 100)}",
    PlanPrepared: _describe_plan,
    ProtocolReviewed: lambda e, _: shorten(f"protocol review: {to_plain(e.message)}", 200),
    DecisionMade: _describe_decision,
    CellsRequired: format_required_cells,
    AttemptExecuted: _describe_execution,
    NodePlotted: lambda e, _: (
        f"{e.node} drew no usable figures: {shorten(e.failure.message, 60)}" if e.failure else None
    ),
    PlotsReviewed: _describe_plots,
    NodeJudged: _describe_verdict,
    NodesCompared: lambda e, _: (
        f"{e.a} and {e.b} compared: {e.better or 'neither'} is sounder: {shorten(e.reasons, 80)}"
    ),
    StageWinnerChosen: lambda e, _: f"{e.stage}: selected {e.best or 'no node'}: {shorten(e.ended, 80)}",
    PlanAmended: lambda e, _: f"plan amendment {e.number} by {shorten(e.by, 40)}: {_short(e.why)} ({e.seen})",
    ConfirmationLocked: lambda e, _: (
        f"plan {e.plan[:12]} locked: {e.winner} will be tested on {format_quantity(e.n, 'fresh seed')}"
        f"{_add(' (', e.why, 100, ')')}"
    ),
    LookTaken: _describe_look,
    HoursSetAside: lambda e, _: (
        f"of {format_duration(e.total)} over all slots, set aside {e.when}: {format_duration(e.confirmation)} for "
        f"{format_quantity(e.seeds, 'fresh seed')}, {format_duration(e.scoring)} for test scoring, "
        f"{format_duration(e.write_up)} for the paper"
    ),
    StageSummarised: lambda e, _: f"{e.summary.stage} report: {_short(e.summary.found)}",
    AblationsPlanned: lambda e, _: (
        _add("ablations planned: ", ", ".join(one.name for one in e.ablations), 100)
        or f"no ablations planned: {_short(e.why)}"
    ),
    MissingAblationsNamed: lambda e, _: (
        _add("ablations requested by the reviewer: ", ", ".join(one.ablation.name for one in e.missing), 100)
        or f"no missing ablations: {_short(e.why)}"
    ),
    AddendumRegistered: lambda e, _: (
        f"addendum registered for reviewers: {format_quantity(len(e.seeds), 'further seed')}, arms "
        f"{_short(', '.join(one.ablation.name for one in e.accepted)) or 'none'}"
    ),
    SealedTestScored: lambda e, _: (
        f"{e.node} test predictions scored ({format_quantity(len(e.measurements), 'value')})"
    ),
    SealedTestResampled: lambda e, _: f"test examples resampled for {len(e.found)} differences",
    ContextRead: _describe_documents,
    FiguresDrawn: _describe_figures,
    FiguresReviewed: _describe_figure_reviews,
    ClaimsRead: _describe_claims,
    LibraryChecked: _describe_library,
    WorksFound: _describe_works,
    WorksChosen: lambda e, _: (
        f"citations, round {e.round}: {len({one.key for one in e.supports})} selected"
        + (f", {len(e.refused)} rejected" if e.refused else "")
    ),
    DraftAssessed: _describe_draft,
    PaperReleased: _describe_release,
    PaperJudged: lambda e, _: format_judgement(e),
    RequestsRead: lambda e, _: (
        f"{format_quantity(len(e.requests), 'request')} in the reviews"
        + (f", {format_quantity(len(e.dropped), 'fault')}" if e.dropped else "")
    ),
    ReviewersAnswered: lambda e, _: (
        f"response to the reviewers: {format_quantity(sum(bool(one.answer) for one in e.answers), 'request')} answered"
    ),
    RewriteStarted: _describe_rewriting,
}
"""Type of an event -> its description; the other types are small steps."""
