"""Files beside the paper for its judge: a task description, code, a log. Bounded, and every cut is told.

Nothing is executed, links are not followed, and orders to reviewers are taken out as they are of the paper. Of a folder
of code the judge sees which files there are and the text of those that matter most by name, size and mention in the
paper; that is a guess at relevance, not a reading.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from models.cutting import middle
from models.exhibits import Exhibit, ExhibitKind
from record.nouns.papers import Removed
from review.judge.errors import PaperError
from review.judge.guards import neutral

MOST_BYTES = 50_000_000
SHOWN = {"task": 9_000, "log": 9_000}
CODE_CHARACTERS, FILE_CHARACTERS, MOST_NAMES, MOST_ENTRIES = 19_000, 6_000, 60, 5_000
CODE = {".py": 3, ".ipynb": 1, ".sh": 1, ".yaml": 1, ".yml": 1, ".toml": 1, ".json": 0, ".md": 0, ".r": 2, ".jl": 2,
        ".cpp": 1, ".c": 1, ".cu": 2, ".java": 1, ".rs": 1}
"""Endings that may be shown, with their weight."""

_TELLING = re.compile(r"train|experiment|main|run|model|eval|method|algorithm|loss|data|baseline|ablat", re.IGNORECASE)
_ASIDE = re.compile(
    r"(?:^|/)(?:\.|tests?/|docs?/|node_modules/|venv/|build/|third_party/|__pycache__/)|setup\.py$|__init__\.py$")


@dataclass(frozen=True)
class Shown:
    """An exhibit, and what the guards took out of it."""

    exhibit: Exhibit
    removed: tuple[Removed, ...] = ()


def file_exhibit(kind: ExhibitKind, path: Path) -> Shown:
    """A task description or a log; of a long one head and tail. Raises `PaperError`."""
    if not path.exists():
        raise PaperError(f"there is no {path} for --{kind}{_beside(path, kind)}")
    text = _text(path, kind)
    if not text.strip():
        raise PaperError(f"{path} is empty: give --{kind} a file with text, or leave it out")
    limit = SHOWN[kind]
    cut = (f"{len(text) - limit} of {len(text)} characters in the middle of {path.name}",) if len(text) > limit else ()
    shown, removed = neutral(middle(text, limit, worth=0), f"--{kind} {path.name}")
    return Shown(Exhibit(kind=kind, name=path.name, text=shown, left_out=cut), removed)


def _beside(path: Path, kind: ExhibitKind) -> str:
    """The files in its place that may be meant."""
    endings = (".log", ".txt", ".out") if kind == "log" else (".md", ".txt")
    there = sorted(one.name for one in path.parent.iterdir() if one.suffix in endings) if path.parent.is_dir() else []
    if not there:
        return f": there is no {' or '.join(endings)} in {path.parent} either; give the path of a text file"
    return f": in {path.parent} there is {', '.join(there[:8])}" + (f" and {len(there) - 8} more" * (len(there) > 8))


def code_exhibit(folder: Path, paper: str) -> Shown:
    """The files of a folder of code: names up to a bound, and the text of the most relevant. Raises `PaperError`."""
    if not folder.exists():
        raise PaperError(f"there is no {folder}: give --code the folder that holds the paper's code")
    sizes = dict(_files(folder))
    if not sizes:
        raise PaperError(f"there is no code in {folder}: give --code the folder that holds the paper's code")
    ranked = sorted(sizes, key=lambda name: (-_weight(name, paper), sizes[name], name))
    blocks, left_out, used = [_listing(sizes)], list[str](), 0
    for name in ranked:
        path = folder / name if folder.is_dir() else folder
        if used >= CODE_CHARACTERS - 500 or sizes[name] > MOST_BYTES:
            left_out.append(f"{name} ({sizes[name]} bytes): the whole of it")
            continue
        text = _text(path, "code")
        share = min(len(text), FILE_CHARACTERS, CODE_CHARACTERS - used)
        used += share
        if share < len(text):
            left_out.append(f"{name}: {len(text) - share} of {len(text)} characters in its middle")
        blocks.append(f"=== {name}\n{middle(text, share, worth=0)}")
    more = [f"and {len(left_out) - 19} more files"] if len(left_out) > 20 else []
    shown, removed = neutral("\n\n".join(blocks), f"--code {folder.name}")
    cut = (*left_out[:20 - len(more)], *more)
    return Shown(Exhibit(kind="code", name=folder.name, text=shown, left_out=cut), removed)


def _listing(sizes: dict[str, int]) -> str:
    names = sorted(sizes)
    lines = [f"{name} ({sizes[name]} bytes)" for name in names[:MOST_NAMES]]
    more = [f"... and {len(names) - MOST_NAMES} more files"] if len(names) > MOST_NAMES else []
    return "\n".join(["Files:", *lines, *more])


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    """Name and size in bytes of files that may be code, at most `MOST_ENTRIES`; links are passed by."""
    if folder.is_file():
        yield folder.name, folder.stat().st_size
        return
    seen = 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            seen += 1
            path = Path(root, name)
            if seen > MOST_ENTRIES:
                return
            if path.suffix.lower() in CODE and not path.is_symlink() and path.is_file():
                yield path.relative_to(folder).as_posix(), path.stat().st_size


def _weight(name: str, paper: str) -> float:
    """How much a file is likely to say of the paper's experiments."""
    path = Path(name)
    weight = float(CODE[path.suffix.lower()]) if path.suffix.lower() in CODE else 0.0
    weight += 2 * bool(_TELLING.search(path.stem)) - 4 * bool(_ASIDE.search(name)) - 0.2 * name.count("/")
    return weight + 3 * (len(path.stem) > 3 and path.name.lower() in paper.lower())


def _text(path: Path, kind: str) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise PaperError(f"{path} is larger than {MOST_BYTES // 10**6} MB: give a smaller file for --{kind}")
        data = path.read_bytes()
    except OSError as error:
        raise PaperError(f"cannot read {path} for --{kind}: {error.strerror}") from None
    if b"\0" in data[:100_000]:
        raise PaperError(f"{path} is not text: give --{kind} a text file")
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


def names_of(shown: Sequence[Shown]) -> tuple[str, ...]:
    """What a report says of the files that were shown."""
    return tuple(
        f"{one.exhibit.kind} {one.exhibit.name}" + "".join(f"; not shown: {line}" for line in one.exhibit.left_out)
        for one in shown)
