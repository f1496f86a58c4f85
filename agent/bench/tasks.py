"""Tasks from a folder: one Markdown file a task, as MLR-Bench has them; its text is the topic of the idea."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

MOST_BYTES = 200_000


class TaskError(Exception):
    """The folder holds no task that can be used. The message is one line that says why, and how to mend it."""


@dataclass(frozen=True)
class Task:
    """A task by the name of its file."""

    name: str
    text: str
    sha256: str


def read_tasks(folder: Path, only: tuple[str, ...] = ()) -> tuple[Task, ...]:
    """The tasks of a folder by name; `only` keeps those that match a name or pattern. Raises `TaskError`."""
    if not folder.is_dir():
        raise TaskError(f"--tasks {folder} is no folder: give one with a .md file for each task")
    paths = sorted(path for path in folder.glob("*.md") if path.stem.lower() != "readme")
    if not paths:
        raise TaskError(f"--tasks {folder} holds no .md file: give one with a .md file for each task")
    for pattern in only:
        if not any(fnmatch(path.stem, pattern) for path in paths):
            raise TaskError(f"--only {pattern}: none of the {len(paths)} tasks in {folder} is named so, as "
                            f"{paths[0].stem}")
    return tuple(_read(path) for path in paths if not only or any(fnmatch(path.stem, one) for one in only))


def _read(path: Path) -> Task:
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig").strip()
    except OSError as error:
        raise TaskError(f"cannot read the task {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TaskError(f"the task {path} is not text in UTF-8: save it as text, or leave it out with --only") from None
    if len(text.split()) < 3 or "\0" in text or len(data) > MOST_BYTES:
        raise TaskError(f"the task {path} is no text of 3 words to {MOST_BYTES // 1000} kB: mend it, or leave it out "
                        "with --only")
    return Task(path.stem, text, hashlib.sha256(data).hexdigest())
