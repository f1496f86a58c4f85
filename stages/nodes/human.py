"""A node whose code a person wrote: read from a folder, and decided on as the first choice of a branch.

The code is executed, scored, drawn, reviewed and checked for honesty like that of a model; what is refused here is only
what could not run at all. The person has seen every result so far, and the decision says so.
"""

from __future__ import annotations

import ast
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from record.errors import WrongUse
from record.events import Event
from record.events.searching import Decided, Proposed
from record.fold.state import RunState
from record.folder import RunFolder, write_source
from record.nouns.decisions import Expand
from record.nouns.nodes import STAGES, node_id
from record.syntax import constants_of, parse
from search.policy import GROWS
from search.scheduler import all_results
from search.tree import view_of
from stages.briefs import node_brief

LARGEST = 200_000
"""Bytes of one file."""
LONGEST = 4_000
"""Characters of the plan."""
TITLE = 80
CODE = ("experiment.py", "plots.py")
PLANS = ("README.md", "README.txt", "README", "plan.md", "plan.txt")
OURS = frozenset({"agent", "stages", "review", "search", "models", "sandbox", "literature", "record", "inspector"})
"""Packages that no kernel has."""


class CodeError(WrongUse):
    """A folder of code is not fit to be a node. The message says how to fix it."""


@dataclass(frozen=True)
class Written:
    """What a person handed in. `plots` is empty without a plots.py, `plan` where nothing says it."""

    author: str
    experiment: str
    plots: str = ""
    plan: str = ""

    @property
    def title(self) -> str:
        """The first line of the plan, cut at a word."""
        lines = [line.strip("# \t") for line in self.plan.splitlines()]
        first = " ".join(next((line for line in lines if line), f"written by {self.author}").split())
        return first if len(first) <= TITLE else first[:TITLE].rsplit(" ", 1)[0]


def read_code(folder: Path, *, author: str, note: str = "") -> Written:
    """The node that a folder holds: experiment.py, perhaps plots.py, perhaps a plan. Raises `CodeError`."""
    try:
        if not folder.is_dir():
            raise CodeError(f"--code {folder} is not a folder: give one with an experiment.py in it")
        names = [name for name in sorted(os.listdir(folder)) if not name.startswith(".") and name != "__pycache__"]
        if other := [name for name in names if name not in (*CODE, *PLANS)]:
            raise CodeError(f"--code {folder} holds {other[0][:60]!r}, which no node has: only {', '.join(CODE)} and a "
                            f"plan ({', '.join(PLANS)}) are read; put all code into experiment.py")
        texts = {name: _text(folder, name) for name in names}
    except OSError as error:
        raise CodeError(f"--code {folder} cannot be read: {error.strerror}") from None
    if "experiment.py" not in texts:
        raise CodeError(f"--code {folder} holds no experiment.py: a node's code is one file of that name")
    for name in CODE:
        if (fault := _fault(texts.get(name, ""))) is not None:
            raise CodeError(f"{folder / name} {fault}")
    plan = next((texts[name] for name in PLANS if texts.get(name, "").strip()), note).strip()
    if len(plan) > LONGEST:
        raise CodeError(f"the plan in {folder} has {len(plan)} characters: say it in {LONGEST} at most")
    return Written(author, texts["experiment.py"], texts.get("plots.py", ""), plan)


def first_choice(state: RunState, point: str, written: Written, folder: RunFolder) -> tuple[Event, ...]:
    """The events by which a person's node is the first choice at a point; its source is sealed in `folder`.

    Raises: `CodeError` where nothing can be built on the point.
    """
    assert state.started is not None and state.stage is not None
    k = state.last_decision + 1
    seen = all_results(state)
    view = view_of(state, state.stage, seen)
    parent = view.root if point in STAGES else state.nodes[point]
    if parent is not None and parent.kind in ("replicate", "aggregate"):
        raise CodeError(f"{parent.id} is a {parent.kind}, and nothing builds on it: branch from its parent, "
                        f"--from {parent.parent}")
    kind = GROWS[state.stage]
    if point not in STAGES and parent is not None and parent.status != "good":
        kind = "debug"
    elif point not in STAGES and state.stage == "preliminary":  # of a working prototype
        kind = "improve"
    plots = written.plots or (node_brief(folder, parent).plots if parent is not None else "")
    files = {"experiment.py": written.experiment, "plots.py": plots}
    sha256 = write_source(folder.source(node_id(k)), {name: text for name, text in files.items() if text})
    varies = parent.varies if kind == "debug" and parent is not None else written.title
    return (
        Decided(k=k, seen=seen, action=Expand(
            stage=state.stage, kind=kind, parent=parent.id if parent is not None else None,
            ordinal=len(view.kind(kind)), seed=view.seed)),
        Proposed(node=node_id(k), decision=k, title=written.title, plan=written.plan or written.title, varies=varies,
                 source_sha256=sha256, setups=constants_of(written.experiment), author=written.author))


def _text(folder: Path, name: str) -> str:
    """A plain UTF-8 file. No link is followed, and no pipe waited for. Raises `CodeError`, `OSError`."""
    path = folder / name
    if not stat.S_ISREG(path.lstat().st_mode):
        raise CodeError(f"{path} is not a plain file: put the file itself there")
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise CodeError(f"{path} has more than {LARGEST} bytes: keep data out of it (lab.data), and the code short")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CodeError(f"{path} is not UTF-8: save it as UTF-8") from None


def _fault(source: str) -> str | None:
    """Why code cannot run, or must not be run."""
    try:
        tree = parse(source)
    except SyntaxError as error:
        return f"is not valid Python, line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"is not valid Python: {error}"
    names = [one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level
              and node.module]
    foreign = next((name for name in names if name.split(".")[0] in OURS or name.startswith("lab.")), None)
    return None if foreign is None else (
        f"imports {foreign!r}, which is the program's own: an experiment has 'import lab', and the packages installed")
