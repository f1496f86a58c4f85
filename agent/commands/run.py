"""`scientist run` and `scientist resume`: everything that can be refused is refused before anything is created."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from agent.budget import check_budget
from agent.commands.control import ask
from agent.commands.edge import (
    INTERRUPTED,
    WrongUse,
    check_papers,
    data_refused,
    isolation_told,
    say,
    traceback_saved,
    wrong_use,
)
from agent.commands.idea_source import idea_in
from agent.commands.look import run_folder
from agent.commands.piped import lasting
from agent.data import check_unchanged, survey, with_idea
from agent.outlook import ahead_of
from agent.settings import FAMILIAR, Settings, compose, from_assignments, override
from inspector.describe import describe, judgement_text
from inspector.follow import process_on
from inspector.live import view_for
from inspector.render import ahead_text, print_lines, tree_lines
from inspector.status import condition_of
from inspector.text import dollars, duration
from inspector.tree import SEARCH_KINDS, tree_of
from record.events import Event
from record.events.running import Commanded
from record.events.searching import Prepared
from record.fold.state import RunState
from record.folder import RunFolder
from record.log import Listener
from record.nouns.idea import Idea, read_idea
from record.reading import read_state
from sandbox.gpu_leases import open_leases
from sandbox.gpus import cuda_visible_devices
from sandbox.pretrained import fetch, pretrained_of
from sandbox.scorers import copy_frozen
from stages.ideation.converting import is_text

LONGEST_NAME = 80


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line. `flags` are settings by dotted key."""

    idea: Path
    index: int | None
    config: Path | None
    assignments: tuple[str, ...]
    runs: Path
    name: str | None
    flags: dict[str, Any] = field(default_factory=dict[str, Any])
    dry: bool = False
    as_json: bool = False


def run(request: Request) -> int:
    """Run an idea to its end, or only plan it (`dry`); returns the exit code."""
    if request.as_json and not request.dry:
        raise WrongUse("--json goes with --dry-run; of a run ask: scientist status RUN --json")
    written = None if is_text(request.idea) else read_idea(request.idea, request.index)
    settings = compose(config=request.config, flags=from_assignments(request.assignments) | request.flags)
    idea = written or idea_in(request.idea, settings)
    with data_refused():
        settings = with_idea(settings, idea, request.idea.parent)
    folder = request.runs / (default_name(idea) if request.name is None else named(request.name))
    check(settings, folder)
    if request.dry:
        from agent.commands.dry_run import show_plan

        return show_plan(idea, settings, as_json=request.as_json)
    check_gpus(settings)
    for model in pretrained_of(settings.sandbox.pretrained):
        fetch(model)

    def work(listener: Listener) -> int:
        from agent.run import RunExistsError, start

        try:
            return start(idea, settings, runs=folder.parent, name=folder.name, listener=listener)
        except RunExistsError as error:
            raise WrongUse(str(error)) from None

    with nothing_left_of_refusal(folder.parent):
        return watched(folder, work)


def resume(path: Path, assignments: tuple[str, ...], flags: dict[str, Any]) -> int:
    """Take a run up again; returns the exit code."""
    folder = run_folder(path)
    state = read_state(folder)
    overrides = from_assignments(assignments) | flags
    if state.started is None:
        raise WrongUse(f"{path} was cut off before it began: start it again with 'scientist run'")
    if state.paused and process_on(folder) is not None:
        if overrides:
            raise WrongUse(f"a process works on {path}, which is paused: settings change with a new process; stop it "
                           "first, or resume without them")
        return ask(path, Commanded(verb="resume"))
    if "data" in overrides:
        raise WrongUse("the data of a run are fixed when it begins: start another one with 'scientist run'")
    settings = override(state.started.settings, state.overrides | overrides)
    check_space(settings, folder)
    if "paper.template" in overrides:
        check_template(settings.paper.template)
    with data_refused():
        check_unchanged(settings)
        scorers = RunFolder(folder).scorers
        copy_frozen(state.scorers, scorers, scorers)
    if state.phase != "done":  # otherwise nothing is executed any more, and the run may have come from elsewhere
        check_gpus(settings)
        isolation_told(settings.sandbox)

    def work(listener: Listener) -> int:
        from agent.run import resume as take_up

        return take_up(folder, overrides, listener=listener)

    return watched(folder, work)


