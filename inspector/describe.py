"""Events in words, one line each: for plain output, `status` and logs."""

from __future__ import annotations

from collections.abc import Sequence

from inspector.text import clock_time, duration, plain, short
from inspector.tree import score_of
from record.ablation import Ablation
from record.events import Event
from record.events.papers import (
    Assessed,
    ContextRead,
    Drafted,
    FiguresMade,
    FiguresSeen,
    LibraryChecked,
    Released,
    Rewriting,
    WorksChosen,
    WorksFound,
)
from record.events.running import (
    Answered,
    Branched,
    Commanded,
    Drifted,
    Ended,
    Limited,
    Paused,
    Recovered,
    Resumed,
    Started,
    Unanswered,
    Unheeded,
)
from record.events.searching import (
    AblationsMissed,
    AblationsPlanned,
    Compared,
    Decided,
    Executed,
    Judged,
    Plotted,
    Prepared,
    Resampled,
    Reviewed,
    Settled,
    Summarised,
    Unsealed,
)
from record.fold.state import RunState
from record.nouns.decisions import Compare, Expand
from record.nouns.nodes import changed, node_id, retries


def describe(event: Event, state: RunState) -> str | None:
    """What happened, in one line safe for a terminal; None for small steps."""
    match event:
        case Started():
            return f"started: {short(event.idea.title, 80)} (model {plain(event.model)}, seed {event.seed})"
        case Branched():
            events = f"with its first {event.events} events"
            return f"branched off {short(event.parent, 80)} at {short(event.point, 20)}, {events}"
        case Resumed():
            return "resumed" + (f"; ended {event.reaped} processes that a killed one had left" if event.reaped else "")
        case ContextRead():
            return _read(event)
        case Prepared():
            return f"prepared: {_plan(event)}"
        case Decided():
            return _decided(event)
        case Executed():
            return _executed(event, state)
        case Plotted():
            return f"{event.node} drew nothing usable: {short(event.failure.message, 60)}" if event.failure else None
        case Reviewed():
            refused = [one for one in event.reviews if not one.readable]
            issues = "; ".join(issue for one in refused for issue in one.issues)
            return f"{event.node} figures refused: {short(issues, 80)}" if refused else None
        case Judged():
            return _judged(event, state)
        case Compared():
            better = event.better or "neither"
            return f"{event.a} and {event.b} compared: {better} is sounder: {short(event.reasons, 80)}"
        case Settled():
            return f"{event.stage} settled on {event.best or 'nothing'}: {short(event.ended, 80)}"
        case Summarised():
            return f"{event.summary.stage} reported: {short(event.summary.found, 100)}"
        case Unsealed():
            return f"{event.node} test predictions scored ({len(event.measurements)} values)"
        case Resampled():
            return f"test examples resampled for {len(event.found)} differences"
        case _:
            return _late(event, state)


def _late(event: Event, state: RunState) -> str | None:
    """The events of the paper and of the end."""
    match event:
        case FiguresMade():
            return f"figures refused: {short(event.failure.message, 80)}" if event.failure else (
                f"{len(event.descriptions)} final figures drawn"
                f"{f', {len(event.left_out)} left out' if event.left_out else ''}")
        case FiguresSeen():
            return f"figures in the PDF of round {event.round}: {_figure_issues(event)}" if event.looked else None
        case LibraryChecked():
            return _library(event)
        case WorksFound():
            outages = {why for one in event.searches for why in one.outages}
            return f"citations, round {event.round}: {len(event.searches)} searches, {len(event.works)} works" + (
                f"; {short('; '.join(sorted(outages)), 160)}" if outages else "")
        case WorksChosen():
            refused = f", {len(event.refused)} refused" if event.refused else ""
            return f"citations, round {event.round}: {len({one.key for one in event.supports})} taken{refused}"
        case Drafted():
            pages = f", {event.pages} pages" if event.pages is not None else ""
            return f"paper text, round {event.round}: {len(event.violations)} violations{pages}"
        case AblationsPlanned():
            planned = _names(event.ablations)
            return f"ablations planned: {planned}" if planned else f"no ablations planned: {short(event.why, 100)}"
        case AblationsMissed():
            asked = _names([one.ablation for one in event.missing])
            return f"a reviewer asks for: {asked}" if asked else f"no ablation is missing: {short(event.why, 100)}"
        case Released():
            what = "paper released" if event.released else f"paper NOT released: {short('; '.join(event.reasons), 80)}"
            return what + (f" ({plain(event.pdf)})" if event.pdf else " (no PDF: sources only)")
        case Assessed():
            return judgement_text(event)
        case Unanswered():
            return f"no usable answer for {event.key}: {short(event.why, 100)}; {event.then}"
        case Drifted():
            return f"answer {event.key} kept, although the machine or the limits have changed since"
        case Answered():
            again = bool(state.superseded) and state.superseded[-1].key == event.key
            return f"{event.key} asked again: its question has changed since it was answered" if again else None
        case Rewriting():
            return f"the paper is written again: version {event.version} (model {plain(event.model)})"
        case Commanded():
            return command_text(event)
        case Unheeded():
            more = f"; and {event.number - len(event.told)} more" if event.number > len(event.told) else ""
            return f"had no effect: {'; '.join(short(one, 200) for one in event.told)}{more}"
        case Limited():
            return f"limit {f'of {event.stage} ' if event.stage else ''}reached: {short(event.reason, 80)}"
        case Paused():
            return f"paused until {clock_time(event.until)}: {short(event.reason, 160)}"
        case Recovered():
            return f"the model answers again, after {duration(event.seconds)}"
        case Ended():
            why = f": {short(event.reason, 100)}" if event.reason else ""
            return f"ended with exit code {event.exit_code}{why}"
        case _:
            return None


