"""The repository of a task as an agent is shown it: without what answers the question, and without any way to it.

Gone are the masked files and every other file of the same content, what was compiled or cached of them, archives that
hold one of their name, the root's README, papers, and the history. What is left is a folder of plain files.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from labwright.evals.expbench.tasks import Task
from labwright.record.errors import ExpectedFailure
from labwright.sandbox.errors import RepositoryError
from labwright.sandbox.repository.mirror import Mirror, git

CACHES = frozenset(("__pycache__", ".ipynb_checkpoints", ".git", ".hg", ".svn", ".mypy_cache", ".pytest_cache"))
COMPILED = frozenset((".pyc", ".pyo"))
PAPERS = frozenset((".pdf", ".ps", ".djvu"))
ARCHIVES = (".zip", ".whl", ".egg", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
HISTORIES = (".bundle", ".pack", ".patch", ".diff", ".orig", ".rej", ".bak", ".swp")
"""Endings of files that may hold another state of a file."""


class NoRepository(ExpectedFailure):
    """The repository of a task is not here."""


class InvalidTask(ExpectedFailure):
    """A file that is to be masked is not in the repository."""


class Masked(NamedTuple):
    folder: Path
    tree: str
    removed: tuple[str, ...]


def repository_of(task: Task, folder: Path, repos: Path | None) -> Path:
    """Where the repository of a task lies: by the name of `code_url` in `repos`, else beside the tasks.

    Nothing is fetched. Raises `NoRepository`.
    """
    name = PurePosixPath(task.code_url.rstrip("/").removesuffix(".git"))
    stem = name.stem if name.suffix == ".bundle" else name.name
    paper = task.name.partition("/")[0]
    found = [
        place / one
        for place in ([repos] if repos is not None else [folder, folder / "repos"])
        for base in (stem, paper)
        if base
        for one in (base, f"{base}.git", f"{base}.bundle", f"repos/{base}.bundle")
    ]
    if "://" not in task.code_url and task.code_url:
        found.insert(0, folder / task.code_url)
    for place in found:
        if place.exists():
            return place
    raise NoRepository(
        f"its repository ({task.code_url or stem or 'no code_url'}) is not here: give a folder of "
        "repositories or bundles with --repos"
    )


def whole_copy(task: Task, repository: Path, mirror: Mirror, folder: Path) -> str:
    """Every file of a task's commit in a new folder; the id of its tree. Raises `RepositoryError`."""
    tree = mirror.take_commit(repository, task.commit)
    mirror.checkout(tree, folder)
    for path in list(folder.rglob("*")):
        if path.is_symlink() and mirror.folder.parent in path.resolve().parents:  # a large file, which was linked to
            target = path.resolve()
            path.unlink()
            shutil.copy2(target, path)
    return tree


def masked_copy(task: Task, repository: Path, mirror: Mirror, folder: Path) -> Masked:
    """The repository as an agent is shown it, in a new folder. Raises `RepositoryError`, `InvalidTask`."""
    if task.invalid:
        raise InvalidTask(task.invalid)
    try:
        tree = whole_copy(task, repository, mirror, folder)
        missing = [name for name in task.masked if not (folder / name).is_file()]
        if missing:
            raise InvalidTask(f"a file that is to be masked is not in the repository: {', '.join(missing)}")
        removed = tuple(sorted(_mask(task, folder)))
    except (RepositoryError, InvalidTask):
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Masked(folder, tree, removed)


def begin_history(folder: Path) -> None:
    """Make a masked copy a repository of one commit, which nothing leads back from. Raises `RepositoryError`."""
    for words in (
        ("init", "--quiet", "--initial-branch=main", "--template="),
        ("add", "--all", "--force"),
        ("commit", "--quiet", "--no-verify", "--message=the repository"),
    ):
        git(folder, *words)


def _mask(task: Task, folder: Path) -> Iterator[str]:
    hidden = {(folder / name).read_bytes() for name in task.masked}
    sizes = {len(content) for content in hidden if content.strip()}
    names = {PurePosixPath(name).name for name in task.masked}
    stems = {PurePosixPath(name).stem for name in task.masked}
    for path in sorted(folder.rglob("*"), reverse=True):  # what is in a folder before the folder
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            gone = not path.resolve().is_relative_to(folder.resolve()) or not path.exists()
        elif path.is_dir():
            gone = path.name in CACHES
        else:
            gone = (
                name in task.masked
                or _tells(path, name)
                or path.suffix in COMPILED
                or (
                    path.suffix in (".so", ".pyd", ".c", ".ipynb")
                    and path.name.partition(".")[0] in stems
                    and name not in task.masked
                    and path.suffix != ".ipynb"
                )
                or (path.name.endswith(HISTORIES) and any(stem in path.name for stem in stems))
                or path.name.endswith((".bundle", ".pack"))
                or _holds(path, names)
                or (path.stat().st_size in sizes and path.read_bytes() in hidden)
            )
        if gone:
            with suppress(FileNotFoundError):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else os.unlink(path)
            yield name


def _tells(path: Path, name: str) -> bool:
    """Whether it is the root's README, or a paper."""
    return ("/" not in name and path.name.lower().startswith("readme")) or path.suffix.lower() in PAPERS


def _holds(path: Path, names: set[str]) -> bool:
    """Whether an archive holds a file that is called as a masked one, or cannot be looked into."""
    if not path.name.lower().endswith(ARCHIVES) or not names:
        return False
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as found:
                members = found.namelist()
        else:
            with tarfile.open(path) as found:
                members = found.getnames()
    except (OSError, tarfile.TarError, zipfile.BadZipFile, EOFError):
        return True
    return any(PurePosixPath(member).name in names for member in members)
