"""Events in words, one line each: for plain output, `status` and logs."""

from __future__ import annotations

from labwright.inspector.cells import owed_text
from labwright.inspector.text import clock_time, duration, plain, short
from labwright.record.claims.node_score import score_of
from labwright.record.events import Event, papers, repository, running, searching
from labwright.record.fold.state import RunState
from labwright.record.nouns.decisions import Compare, Expand, Extend
from labwright.record.nouns.nodes import changed, node_id, retries
from labwright.record.nouns.repository import written


def describe(event: Event, state: RunState) -> str | None:
    """What happened, in one line safe for a terminal; None for small steps."""
    if isinstance(event, running.RunEvent | running.CallEvent):
        return _of_the_run(event, state)
    if isinstance(event, searching.SearchEvent | searching.NodeEvent):
        return _of_the_search(event, state)
    if isinstance(event, repository.RepositoryEvent):
        return _of_the_code(event)
    return _of_the_paper(event)


def _of_the_code(event: repository.RepositoryEvent) -> str | None:
    match event:
        case repository.CodeTaken():
            return f"taken in at {event.commit[:12]}: {event.files} files, {event.bytes / 1e6:.1f} MB" + "".join(
                f"; {short(fault, 160)}" for fault in event.faults
            )
        case repository.EnvironmentBuilt():
            told = (f"{short(one.wanted, 60)} (had {short(one.found, 60) or 'none'})" for one in event.deviations)
            return f"Python {event.python}, {event.how}" + "".join(f"; not met: {one}" for one in told)
        case repository.CommandFound():
            return f"command, by the {event.by}: {short(written(event.command.argv), 160)}" + (
                f" ({short(event.why, 200)})" if event.why else ""
            )
        case repository.Repaired():
            return f"{'mended' if event.kept else 'tried in vain'}: {short(event.repair.reason, 160)}" + (
                f"; then {short(event.then, 120)}" if event.then else ""
            )
        case repository.BaselineChecked():
            mean = f", mean {event.mean:.6g}" if event.mean is not None else ""
            again = f"; the first seed again: {event.same_seed}" if event.same_seed is not None else ""
            return f"baseline {event.verdict}{mean}{again}" + (f"; {short(event.why, 200)}" if event.why else "")
        case repository.PartsFound():
            return f"{len(event.parts)} parts, {len(event.rest)} things that are none; at most {event.budget} runs"
        case repository.Patched():
            return f"{short(event.part, 80)}: {event.gate}" + (f" ({short(event.why, 120)})" if event.why else "")
        case repository.CommandEnded():
            what = " and ".join(short(part, 60) for part in event.parts)
            came = (
                f"{event.run.value:.6g}"
                if event.run.value is not None
                else short(event.run.failure.message if event.run.failure else "no value", 160)
            )
            return f"{event.purpose}{f' without {what}' if what else ''}, seed {event.run.seed}: {came}"
        case repository.QuestionDesigned():
            arms = ", ".join(one.name for one in event.design.arms)
            return f"designed: {arms}; {event.design.seeds} seeds; {short(event.design.hypothesis, 160)}"
        case repository.QuestionRan():
            name = "the repository as it is" if not event.number else f"try {event.number}"
            return f"{name}: {event.run.why or 'measured'} ({event.run.seconds:.1f}s)"
        case repository.QuestionAnswered():
            return f"answered: {short(event.conclusion, 300)}" if event.conclusion else f"no answer: {event.why}"
        case repository.AblationsSettled():
            return f"settled after {event.runs} runs: {', '.join(short(name, 60) for name in event.top)}"


def _of_the_run(event: running.RunEvent | running.CallEvent, state: RunState) -> str | None:
    match event:
        case running.Started():
            return f"started: {short(event.idea.title, 80)} (model {plain(event.model)}, seed {event.seed})"
        case running.Branched():
            return (
                f"branched off {short(event.parent, 80)} at {short(event.point, 20)}, with its first "
                f"{event.events} events"
            )
        case running.Resumed():
            return "resumed" + (f"; ended {event.reaped} processes that a killed one had left" if event.reaped else "")
        case running.Unanswered():
            return f"no usable answer for {event.key}: {short(event.why, 100)}; {event.then}"
        case running.Drifted():
            return f"answer {event.key} kept, although the machine or the limits have changed since"
        case running.Answered() if state.superseded and state.superseded[-1].key == event.key:
            return f"{event.key} asked again: its question has changed since it was answered"
        case running.Commanded():
            return command_text(event)
        case running.Unheeded():
            more = f"; and {event.number - len(event.told)} more" if event.number > len(event.told) else ""
            return f"had no effect: {'; '.join(short(line, 200) for line in event.told)}{more}"
        case running.Limited():
            return f"limit {f'of {event.stage} ' if event.stage else ''}reached: {short(event.reason, 80)}"
        case running.Paused():
            return f"paused until {clock_time(event.until)}: {short(event.reason, 160)}"
        case running.Recovered():
            return f"the model answers again, after {duration(event.seconds)}"
        case running.Collected():
            return (
                f"collected {len(event.folders)} folders of checkpoints and artifacts (keep={event.keep}): "
                f"{event.bytes / 1e9:.2f} GB free"
            )
        case running.ClockMoved():
            way = "ahead" if event.seconds > 0 else "back"
            return (
                f"the machine's clock went {duration(abs(event.seconds))} {way}: it slept, or was set; no limit "
                "counts that"
            )
        case running.Ended():
            return f"ended with exit code {event.exit_code}" + (f": {short(event.reason, 100)}" if event.reason else "")
        case _:
            return None


