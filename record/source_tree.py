"""The source of a node: a tree of small text files, relative path -> text.

This module checks which files are allowed, which are code, and which constants the code defines. `record.run_folder`
stores it, and `record.source_tree` derives one source from another.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import unified_diff
from pathlib import PurePosixPath
from typing import Any

from pydantic import Field

from labwright.record.python_syntax import collect_constants, collect_defaults
from labwright.record.schema import FrozenModel, Scalar, is_empty, replace_unencodable
from labwright.record.schema.data_plan import Arm
from labwright.record.schema.nodes import Cell
from labwright.record.schema.repository import RepositoryCommand

ENTRY_FILE, PLOTS_FILE = "experiment.py", "plots.py"
"""The script that runs the experiment, and the one that draws figures from its records."""
MAX_FILE_BYTES, MAX_TREE_BYTES, MAX_FILES = 1_000_000, 5_000_000, 200
"""Maximum bytes of one file and of all files, and maximum number of files."""
MAX_PATH_DEPTH, MAX_PATH_LENGTH = 6, 200
"""Maximum folder depth and path length in characters."""
PATH_PART_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
RESERVED_NAMES = frozenset(
    "arrays artifacts checkpoints figures inputs lab lab.py measurements.jsonl node.ipynb probe.py scores.json sealed "
    "sitecustomize.py stdout.txt submissions submissions.jsonl".split()
)
"""Top-level names reserved by the harness: the names of files that it writes, or of modules that can already be
imported."""


class SourceTreeError(ValueError):
    """Raised if files are not valid as a node's source. The message has one line for each error, with the fix."""


def check_source(files: Mapping[str, str]) -> None:
    """Check that files are valid as a node's source. Raises `SourceTreeError` with every error."""
    faults = ((path, _find_path_fault(path, text, files)) for path, text in files.items())
    found = [f"{path[:MAX_PATH_LENGTH]!r} {why}" for path, why in faults if why]
    if len(files) > MAX_FILES:
        found.append(f"there are {len(files)} files, more than {MAX_FILES}")
    if (size := sum(len(text) for text in files.values())) > MAX_TREE_BYTES:
        found.append(f"the files have {size} characters together, more than {MAX_TREE_BYTES}: keep data out of them")
    if found:
        raise SourceTreeError("\n".join(found[:20]))


def check_program(files: Mapping[str, str]) -> None:
    """Check that files can be run as an experiment. Raises `SourceTreeError`."""
    check_source(files)
    if not files.get(ENTRY_FILE, "").strip():
        present = ", ".join(sorted(files)[:10]) or "none"
        raise SourceTreeError(f"there is no {ENTRY_FILE}, the file that is run (files: {present})")


def select_code(files: Mapping[str, str]) -> dict[str, str]:
    """Return the Python files of the experiment, entry file first; for a repository also the diffs."""
    names = sorted(
        (path for path in files if path.endswith((".py", ".diff")) and path != PLOTS_FILE),
        key=lambda one: one != ENTRY_FILE,
    )
    return {path: files[path] for path in names}


def format_diff(a: Mapping[str, str], b: Mapping[str, str], names: tuple[str, str]) -> str:
    """Return a unified diff of two trees, each file under its path, with `names` before the paths."""
    lines: list[str] = []
    for path in dict.fromkeys((*a, *b)):
        before, after = (tree.get(path, "").splitlines() for tree in (a, b))
        shown = (f"{name} {path}".strip() for name in names)
        lines += unified_diff(before, after, *shown, lineterm="", n=2)
    return "\n".join(lines)


def read_constants(files: Mapping[str, str], *, defaults: bool = False) -> dict[str, Scalar]:
    """Return the upper-case constants of all code, with `defaults` also the default numbers of parameters of functions.
    Names with several values are left out."""
    found: dict[str, Scalar] = {}
    unclear = set[str]()
    for path, text in select_code(files).items():
        own = collect_constants(text) if path.endswith(".py") else {}
        own |= collect_defaults(text) if defaults and path.endswith(".py") else {}
        unclear |= {name for name, value in own.items() if name in found and found[name] != value}
        found = own | found
    return {name: value for name, value in found.items() if name not in unclear}


