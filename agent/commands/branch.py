"""`scientist branch`: everything that can be refused is refused before anything is created."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.commands.edge import WrongUse, data_refused, isolation_told, say
from agent.commands.look import run_folder
from agent.commands.run import (
    check_gpus,
    check_space,
    check_template,
    check_writable,
    default_name,
    named,
    nothing_left_of_refusal,
    watched,
)
from agent.settings import Settings, from_assignments, override
from record import control
from record.events.running import Commanded
from record.fold.state import RunState
from record.log import Listener
from record.nouns.idea import Idea
from record.reading import RecordError

FIXED = {
    "data": "the data of a run are fixed when it begins: start another one with 'scientist run'",
    "context": "the documents of a run are read when it begins: start another one with 'scientist run'",
    "seed": "the seed of experiments stays that of the run, so that they compare; --seed is that of the choices",
}
AUTHOR = 64
"""Characters of an author's name."""


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line. `flags` are settings by dotted key."""

    run: Path
    point: str
    code: Path | None = None
    author: str | None = None
    note: str = ""
    runs: Path | None = None
    name: str | None = None
    seed: int | None = None
    assignments: tuple[str, ...] = ()
    flags: dict[str, Any] = field(default_factory=dict[str, Any])


def branch(request: Request) -> int:
    """Make the branch and bring it to its end; returns the exit code."""
    from agent.branch import Shoot, Trunk, make, trunk_of
    from record.branching import PointError
    from stages.nodes.human import CodeError, Written, read_code

    parent = run_folder(request.run)
    by = control.user()

    def trunk() -> Trunk:
        try:
            return trunk_of(parent, request.point)
        except PointError as error:
            raise WrongUse(f"cannot branch {request.run} from {request.point[:40]!r}: {error}") from None
        except RecordError as error:
            raise WrongUse(str(error)) from None

    def written() -> Written | None:
        if request.code is None:
            if request.author is not None:
                raise WrongUse("--author names who wrote the code: give --code too")
            return None
        return read_code(request.code, author=_author(request.author or by), note=request.note)

    try:
        found, own = trunk(), written()
        state = found.cut.state
        _check_note(state, request.note)
        overrides = from_assignments(request.assignments) | request.flags
        assert state.started is not None
        settings = override(state.started.settings, state.overrides | overrides)
        root = _place(request, parent, state.started.idea)
        _check(settings, overrides, root)
        shoot = Shoot(settings, overrides, request.seed, request.note, own, by)
        with nothing_left_of_refusal(root.parent):
            _made(lambda: make(found, shoot, root), root)
    except CodeError as error:
        raise WrongUse(str(error)) from None
    say(f"branch of {parent.resolve().name} at {request.point}: {len(state.nodes)} nodes are taken over")

    def work(listener: Listener) -> int:
        from agent.run import resume

        return resume(root, {}, listener=listener)

    return watched(root, work)


def _made(make: Callable[[], None], root: Path) -> None:
    try:
        make()
    except FileExistsError:
        raise WrongUse(f"{root} exists already: choose another --name") from None
    except (RecordError, OSError) as error:
        raise WrongUse(f"no branch was made: {error}") from None


def _author(name: str) -> str:
    flat = " ".join(name.split())
    if not flat or len(flat) > AUTHOR or not flat.isprintable():
        raise WrongUse(f"--author {name[:AUTHOR]!r} is no name: say in {AUTHOR} printable characters at most who "
                       "wrote it")
    return flat


def _check_note(state: RunState, note: str) -> None:
    why = control.refused(state, Commanded(verb="note", text=note), working=False) if note else None
    if why is not None:
        raise WrongUse(f"--note: {why}")


def _place(request: Request, parent: Path, idea: Idea) -> Path:
    """The folder of the branch, which must not be there yet."""
    runs = request.runs if request.runs is not None else parent.resolve().parent
    name = named(request.name) if request.name is not None else (
        f"{default_name(idea)[:60]}_from-{re.sub('[^A-Za-z0-9]', '', request.point)[:12]}")
    if (runs / name).exists():
        raise WrongUse(f"{runs / name} exists already: choose another --name")
    return runs / name


def _check(settings: Settings, overrides: dict[str, Any], root: Path) -> None:
    """Refuse what cannot go on. Raises `WrongUse`, `ModelConfigError`, `IsolationError`, `GpuError`."""
    from agent.budget import check_priced
    from agent.data import check_unchanged
    from models.failover import open_backend

    for key in overrides:
        if (why := FIXED.get(key.split(".")[0])) is not None:
            raise WrongUse(f"--set {key}: {why}")
    check_writable(root.parent)
    check_space(settings, root)
    if "paper.template" in overrides:
        check_template(settings.paper.template)
    open_backend(settings.models)
    check_priced(settings)
    with data_refused():
        check_unchanged(settings)
    check_gpus(settings)
    isolation_told(settings.sandbox)
