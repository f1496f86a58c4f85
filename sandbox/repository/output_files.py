"""Find an output file of a run by name, or the newest file that matches a pattern."""

from __future__ import annotations

import re
import stat
from itertools import islice
from pathlib import Path

from labwright.record.untrusted_files import BadFile, iterate_entries, read_status

_MAX_ENTRIES = 20_000
"""Maximum number of files and folders examined for a pattern."""


class MetricNotFound(BadFile):
    """The metric value was not found."""


class MetricFileNotFound(MetricNotFound):
    """The metric's file was not found."""


def find_file(location: str, folder: Path, since: float | None) -> tuple[str, str]:
    """Return the file, and a note if several match. Raises `MetricFileNotFound`, or `MetricNotFound` if the file is
    too old; `BadFile` if a folder on the way is a link.
    """
    ages = {
        name: status.st_mtime
        for name in list_matching(folder, location)
        if (status := read_status(folder, name)) is not None
    }
    if not ages:
        raise MetricFileNotFound(f"no such file: {location}")
    newest = max(ages, key=lambda name: (ages[name], name))
    if since is not None and ages[newest] < since:
        raise MetricNotFound(f"{newest} is older than the run")
    return newest, f"{len(ages)} files match, the newest was read: {newest}" if len(ages) > 1 else ""


def list_matching(folder: Path, location: str) -> list[str]:
    """Return the relative names of the plain files that match, sorted, up to a limit; links are not followed."""
    if "*" not in location:
        return [location]
    regex = _glob_to_regex(location)
    entries = islice(iterate_entries(folder), _MAX_ENTRIES)
    return sorted(name for name, status in entries if stat.S_ISREG(status.st_mode) and regex.fullmatch(name))


def _glob_to_regex(pattern: str) -> re.Pattern[str]:
    """Convert a pattern: `*` matches anything except a slash, `**/` any folders."""
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", pattern)
    return re.compile("".join(words.get(part) or re.escape(part) for part in parts))
