"""A node whose code a person wrote: read from a folder, and decided on as the first choice of a branch.

The code is executed, scored, drawn, reviewed and checked for honesty like that of a model; what is refused here is only
what could not run at all. The person has seen every result so far, and the decision says so.
"""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labwright.record.errors import WrongUse
from labwright.record.events import Event
from labwright.record.events.searching import Decided, Proposed
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder, open_regular, write_source
from labwright.record.nouns.decisions import Expand
from labwright.record.nouns.nodes import STAGES, node_id
from labwright.record.source import ENTRY, FILE_BYTES, MOST, PLOTS, SourceError, check_source, setups_of
from labwright.record.syntax import parse
from labwright.search.policy import GROWS
from labwright.search.scheduler import all_results
from labwright.search.tree import view_of
from labwright.stages.briefs import node_brief

LONGEST = 4_000
"""Characters of the plan."""
TITLE = 80
PLANS = ("README.md", "README.txt", "README", "plan.md", "plan.txt")
"""Packages that no kernel has."""


class CodeError(WrongUse):
    """A folder of code is not fit to be a node. The message says how to fix it."""


@dataclass(frozen=True)
class Written:
    """What a person handed in: the tree of the source, and the plan, empty where nothing says it."""

    author: str
    files: Mapping[str, str]
    plan: str = ""

    @property
    def title(self) -> str:
        """The first line of the plan, cut at a word."""
        lines = [line.strip("# \t") for line in self.plan.splitlines()]
        first = " ".join(next((line for line in lines if line), f"written by {self.author}").split())
        return first if len(first) <= TITLE else first[:TITLE].rsplit(" ", 1)[0]


def read_code(folder: Path, *, author: str, note: str = "") -> Written:
    """The node that a folder holds: a tree with an experiment.py, perhaps a plan. Raises `CodeError`."""
    try:
        if not folder.is_dir():
            raise CodeError(f"--code {folder} is not a folder: give one with an experiment.py in it")
        files = {path: _text(folder, path) for path in _paths(folder)}
    except OSError as error:
        raise CodeError(f"--code {folder} cannot be read: {error.strerror}") from None
    plans = [files.pop(name, "") for name in PLANS]
    plan = next((text for text in plans if text.strip()), note).strip()
    if ENTRY not in files:
        raise CodeError(f"--code {folder} holds no {ENTRY}: that is what runs, with the files beside it")
    for name, text in files.items():
        if name.endswith(".py") and (fault := _fault(text, files)) is not None:
            raise CodeError(f"{folder / name} {fault}")
    try:
        check_source(files)
    except SourceError as error:
        raise CodeError(f"--code {folder}: {str(error).splitlines()[0]}") from None
    if len(plan) > LONGEST:
        raise CodeError(f"the plan in {folder} has {len(plan)} characters: say it in {LONGEST} at most")
    return Written(author, files, plan)


def _paths(folder: Path) -> list[str]:
    """Every file below a folder but hidden and compiled ones. Raises `CodeError`: there are too many."""
    found: list[str] = []
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if Path(place, name).is_symlink()]  # refused with the files
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        found += [
            Path(place, name).relative_to(folder).as_posix()
            for name in sorted((*names, *links))
            if not name.startswith(".")
        ]
        if len(found) > MOST + len(PLANS):
            raise CodeError(f"--code {folder} holds more than {MOST} files: give the folder of the experiment alone")
    return found


def first_choice(state: RunState, point: str, written: Written, folder: RunFolder) -> tuple[Event, ...]:
    """The events by which a person's node is the first choice at a point; its source is sealed in `folder`.

    Raises: `CodeError` where nothing can be built on the point.
    """
    assert state.started is not None and state.stage is not None
    k = state.last_decision + 1
    seen = all_results(state)
    view = view_of(state, state.stage, seen)
    parent = view.root if point in STAGES else state.nodes[point]
    if parent is not None and parent.kind in ("replicate", "aggregate", "rung"):
        raise CodeError(
            f"{parent.id} is a {parent.kind}, and nothing builds on it: branch from its parent, --from {parent.parent}"
        )
    kind = GROWS[state.stage]
    if point not in STAGES and parent is not None and parent.status != "good":
        kind = "debug"
    elif point not in STAGES and state.stage == "preliminary":  # of a working prototype
        kind = "improve"
    files = dict(written.files)
    if not files.get(PLOTS) and parent is not None and (drawn := node_brief(folder, parent).plots):
        files[PLOTS] = drawn
    sha256 = write_source(folder.source(node_id(k)), files)
    varies = parent.varies if kind == "debug" and parent is not None else written.title
    return (
        Decided(
            k=k,
            seen=seen,
            action=Expand(
                stage=state.stage,
                kind=kind,
                parent=parent.id if parent is not None else None,
                ordinal=len(view.kind(kind)),
                seed=view.seed,
            ),
        ),
        Proposed(
            node=node_id(k),
            decision=k,
            title=written.title,
            plan=written.plan or written.title,
            varies=varies,
            source_sha256=sha256,
            setups=setups_of(files),
            author=written.author,
        ),
    )


def _text(folder: Path, name: str) -> str:
    """A plain UTF-8 file. No link is followed, and no pipe waited for. Raises `CodeError`, `OSError`."""
    path = folder / name
    if not stat.S_ISREG(path.lstat().st_mode):
        raise CodeError(f"{path} is not a plain file: put the file itself there")
    with open(open_regular(path), "rb") as file:
        data = file.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise CodeError(f"{path} has more than {FILE_BYTES} bytes: keep data out of it (lab.data), and the code short")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CodeError(f"{path} is not UTF-8: save it as UTF-8") from None


def _fault(source: str, files: Mapping[str, str]) -> str | None:
    """Why code cannot run, or must not be run, among the files of its tree."""
    try:
        tree = parse(source)
    except SyntaxError as error:
        return f"is not valid Python{f', line {error.lineno}' if error.lineno else ''}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"is not valid Python: {error}"
    names = [one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names]
    names += [
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level and node.module
    ]
    foreign = next((name for name in names if name.startswith("lab.") or name.split(".")[0] == "labwright"), None)
    return (
        None
        if foreign is None
        else (
            f"imports {foreign!r}, which is the program's own: an experiment has 'import lab', and the packages "
            f"installed"
        )
    )