def command_text(event: Commanded) -> str:
    """What a person asked for, with the reason."""
    what = {"mark": f"mark {short(event.target, 40)} {event.mark}", "kill": f"kill {short(event.target, 40)}",
            "note": f"note for {short(event.target, 40) or 'this stage'}"}.get(event.verb, event.verb)
    who = f" by {short(event.by, 40)}" if event.by else ""
    return f"asked{who}: {what}" + (f": {short(event.text, 160)}" if event.text else "")


def _figure_issues(event: FiguresSeen) -> str:
    bad = [one.name for one in event.reviews if not (one.image.ok and one.caption.ok and one.references.ok)]
    return f"{len(event.reviews)} reviewed, " + (f"issues with {', '.join(bad)}" if bad else "no issues")


def _library(event: LibraryChecked) -> str:
    held = sum(not one.why for one in event.entries)
    left = [f"{one.key} ({one.why})" for one in event.entries if one.why]
    refused = f"; not cited: {short('; '.join(left), 300)}" if left else ""
    return f"library: {held} of {len(event.entries)} entries may be cited{refused}" + "".join(
        f"; {short(note, 100)}" for note in event.notes[:3])


def _names(found: Sequence[Ablation]) -> str:
    return short(", ".join(one.name for one in found), 100)


def judgement_text(event: Assessed) -> str:
    """The scores of a paper, or why there are none."""
    if event.judgement is None:
        return f"no judgement, because {short(event.why, 200)}"
    return f"judged: {plain(event.judgement.line)}"


def _read(event: ContextRead) -> str:
    """Which documents were read, and why others were not."""
    read = ", ".join(f"{short(one.file, 60)} ({len(one.statements)} statements)" for one in event.documents)
    refused = "".join(f"; not read: {short(line, 200)}" for line in event.refused)
    return f"documents read: {read or 'none'}{refused}"


def _plan(event: Prepared) -> str:
    plan = event.data_plan
    names = ", ".join(plain(one.name) for one in plan.datasets)
    return f"{short(plan.task, 60)} on {names}; {len(plan.conditions)} conditions; {plain(plan.primary.name)} selects"


def _decided(event: Decided) -> str | None:
    action = event.action
    if isinstance(action, Compare):
        return f"asking a model which of {action.a} and {action.b} is sounder, in {action.stage}"
    if not isinstance(action, Expand):
        return None
    origin = f" of {action.parent}" if action.parent else ""
    return f"{node_id(event.k)} {action.kind}{origin} in {action.stage}"


def _executed(event: Executed, state: RunState) -> str:
    attempt = event.attempt
    node = state.nodes.get(event.node)
    again = [changed(*pair) for pair in retries(node) if pair[1] == attempt] if node is not None else []
    took = f"{event.node} ran {duration(attempt.seconds)}" + "".join(f" again, {words}" for words in again)
    if attempt.failure is None:
        return f"{took}: {len(attempt.measurements)} measurements"
    return f"{took}: {attempt.failure.kind}: {short(attempt.failure.message, 80)}"


def _judged(event: Judged, state: RunState) -> str:
    node = state.nodes.get(event.node)
    score = score_of(node, state.data_plan) if node is not None else None
    plan = state.data_plan
    value = f", {plain(plan.primary.name)} {score:.4g}" if plan is not None and score is not None else ""
    kind = f" {node.kind}" if node is not None else ""
    why = f": {short(event.failure.message, 80)}" if event.failure else ""
    return f"{event.node}{kind} {event.status}{value}{why}"