def of_arm(action: Expand) -> str:
    """The arm that a node is about, where it is about one: ` (4 settings of method)`."""
    if action.kind == "trial":
        arms = dict.fromkeys(plain(one.arm) for one in action.trials)
        return f" ({len(action.trials)} settings of {' and '.join(arms)})"
    return f" (for {plain(action.arm)})" if action.arm else ""


def widening(action: Extend) -> str:
    """A dimension that is widened, and why."""
    return (
        f"{plain(action.dimension)} is widened to {action.low:g} to {action.high:g} for every arm that has it: the "
        f"choice of {plain(action.arm)} lies at its edge"
    )


def _of_the_search(event: searching.SearchEvent | searching.NodeEvent, state: RunState) -> str | None:
    match event:
        case searching.Prepared(data_plan=plan):
            names = ", ".join(plain(dataset.name) for dataset in plan.datasets)
            return (
                f"prepared: {short(plan.task, 60)} on {names}; {len(plan.conditions)} conditions; "
                f"{plain(plan.primary.name)} selects"
            )
        case searching.ProtocolReviewed():
            return short(f"protocol review: {plain(event.told)}", 200)
        case searching.Decided(action=Compare(a=a, b=b, stage=stage)):
            return f"asking a model which of {a} and {b} is sounder, in {stage}"
        case searching.Decided(action=Expand() as action):
            origin = f" of {action.parent}" if action.parent else ""
            mends = f", where {' and '.join(action.mends)} failed alike" if action.mends else ""
            return f"{node_id(event.k)} {action.kind}{origin} in {action.stage}{of_arm(action)}{mends}"
        case searching.Decided(action=Extend() as action):
            return widening(action)
        case searching.CellsOwed():
            return owed_text(event, state)
        case searching.Executed():
            return _executed(event, state)
        case searching.Plotted():
            return f"{event.node} drew nothing usable: {short(event.failure.message, 60)}" if event.failure else None
        case searching.Reviewed():
            refused = [review for review in event.reviews if not review.readable]
            issues = "; ".join(issue for review in refused for issue in review.issues)
            return f"{event.node} figures refused: {short(issues, 80)}" if refused else None
        case searching.Judged():
            node, plan = state.nodes.get(event.node), state.data_plan
            score = score_of(node, plan) if node is not None else None
            value = f", {plain(plan.primary.name)} {score:.4g}" if plan is not None and score is not None else ""
            why = f": {short(event.failure.message, 80)}" if event.failure else ""
            return f"{event.node}{f' {node.kind}' if node is not None else ''} {event.status}{value}{why}"
        case searching.Compared():
            better = event.better or "neither"
            return f"{event.a} and {event.b} compared: {better} is sounder: {short(event.reasons, 80)}"
        case searching.Settled():
            return f"{event.stage} settled on {event.best or 'nothing'}: {short(event.ended, 80)}"
        case searching.Amended():
            return (
                f"amendment {event.number} of the plan by {short(event.by, 40)}: {short(event.why, 100)} ({event.seen})"
            )
        case searching.Locked():
            return (
                f"plan {event.plan[:12]} locked: {event.winner} is confirmed on {event.n} fresh seeds"
                f"{f' ({short(event.why, 100)})' if event.why else ''}"
            )
        case searching.Summarised():
            return f"{event.summary.stage} reported: {short(event.summary.found, 100)}"
        case searching.AblationsPlanned():
            planned = short(", ".join(ablation.name for ablation in event.ablations), 100)
            return f"ablations planned: {planned}" if planned else f"no ablations planned: {short(event.why, 100)}"
        case searching.AblationsMissed():
            asked = short(", ".join(missing.ablation.name for missing in event.missing), 100)
            return f"a reviewer asks for: {asked}" if asked else f"no ablation is missing: {short(event.why, 100)}"
        case searching.Unsealed():
            return f"{event.node} test predictions scored ({len(event.measurements)} values)"
        case searching.Resampled():
            return f"test examples resampled for {len(event.found)} differences"
        case _:
            return None


