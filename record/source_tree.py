"""A node's source: a tree of small text files, relative path -> text.

What may be one, which of it is code, and the settings that its code spells out. Where it lies: `record.run_folder`;
how one follows from another: `record.source_edits`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from pathlib import PurePosixPath

from labwright.record.python_syntax import collect_constants
from labwright.record.schema.frozen_model import Scalar, replace_unencodable

ENTRY_FILE, PLOTS_FILE = "experiment.py", "plots.py"
"""What is run, and what draws figures of what was recorded."""
MAX_FILE_BYTES, MAX_TREE_BYTES, MAX_FILES = 1_000_000, 5_000_000, 200
"""Bytes of one file and of all of them, and how many files there may be."""
MAX_PATH_DEPTH, MAX_PATH_LENGTH = 6, 200
"""Folders within folders, and characters of a path."""
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
"""Names at the top that are the harness's: what lies there was recorded, or is importable already."""


class SourceTreeError(ValueError):
    """Files are not fit to be a node's source. The message has a line for each reason, and says how to fix it."""


def check_source(files: Mapping[str, str]) -> None:
    """Refuse what cannot be a node's source. Raises `SourceError` with every reason."""
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
    """Refuse what cannot be run as an experiment. Raises `SourceError`."""
    check_source(files)
    if not files.get(ENTRY_FILE, "").strip():
        held = ", ".join(sorted(files)[:10]) or "no file at all"
        raise SourceTreeError(f"there is no {ENTRY_FILE}, which is what runs (there is {held})")


def select_code(files: Mapping[str, str]) -> dict[str, str]:
    """The Python files that run as the experiment, its entry first; of a repository's study what changes its files."""
    names = sorted(
        (path for path in files if path.endswith((".py", ".diff")) and path != PLOTS_FILE),
        key=lambda one: one != ENTRY_FILE,
    )
    return {path: files[path] for path in names}


def format_diff(
    a: Mapping[str, str], b: Mapping[str, str], names: tuple[str, str] = ("", ""), *, around: int = 2
) -> str:
    """A unified diff of two trees, each file under its path; `names` stand before the paths."""
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
    """The upper-case constants of all code. One that two files set to different values is left out, as one is that a
    file assigns twice."""
    found: dict[str, Scalar] = {}
    unclear = set[str]()
    for path, text in select_code(files).items():
        own = collect_constants(text) if path.endswith(".py") else {}
        unclear |= {name for name, value in own.items() if name in found and found[name] != value}
        found = own | found
    return {name: value for name, value in found.items() if name not in unclear}


def _find_path_fault(path: str, text: str, files: Mapping[str, str]) -> str | None:
    """Why a file cannot be part of a source, in the words that follow its name."""
    parts = path.split("/")
    if path.startswith("/") or "\\" in path or ".." in parts or ":" in path:
        return "leads out of the tree: name files by paths relative to its root, with / between"
    if any(part.startswith(".") for part in parts):
        return "is hidden: no name may begin with a dot"
    if (
        len(path) > MAX_PATH_LENGTH
        or len(parts) > MAX_PATH_DEPTH
        or not all(PATH_PART_PATTERN.fullmatch(part) for part in parts)
    ):
        return (
            f"is no name for a file: use letters, digits and _ . - in at most {MAX_PATH_DEPTH} parts, "
            f"{MAX_PATH_LENGTH} characters"
        )
    if parts[0] in RESERVED_NAMES or "__pycache__" in parts:
        return "is a name of the harness: choose another"
    if any(str(one) in files for one in PurePosixPath(path).parents):
        return "lies in what is a file itself"
    if replace_unencodable(text) != text or "\0" in text:
        return "is no text that UTF-8 can hold"
    if (size := len(text.encode())) > MAX_FILE_BYTES:
        return f"has {size} bytes, more than {MAX_FILE_BYTES}: keep data out of it (lab.data)"
    return None


# --- what a cell of it sees -------------------------------------------------------------------------------------------


def select_visible_files(
    source: Mapping[str, str], arm: str, *, arms: Iterable[str], reads: Mapping[str, str]
) -> dict[str, str]:
    """The files that a cell of an arm sees, of a program for these `arms`; `reads` as `record.python_syntax.reads_of`
    has it.

    All but the plots, and of `arms/` not those of other arms, where the program is split so; what an arm reads shows
    its file too. What a cell does not see cannot change what it measures.
    """
    seen = {arm, reads.get(arm, arm)}
    hidden = _list_arm_files(arms) - _list_arm_files(seen) | {PLOTS_FILE}
    return {name: text for name, text in source.items() if name not in hidden}


def _list_arm_files(arms: Iterable[str]) -> set[str]:
    """Where the code of arms may lie: Python, or what makes an arm of a repository (`record.repository_source`)."""
    return {format_arm_path(arm, ending) for arm in arms for ending in (".py", ".json", ".diff")}


def format_arm_path(arm: str, ending: str = ".py") -> str:
    """Where an arm's own code lies."""
    return f"arms/{arm.replace('-', '_')}{ending}"
