"""Descriptions of events, one line each, for plain output, `status` and logs."""

from __future__ import annotations

from labwright.inspector.cell_text import format_required_cells
from labwright.inspector.safe_text import format_clock_time, format_duration, shorten, to_plain
from labwright.record.claims.estimates import compute_node_score
from labwright.record.events import Event, paper_events, repository_events, run_events, search_events
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.decisions import CallKey, CompareNodes, ExpandTree, WidenDimension
from labwright.record.schema.nodes import describe_limit_change, format_node_id, iterate_retries
from labwright.record.schema.repository import format_command_line

_COMMAND_SOURCES = {"person": "given by you", "repository": "found in the repository", "model": "chosen by the model"}
_STATUS_TEXT = {"good": "ok", "buggy": "failed"}

_RepositoryEvent = repository_events.RepositoryEvent | repository_events.AblationEvent | repository_events.QuestionEvent


def describe_event(event: Event, state: RunState) -> str | None:
    """Describe an event in one line safe for a terminal; return None for small steps."""
    if isinstance(event, run_events.RunEvent | run_events.CallEvent):
        return _describe_run_event(event, state)
    if isinstance(event, search_events.SearchEvent | search_events.NodeEvent):
        return _describe_search_event(event, state)
    if isinstance(event, _RepositoryEvent):
        return _describe_code_event(event)
    return _describe_paper_event(event)


def _describe_code_event(event: _RepositoryEvent) -> str | None:
    match event:
        case repository_events.RepositoryImported():
            return f"checked out commit {event.commit[:12]}: {event.files} files, {event.bytes / 1e6:.1f} MB" + "".join(
                f"; {shorten(fault, 160)}" for fault in event.faults
            )
        case repository_events.EnvironmentBuilt():
            unmet = (f"{shorten(one.wanted, 60)} ({shorten(one.found, 80) or 'missing'})" for one in event.deviations)
            added = f", {len(event.packages)} packages added" * bool(event.packages)
            return f"Python {event.python}{added}" + "".join(f"; not met: {one}" for one in unmet)
        case repository_events.CommandFound():
            return (
                f"command ({_COMMAND_SOURCES[event.by]}): {shorten(format_command_line(event.command.argv), 160)}"
                + (f" ({shorten(event.why, 200)})" if event.why else "")
            )
        case repository_events.RepairTried():
            return f"{'fixed' if event.kept else 'fix failed'}: {shorten(event.repair.reason, 160)}" + (
                f"; then {shorten(event.then, 120)}" if event.then else ""
            )
        case repository_events.BaselineChecked():
            mean = f", mean {event.mean:.6g}" if event.mean is not None else ""
            again = f"; first seed repeated: {event.same_seed}" if event.same_seed is not None else ""
            return f"baseline {event.verdict}{mean}{again}" + (f"; {shorten(event.why, 200)}" if event.why else "")
        case repository_events.PartsFound():
            return f"{len(event.parts)} parts found, {len(event.rest)} candidates excluded; at most {event.budget} runs"
        case repository_events.MutationTried():
            return f"{shorten(event.part, 80)}: {event.gate}" + (f" ({shorten(event.why, 120)})" if event.why else "")
        case repository_events.FreshSeedsGiven():
            return f"{shorten(event.part, 80)}: {event.seeds} fresh seeds ({event.why})"
        case repository_events.QuestionDesigned():
            arms = ", ".join(one.name for one in event.design.arms)
            return f"designed: {arms}; {event.design.seeds} seeds; {shorten(event.design.hypothesis, 160)}"
        case repository_events.QuestionAnswered():
            return f"answered: {shorten(event.conclusion, 300)}" if event.conclusion else f"no answer: {event.why}"
        case repository_events.AblationsConcluded():
            top = ", ".join(shorten(name, 60) for name in event.top) or "nothing helps"
            return f"finished after {event.runs} runs: {top}" + (f"; {event.stopped}" if event.stopped else "")