def _executed(event: searching.Executed, state: RunState) -> str:
    attempt, node = event.attempt, state.nodes.get(event.node)
    again = [changed(*pair) for pair in retries(node) if pair[1] == attempt] if node is not None else []
    took = f"{event.node} ran {duration(attempt.seconds)}" + "".join(f" again, {words}" for words in again)
    if attempt.failure is None:
        done = sum(one.outcome in ("measured", "taken over") for one in attempt.cells)
        found = [f"{len(attempt.measurements)} measurements"] if attempt.measurements or not attempt.cells else []
        cells = [f"{done} of {len(attempt.cells)} cells"] if attempt.cells else []
        return f"{took}: {' of '.join(found + cells)}"
    return f"{took}: {attempt.failure.kind}: {short(attempt.failure.message, 80)}"


def _of_the_paper(event: papers.PaperEvent | papers.IdeaEvent) -> str | None:
    match event:
        case papers.ContextRead():
            read = ", ".join(
                f"{short(document.file, 60)} ({len(document.statements)} statements)" for document in event.documents
            )
            refused = "".join(f"; not read: {short(line, 200)}" for line in event.refused)
            return f"documents read: {read or 'none'}{refused}"
        case papers.FiguresMade():
            left_out = f", {len(event.left_out)} left out" if event.left_out else ""
            return (
                f"figures refused: {short(event.failure.message, 80)}"
                if event.failure
                else (f"{len(event.descriptions)} final figures drawn{left_out}")
            )
        case papers.FiguresSeen(looked=True):
            bad = [one.name for one in event.reviews if not (one.image.ok and one.caption.ok and one.references.ok)]
            return f"figures in the PDF of round {event.round}: {len(event.reviews)} reviewed, " + (
                f"issues with {', '.join(bad)}" if bad else "no issues"
            )
        case papers.Scoped(why=""):
            found = "; ".join(short(f"{one.quote!r}: {one.why}", 160) for one in event.findings)
            return f"scope of round {event.round}: {found or 'nothing claims too much'}"
        case papers.LibraryChecked():
            left = [f"{entry.key} ({entry.why})" for entry in event.entries if entry.why]
            refused = f"; not cited: {short('; '.join(left), 300)}" if left else ""
            return (
                f"library: {len(event.entries) - len(left)} of {len(event.entries)} entries may be cited{refused}"
                + "".join(f"; {short(note, 100)}" for note in event.notes[:3])
            )
        case papers.WorksFound():
            outages = "; ".join(sorted({why for search in event.searches for why in search.outages}))
            return f"citations, round {event.round}: {len(event.searches)} searches, {len(event.works)} works" + (
                f"; {short(outages, 160)}" if outages else ""
            )
        case papers.WorksChosen():
            refused = f", {len(event.refused)} refused" if event.refused else ""
            return f"citations, round {event.round}: {len({one.key for one in event.supports})} taken{refused}"
        case papers.Drafted():
            pages = f", {event.pages} pages" if event.pages is not None else ""
            left_out = f", {len(event.left_out)} things left out" if event.left_out else ""
            return f"paper text, round {event.round}: {len(event.violations)} violations{left_out}{pages}"
        case papers.Released():
            which = f", text of round {event.round}" if event.round is not None else ""
            what = (
                f"paper released{which}"
                if event.released
                else (f"paper NOT released: {short('; '.join(event.reasons), 80)}")
            )
            return what + (f" ({plain(event.pdf)})" if event.pdf else " (no PDF: sources only)")
        case papers.Assessed():
            return judgement_text(event)
        case papers.Rewriting():
            return f"the paper is written again: version {event.version} (model {plain(event.model)})"
        case _:
            return None


def command_text(event: running.Commanded) -> str:
    """What a person asked for, with the reason."""
    what = {
        "mark": f"mark {short(event.target, 40)} {event.mark}",
        "kill": f"kill {short(event.target, 40)}",
        "note": f"note for {short(event.target, 40) or 'this stage'}",
    }.get(event.verb, event.verb)
    who = f" by {short(event.by, 40)}" if event.by else ""
    return f"asked{who}: {what}" + (f": {short(event.text, 160)}" if event.text else "")


def judgement_text(event: papers.Assessed) -> str:
    """The scores of a paper, or why there are none."""
    if event.judgement is None:
        return f"no judgement, because {short(event.why, 200)}"
    return f"judged: {plain(event.judgement.line)}"
