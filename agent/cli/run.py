"""The commands that execute a study: `scientist run`, `demo`, `resume`, `write` and `ablate`, with its view.

Everything that can be refused is checked before anything is created. A study of a repository without a paper (`ablate`,
`run --code --task`) is continued by the same command in its unfinished folder.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

from rich.console import Console
from rich.text import Text

from labwright.agent.campaign import to_slug
from labwright.agent.cli import campaign
from labwright.agent.cli.commands import Ablate, Demo, Resume, Run, Write
from labwright.agent.cli.control import send_request
from labwright.agent.cli.dry_run import show_plan
from labwright.agent.cli.errors import (
    INTERRUPTED,
    as_unbreakable,
    format_line,
    print_lines,
    print_to_stderr,
    saving_traceback,
)
from labwright.agent.cli.idea import list_idea_faults, read_idea_from_text
from labwright.agent.cli.preflight import (
    check_components,
    check_disk_space,
    check_isolation,
    check_local_servers,
    check_name,
    check_resumed,
    check_settings,
    check_slots,
    check_writable,
    choose_folder,
    install_packages,
    make_run_name,
    removing_new_folder_on_refusal,
    settings_here,
)
from labwright.agent.cli.status import read_run_state
from labwright.agent.data import add_idea_data
from labwright.agent.environment import choose_reviewer, max_cell_resources
from labwright.agent.forecast import estimate_remaining
from labwright.agent.plan_files import (
    add_space_from_file,
    check_plan,
    merge_space,
    read_plan,
    read_question,
    read_review,
)
from labwright.agent.repository_setup import check_code, check_planner
from labwright.agent.run import find_changes, is_lasting, resume_run, rewrite_paper, start_or_resume, start_study
from labwright.agent.settings import KEY_ALIASES, Settings, compose_settings, override_settings
from labwright.inspector.findings import format_effect, list_effects, list_findings, list_report_files
from labwright.inspector.live_view import choose_view, find_process
from labwright.inspector.render import format_remaining_estimate
from labwright.inspector.status import build_status
from labwright.inspector.summary import format_ending
from labwright.inspector.tracking import OpenTracker, TrackerSync, choose_tracker
from labwright.record.campaign import is_campaign
from labwright.record.errors import UsageError
from labwright.record.event_log import EventListener, is_run, read_state
from labwright.record.events import Event
from labwright.record.events.run_events import CommandReceived
from labwright.record.events.search_events import PlanPrepared
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.idea import Idea, ResearchQuestion, read_idea
from labwright.record.schema.nodes import StudyKind
from labwright.sandbox.hub import fetch_model, parse_pretrained
from labwright.sandbox.packages import restore_packages
from labwright.sandbox.scorers import copy_frozen_scorers
from labwright.stages.data_planning import find_unmet_needs
from labwright.stages.ideation.idea_checks import is_text_path
from labwright.stages.repository.ablation_report import UNRANKED_GATES, to_json
from labwright.stages.repository.paper_study import add_tuning_reasons, build_search_settings

DEMO_FOLDER = Path(str(files("labwright"))) / "demo"
"""Idea, settings and bibliography of `scientist demo`, which are also among the examples."""


def run(args: Run) -> int:
    if args.json and not args.dry_run:
        raise UsageError("--json requires --dry-run; for an existing run use `scientist status RUN --json`")
    mirrored = choose_tracker(args.track) if args.track else None
    if args.out is not None and not args.dry_run:
        raise UsageError("--out requires --dry-run, which writes the plan to it")
    if args.idea is None and args.task is None:
        raise UsageError("give an idea with --idea FILE, or a question about a repository with --task FILE --code REPO")
    written = None if args.idea is None or is_text_path(args.idea) else read_idea(args.idea, args.idea_idx)
    settings = choose_reviewer(compose_settings(config=args.config, flags=args.flags))
    if args.task is not None:
        return run_question(args, settings)
    assert args.idea is not None
    chosen = written or read_idea_from_text(args.idea, settings)
    settings = add_idea_data(settings, chosen, args.idea.parent)
    for fault in list_idea_faults(chosen, settings):
        print_to_stderr(f"{fault}: the planner gets it as text")
    folder = args.runs / (make_run_name(chosen) if args.name is None else check_name(args.name))
    check_code(settings)
    if args.space is not None:
        settings = add_space_from_file(settings, args.space)
    check_settings(settings, folder)
    plan, review, in_repository = None, None, settings.code.repository is not None
    if in_repository and not settings.code.command_record.seeded:
        print_to_stderr("--command has no {seed}: replicates will not be seeded")
    if args.plan is not None:
        plan = read_plan(args.plan)
        review = read_review(args.plan, plan)
        plan = add_tuning_reasons(merge_space(plan, settings.code.space)) if in_repository else plan
        check_plan(plan, args.plan, chosen, settings)
    if in_repository and plan is not None:
        settings = override_settings(settings.model_dump(mode="json"), build_search_settings(plan))
    elif in_repository:
        check_planner(settings)
    if args.dry_run:
        return show_plan(chosen, settings, plan=plan, review=review, out=args.out, json=args.json)
    check_local_servers(settings.models)
    check_slots(settings)
    install_packages(settings.sandbox)
    for model in parse_pretrained(settings.sandbox.pretrained):
        fetch_model(model)
    with removing_new_folder_on_refusal(args.runs):
        return run_with_view(
            lambda listener: start_study(
                chosen, settings, runs=args.runs, name=folder.name, listener=listener, plan=plan, review=review
            ),
            folder,
            mirrored,
        )


def run_demo(args: Demo) -> int:
    return run(Run(**vars(args), idea=DEMO_FOLDER / "idea.json", config=DEMO_FOLDER / "demo.yaml"))


def resume(args: Resume) -> int:
    run, flags = args.run, args.flags
    mirrored = choose_tracker(args.track) if args.track else None
    if is_campaign(run):
        if flags:
            raise UsageError("the settings of a campaign cannot change: resume it without options")
        return campaign.run_in_folder(run)
    state = read_run_state(run)
    if state.started is None:
        raise UsageError(f"{run} was interrupted before it started: start it again with 'scientist run'")
    if state.is_paused and find_process(run) is not None:
        if flags and state.open_gate is None:
            raise UsageError(
                f"{run} is paused but its process is alive, so settings cannot change: stop it "
                "first, or resume without options"
            )
        return send_request(run, CommandReceived(verb="resume"))
    if "data" in flags:
        raise UsageError("the data of a run is fixed when it starts: start a new run with 'scientist run'")
    settings = settings_here(state, flags, RunFolder(run))
    check_resumed(settings, flags, run)
    if state.search.data_plan is not None and "sandbox.packages" in flags:
        raise UsageError("the packages of a run are fixed with its data plan: start a new run with 'scientist run'")
    if state.phase != "done":  # otherwise nothing is executed any more, and the run may come from another machine
        check_experiments(state, settings, RunFolder(run))
    return run_with_view(lambda listener: resume_run(run, flags, listener=listener), run, mirrored)


def check_experiments(state: RunState, settings: Settings, folder: RunFolder) -> None:
    """Refuse to continue a run if its experiments cannot run here. Raises `UsageError` and errors of the sandbox."""
    copy_frozen_scorers(state.search.scorers, folder.scorers, folder.scorers)
    check_slots(settings)
    check_isolation(settings.sandbox)
    if state.search.data_plan is not None and (
        lacking := find_unmet_needs(state.search.data_plan, max_cell_resources(settings.sandbox))
    ):
        raise UsageError("; ".join(lacking))
    restore_packages(state.search.installed_packages, folder.packages_lock, settings.sandbox)


def write(args: Write) -> int:
    run, flags = args.run, {KEY_ALIASES.get(key, key): value for key, value in args.flags.items()}
    state = read_run_state(run)
    unwritten = state.phase == "write" and state.process_end is not None
    if state.started is None or not (unwritten or state.phase == "done"):
        raise UsageError(f"{run} is not finished: finish it first with scientist resume {run}")
    wrong = [key for key in flags if key.split(".")[0] not in ("models", "paper", "budget")]
    if wrong:
        raise UsageError(f"{wrong[0]} has no effect on writing a paper: only models, paper and budget settings do")
    has_new_template = "paper.template" in flags or not state.paper.template_sha256
    check_components(settings_here(state, flags, RunFolder(run)), template=has_new_template)
    # a run whose writer failed has no first version of the paper, so it is resumed
    work = resume_run if unwritten else rewrite_paper
    return run_with_view(lambda listener: work(run, flags, listener=listener), run)


# --- studies of a repository without a paper --------------------------------------------------------------------------


def ablate(args: Ablate) -> int:
    repository = args.repository.absolute()
    settings = choose_reviewer(compose_settings(config=args.config, flags=args.flags))
    settings = override_settings(settings.model_dump(mode="json"), {"code.repository": str(repository)})
    slug = to_slug(repository.name)
    texts = {
        "name": f"ablate-{slug}",
        "title": f"Which parts of {repository.name} matter",
        "short_hypothesis": f"Some parts of {repository.name} matter for its result, others do not.",
        "experiments": "Reproduce the result, then measure it without each part.",
    }
    folder = args.out or choose_study_folder(args.runs, f"ablate_{slug}", settings, "ablation")
    code = _run_study(Idea.model_validate(texts), settings, "ablation", folder, is_quiet=args.json)
    if not is_run(folder):  # interrupted before anything was recorded
        return code
    state = read_state(folder)
    if args.json:
        print(json.dumps({"folder": str(folder), **to_json(state)}, indent=1))
    else:
        print_lines(format_findings(state))
    return code


def format_findings(state: RunState) -> Iterator[Text]:
    """Format what an ablation found: its baseline, the effects, what broke the program, and why the rest is open."""
    yield from (format_line(f"baseline {text}", "bold") for name, text in list_findings(state) if name == "baseline")
    yield from (format_line(format_effect(one)) for one in list_effects(state))
    if (found := state.ablation.results) is None:
        return
    for one in found.results:
        if one.mean is None and one.called in UNRANKED_GATES:
            yield format_line(f"without {one.part}: {one.called}{f' ({one.flag})' if one.flag else ''}")
    if found.results and found.stopped:
        yield format_line(found.stopped)


def run_question(args: Run, settings: Settings) -> int:
    assert args.task is not None
    repository = settings.code.repository
    if repository is None:
        raise UsageError("--task asks a question about a repository: give --code")
    for name, given in (("--idea", args.idea), ("--plan", args.plan), ("--space", args.space)):
        if given is not None:
            raise UsageError(f"{name} cannot be combined with --task")
    question, slug = read_question(args.task), to_slug(args.task.stem)
    settings = settings.model_copy(update={"question": question})
    if args.name:
        folder = args.runs / check_name(args.name)
    else:
        folder = choose_study_folder(args.runs, f"task_{slug}", settings, "question")
    code = _run_study(build_question_idea(question, slug), settings, "question", folder)
    answer = read_state(folder).question.answer if is_run(folder) else None
    if answer is not None:
        print_lines([format_line(answer.conclusion or f"no answer: {answer.why}", "bold")])
    return code


def build_question_idea(question: ResearchQuestion, name: str) -> Idea:
    """Convert a question to the idea of a study."""
    steps = tuple(filter(None, (question.method, question.instructions))) or (question.question,)
    texts = {"name": name, "title": question.question.splitlines()[0][:300], "short_hypothesis": question.question}
    return Idea.model_validate(texts | {"experiments": steps})


def _run_study(idea: Idea, settings: Settings, kind: StudyKind, folder: Path, *, is_quiet: bool = False) -> int:
    """Start a study in its folder, or continue it there. Returns the exit code; raises `UsageError`."""
    check_writable(folder.parent)
    check_disk_space(settings, folder.parent)
    check_isolation(settings.sandbox)
    if not is_run(folder):
        check_local_servers(settings.models)

    def work(listener: EventListener) -> int:
        return start_or_resume(idea, settings, kind, folder, listener=listener)

    with removing_new_folder_on_refusal(folder.parent):
        if not is_quiet:
            return run_with_view(work, folder)
        with saving_traceback(folder):
            code = work(lambda event, state: None)
        if (ended := read_state(folder).process_end) is not None and ended.reason:
            print_to_stderr(ended.reason)
        return code


def choose_study_folder(runs: Path, suffix: str, settings: Settings, kind: StudyKind) -> Path:
    """Return the newest folder in which this study is unfinished, or a new one."""
    return choose_folder(
        runs, suffix, lambda one: read_state(one).phase != "done" and find_changes(one, settings, kind) is not None
    )


# --- the view of a running study --------------------------------------------------------------------------------------


def run_with_view(work: Callable[[EventListener], int], folder: Path, mirrored: OpenTracker | None = None) -> int:
    """Show and mirror a run while it is running, print its result at the end, and return its exit code."""
    console = Console(file=as_unbreakable(sys.stdout))
    print_plain = partial(console.print, markup=False, highlight=False, soft_wrap=True)

    @cache
    def name_folder() -> None:  # not at the first event: a start that is refused leaves no folder
        print_plain(f"run folder: {folder}")

    try:
        with (
            saving_traceback(folder),
            TrackerSync(folder, mirrored, print_to_stderr) if mirrored else nullcontext(),
            choose_view(console) as view,
        ):

            def show(event: Event, state: RunState) -> None:
                if is_lasting(state):
                    name_folder()
                view(event, state)
                ahead = estimate_remaining(state) if isinstance(event, PlanPrepared) else None
                if ahead is not None:
                    print_plain(f"forecast: {format_remaining_estimate(ahead)}")

            code = work(show)
    except KeyboardInterrupt:  # outside the event loop, which handles signals itself
        print_to_stderr(f"interrupted; continue with: scientist resume {folder}")
        return INTERRUPTED
    name_folder()
    ended = build_status(str(folder), read_state(folder), (), None, now=time.time(), folder=folder)
    for line in format_ending(ended, list_report_files(folder)):
        console.print(line, soft_wrap=True, highlight=False)
    return code