def _describe_run_event(event: run_events.RunEvent | run_events.CallEvent, state: RunState) -> str | None:
    match event:
        case run_events.RunStarted():
            return f"started: {shorten(event.idea.title, 80)} (model {to_plain(event.model)}, seed {event.seed})"
        case run_events.RunBranched():
            return (
                f"branched from {shorten(event.parent, 80)} at {shorten(event.point, 20)}, keeping the first "
                f"{event.events} events"
            )
        case run_events.RunResumed():
            return "resumed" + (f"; stopped {event.reaped} processes left by a killed run" if event.reaped else "")
        case run_events.CallUnanswered():
            return f"no valid answer for {event.key}: {shorten(event.why, 100)}; {event.then}"
        case run_events.ToolUsed(tool=run_events.HAND_IN):
            steps = event.key.ordinal + 1
            return f"author {event.key.decision}: " + (
                f"result refused after {steps} steps: {shorten(event.result, 160)}"
                if event.failed
                else f"handed in after {steps} steps"
            )
        case run_events.CallAnswered(key=CallKey(role=run_events.AUTHOR_ROLE, ordinal=0) as key):
            return f"author {key.decision}: started, first call: {shorten(str(event.answer.get('tool')), 40)}"
        case run_events.PromptChanged():
            return f"answer {event.key} reused although the machine or the limits have changed"
        case run_events.CallAnswered() if (
            state.calls.superseded_answers and state.calls.superseded_answers[-1].key == event.key
        ):
            return f"{event.key} repeated: its prompt has changed since it was answered"
        case run_events.CommandReceived():
            return format_command(event)
        case run_events.CommandIgnored():
            more = f"; and {event.number - len(event.messages)} more" if event.number > len(event.messages) else ""
            return f"command ignored: {'; '.join(shorten(line, 200) for line in event.messages)}{more}"
        case run_events.GateReached():
            cost = f"; {to_plain(event.cost)}" if event.cost else ""
            return (
                f"waits at the gate {event.gate}; next: {shorten(event.comes_next, 200)}{cost}; scientist approve RUN"
            )
        case run_events.GateEditRefused():
            return f"change at the gate {event.gate} refused: {shorten('; '.join(event.reasons), 300)}"
        case run_events.StudiesRecalled():
            shown = ", ".join(f"{one.study.id} ({shorten(one.study.run, 40)})" for one in event.shown)
            problems = "".join(f"; {shorten(line, 120)}" for line in event.problems[:3])
            return f"records of earlier runs: {shown or 'none'}; {event.left_out} not shown{problems}"
        case run_events.StudyKept():
            where = f"in {shorten(event.memory, 120)}"
            return (
                f"record {event.id} not kept {where}: {shorten(event.why, 120)}"
                if event.why
                else f"record {event.id} of this study kept {where}"
            )
        case run_events.LimitReached():
            return f"limit {f'of {event.stage} ' if event.stage else ''}reached: {shorten(event.reason, 80)}"
        case run_events.ProviderOutage():
            return f"paused until {format_clock_time(event.until)}: {shorten(event.reason, 160)}"
        case run_events.ProviderRecovered():
            return f"model available again after {format_duration(event.seconds)}"
        case run_events.FoldersDeleted():
            return (
                f"deleted {len(event.folders)} folders of checkpoints and artifacts (keep={event.keep}): "
                f"{event.bytes / 1e9:.2f} GB freed"
            )
        case run_events.ClockMoved():
            return (
                f"the system clock jumped by {format_duration(event.seconds)} (sleep or clock change); not counted "
                "towards limits"
            )
        case run_events.ProcessEnded():
            return f"ended with exit code {event.exit_code}" + (
                f": {shorten(event.reason, 100)}" if event.reason else ""
            )
        case _:
            return None


def format_arm(action: ExpandTree) -> str:
    """Format the arm or trials of a node: ` (4 settings of method)`; empty if there is none."""
    if action.kind == "trial":
        arms = dict.fromkeys(to_plain(one.arm) for one in action.trials)
        return f" ({len(action.trials)} settings of {' and '.join(arms)})"
    return f" (for {to_plain(action.arm)})" if action.arm else ""


def format_widening(action: WidenDimension) -> str:
    """Describe a widened dimension and the reason."""
    return (
        f"search range of {to_plain(action.dimension)} widened to {action.low:g} to {action.high:g} for every arm: the "
        f"best setting of {to_plain(action.arm)} is at its edge"
    )


