"""A node whose code the user wrote: read from a folder and recorded as the first choice of a branch.

The code is executed, scored, plotted, reviewed and checked for honesty like that of a model; only code that could not
run at all is rejected here. The decision records that the user has seen every result so far.
"""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labwright.record.errors import UsageError
from labwright.record.events import Event
from labwright.record.events.search_events import DecisionMade, NodeProposed
from labwright.record.python_syntax import parse_python
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, seal_source
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import STAGES, format_node_id
from labwright.record.source_tree import (
    ENTRY_FILE,
    MAX_FILE_BYTES,
    MAX_FILES,
    PLOTS_FILE,
    SourceTreeError,
    check_source,
    read_constants,
)
from labwright.record.untrusted_files import open_plain_file
from labwright.search.policy import NODE_KIND_BY_STAGE
from labwright.search.scheduler import list_all_results
from labwright.search.stage_snapshot import build_snapshot
from labwright.stages.prompt_inputs import build_node_brief

MAX_PLAN_CHARS = 4_000
"""Maximum number of characters of the plan."""
MAX_TITLE_CHARS = 80
PLAN_FILES = ("README.md", "README.txt", "README", "plan.md", "plan.txt")
"""Files that may contain the plan, in order of precedence."""


class UserCodeError(UsageError):
    """Raised when a folder of code cannot become a node. The message says how to fix it."""


@dataclass(frozen=True)
class UserProgram:
    """A program submitted by the user: its source tree and its plan, empty if no file contains one."""

    author: str
    files: Mapping[str, str]
    plan: str = ""

    @property
    def title(self) -> str:
        """The first line of the plan, cut at a word boundary."""
        lines = [line.strip("# \t") for line in self.plan.splitlines()]
        first = " ".join(next((line for line in lines if line), f"written by {self.author}").split())
        return first if len(first) <= MAX_TITLE_CHARS else first[:MAX_TITLE_CHARS].rsplit(" ", 1)[0]


def read_user_program(folder: Path, *, author: str, note: str = "") -> UserProgram:
    """Read the program in a folder: a source tree with an experiment.py, optionally a plan. Raises `UserCodeError`."""
    try:
        if not folder.is_dir():
            raise UserCodeError(f"--code {folder} is not a folder: give one that contains experiment.py")
        files = {path: _read_text_file(folder, path) for path in _list_files(folder)}
    except OSError as error:
        raise UserCodeError(f"--code {folder} cannot be read: {error.strerror}") from None
    plans = [files.pop(name, "") for name in PLAN_FILES]
    plan = next((text for text in plans if text.strip()), note).strip()
    if ENTRY_FILE not in files:
        raise UserCodeError(f"--code {folder} contains no {ENTRY_FILE}, which is the program that runs: add it")
    for name, text in files.items():
        if name.endswith(".py") and (fault := _find_fault(text, files)) is not None:
            raise UserCodeError(f"{folder / name} {fault}")
    try:
        check_source(files)
    except SourceTreeError as error:
        raise UserCodeError(f"--code {folder}: {str(error).splitlines()[0]}") from None
    if len(plan) > MAX_PLAN_CHARS:
        raise UserCodeError(f"the plan in {folder} has {len(plan)} characters: shorten it to at most {MAX_PLAN_CHARS}")
    return UserProgram(author, files, plan)


def _list_files(folder: Path) -> list[str]:
    """List every file below a folder except hidden and compiled ones. Raises `UserCodeError` if there are too many."""
    files: list[str] = []
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if Path(place, name).is_symlink()]  # rejected together with the files
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        files += [
            Path(place, name).relative_to(folder).as_posix()
            for name in sorted((*names, *links))
            if not name.startswith(".")
        ]
        if len(files) > MAX_FILES + len(PLAN_FILES):
            raise UserCodeError(
                f"--code {folder} contains more than {MAX_FILES} files: give a folder with only the experiment"
            )
    return files


def build_first_choice(state: RunState, point: str, program: UserProgram, folder: RunFolder) -> tuple[Event, ...]:
    """Return the events that make the user's node the first choice at a point; its source is sealed in `folder`.

    Raises: `UserCodeError` if nothing can be built on the point.
    """
    assert state.started is not None and state.search.stage is not None
    decision_id = state.last_decision + 1
    seen = list_all_results(state)
    view = build_snapshot(state, state.search.stage, seen)
    parent = view.root if point in STAGES else state.nodes[point]
    if parent is not None and parent.kind in ("replicate", "aggregate", "rung"):
        raise UserCodeError(
            f"{parent.id} is a {parent.kind}, and nothing builds on it: branch from its parent, --from {parent.parent}"
        )
    kind = NODE_KIND_BY_STAGE[state.search.stage]
    if point not in STAGES and parent is not None and parent.status != "good":
        kind = "debug"
    elif point not in STAGES and state.search.stage == "preliminary":  # the prototype already works
        kind = "improve"
    files = dict(program.files)
    if not files.get(PLOTS_FILE) and parent is not None and (plots := build_node_brief(folder, parent).plots):
        files[PLOTS_FILE] = plots
    sha256 = seal_source(folder.get_source_path(format_node_id(decision_id)), files)
    varies = parent.varies if kind == "debug" and parent is not None else program.title
    return (
        DecisionMade(
            k=decision_id,
            seen=seen,
            action=ExpandTree(
                stage=state.search.stage,
                kind=kind,
                parent=parent.id if parent is not None else None,
                ordinal=len(view.list_nodes_of_kind(kind)),
                seed=view.seed,
            ),
        ),
        NodeProposed(
            node=format_node_id(decision_id),
            decision=decision_id,
            title=program.title,
            plan=program.plan or program.title,
            varies=varies,
            source_sha256=sha256,
            setups=read_constants(files),
            author=program.author,
        ),
    )


def _read_text_file(folder: Path, name: str) -> str:
    """Read a regular UTF-8 file without following links or waiting for pipes. Raises `UserCodeError`, `OSError`."""
    path = folder / name
    if not stat.S_ISREG(path.lstat().st_mode):
        raise UserCodeError(f"{path} is not a regular file: replace it with the file itself")
    with open(open_plain_file(path), "rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise UserCodeError(
            f"{path} has more than {MAX_FILE_BYTES} bytes: load data with lab.data, and shorten the code"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserCodeError(f"{path} is not UTF-8: save it as UTF-8") from None


def _find_fault(source: str, files: Mapping[str, str]) -> str | None:
    """Return why code cannot or must not run in its source tree; None if it can."""
    try:
        tree = parse_python(source)
    except SyntaxError as error:
        return f"is not valid Python{f', line {error.lineno}' if error.lineno else ''}: {error.msg}"
    names = [one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names]
    names += [
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level and node.module
    ]
    foreign = next((name for name in names if name.startswith("lab.") or name.split(".")[0] == "labwright"), None)
    return (
        None
        if foreign is None
        else (f"imports {foreign!r}, which is internal: use 'import lab' and the installed packages")
    )
