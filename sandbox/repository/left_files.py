"""Which file of those that a run left is meant: by name, or the newest that a pattern names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath

from labwright.record.descriptors import remove_tree
from labwright.sandbox.untrusted import BadFile

_MOST_ENTRIES = 20_000
"""Files and folders that are looked at where a name holds a pattern."""


class NotThere(BadFile):
    """There is no such number."""


class NoFile(NotThere):
    """Not even the file is there."""


def file_of(place: str, folder: Path, since: float | None) -> tuple[str, str]:
    """The file that is meant, and a note where several could be. Raises: NoFile; NotThere, of one that is too old."""
    names = matching(folder, place)
    ages = {name: _age(folder, name) for name in names if os.path.lexists(folder / name)}
    if not ages:
        raise NoFile(f"no such file as {place}")
    newest = max(ages, key=lambda name: (ages[name], name))
    if since is not None and ages[newest] < since:
        raise NotThere(f"{newest} is older than the run")
    return newest, f"{len(ages)} files match, the newest was read: {newest}" if len(ages) > 1 else ""


def matching(folder: Path, place: str) -> list[str]:
    """The files that a name or a pattern may mean, relative, sorted; no linked folder is looked into."""
    return sorted(_matches(folder, place)) if "*" in place else [place]


def _age(folder: Path, name: str) -> float:
    return (folder / name).lstat().st_mtime


def _matches(folder: Path, pattern: str) -> Iterator[str]:
    """Plain files below a folder that a pattern names; links are not followed, and not looked for beyond a limit."""
    wanted = _as_expression(pattern)
    paths = (os.path.join(place, name) for place, folders, names in os.walk(folder) for name in (*names, *folders))
    for path in islice(paths, _MOST_ENTRIES):
        relative = os.path.relpath(path, folder)
        if wanted.fullmatch(relative) and os.path.isfile(path) and not os.path.islink(path):
            yield relative


def _as_expression(pattern: str) -> re.Pattern[str]:
    """`*` stands for anything but a slash, `**/` for any folders."""
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    found = [one[0] for one in re.finditer(r"\*\*/|\*\*|\*|\?|[^*?]+", pattern)]
    return re.compile("".join(words.get(word) or re.escape(word) for word in found))


def cleared_away(checkout: Path) -> None:
    """Remove a checkout, also where its code locked folders or nested them; what its links lead to stays."""
    remove_tree(checkout, ignore_errors=True)


def refuse_links(folder: Path, place: str) -> None:
    """Raises: BadFile, where a folder on the way is a link."""
    path = folder
    for part in PurePosixPath(place).parts:
        path = path / part
        if path.is_symlink():
            raise BadFile(f"{place} is a symbolic link")
