"""Which file of those that a run left is meant: by name, or the newest that a pattern names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath

from labwright.record.folder_descriptors import remove_tree
from labwright.sandbox.safe_io import BadFile

_MAX_ENTRIES = 20_000
"""Files and folders that are looked at where a name holds a pattern."""


class MetricNotFound(BadFile):
    """There is no such number."""


class MetricFileNotFound(MetricNotFound):
    """Not even the file is there."""


def find_file(location: str, folder: Path, since: float | None) -> tuple[str, str]:
    """The file that is meant, and a note where several could be. Raises: NoFile; NotThere, of one that is too old."""
    names = list_matching(folder, location)
    ages = {name: _read_modified_time(folder, name) for name in names if os.path.lexists(folder / name)}
    if not ages:
        raise MetricFileNotFound(f"no such file as {location}")
    newest = max(ages, key=lambda name: (ages[name], name))
    if since is not None and ages[newest] < since:
        raise MetricNotFound(f"{newest} is older than the run")
    return newest, f"{len(ages)} files match, the newest was read: {newest}" if len(ages) > 1 else ""


def list_matching(folder: Path, location: str) -> list[str]:
    """The files that a name or a pattern may mean, relative, sorted; no linked folder is looked into."""
    return sorted(_iterate_matches(folder, location)) if "*" in location else [location]


def _read_modified_time(folder: Path, name: str) -> float:
    return (folder / name).lstat().st_mtime


def _iterate_matches(folder: Path, pattern: str) -> Iterator[str]:
    """Plain files below a folder that a pattern names; links are not followed, and not looked for beyond a limit."""
    wanted = _glob_to_regex(pattern)
    paths = (os.path.join(place, name) for place, folders, names in os.walk(folder) for name in (*names, *folders))
    for path in islice(paths, _MAX_ENTRIES):
        relative = os.path.relpath(path, folder)
        if wanted.fullmatch(relative) and os.path.isfile(path) and not os.path.islink(path):
            yield relative


def _glob_to_regex(pattern: str) -> re.Pattern[str]:
    """`*` stands for anything but a slash, `**/` for any folders."""
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    found = [one[0] for one in re.finditer(r"\*\*/|\*\*|\*|\?|[^*?]+", pattern)]
    return re.compile("".join(words.get(word) or re.escape(word) for word in found))


def remove_checkout(checkout: Path) -> None:
    """Remove a checkout, also where its code locked folders or nested them; what its links lead to stays."""
    remove_tree(checkout, ignore_errors=True)


def refuse_links(folder: Path, location: str) -> None:
    """Raises: BadFile, where a folder on the way is a link."""
    path = folder
    for part in PurePosixPath(location).parts:
        path = path / part
        if path.is_symlink():
            raise BadFile(f"{location} is a symbolic link")
