"""`scientist init` and `scientist idea check`, and the checks of an idea that a run shares with them.

Also `scientist ideate` and `scientist follow`.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from functools import cache, partial
from json import dumps
from pathlib import Path

from rich.console import Console
from rich.text import Text

from labwright.agent.campaign import to_slug
from labwright.agent.cli.commands import Follow, IdeaCheck, Ideate, Init
from labwright.agent.cli.errors import (
    DONE,
    FINDINGS,
    INTERRUPTED,
    LIMITED,
    format_line,
    print_lines,
    print_to_stderr,
    saving_traceback,
)
from labwright.agent.cli.preflight import check_writable, choose_folder, removing_new_folder_on_refusal
from labwright.agent.cli.status import read_run_state
from labwright.agent.data import add_idea_data, describe_targets, list_sources, survey_own_data
from labwright.agent.forecast import check_prices_known, open_budgeted_models
from labwright.agent.ideation import IdeaTask, ideate
from labwright.agent.plan_files import read_short_text
from labwright.agent.settings import Settings, compose_settings
from labwright.inspector.event_text import describe_event
from labwright.inspector.live_view import showing_progress
from labwright.models.errors import BudgetSpent
from labwright.models.roles.ideation import IDEA_OF
from labwright.record.claims.open_questions import list_open_verdicts, list_surprises
from labwright.record.errors import UsageError
from labwright.record.event_log import EventListener, MemoryLog, read_events
from labwright.record.events import Event
from labwright.record.events.paper_events import IdeaProposed
from labwright.record.ideation import FollowedStudy
from labwright.record.line_store import EVENTS_FILE
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import hash_file, write_file
from labwright.record.schema.idea import Idea, find_ignored_fields, read_idea
from labwright.record.table import format_quantity
from labwright.record.zips import open_run_folder
from labwright.sandbox.job import DatasetError
from labwright.sandbox.metrics import METRICS
from labwright.stages.ideation.idea_checks import convert_text, find_idea_path, is_text_path, read_kept_idea, read_text
from labwright.stages.ideation.ideation_steps import WriteUpStep, build_idea_work, list_outcomes
from labwright.stages.user_documents import check_folder

TEMPLATE = Path(__file__).with_name("idea_template.json")


def write_template(args: Init) -> int:
    if args.file.exists():
        raise UsageError(f"{args.file} already exists: give another FILE")
    check_writable(args.file, "FILE")
    write_file(args.file, TEMPLATE.read_text(encoding="utf-8"))
    print(f"{args.file} has an example of an idea: edit it, then check it with: scientist idea check {args.file}")
    return DONE


def check_idea(args: IdeaCheck) -> int:
    ignored = dict[str, str]()
    if is_text_path(args.file):
        read_text(args.file)
        if (idea := read_kept_idea(args.file)) is None:
            print(f"{args.file} is a text: a model extracts the idea when you run it (billed)")
            return DONE
    else:
        idea, ignored = read_idea(args.file, args.idea_idx), find_ignored_fields(args.file, args.idea_idx)
    notes = [f"the field {key!r} is not read" for key, near in ignored.items() if not near]
    faults = [f"the field {key!r} is unknown: did you mean {near!r}?" for key, near in ignored.items() if near]
    settings = compose_settings(config=args.config, flags=args.flags)
    try:
        settings = add_idea_data(settings, idea, args.file.parent)
        notes += (*survey_own_data(settings), *describe_targets(settings))
    except DatasetError as error:
        faults.append(str(error))
    faults += list_idea_faults(idea, settings)
    print_lines(_format_check(idea, notes, faults))
    return FINDINGS if faults else DONE


def _format_check(idea: Idea, notes: list[str], faults: list[str]) -> Iterator[Text]:
    yield format_line(f"{idea.name}: {idea.title}", "bold")
    datasets = "; ".join(idea.datasets) or "the planner chooses"
    yield format_line(f"{format_quantity(len(idea.experiments), 'experiment')}; datasets: {datasets}")
    yield format_line(f"metric: {idea.metric or 'the planner chooses'}")
    yield from (format_line(one) for one in notes)
    yield from (format_line(one, "red") for one in faults)
    if not faults:
        yield format_line("no faults found", "green")


def list_idea_faults(idea: Idea, settings: Settings) -> Iterator[str]:
    """Yield each dataset and metric of an idea that does not exist, with the nearest known name. Nothing is refused:
    a run passes them to the planner as text."""
    if settings.code.repository is not None:
        return
    metrics = [name for one in METRICS.values() for name in (one.name, one.title.lower())]
    if idea.metric and not _names_any(idea.metric, metrics):
        yield (f"the idea's Metric {idea.metric!r} names none of {', '.join(METRICS)}{_suggest(idea.metric, metrics)}")
    known = list(list_sources(settings))
    for text in idea.datasets:
        name = text.partition("=")[0].strip()
        if name not in known and not _names_any(text, known):
            none = f"the idea's dataset {text!r} is none of {', '.join(known)}{_suggest(name, known)}"
            yield f"{none}; write your own as NAME=PATH,target=COLUMN"


def _names_any(text: str, names: list[str]) -> bool:
    """Return whether a text contains one of the names as a word."""
    return re.search(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)", text.lower()) is not None


def _suggest(text: str, known: list[str]) -> str:
    near = get_close_matches(text.lower(), known, 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


# --- ideas from text files ------------------------------------------------------------------------------------------


def read_idea_from_text(path: Path, settings: Settings) -> Idea:
    """Return the idea of a document such as a proposal: the one saved next to it, or one extracted by the model and
    shown.

    Raises: `IdeaError`, `ModelError`.
    """
    read_text(path)  # raises before the model is called
    if (known := read_kept_idea(path)) is not None:
        print_to_stderr(f"idea of {path}, extracted earlier and saved in {find_idea_path(path)}: {known.title}")
        return known
    name = settings.models.list_candidates(IDEA_OF)[0].name
    print_to_stderr(f"extracting the idea of {path} with {name}" + (" (billed)" if name != "offline" else ""))
    check_prices_known(settings)  # the call counts against the run's budget but is not in its record
    idea = asyncio.run(convert_text(path, open_budgeted_models(settings, MemoryLog()).make_client(0, 0)))
    print_to_stderr(f"{idea.title}: {idea.short_hypothesis}")
    for number, step in enumerate(idea.experiments, 1):
        print_to_stderr(f"{number}. {step}")
    print_to_stderr(f"saved in {find_idea_path(path)}: edit it there, or edit the text")
    return idea


# `scientist ideate`: propose ideas for a topic, checked against the literature and this machine, as an idea file.

MAX_TOPIC_BYTES = 200_000
"""Maximum size of a topic file. Calls for papers have 1 to 10 kB."""
STEPS: tuple[WriteUpStep, ...] = ("idea", "literature", "proposal")


def propose_ideas(args: Ideate | Follow) -> int:
    """Propose the ideas of a task and print them."""
    task = build_task(args) if isinstance(args, Ideate) else build_follow_task(args)
    settings = compose_settings(config=args.config, flags=args.flags)
    slug = to_slug(Path(task.name).stem)
    folder = args.out or choose_folder(args.runs, f"ideate_{slug}", lambda one: is_unfinished(one, task))
    console = Console(highlight=False)
    show: Callable[[Iterable[Text]], None] = (lambda _: None) if args.json else partial(print_lines, console=console)

    @cache
    def name_folder() -> None:  # not before an answer: what is refused leaves no folder
        show([format_line(f"ideas for {task.name}, in {folder}")])

    def listen(count: EventListener, event: Event, state: RunState) -> None:
        count(event, state)
        if state.calls.answers:
            name_folder()
        show(map(format_line, filter(None, [describe_event(event, state)])))
        if isinstance(event, IdeaProposed):
            show(line for number, one in list_outcomes(state) if one.k == event.k for line in format_idea(number, one))

    try:
        with (
            removing_new_folder_on_refusal(folder.parent),
            saving_traceback(folder),
            showing_progress(f"looking for ideas for {task.name}", console) as count,
        ):
            state = ideate(task, settings, folder, listener=partial(listen, count))
    except KeyboardInterrupt:
        print_to_stderr(f"interrupted; continue with the same command (--out {folder})")
        return INTERRUPTED
    except BudgetSpent as error:
        print_to_stderr(f"{error}; the ideas so far are in {folder}")
        return LIMITED
    finally:
        if folder.is_dir() and not any(folder.iterdir()):  # nothing was started, e.g. the model could not be opened
            folder.rmdir()
    outcomes = [one for number, one in list_outcomes(state) if number <= task.count]
    found, total = [one.idea for one in outcomes if one.idea is not None], state.calls.total_usage
    file = folder / "ideas.json"
    if args.json:
        shown = {
            "folder": str(folder),
            "file": str(file) if found else None,
            "ideas": [one.to_json() for one in found],
            "missing": [one.reason for one in outcomes if one.idea is None],
            "usd": total.usd,
            "calls": total.calls,
        }
        print(dumps(shown, indent=1))
    elif found:
        made = f"{len(found)} of {format_quantity(task.count, 'idea')}, {format_quantity(total.calls, 'model call')}"
        lines = (f"{made}: {file}", f"continue with: scientist run --idea {file} --idea-idx 0")
        print_lines(map(format_line, lines))
    return LIMITED if len(found) < task.count else DONE


def format_idea(number: int, one: IdeaProposed) -> Iterator[Text]:
    """Format an idea in a few lines, or the reason why there is none."""
    if one.idea is None:
        yield format_line(f"idea {number}: none. {one.reason}")
        return
    idea = one.idea
    yield format_line(f"idea {number}: {idea.idea.title} ({idea.idea.name})", "bold")
    fits = "which fits this machine" if idea.fit.fits else f"which does not fit: {'; '.join(idea.fit.why)}"
    for text in (
        idea.idea.short_hypothesis,
        idea.novelty_statement,
        *(f"because of {one.key} ({one.verdict}): {why}" for one, why in (idea.origin.reasons if idea.origin else ())),
        *(
            f"related: {close.work.title} ({close.work.year or 'year unknown'}): {close.difference}"
            for close in idea.closest
        ),
        f"estimated to take {idea.estimate.hours:g} h, {fits}",
        *(f"note: {remark}" for remark in idea.remarks),
    ):
        yield format_line(text, label="  ")


# --- the request ----------------------------------------------------------------------------------------------------


def build_task(args: Ideate) -> IdeaTask:
    """Build the task from the command line. Raises `UsageError`."""
    fix = "give a text file that describes a topic, and papers with --context DIR"
    text = read_short_text("--topic", args.topic, MAX_TOPIC_BYTES, fix)
    if args.context is not None:
        check_folder(args.context)
    named = [one.strip() for one in args.steps.split(",") if one.strip()]
    if not named or not set(named) <= set(STEPS):
        raise UsageError(f"--steps {args.steps!r}: give one or more of {', '.join(STEPS)}, separated by commas")
    last = max(index for index, name in enumerate(STEPS) if name in named)
    return IdeaTask(
        topic=text,
        sha256=hash_file(args.topic),
        name=args.topic.name,
        count=args.count,
        rounds=args.rounds,
        steps=STEPS[: last + 1],  # each step needs those before it
        context=args.context,
    )


def build_follow_task(args: Follow) -> IdeaTask:
    """Build the task of following a study: its surprises, then its open verdicts. Raises `UsageError`."""
    state = read_run_state(open_run_folder(args.run))
    findings = (*list_surprises(state), *list_open_verdicts(state))
    if state.started is None or not findings:
        raise UsageError(f"{args.run} has neither a surprise nor an open verdict: there is nothing to follow")
    study = FollowedStudy(run=args.run.stem, idea=state.started.idea, findings=findings)
    topic = f"# The study after: {study.idea.title}\n\nAnswer a question that this study leaves.\n"
    return IdeaTask(
        topic=topic,
        sha256=hashlib.sha256(study.model_dump_json().encode()).hexdigest(),
        name=f"follow-{study.run}",
        count=1,
        rounds=args.rounds,
        steps=STEPS[:1],
        study=study,
    )


def is_unfinished(folder: Path, task: IdeaTask) -> bool:
    """Return whether a folder contains this task in unfinished form. Raises `RecordError`."""
    state = fold_events(read_events(folder / EVENTS_FILE))
    if state.ideation.started is None or state.ideation.started.sha256 != task.sha256:
        return False
    done = all(state.is_task_done(build_idea_work(number).task) for number in range(1, task.count + 1))
    last = {"idea": "ideas.json", "literature": "idea-*/related_work.md", "proposal": "idea-*/proposal.md"}
    return not done or not any(folder.glob(last[task.steps[-1]]))
