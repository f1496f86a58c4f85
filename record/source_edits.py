"""Derive a node's source from its parent's: whole files, edits that must match exactly once, deletions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.source_tree import SourceTreeError, check_source

MAX_LINES_SHOWN = 12
"""Number of lines of a file shown for a failed match."""
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
    misses = [
        f"removed: there is no file {path!r}; there are {_list_names(before)}" for path in removed if path not in before
    ]
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
        shown = ", ".join(map(str, lines[:MAX_LINES_SHOWN])) + (", ..." if len(lines) > MAX_LINES_SHOWN else "")
        return (
            f"find occurs {len(places)} times, at lines {shown}: quote more lines around the intended one "
            f"({find.strip().splitlines()[0][:80]!r})"
        )
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
    return "\n".join(
        f"{number:5d}| {line[:200]}"
        for number, line in enumerate(lines[best : best + min(size, MAX_LINES_SHOWN)], best + 1)
    )


def _list_names(files: Iterable[str]) -> str:
    return ", ".join(sorted(files)[:20]) or "none"
