"""`scientist branch`: everything that can be refused is refused before anything is created."""

from __future__ import annotations

import re

from labwright.agent.branch import Addition, make, origin_of
from labwright.agent.budget import check_priced
from labwright.agent.cli.checks import (
    check_isolation,
    check_name,
    check_places,
    check_taken_up,
    check_writable,
    default_name,
    runs_folder_removed_if_refused,
    settings_here,
)
from labwright.agent.cli.commands import Branch
from labwright.agent.cli.edge import say
from labwright.agent.cli.run import show_while
from labwright.agent.cli.status import events_of
from labwright.agent.run import resume
from labwright.models.failover import open_backend
from labwright.record import control
from labwright.record.branching import PointError
from labwright.record.errors import WrongUse
from labwright.record.events.running import Commanded
from labwright.record.folder import RunFolder
from labwright.record.reading import RecordError
from labwright.stages.nodes.human import read_code

FIXED = {
    "data": "the data of a run are fixed when it begins: start another one with 'scientist run'",
    "context": "the documents of a run are read when it begins: start another one with 'scientist run'",
    "sandbox.packages": "the packages of a run are fixed with its data plan: start another one with 'scientist run'",
    "seed": "the seed of experiments stays that of the run, so that they compare; --seed is that of the choices",
}
AUTHOR = 64
"""Characters of an author's name."""


def branch(asked: Branch) -> int:
    run, point, note, flags = asked.run, asked.point, asked.note, asked.flags
    events_of(run)  # refused where it is none
    try:
        origin = origin_of(run, point)
    except PointError as error:
        raise WrongUse(f"cannot branch {run} from {point[:40]!r}: {error}") from None
    state, by = origin.cut.state, control.user()
    assert state.started is not None
    if asked.code is None and asked.author is not None:
        raise WrongUse("--author names who wrote the code: give --code too")
    if note and (why := control.refused(state, Commanded(verb="note", text=note), working=False)) is not None:
        raise WrongUse(f"--note: {why}")
    written = None if asked.code is None else read_code(asked.code, author=_author(asked.author or by), note=note)
    settings = settings_here(state, flags, RunFolder(run))
    if written is not None and settings.code.repository is not None:
        raise WrongUse(
            "--code is an experiment.py, and this run is of a repository: change that, and start a run of it"
        )
    point_in_name = re.sub("[^A-Za-z0-9]", "", point)[:12]
    root = (asked.runs or run.resolve().parent) / (
        f"{default_name(state.started.idea)[:60]}_from-{point_in_name}"
        if asked.name is None
        else check_name(asked.name)
    )
    if root.exists():
        raise WrongUse(f"{root} exists already: choose another --name")
    for key in flags:
        if (why := FIXED.get(key.split(".")[0], FIXED.get(key))) is not None:
            raise WrongUse(f"--set {key}: {why}")
    check_writable(root.parent)
    check_taken_up(settings, flags, root)
    open_backend(settings.models)
    check_priced(settings)
    check_places(settings)
    check_isolation(settings.sandbox)
    with runs_folder_removed_if_refused(root.parent):
        try:
            make(origin, Addition(settings, flags, asked.seed, note, written, by), root)
        except (RecordError, OSError) as error:
            raise WrongUse(f"no branch was created: {error}") from None
    say(f"branch of {run.resolve().name} at {point}: {len(state.nodes)} nodes are taken over")
    return show_while(lambda listener: resume(root, {}, listener=listener), root)


def _author(name: str) -> str:
    flat = " ".join(name.split())
    if not flat or len(flat) > AUTHOR or not flat.isprintable():
        raise WrongUse(
            f"--author {name[:AUTHOR]!r} is not a name: give who wrote it in at most {AUTHOR} printable characters"
        )
    return flat