def _describe_search_event(event: search_events.SearchEvent | search_events.NodeEvent, state: RunState) -> str | None:
    match event:
        case search_events.PlanPrepared(data_plan=plan):
            names = ", ".join(to_plain(dataset.name) for dataset in plan.datasets)
            return (
                f"prepared: {shorten(plan.task, 60)} on {names}; {len(plan.conditions)} conditions; "
                f"{to_plain(plan.primary_metric.name)} is the selection metric"
            )
        case search_events.ProtocolReviewed():
            return shorten(f"protocol review: {to_plain(event.message)}", 200)
        case search_events.DecisionMade(action=CompareNodes(a=a, b=b, stage=stage)):
            return f"{stage}: asking a model which of {a} and {b} is sounder"
        case search_events.DecisionMade(action=ExpandTree() as action):
            origin = f" of {action.parent}" if action.parent else ""
            repairs = (
                f", where {' and '.join(action.repairs_children)} failed with the same error"
                if action.repairs_children
                else ""
            )
            return f"{format_node_id(event.k)} {action.kind}{origin} in {action.stage}{format_arm(action)}{repairs}"
        case search_events.DecisionMade(action=WidenDimension() as action):
            return format_widening(action)
        case search_events.CellsRequired():
            return format_required_cells(event, state)
        case search_events.AttemptExecuted():
            return _describe_execution(event, state)
        case search_events.NodePlotted():
            return (
                f"{event.node} drew no usable figures: {shorten(event.failure.message, 60)}" if event.failure else None
            )
        case search_events.PlotsReviewed():
            refused = [review for review in event.reviews if not review.readable]
            issues = "; ".join(issue for review in refused for issue in review.issues)
            return f"{event.node} figures rejected: {shorten(issues, 80)}" if refused else None
        case search_events.NodeJudged():
            node, plan = state.nodes.get(event.node), state.search.data_plan
            score = compute_node_score(node, plan) if node is not None else None
            value = (
                f", {to_plain(plan.primary_metric.name)} {score:.4g}" if plan is not None and score is not None else ""
            )
            why = f": {shorten(event.failure.message, 80)}" if event.failure else ""
            kind = f" {node.kind}" if node is not None else ""
            return f"{event.node}{kind} {_STATUS_TEXT.get(event.status, event.status)}{value}{why}"
        case search_events.NodesCompared():
            better = event.better or "neither"
            return f"{event.a} and {event.b} compared: {better} is sounder: {shorten(event.reasons, 80)}"
        case search_events.StageWinnerChosen():
            return f"{event.stage}: selected {event.best or 'no node'}: {shorten(event.ended, 80)}"
        case search_events.PlanAmended():
            return f"plan amendment {event.number} by {shorten(event.by, 40)}: {shorten(event.why, 100)} ({event.seen})"
        case search_events.ConfirmationLocked():
            return (
                f"plan {event.plan[:12]} locked: {event.winner} will be tested on {event.n} fresh seeds"
                f"{f' ({shorten(event.why, 100)})' if event.why else ''}"
            )
        case search_events.LookTaken():
            after = f"sampling ends: {shorten(event.ends, 100)}" if event.ends else "sampling goes on"
            return f"look {event.look + 1} at {len(event.seeds)} fresh seeds: {after}"
        case search_events.HoursSetAside():
            return (
                f"of {format_duration(event.total)} over all slots, set aside {event.when}: "
                f"{format_duration(event.confirmation)} for {event.seeds} fresh seeds, "
                f"{format_duration(event.scoring)} for test scoring, {format_duration(event.write_up)} for the paper"
            )
        case search_events.StageSummarised():
            return f"{event.summary.stage} report: {shorten(event.summary.found, 100)}"
        case search_events.AblationsPlanned():
            planned = shorten(", ".join(ablation.name for ablation in event.ablations), 100)
            return f"ablations planned: {planned}" if planned else f"no ablations planned: {shorten(event.why, 100)}"
        case search_events.MissingAblationsNamed():
            asked = shorten(", ".join(missing.ablation.name for missing in event.missing), 100)
            return (
                f"ablations requested by the reviewer: {asked}"
                if asked
                else f"no missing ablations: {shorten(event.why, 100)}"
            )
        case search_events.AddendumRegistered():
            arms = ", ".join(one.ablation.name for one in event.accepted) or "none"
            return f"addendum registered for reviewers: arms {shorten(arms, 100)}; {len(event.seeds)} further seeds"
        case search_events.SealedTestScored():
            return f"{event.node} test predictions scored ({len(event.measurements)} values)"
        case search_events.SealedTestResampled():
            return f"test examples resampled for {len(event.found)} differences"
        case _:
            return None


def _describe_execution(event: search_events.AttemptExecuted, state: RunState) -> str:
    attempt, node = event.attempt, state.nodes.get(event.node)
    again = (
        [describe_limit_change(*pair) for pair in iterate_retries(node) if pair[1] == attempt]
        if node is not None
        else []
    )
    took = f"{event.node} ran {format_duration(attempt.seconds)}" + "".join(f" again, {words}" for words in again)
    if attempt.failure is None:
        done = sum(one.outcome in ("measured", "taken over") for one in attempt.cells)
        found = [f"{len(attempt.measurements)} measurements"] if attempt.measurements or not attempt.cells else []
        cells = [f"{done} of {len(attempt.cells)} cells"] if attempt.cells else []
        return f"{took}: {' of '.join(found + cells)}"
    return f"{took}: {attempt.failure.kind}: {shorten(attempt.failure.message, 80)}"


