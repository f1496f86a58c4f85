"""`scientist run`, `resume` and `write`: everything that can be refused is refused before anything is created."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from labwright.agent.budget import check_priced, models_of
from labwright.agent.cli import campaign
from labwright.agent.cli.checks import (
    check,
    check_isolation,
    check_name,
    check_parts,
    check_places,
    check_taken_up,
    default_name,
    ready_packages,
    runs_folder_removed_if_refused,
    settings_here,
)
from labwright.agent.cli.commands import Resume, Run, Write
from labwright.agent.cli.control import ask
from labwright.agent.cli.dry_run import show_plan
from labwright.agent.cli.edge import INTERRUPTED, say, traceback_saved, unbreakable
from labwright.agent.cli.status import state_of
from labwright.agent.code import check_code, check_planner
from labwright.agent.data import with_idea
from labwright.agent.environment import room_here
from labwright.agent.outlook import ahead_of
from labwright.agent.plans import check_plan, read_plan
from labwright.agent.run import resume as resume_run
from labwright.agent.run import rewrite, start
from labwright.agent.settings import FAMILIAR, Settings, compose, override
from labwright.agent.space import merged, of_file
from labwright.inspector.follow import process_on
from labwright.inspector.live import view_for
from labwright.inspector.render import ahead_text, print_lines, status_lines, tree_lines
from labwright.inspector.status import status_in
from labwright.inspector.tracking.mirror import Mirror, Open, tracker
from labwright.inspector.tree import tree_of
from labwright.models.roles.ideation import IDEA_OF
from labwright.record.campaign import is_campaign
from labwright.record.errors import WrongUse
from labwright.record.events import Event
from labwright.record.events.running import Commanded
from labwright.record.events.searching import Prepared
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder
from labwright.record.log import Listener, MemoryLog
from labwright.record.nouns.idea import Idea, read_idea
from labwright.record.reading import read_state
from labwright.sandbox.metrics import METRICS
from labwright.sandbox.packages.of_run import again
from labwright.sandbox.pretrained import fetch, pretrained_of
from labwright.sandbox.scorers import copy_frozen
from labwright.stages.ideation.converting import convert, idea_file, is_text, kept, read_text
from labwright.stages.prepare import unmet
from labwright.stages.repository.patches import search_of
from labwright.stages.repository.planning import with_reasons


def run(asked: Run) -> int:
    if asked.json and not asked.dry_run:
        raise WrongUse("--json goes with --dry-run; of a run ask: scientist status RUN --json")
    mirrored = tracker(asked.track) if asked.track else None
    if asked.out is not None and not asked.dry_run:
        raise WrongUse("--out goes with --dry-run, which writes the plan there")
    if asked.idea is None and asked.task is None:
        raise WrongUse("name an idea with --idea FILE; or a question on a repository with --task FILE --code REPO")
    written = None if asked.idea is None or is_text(asked.idea) else read_idea(asked.idea, asked.idea_idx)
    settings = compose(config=asked.config, flags=asked.flags)
    if asked.task is not None:
        from labwright.agent.cli.question import as_idea, run_task  # what no run of an idea needs

        if not asked.paper:
            return run_task(asked, settings)
        chosen, settings = as_idea(asked.task, settings)
    else:
        assert asked.idea is not None
        chosen = written or idea_in_text(asked.idea, settings)
        settings = with_idea(settings, chosen, asked.idea.parent)
        known = {name for one in METRICS.values() for name in (one.name, one.title.lower())}
        if chosen.metric and settings.code.repository is None and chosen.metric.strip().lower() not in known:
            say(f"the idea's Metric {chosen.metric!r} is none of {', '.join(METRICS)}: the planner reads it as words")
    folder = asked.runs / (default_name(chosen) if asked.name is None else check_name(asked.name))
    check_code(settings)
    if asked.space is not None:
        settings = of_file(settings, asked.space)
    check(settings, folder)
    plan = None if asked.plan is None else read_plan(asked.plan)
    if settings.code.repository is not None and not settings.code.as_command.seeded:
        say("--command has no {seed}: runs of an arm differ by chance alone, or not at all")
    if plan is not None and settings.code.repository is not None:
        plan = with_reasons(merged(plan, settings.code.space))
    if plan is not None and asked.plan is not None:
        check_plan(plan, asked.plan, chosen, settings)
    if settings.code.repository is not None and plan is None:
        check_planner(settings)
    elif settings.code.repository is not None and plan is not None:
        settings = override(settings.model_dump(mode="json"), search_of(plan))
    if asked.dry_run:
        return show_plan(chosen, settings, plan=plan, out=asked.out, json=asked.json)
    check_places(settings)
    ready_packages(settings.sandbox)
    for model in pretrained_of(settings.sandbox.pretrained):
        fetch(model)
    with runs_folder_removed_if_refused(asked.runs):
        return show_while(
            lambda listener: start(chosen, settings, runs=asked.runs, name=folder.name, listener=listener, plan=plan),
            folder,
            mirrored,
        )


def resume(asked: Resume) -> int:
    run, flags = asked.run, asked.flags
    mirrored = tracker(asked.track) if asked.track else None
    if is_campaign(run):
        if flags:
            raise WrongUse("the settings of a campaign are fixed when it begins: resume it without others")
        return campaign.work_on(run)
    state = state_of(run)
    if state.started is None:
        raise WrongUse(f"{run} was cut off before it began: start it again with 'scientist run'")
    if state.paused and process_on(run) is not None:
        if flags:
            raise WrongUse(
                f"a process works on {run}, which is paused: settings change with a new process; stop it "
                "first, or resume without them"
            )
        return ask(run, Commanded(verb="resume"))
    if "data" in flags:
        raise WrongUse("the data of a run are fixed when it begins: start another one with 'scientist run'")
    settings = settings_here(state, flags, RunFolder(run))
    check_taken_up(settings, flags, run)
    if state.data_plan is not None and "sandbox.packages" in flags:
        raise WrongUse("the packages of a run are fixed with its data plan: start another one with 'scientist run'")
    scorers = RunFolder(run).scorers
    copy_frozen(state.scorers, scorers, scorers)
    if state.phase != "done":  # otherwise nothing is executed any more, and the run may come from another machine
        check_places(settings)
        check_isolation(settings.sandbox)
        if state.data_plan is not None and (lacking := unmet(state.data_plan, room_here(settings.sandbox))):
            raise WrongUse("; ".join(lacking))
        again(state.installed, RunFolder(run).packages, settings.sandbox)
    return show_while(lambda listener: resume_run(run, flags, listener=listener), run, mirrored)


def write(asked: Write) -> int:
    run, flags = asked.run, asked.flags
    state = state_of(run)
    unwritten = state.phase == "write" and state.ended is not None
    if state.started is None or not (unwritten or state.phase == "done"):
        raise WrongUse(f"{run} is not finished: finish it first with scientist resume {run}")
    wrong = [key for key in flags if FAMILIAR.get(key, key).split(".")[0] not in ("models", "paper", "budget")]
    if wrong:
        raise WrongUse(f"{wrong[0]} has no effect on the writing of a paper: set keys of models, paper or budget")
    check_parts(settings_here(state, flags, RunFolder(run)), template="paper.template" in flags or not state.template)
    # a run whose writer failed has no paper yet, so that there is nothing to write beside
    work = resume_run if unwritten else rewrite
    return show_while(lambda listener: work(run, flags, listener=listener), run)


# --- an idea in a text ----------------------------------------------------------------------------------------------


def idea_in_text(path: Path, settings: Settings) -> Idea:
    """The idea of a text such as a proposal: the one saved beside it, or read by the model and shown.

    Raises `IdeaError`, `ModelError`.
    """
    read_text(path)  # refused before a model is asked
    if (known := kept(path)) is not None:
        say(f"the idea of {path} as it was read before, in {idea_file(path)}: {known.title}")
        return known
    say(f"asking {settings.models.candidates(IDEA_OF)[0].name} for the idea in {path}; this costs a call")
    check_priced(settings)  # the call is within the budget of the run, though no part of its record
    idea = asyncio.run(convert(path, models_of(settings, MemoryLog()).at(0, 0)))
    say(f"{idea.title}: {idea.short_hypothesis}")
    for number, step in enumerate(idea.experiments, 1):
        say(f"{number}. {step}")
    say(f"in {idea_file(path)}: change it there, or the text")
    return idea


# --- what is shown --------------------------------------------------------------------------------------------------


def show_while(work: Callable[[Listener], int], folder: Path, mirrored: Open | None = None) -> int:
    """The exit code of the work of a run, shown and mirrored while it goes on; then its tree and status."""
    console = Console(file=unbreakable(sys.stdout))
    console.print(f"run folder: {folder}", markup=False, highlight=False, soft_wrap=True)
    try:
        with (
            traceback_saved(folder),
            Mirror(folder, mirrored, say) if mirrored else nullcontext(),
            view_for(console) as view,
        ):
            code = work(with_forecast(view, console))
    except KeyboardInterrupt:  # before or after the loop that handles signals itself
        say(f"interrupted; continue with: scientist resume {folder}")
        return INTERRUPTED
    state = read_state(folder)
    print_lines(console, tree_lines(tree_of(state), ascii=not console.encoding.lower().startswith("utf")))
    print_lines(console, status_lines(status_in(str(folder), state, (), None, now=time.time(), folder=folder)))
    return code


def with_forecast(view: Listener, console: Console) -> Listener:
    """A view that also prints a forecast of the whole run as soon as its plan is made."""

    def show(event: Event, state: RunState) -> None:
        view(event, state)
        ahead = ahead_of(state) if isinstance(event, Prepared) else None
        if ahead is not None:
            console.print(f"forecast: {ahead_text(ahead)}", markup=False, highlight=False, soft_wrap=True)

    return show