def _find_path_fault(path: str, text: str, files: Mapping[str, str]) -> str | None:
    """Return why a file cannot be part of a source, as a phrase to follow its name; None if it can."""
    parts = path.split("/")
    is_name = all(PATH_PART_PATTERN.fullmatch(part) for part in parts)
    if len(path) > MAX_PATH_LENGTH or len(parts) > MAX_PATH_DEPTH or not is_name:
        return (
            "is not a valid path below the root: use names of letters, digits and _ . - that begin with none of the "
            f"last two, joined by /, at most {MAX_PATH_DEPTH} names and {MAX_PATH_LENGTH} characters"
        )
    if parts[0] in RESERVED_NAMES or "__pycache__" in parts:
        return "is reserved for the harness: choose another name"
    if any(str(one) in files for one in PurePosixPath(path).parents):
        return "is below a path that is a file itself"
    if replace_unencodable(text) != text or "\0" in text:
        return "is not valid UTF-8 text"
    if (size := len(text.encode())) > MAX_FILE_BYTES:
        return f"has {size} bytes, more than {MAX_FILE_BYTES}: keep data out of it (lab.data)"
    return None


# --- files visible to a cell ------------------------------------------------------------------------------------------


def select_visible_files(
    source: Mapping[str, str], arm: str, *, arms: Iterable[str], reads: Mapping[str, str]
) -> dict[str, str]:
    """Return the files that a cell of an arm sees; for `reads` see `record.python_syntax.collect_reads`.

    These are all files except the plots and the files of other arms in `arms/`, unless the arm reads these. Files that
    a cell does not see cannot change its measurements.
    """
    seen = {arm, reads.get(arm, arm)}
    hidden = _list_arm_files(arms) - _list_arm_files(seen) | {PLOTS_FILE}
    return {name: text for name, text in source.items() if name not in hidden}


def _list_arm_files(arms: Iterable[str]) -> set[str]:
    """Return the possible paths of arm code: Python, or the changes of a repository (`record.source_tree`)."""
    return {format_arm_path(arm, ending) for arm in arms for ending in (".py", ".json", ".diff")}


def format_arm_path(arm: str, ending: str = ".py") -> str:
    """Return the path of an arm's own code."""
    return f"arms/{arm.replace('-', '_')}{ending}"


# Derive a node's source from its parent's: whole files, edits that must match exactly once, deletions.

MAX_LINES_SHOWN = 12
MAX_LINES_COMPARED, MAX_LINES_SEARCHED = 400, 2000
"""Characters of a searched string that are compared, and lines of a file searched for the nearest match."""
RETRY_INSTRUCTION = "nothing was changed: give the whole answer again with these errors fixed"


class WholeFile(FrozenModel):
    """A whole file."""

    path: str = Field(description="relative to the root, with / as separator: experiment.py, arms/method.py")
    text: str


class TextReplacement(FrozenModel):
    """Text in a file and its replacement."""

    find: str = Field(
        description="whole lines exactly as in the file, including trailing blanks; they must occur in it "
        "exactly once, so quote as many as needed"
    )
    replace: str = Field(description="replacement text; empty: delete")


class SourceEdit(TextReplacement):
    """A change of an existing file. Several changes of a file are applied in order."""

    path: str = Field(description="an existing file")


def apply_edits(
    before: Mapping[str, str],
    *,
    files: Sequence[WholeFile] = (),
    edits: Sequence[SourceEdit] = (),
    removed: Iterable[str] = (),
) -> dict[str, str]:
    """Apply an answer to the previous files. Raises `SourceTreeError` that lists every error."""
    made = {path: text for path, text in before.items() if path not in set(removed)}
    there = f"there are {_list_names(before)}"
    misses = [f"removed: there is no file {path!r}; {there}" for path in removed if path not in before]
    whole = [one.path for one in files]
    misses += [f"{path!r} is given twice in files" for path in sorted(set(whole)) if whole.count(path) > 1]
    made |= {one.path: one.text for one in files}
    for path in dict.fromkeys(one.path for one in edits):
        own = [one for one in edits if one.path == path]
        if path in whole:
            misses.append(f"{path!r} is given both as a whole file and as an edit: use only one")
        elif path not in made:
            misses.append(f"edits: there is no file {path!r}; there are {_list_names(made)}; put a new file into files")
        else:
            made[path], missed = _replace_matches(made[path], own, path)
            misses += missed
    if misses:
        raise SourceTreeError("\n".join((*misses, RETRY_INSTRUCTION)))
    check_source(made)
    return made


