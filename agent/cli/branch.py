"""`scientist branch`: check everything that can be refused before anything is created."""

from __future__ import annotations

import re

from labwright.agent.branch import BranchChanges, create_branch, read_origin
from labwright.agent.budget import check_prices_known
from labwright.agent.cli.commands import Branch
from labwright.agent.cli.errors import print_to_stderr
from labwright.agent.cli.preflight import (
    check_isolation,
    check_name,
    check_resumed,
    check_slots,
    check_writable,
    make_run_name,
    removing_new_folder_on_refusal,
    settings_here,
)
from labwright.agent.cli.run import run_with_view
from labwright.agent.cli.status import read_run_events
from labwright.agent.run import resume_run
from labwright.models.failover import open_backend
from labwright.record import control_files
from labwright.record.branching import BranchPointError
from labwright.record.errors import UsageError
from labwright.record.events.run_events import CommandReceived
from labwright.record.log_reader import RecordError
from labwright.record.run_folder import RunFolder
from labwright.stages.nodes.user_code import read_user_program

FIXED_SETTINGS = {
    "data": "the data of a run is fixed when it starts: start a new run with 'scientist run'",
    "context": "the documents of a run are read when it starts: start a new run with 'scientist run'",
    "sandbox.packages": "the packages of a run are fixed with its data plan: start a new run with 'scientist run'",
    "seed": "experiments keep the seed of the original run, for comparison; --seed sets that of decisions",
}
MAX_AUTHOR_LENGTH = 64
"""Maximum length of an author's name."""


def branch(args: Branch) -> int:
    run, point, note, flags = args.run, args.point, args.note, args.flags
    read_run_events(run)  # raises if this is not a run
    try:
        origin = read_origin(run, point)
    except BranchPointError as error:
        raise UsageError(f"cannot branch {run} from {point[:40]!r}: {error}") from None
    state, by = origin.cut.state, control_files.read_user_name()
    assert state.started is not None
    if args.code is None and args.author is not None:
        raise UsageError("--author requires --code")
    if (
        note
        and (why := control_files.find_refusal(state, CommandReceived(verb="note", text=note), is_running=False))
        is not None
    ):
        raise UsageError(f"--note: {why}")
    written = (
        None if args.code is None else read_user_program(args.code, author=_check_author(args.author or by), note=note)
    )
    settings = settings_here(state, flags, RunFolder(run))
    if written is not None and settings.code.repository is not None:
        raise UsageError(
            "--code gives an experiment.py, but this run studies a repository: edit it and start a new run"
        )
    point_in_name = re.sub("[^A-Za-z0-9]", "", point)[:12]
    root = (args.runs or run.resolve().parent) / (
        f"{make_run_name(state.started.idea)[:60]}_from-{point_in_name}" if args.name is None else check_name(args.name)
    )
    if root.exists():
        raise UsageError(f"{root} already exists: choose another --name")
    for key in flags:
        if (why := FIXED_SETTINGS.get(key.split(".")[0], FIXED_SETTINGS.get(key))) is not None:
            raise UsageError(f"--set {key}: {why}")
    check_writable(root.parent)
    check_resumed(settings, flags, root)
    open_backend(settings.models)
    check_prices_known(settings)
    check_slots(settings)
    check_isolation(settings.sandbox)
    with removing_new_folder_on_refusal(root.parent):
        try:
            create_branch(origin, BranchChanges(settings, flags, args.seed, note, written, by), root)
        except (RecordError, OSError) as error:
            raise UsageError(f"no branch was created: {error}") from None
    print_to_stderr(f"branch of {run.resolve().name} at {point}: {len(state.nodes)} nodes reused")
    return run_with_view(lambda listener: resume_run(root, {}, listener=listener), root)


def _check_author(name: str) -> str:
    flat = " ".join(name.split())
    if not flat or len(flat) > MAX_AUTHOR_LENGTH or not flat.isprintable():
        raise UsageError(
            f"--author {name[:MAX_AUTHOR_LENGTH]!r} is not a valid name: give at most "
            f"{MAX_AUTHOR_LENGTH} printable characters"
        )
    return flat
