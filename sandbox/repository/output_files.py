"""Find an output file of a run by name, or the newest file that matches a pattern."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath

from labwright.record.folder_descriptors import remove_tree
from labwright.sandbox.safe_io import BadFile

_MAX_ENTRIES = 20_000
"""Maximum number of files and folders examined for a pattern."""


class MetricNotFound(BadFile):
    """The metric value was not found."""


class MetricFileNotFound(MetricNotFound):
    """The metric's file was not found."""


def find_file(location: str, folder: Path, since: float | None) -> tuple[str, str]:
    """Return the file, and a note if several match. Raises `MetricFileNotFound`, or `MetricNotFound` if the file is
    too old.
    """
    names = list_matching(folder, location)
    ages = {name: _read_modified_time(folder, name) for name in names if os.path.lexists(folder / name)}
    if not ages:
        raise MetricFileNotFound(f"no such file: {location}")
    newest = max(ages, key=lambda name: (ages[name], name))
    if since is not None and ages[newest] < since:
        raise MetricNotFound(f"{newest} is older than the run")
    return newest, f"{len(ages)} files match, the newest was read: {newest}" if len(ages) > 1 else ""


def list_matching(folder: Path, location: str) -> list[str]:
    """Return the relative names of the files that match, sorted; linked folders are not searched."""
    return sorted(_iterate_matches(folder, location)) if "*" in location else [location]


def _read_modified_time(folder: Path, name: str) -> float:
    return (folder / name).lstat().st_mtime


def _iterate_matches(folder: Path, pattern: str) -> Iterator[str]:
    """Yield the regular files under a folder that match a pattern, up to a limit; links are not followed."""
    regex = _glob_to_regex(pattern)
    paths = (os.path.join(place, name) for place, folders, names in os.walk(folder) for name in (*names, *folders))
    for path in islice(paths, _MAX_ENTRIES):
        relative = os.path.relpath(path, folder)
        if regex.fullmatch(relative) and os.path.isfile(path) and not os.path.islink(path):
            yield relative


def _glob_to_regex(pattern: str) -> re.Pattern[str]:
    """Convert a pattern: `*` matches anything except a slash, `**/` any folders."""
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", pattern)
    return re.compile("".join(words.get(part) or re.escape(part) for part in parts))


def remove_checkout(checkout: Path) -> None:
    """Remove a checkout, even with locked or deeply nested folders, without following links."""
    remove_tree(checkout, ignore_errors=True)


def refuse_links(folder: Path, location: str) -> None:
    """Raise `BadFile` if a part of the path is a link."""
    path = folder
    for part in PurePosixPath(location).parts:
        path = path / part
        if path.is_symlink():
            raise BadFile(f"{location} is a symbolic link")
