"""How a node's source follows from its parent's: whole files, edits that must match exactly once, deletions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from pydantic import Field

from labwright.record.nouns.frozen import Frozen
from labwright.record.source import SourceError, check_source

SHOWN = 12
"""Lines of a file that a miss shows."""
COMPARED, SEARCHED = 400, 2000
"""Characters of a text that is looked for that are compared, and lines of a file at which it may begin."""
AGAIN = "nothing was changed: give the whole answer again, with what is named here mended"


class File(Frozen):
    """A whole file."""

    path: str = Field(description="relative to the root, with / between: experiment.py, arms/method.py")
    text: str


class Change(Frozen):
    """A piece of a file, and what takes its place."""

    find: str = Field(
        description="whole lines as they stand in the file, to the last blank; they must occur in it "
        "exactly once, so quote as many as that takes"
    )
    replace: str = Field(description="what stands there instead; empty: nothing")


class Edit(Change):
    """A change of one of the parent's files. Several of one file are made in their order."""

    path: str = Field(description="a file of the parent")


def applied(
    before: Mapping[str, str], *, files: Sequence[File] = (), edits: Sequence[Edit] = (), removed: Iterable[str] = ()
) -> dict[str, str]:
    """The files that an answer makes of those before it. Raises `SourceError`, which names every miss."""
    made = {path: text for path, text in before.items() if path not in set(removed)}
    misses = [f"removed: there is no file {path!r}, only {_names(before)}" for path in removed if path not in before]
    whole = [one.path for one in files]
    misses += [f"{path!r} is given twice in files" for path in sorted(set(whole)) if whole.count(path) > 1]
    made |= {one.path: one.text for one in files}
    for path in dict.fromkeys(one.path for one in edits):
        own = [one for one in edits if one.path == path]
        if path in whole:
            misses.append(f"{path!r} is given whole and edited: do one of both")
        elif path not in made:
            misses.append(f"edits: there is no file {path!r}, only {_names(made)}; a new one goes into files")
        else:
            made[path], missed = _changed(made[path], own, path)
            misses += missed
    if misses:
        raise SourceError("\n".join((*misses, AGAIN)))
    check_source(made)
    return made


def changed(text: str, changes: Sequence[Change], path: str) -> str:
    """A file after some changes of it. Raises `SourceError`, which names every miss."""
    made, misses = _changed(text, changes, path)
    if misses:
        raise SourceError("\n".join((*misses, AGAIN)))
    return made


def _changed(text: str, changes: Sequence[Change], path: str) -> tuple[str, list[str]]:
    """The text after the changes that match, and what is said of each that does not."""
    misses: list[str] = []
    for number, one in enumerate(changes, 1):
        places = places_of(text, one.find)
        if len(places) == 1:
            text = text[: places[0]] + one.replace + text[places[0] + len(one.find) :]
        else:
            misses.append(f"edit {number} of {path}: {_why(text, one.find, places)}")
    return text, misses


def places_of(text: str, find: str) -> list[int]:
    """Where a text occurs, overlaps included; nowhere where it is empty."""
    found: list[int] = []
    at = text.find(find) if find else -1
    while at >= 0:
        found.append(at)
        at = text.find(find, at + 1)
    return found


def _why(text: str, find: str, places: Sequence[int]) -> str:
    if not find.strip():
        return "find is empty: quote the lines to replace, or give the whole file in files"
    if places:
        lines = [text.count("\n", 0, at) + 1 for at in places]
        shown = ", ".join(map(str, lines[:SHOWN])) + (", ..." if len(lines) > SHOWN else "")
        return (
            f"find occurs {len(places)} times, at lines {shown}: quote more of the lines around the one that is "
            f"meant ({find.strip().splitlines()[0][:80]!r})"
        )
    return f"find does not occur ({find.strip().splitlines()[0][:80]!r}); nearest is\n{_nearest(text, find)}"


def _nearest(text: str, find: str) -> str:
    """The lines of a text that are most like what was looked for, each with its number."""
    lines, wanted = text.splitlines(), find.strip("\n")
    size = min(max(1, wanted.count("\n") + 1), len(lines))
    if not size:
        return "nothing: the file is empty"
    match = difflib.SequenceMatcher(b=wanted[:COMPARED], autojunk=False)

    def likeness(at: int, quick: bool) -> float:
        match.set_seq1("\n".join(lines[at : at + size])[:COMPARED])
        return match.quick_ratio() if quick else match.ratio()

    starts = sorted(range(min(len(lines) - size + 1, SEARCHED)), key=lambda at: -likeness(at, quick=True))[:5]
    best = max(starts, key=lambda at: likeness(at, quick=False))
    return "\n".join(
        f"{number:5d}| {line[:200]}" for number, line in enumerate(lines[best : best + min(size, SHOWN)], best + 1)
    )


def _names(files: Iterable[str]) -> str:
    return ", ".join(sorted(files)[:20]) or "none"
