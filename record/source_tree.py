"""The source of a node: a tree of small text files, relative path -> text.

This module checks which files are allowed, which are code, and which constants the code defines. `record.run_folder`
stores it, and `record.source_edits` derives one source from another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from pathlib import PurePosixPath

from labwright.record.python_syntax import collect_constants
from labwright.record.schema.frozen_model import Scalar, replace_unencodable

ENTRY_FILE, PLOTS_FILE = "experiment.py", "plots.py"
"""The script that runs the experiment, and the one that draws figures from its records."""
MAX_FILE_BYTES, MAX_TREE_BYTES, MAX_FILES = 1_000_000, 5_000_000, 200
"""Maximum bytes of one file and of all files, and maximum number of files."""
MAX_PATH_DEPTH, MAX_PATH_LENGTH = 6, 200
"""Maximum folder depth and path length in characters."""
PATH_PART_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
RESERVED_NAMES = frozenset(
    {
        "arrays",
        "artifacts",
        "checkpoints",
        "figures",
        "inputs",
        "lab",
        "lab.py",
        "measurements.jsonl",
        "node.ipynb",
        "probe.py",
        "scores.json",
        "sealed",
        "sitecustomize.py",
        "stdout.txt",
        "submissions",
        "submissions.jsonl",
    }
)
"""Top-level names reserved by the harness: the names of files that it writes, or of modules that can already be
imported.
"""


class SourceTreeError(ValueError):
    """Raised if files are not valid as a node's source. The message has one line for each error, with the fix."""


def check_source(files: Mapping[str, str]) -> None:
    """Check that files are valid as a node's source. Raises `SourceTreeError` with every error."""
    found = [
        f"{path[:MAX_PATH_LENGTH]!r} {why}"
        for path, text in files.items()
        if (why := _find_path_fault(path, text, files))
    ]
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


def format_diff(
    a: Mapping[str, str], b: Mapping[str, str], names: tuple[str, str] = ("", ""), *, around: int = 2
) -> str:
    """Return a unified diff of two trees, each file under its path, with `names` before the paths."""
    lines = [
        line
        for path in dict.fromkeys((*a, *b))
        for line in unified_diff(
            a.get(path, "").splitlines(),
            b.get(path, "").splitlines(),
            f"{names[0]} {path}".strip(),
            f"{names[1]} {path}".strip(),
            lineterm="",
            n=around,
        )
    ]
    return "\n".join(lines)


def read_constants(files: Mapping[str, str]) -> dict[str, Scalar]:
    """Return the upper-case constants of all code. Constants with several values are left out."""
    found: dict[str, Scalar] = {}
    unclear = set[str]()
    for path, text in select_code(files).items():
        own = collect_constants(text) if path.endswith(".py") else {}
        unclear |= {name for name, value in own.items() if name in found and found[name] != value}
        found = own | found
    return {name: value for name, value in found.items() if name not in unclear}


def _find_path_fault(path: str, text: str, files: Mapping[str, str]) -> str | None:
    """Return why a file cannot be part of a source, as a phrase to follow its name; None if it can."""
    parts = path.split("/")
    if path.startswith("/") or "\\" in path or ".." in parts or ":" in path:
        return "leads out of the tree: use paths relative to its root, with / as separator"
    if any(part.startswith(".") for part in parts):
        return "is hidden: no name may begin with a dot"
    if (
        len(path) > MAX_PATH_LENGTH
        or len(parts) > MAX_PATH_DEPTH
        or not all(PATH_PART_PATTERN.fullmatch(part) for part in parts)
    ):
        return (
            f"is not a valid file name: use letters, digits and _ . - in at most {MAX_PATH_DEPTH} parts, "
            f"{MAX_PATH_LENGTH} characters"
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
    """Return the possible paths of arm code: Python, or the changes of a repository (`record.repository_source`)."""
    return {format_arm_path(arm, ending) for arm in arms for ending in (".py", ".json", ".diff")}


def format_arm_path(arm: str, ending: str = ".py") -> str:
    """Return the path of an arm's own code."""
    return f"arms/{arm.replace('-', '_')}{ending}"