def write(path: Path, assignments: tuple[str, ...], flags: dict[str, Any]) -> int:
    """Write the paper of a finished run again, as paper/v2 and so on; returns the exit code."""
    folder = run_folder(path)
    state = read_state(folder)
    overrides = from_assignments(assignments) | flags
    unwritten = state.phase == "write" and state.ended is not None
    if state.started is None or not (unwritten or state.phase == "done"):
        raise WrongUse(f"{path} is not at its end: bring it there first: scientist resume {path}")
    wrong = [key for key in overrides if FAMILIAR.get(key, key).split(".")[0] not in ("models", "paper", "budget")]
    if wrong:
        raise WrongUse(f"{wrong[0]} has no bearing on the writing of a paper: set keys of models, paper or budget")
    check_parts(override(state.started.settings, state.overrides | overrides),
                template="paper.template" in overrides or not state.template)

    def work(listener: Listener) -> int:
        from agent import run

        # a run whose writer failed has no paper yet, so that there is nothing to write beside
        return (run.resume if unwritten else run.rewrite)(folder, overrides, listener=listener)

    return watched(folder, work)


@contextmanager
def nothing_left_of_refusal(runs: Path) -> Generator[None]:
    """Remove the runs folder again when it was made for a run that was refused (an idea outside the catalogue)."""
    made = not runs.exists()
    try:
        yield
    except wrong_use():
        if made and runs.is_dir() and not any(runs.iterdir()):
            runs.rmdir()
        raise


def watched(folder: Path, work: Callable[[Listener], int]) -> int:
    """Do the work of a run while showing it, then say what came of it."""
    console = Console(file=lasting(sys.stdout))
    console.print(f"run folder: {folder}", markup=False, highlight=False, soft_wrap=True)
    try:
        with traceback_saved(folder), view_for(console) as view:
            code = work(forecasting(view, console))
    except KeyboardInterrupt:  # before or after the loop that handles signals itself
        say(f"interrupted; go on with: scientist resume {folder}")
        return INTERRUPTED
    tell_end(console, folder, code)
    return code


def forecasting(view: Listener, console: Console) -> Listener:
    """A view that also says once, as soon as the plan is made, what the run is likely to take."""

    def tell(event: Event, state: RunState) -> None:
        view(event, state)
        ahead = ahead_of(state) if isinstance(event, Prepared) else None
        if ahead is not None:
            console.print(f"forecast: {ahead_text(ahead)}", markup=False, highlight=False, soft_wrap=True)

    return tell


def tell_end(console: Console, folder: Path, code: int) -> None:
    """The tree, what it took, and where the paper is."""
    state = read_state(folder)
    print_lines(console, tree_lines(tree_of(state), ascii=not console.encoding.lower().startswith("utf")))
    for line in summary(state, folder, code):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def summary(state: RunState, folder: Path, code: int) -> list[str]:
    """How a run ended, in a few lines."""
    total, nodes = state.total, list(state.nodes.values())
    searched = sum(node.kind in SEARCH_KINDS for node in nodes)
    lines = [
        f"{condition_of(state, None)} (exit code {code}): {searched} nodes and {len(nodes) - searched} replicates and "
        f"aggregates, {duration(state.active_seconds)}, {total.calls} model calls, "
        f"{dollars(total.usd, total.unpriced)}"]
    if state.released is not None and state.released.pdf is not None:
        lines.append(f"paper: {folder / state.released.pdf}")
    elif state.released is not None:
        lines.append(f"paper sources (no PDF was made): {folder / 'paper'}")
    if state.assessed is not None:
        lines.append(judgement_text(state.assessed))
    if state.library is not None and any(one.why for one in state.library.entries):
        lines.append(describe(state.library, state) or "")
    if state.ended is not None and state.ended.reason:
        lines.append(f"because: {state.ended.reason}")
    if condition_of(state, None) in ("interrupted", "failed"):
        lines.append(f"go on with: scientist resume {folder}")
    return lines


