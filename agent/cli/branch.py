"""`scientist branch`: everything that can be refused is refused before anything is created."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from agent.branch import Addition, Origin, make, origin_of
from agent.budget import check_priced
from agent.cli.checks import (
    check_gpus,
    check_isolation,
    check_name,
    check_space,
    check_template,
    check_writable,
    data_errors_refused,
    default_name,
    runs_folder_removed_if_refused,
)
from agent.cli.edge import WrongUse, say
from agent.cli.options import BUDGET, MODEL, Run, settings_options
from agent.cli.run import show_while
from agent.cli.status import run_folder
from agent.data import check_unchanged
from agent.run import resume
from agent.settings import Settings, override
from models.failover import open_backend
from record import control
from record.branching import PointError
from record.events.running import Commanded
from record.fold.state import RunState
from record.nouns.idea import Idea
from record.reading import RecordError
from stages.nodes.human import CodeError, read_code

FIXED = {
    "data": "the data of a run are fixed when it begins: start another one with 'scientist run'",
    "context": "the documents of a run are read when it begins: start another one with 'scientist run'",
    "seed": "the seed of experiments stays that of the run, so that they compare; --seed is that of the choices",
}
AUTHOR = 64
"""Characters of an author's name."""


@settings_options(*MODEL, "workers", "gpus", *BUDGET)
def branch(
    run: Run,
    point: Annotated[str, typer.Option(
        "--from", metavar="NODE|STAGE", help="After a node's verdict, as n0012, or before a stage, as ablation.")],
    code: Annotated[Path | None, typer.Option(
        help="A folder with an experiment.py of yours: the branch's first node.")] = None,
    author: Annotated[str | None, typer.Option(help="Who wrote it; by default your user name.")] = None,
    note: Annotated[str, typer.Option(help="A note for the next prompts of the stage.")] = "",
    runs: Annotated[Path | None, typer.Option(help="Where the folder is made; by default beside RUN.")] = None,
    name: Annotated[str | None, typer.Option(help="Its name; by default time, idea and point.")] = None,
    seed: Annotated[int | None, typer.Option(
        min=0, help="Of its choices; by default a new one; with that of RUN it chooses as RUN did.")] = None,
    *, flags: dict[str, Any],
) -> int:
    """Begin a new run from a point of another one, which stays as it is. Budget and time begin anew."""
    parent = run_folder(run)
    try:
        origin = origin_of(parent, point)
    except PointError as error:
        raise WrongUse(f"cannot branch {run} from {point[:40]!r}: {error}") from None
    except RecordError as error:
        raise WrongUse(str(error)) from None
    state = origin.cut.state
    assert state.started is not None
    by = control.user()
    try:
        written = None if code is None else read_code(code, author=_author(author or by), note=note)
        if code is None and author is not None:
            raise WrongUse("--author names who wrote the code: give --code too")
        _check_note(state, note)
        settings = override(state.started.settings, state.overrides | flags)
        chosen = _default_name(state.started.idea, point) if name is None else check_name(name)
        root = _new_folder(runs or parent.resolve().parent, chosen)
        _check(settings, flags, root)
        with runs_folder_removed_if_refused(root.parent):
            _make(origin, Addition(settings, flags, seed, note, written, by), root)
    except CodeError as error:
        raise WrongUse(str(error)) from None
    say(f"branch of {parent.resolve().name} at {point}: {len(state.nodes)} nodes are taken over")
    return show_while(lambda listener: resume(root, {}, listener=listener), root)


def _make(origin: Origin, addition: Addition, root: Path) -> None:
    try:
        make(origin, addition, root)
    except FileExistsError:
        raise WrongUse(f"{root} exists already: choose another --name") from None
    except (RecordError, OSError) as error:
        raise WrongUse(f"no branch was made: {error}") from None


def _author(name: str) -> str:
    flat = " ".join(name.split())
    if not flat or len(flat) > AUTHOR or not flat.isprintable():
        raise WrongUse(f"--author {name[:AUTHOR]!r} is no name: give who wrote it in at most {AUTHOR} "
                       "printable characters")
    return flat


def _check_note(state: RunState, note: str) -> None:
    why = control.refused(state, Commanded(verb="note", text=note), working=False) if note else None
    if why is not None:
        raise WrongUse(f"--note: {why}")


def _default_name(idea: Idea, point: str) -> str:
    return f"{default_name(idea)[:60]}_from-{re.sub('[^A-Za-z0-9]', '', point)[:12]}"


def _new_folder(runs: Path, name: str) -> Path:
    """The folder of the branch, which must not exist yet."""
    if (runs / name).exists():
        raise WrongUse(f"{runs / name} exists already: choose another --name")
    return runs / name


def _check(settings: Settings, overrides: dict[str, Any], root: Path) -> None:
    """Refuse what cannot work. Raises `WrongUse`, `ModelConfigError`, `IsolationError`, `GpuError`."""
    for key in overrides:
        if (why := FIXED.get(key.split(".")[0])) is not None:
            raise WrongUse(f"--set {key}: {why}")
    check_writable(root.parent)
    check_space(settings, root)
    if "paper.template" in overrides:
        check_template(settings.paper.template)
    open_backend(settings.models)
    check_priced(settings)
    with data_errors_refused():
        check_unchanged(settings)
    check_gpus(settings)
    check_isolation(settings.sandbox)