def _describe_paper_event(event: paper_events.PaperEvent | paper_events.IdeationEvent) -> str | None:
    match event:
        case paper_events.ContextRead():
            read = ", ".join(
                f"{shorten(document.file, 60)} ({len(document.statements)} statements)" for document in event.documents
            )
            refused = "".join(f"; not read: {shorten(line, 200)}" for line in event.refused)
            return f"documents read: {read or 'none'}{refused}"
        case paper_events.FiguresDrawn():
            left_out = f", {len(event.left_out)} left out" if event.left_out else ""
            return (
                f"figures rejected: {shorten(event.failure.message, 80)}"
                if event.failure
                else (f"{len(event.descriptions)} final figures drawn{left_out}")
            )
        case paper_events.FiguresReviewed(looked=True):
            bad = [one.name for one in event.reviews if not (one.image.ok and one.caption.ok and one.references.ok)]
            return f"figures in the PDF of round {event.round}: {len(event.reviews)} reviewed, " + (
                f"issues with {', '.join(bad)}" if bad else "no issues"
            )
        case paper_events.ClaimsRead():
            found = "; ".join(shorten(line, 160) for line in event.violations)
            unread = f"; {event.unread} sentences unread" if event.unread else ""
            return f"round {event.round}: {f'overclaims: {found}' if found else 'no overclaims found'}{unread}"
        case paper_events.LibraryChecked():
            left = [f"{entry.key} ({entry.why})" for entry in event.entries if entry.why]
            refused = f"; not cited: {shorten('; '.join(left), 300)}" if left else ""
            return (
                f"bibliography: {len(event.entries) - len(left)} of {len(event.entries)} entries may be cited{refused}"
                + "".join(f"; {shorten(note, 100)}" for note in event.notes[:3])
            )
        case paper_events.WorksFound():
            outages = "; ".join(sorted({why for search in event.searches for why in search.outages}))
            return f"citations, round {event.round}: {len(event.searches)} searches, {len(event.works)} works" + (
                f"; {shorten(outages, 160)}" if outages else ""
            )
        case paper_events.WorksChosen():
            refused = f", {len(event.refused)} rejected" if event.refused else ""
            return f"citations, round {event.round}: {len({one.key for one in event.supports})} selected{refused}"
        case paper_events.DraftAssessed():
            pages = f", {event.pages} pages" if event.pages is not None else ""
            left_out = f", {len(event.left_out)} required statements left out" if event.left_out else ""
            return f"paper text, round {event.round}: {len(event.violations)} violations{left_out}{pages}"
        case paper_events.PaperReleased():
            which = f", text of round {event.round}" if event.round is not None else ""
            what = (
                f"paper released{which}"
                if event.released
                else (f"paper NOT released: {shorten('; '.join(event.reasons), 80)}")
            )
            return what + (f" ({to_plain(event.pdf)})" if event.pdf else " (no PDF: sources only)")
        case paper_events.PaperJudged():
            return format_judgement(event)
        case paper_events.RequestsRead():
            dropped = f", {len(event.dropped)} faults" if event.dropped else ""
            return f"{len(event.requests)} requests in the reviews{dropped}"
        case paper_events.ReviewersAnswered():
            return f"response to the reviewers: {sum(bool(one.answer) for one in event.answers)} requests answered"
        case paper_events.RewriteStarted() if event.reviews:
            return f"revising the paper after {len(event.reviews)} reviews: version {event.version}"
        case paper_events.RewriteStarted():
            return f"rewriting the paper: version {event.version} (model {to_plain(event.model)})"
        case _:
            return None


def format_command(event: run_events.CommandReceived) -> str:
    """Describe a user's command and its reason."""
    what = {
        "mark": f"mark {shorten(event.target, 40)} {event.mark}",
        "kill": f"kill {shorten(event.target, 40)}",
        "note": f"note for {shorten(event.target, 40) or 'this stage'}",
        "approve": f"approve the {shorten(event.target, 40)}" + " with changes" * bool(event.plan or event.draft),
    }.get(event.verb, event.verb)
    who = f" by {shorten(event.by, 40)}" if event.by else ""
    return f"command{who}: {what}" + (f": {shorten(event.text, 160)}" if event.text else "")


def format_judgement(event: paper_events.PaperJudged) -> str:
    """Format the scores of a paper, or the reason why there are none."""
    if event.judgement is None:
        return f"not judged: {shorten(event.why, 200)}"
    return f"judged: {to_plain(event.judgement.score_line)}"
