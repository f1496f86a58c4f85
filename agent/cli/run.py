"""`scientist run`, `resume` and `write`: check everything that can be refused before anything is created."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from labwright.agent.cli import campaign
from labwright.agent.cli.commands import Demo, Resume, Run, Write
from labwright.agent.cli.control import send_request
from labwright.agent.cli.dry_run import show_plan
from labwright.agent.cli.errors import print_to_stderr
from labwright.agent.cli.idea import list_idea_faults, read_idea_from_text
from labwright.agent.cli.preflight import (
    check_components,
    check_isolation,
    check_local_servers,
    check_name,
    check_resumed,
    check_settings,
    check_slots,
    install_packages,
    make_run_name,
    removing_new_folder_on_refusal,
    settings_here,
)
from labwright.agent.cli.repository_study import run_question
from labwright.agent.cli.run_view import run_with_view
from labwright.agent.cli.status import read_run_state
from labwright.agent.data import add_idea_data
from labwright.agent.environment import choose_reviewer, max_cell_resources
from labwright.agent.plan_files import add_space_from_file, check_plan, merge_space, read_plan, read_review
from labwright.agent.repository_setup import check_code, check_planner
from labwright.agent.run import resume_run, rewrite_paper, start_study
from labwright.agent.settings import KEY_ALIASES, Settings, compose_settings, override_settings
from labwright.inspector.live_view import find_process
from labwright.inspector.tracking import choose_tracker
from labwright.record.campaign import is_campaign
from labwright.record.errors import UsageError
from labwright.record.events.run_events import CommandReceived
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.idea import read_idea
from labwright.sandbox.hub import fetch_model, parse_pretrained
from labwright.sandbox.packages import restore_packages
from labwright.sandbox.scorers import copy_frozen_scorers
from labwright.stages.data_planning import find_unmet_needs
from labwright.stages.ideation.idea_checks import is_text_path
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
    plan, review = None, None
    if args.plan is not None:
        plan = read_plan(args.plan)
        review = read_review(args.plan, plan)
    if settings.code.repository is not None and not settings.code.command_record.seeded:
        print_to_stderr("--command has no {seed}: replicates will not be seeded")
    if plan is not None and settings.code.repository is not None:
        plan = add_tuning_reasons(merge_space(plan, settings.code.space))
    if plan is not None and args.plan is not None:
        check_plan(plan, args.plan, chosen, settings)
    if settings.code.repository is not None and plan is None:
        check_planner(settings)
    elif settings.code.repository is not None and plan is not None:
        settings = override_settings(settings.model_dump(mode="json"), build_search_settings(plan))
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
    demo = Run()
    demo.idea, demo.config = DEMO_FOLDER / "idea.json", DEMO_FOLDER / "demo.yaml"
    demo.runs, demo.name, demo.flags = args.runs, args.name, args.flags
    return run(demo)


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
    run, flags = args.run, args.flags
    state = read_run_state(run)
    unwritten = state.phase == "write" and state.process_end is not None
    if state.started is None or not (unwritten or state.phase == "done"):
        raise UsageError(f"{run} is not finished: finish it first with scientist resume {run}")
    wrong = [key for key in flags if KEY_ALIASES.get(key, key).split(".")[0] not in ("models", "paper", "budget")]
    if wrong:
        raise UsageError(f"{wrong[0]} has no effect on writing a paper: only models, paper and budget settings do")
    check_components(
        settings_here(state, flags, RunFolder(run)),
        template="paper.template" in flags or not state.paper.template_sha256,
    )
    # a run whose writer failed has no first version of the paper, so it is resumed
    work = resume_run if unwritten else rewrite_paper
    return run_with_view(lambda listener: work(run, flags, listener=listener), run)