def replace_text(text: str, changes: Sequence[TextReplacement], path: str) -> str:
    """Apply changes to the content of a file. Raises `SourceTreeError` that lists every error."""
    made, misses = _replace_matches(text, changes, path)
    if misses:
        raise SourceTreeError("\n".join((*misses, RETRY_INSTRUCTION)))
    return made


def _replace_matches(text: str, changes: Sequence[TextReplacement], path: str) -> tuple[str, list[str]]:
    """Apply the matching changes to a string; also return an error message for each other one."""
    misses: list[str] = []
    for number, one in enumerate(changes, 1):
        places = find_occurrences(text, one.find)
        if len(places) == 1:
            text = text[: places[0]] + one.replace + text[places[0] + len(one.find) :]
        else:
            misses.append(f"edit {number} of {path}: {_explain_mismatch(text, one.find, places)}")
    return text, misses


def find_occurrences(text: str, find: str) -> list[int]:
    """Return the positions of all occurrences of a string, overlaps included; none if it is empty."""
    found: list[int] = []
    at = text.find(find) if find else -1
    while at >= 0:
        found.append(at)
        at = text.find(find, at + 1)
    return found


def _explain_mismatch(text: str, find: str, places: Sequence[int]) -> str:
    if not find.strip():
        return "find is empty: quote the lines to replace, or give the whole file in files"
    if places:
        lines = [text.count("\n", 0, at) + 1 for at in places]
        shown = ", ".join(map(str, lines[:MAX_LINES_SHOWN])) + ", ..." * (len(lines) > MAX_LINES_SHOWN)
        fix = f"quote more lines around the intended one ({find.strip().splitlines()[0][:80]!r})"
        return f"find occurs {len(places)} times, at lines {shown}: {fix}"
    return (
        f"find does not occur ({find.strip().splitlines()[0][:80]!r}); the nearest lines are\n"
        f"{_find_nearest_lines(text, find)}"
    )


def _find_nearest_lines(text: str, find: str) -> str:
    """Return the lines of a document most similar to the searched string, with line numbers."""
    lines, wanted = text.splitlines(), find.strip("\n")
    size = min(max(1, wanted.count("\n") + 1), len(lines))
    if not size:
        return "nothing: the file is empty"
    match = difflib.SequenceMatcher(b=wanted[:MAX_LINES_COMPARED], autojunk=False)

    def likeness(at: int, quick: bool) -> float:
        match.set_seq1("\n".join(lines[at : at + size])[:MAX_LINES_COMPARED])
        return match.quick_ratio() if quick else match.ratio()

    starts = sorted(range(min(len(lines) - size + 1, MAX_LINES_SEARCHED)), key=lambda at: -likeness(at, quick=True))[:5]
    best = max(starts, key=lambda at: likeness(at, quick=False))
    shown = lines[best : best + min(size, MAX_LINES_SHOWN)]
    return "\n".join(f"{number:5d}| {line[:200]}" for number, line in enumerate(shown, best + 1))


def _list_names(files: Iterable[str]) -> str:
    return ", ".join(sorted(files)[:20]) or "none"


# Source files of a node whose cells run a command of the user's repository: the command, and the changes of each arm.
# `code.json` specifies the command, `arms/<arm>.json` the additional words, and `arms/<arm>.diff` the changed files
# as git's unified diff from the tree in `code.json`. A cell sees only the files of its own arm
# (`record.source_tree.select_visible_files`), so changing another arm does not change its key.

CODE_FILE = "code.json"
ENTRY_TEXT = '''"""Each cell is one run of the command in code.json, in the repository as arms/<arm>.json changes it.

No kernel runs this file: the program checks the tree out, runs the command and reads the metric that it left.
"""
'''


class ArmCode(FrozenModel):
    """The changes that define an arm of the repository."""

    words: tuple[str, ...] = ()
    """Words added to the command: options, or overrides key=value."""
    patch: str = Field(default="", exclude=True)
    """Diff from the common base tree; stored in a separate file."""