# --- what is refused ------------------------------------------------------------------------------------------------


def check(settings: Settings, folder: Path) -> None:
    """Refuse what cannot work. Raises `WrongUse`, `ModelConfigError`."""
    if folder.exists():
        raise WrongUse(f"{folder} exists already: choose another --name, or go on with it: scientist resume {folder}")
    check_writable(folder.parent)
    check_space(settings, folder)
    if settings.paper.bib is not None and not settings.paper.bib.is_file():
        raise WrongUse(f"there is no bibliography {settings.paper.bib}: give --bib the path of a .bib file")
    check_papers(settings.paper.papers)
    if settings.alerts.command and shutil.which(settings.alerts.command[0]) is None:
        raise WrongUse(f"there is no program {settings.alerts.command[0]!r} (alerts.command): give its path, or none")
    check_context(settings)
    check_parts(settings)
    with data_refused():
        for warning in survey(settings):
            say(warning)


def check_context(settings: Settings) -> None:
    """Refuse a folder of documents that is none. Raises `WrongUse`."""
    from stages.documents import ContextError
    from stages.documents import check as check_documents

    if settings.context is None:
        return
    try:
        check_documents(settings.context)
    except ContextError as error:
        raise WrongUse(str(error)) from None


def check_parts(settings: Settings, *, template: bool = True) -> None:
    """Refuse a model, template or library that cannot be opened, in the words of the room that opens it."""
    from literature import LibraryError
    from literature.library import read_own
    from models.failover import open_backend

    if template:
        check_template(settings.paper.template)
    try:
        if settings.paper.bib is not None:
            read_own(settings.paper.bib)
    except LibraryError as error:
        raise WrongUse(str(error)) from None
    open_backend(settings.models)
    check_budget(settings)
    isolation_told(settings.sandbox)


def check_template(name: str) -> None:
    """Refuse a template that does not work: one of a user's own sets a paper of two lines, where TeX is installed.

    Raises `stages.paper.template.TemplateError`.
    """
    from review.evidence.tex import TexMissing
    from stages.paper.sample import try_out
    from stages.paper.template import load, names

    found = load(name)
    if name not in names():
        with suppress(TexMissing):
            asyncio.run(try_out(found))


def check_gpus(settings: Settings) -> None:
    """Refuse a GPU that is not there, and say where workers will wait for one. Raises `GpuError`."""
    fit, workers = open_leases(settings.sandbox, cuda_visible_devices()).capacity, settings.search.num_workers
    if fit is not None and fit < workers:
        say(f"{workers} workers, but {fit} experiment(s) fit on the GPUs at a time: give more --gpus, fewer --workers, "
            "or raise sandbox.slots_per_gpu")


def check_writable(runs: Path) -> None:
    """Refuse a runs folder that nothing can be written to; it is probed with a file that vanishes at once."""
    place = existing(runs)
    if not place.is_dir():
        raise WrongUse(f"--runs {runs}: {place} is a file, not a folder; choose another --runs")
    try:
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        raise WrongUse(f"--runs {runs} cannot be written to ({error.strerror}): choose another --runs") from None


def check_space(settings: Settings, folder: Path) -> None:
    """Refuse a disk without the room that `min_free_gb` asks for."""
    place = existing(folder)
    free = shutil.disk_usage(place).free / 1e9
    if free < settings.min_free_gb:
        raise WrongUse(f"only {free:.2f} GB are free at {place}, {settings.min_free_gb:g} are wanted: free some, "
                       "choose another --runs, or lower min_free_gb")


def existing(path: Path) -> Path:
    """The path itself, or its nearest ancestor that exists."""
    path = path.absolute()
    return next(one for one in (path, *path.parents) if one.exists())


def named(name: str) -> str:
    """A name that is fit for a folder. Raises `WrongUse`."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or len(name) > LONGEST_NAME:
        raise WrongUse(
            f"--name {name!r} is not fit for a folder: use up to {LONGEST_NAME} letters, digits, '.', '_' and '-'")
    return name


def default_name(idea: Idea) -> str:
    """Time and the idea's name, as a folder."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", idea.name).strip("-.")[:60]
    return f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{slug or 'idea'}"