class ScriptResults(FrozenModel):
    """The results of a script that measures several arms by itself: JSON {metric: {arm: [value of a seed, ...]}}."""

    file: str
    metrics: tuple[str, ...]
    arms: tuple[str, ...]
    seeds: int = Field(description="values that each arm needs on each metric")
    first_seed: int = Field(default=0, description="seed of the first value")


class RepositoryProgram(FrozenModel):
    """The common part of all cells of a program."""

    commit: str
    tree: str = Field(description="git id of the base tree")
    command: RepositoryCommand
    name: str = Field(description="name of its metric in the plan")
    test_metric: str = Field(default="", description="read by the host, sealed with the cell until the search ends")
    environment: str = Field(default="", description="sha256 of interpreter, packages and mounted data")
    results: ScriptResults | None = Field(default=None, exclude_if=is_empty)
    """What the command measures, instead of metrics."""
    traced: bool = Field(default=False, exclude_if=is_empty)
    levels: dict[str, tuple[str, ...]] = Field(default_factory=dict, description="level -> words")
    dimensions: dict[str, str] = Field(default_factory=dict)
    """Hyperparameter -> the word that sets it, containing {value}."""

    def build_words(self, arm: ArmCode, cell: Cell, setting: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Return the words of a cell's arm, level and setting, in that order."""
        forms = {name: self.dimensions.get(name, f"{name}={{value}}") for name in setting}
        own = (forms[name].replace("{value}", str(value)).split() for name, value in setting.items())
        return (*arm.words, *self.levels.get(cell.level, ()), *(word for words in own for word in words))


def build_program(
    planned: Sequence[Arm], code: RepositoryProgram, arms: Mapping[str, ArmCode] | None = None
) -> dict[str, str]:
    """Return the files of a program that measures every arm of a plan; by default each arm only has the plan's
    words."""
    files = {ENTRY_FILE: ENTRY_TEXT, CODE_FILE: code.model_dump_json(indent=1) + "\n"}
    made = {arm.name: ArmCode(words=arm.words) for arm in planned} if arms is None else arms
    for name, one in made.items():
        files[format_arm_path(name, ".json")] = one.model_dump_json(indent=1) + "\n"
        if one.patch:
            files[format_arm_path(name, ".diff")] = one.patch
    return files


def parse_program(source: Mapping[str, str]) -> RepositoryProgram | None:
    """Parse the program of a source; None if it is not a repository program. Fields that only earlier versions had are
    dropped."""
    if CODE_FILE not in source:
        return None
    stored: Any = json.loads(source[CODE_FILE])
    if scored := stored.get("predictions"):  # earlier versions had no metric then
        stored["command"]["metric"] = f"predictions:{scored}@"
    return RepositoryProgram.model_validate(stored, extra="ignore")


def parse_arm_code(source: Mapping[str, str], arm: str) -> ArmCode:
    """Parse the changes of an arm; without its file, the unmodified repository."""
    words = source.get(format_arm_path(arm, ".json"))
    made = ArmCode() if words is None else ArmCode.model_validate_json(words)
    return made.model_copy(update={"patch": source.get(format_arm_path(arm, ".diff"), "")})


OUTPUT_FOLDER = "out"
"""The folder in the checkout that `{out}` stands for; it is emptied before each run."""
OVERRIDES_PLACEHOLDER = "{overrides}"
"""Placeholder in a command for the words of arms, levels and trials."""


def build_command_line(
    command: RepositoryCommand, seed: int, words: Sequence[str] = (), *, device: str = "cpu"
) -> list[str]:
    """Return the command with additional words.

    They replace `{overrides}`; otherwise overrides (`key=value`) follow the existing ones, and options come last.
    """
    argv = list(command.argv)
    if OVERRIDES_PLACEHOLDER in argv:
        at = argv.index(OVERRIDES_PLACEHOLDER)
        argv[at : at + 1] = words
    else:
        overrides = [word for word in words if word.startswith("~") or (not word.startswith("-") and "=" in word)]
        given = [at + 1 for at, word in enumerate(argv) if "=" in word and not word.startswith("-")]
        at = max(given, default=len(argv))
        argv[at:at] = overrides
        argv += [word for word in words if word not in overrides]
    return command.model_copy(update={"argv": tuple(argv)}).build_argv(seed, out=OUTPUT_FOLDER, device=device)
