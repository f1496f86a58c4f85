"""Copy the repository of a task for an agent, without the files that answer the question or any way to recover them.

Removed are the masked files and all files of equal content, compiled or cached versions, archives with a file of
that name, the root's README, papers, and the history. The result is a folder of plain files.
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

from labwright.evals.expbench.tasks import ExpTask
from labwright.record.errors import UserError
from labwright.sandbox.errors import RepositoryError
from labwright.sandbox.repository.git_mirror import GitMirror, read_git_output

CACHE_FOLDERS = frozenset(("__pycache__", ".ipynb_checkpoints", ".git", ".hg", ".svn", ".mypy_cache", ".pytest_cache"))
COMPILED_SUFFIXES = frozenset((".pyc", ".pyo"))
PAPER_SUFFIXES = frozenset((".pdf", ".ps", ".djvu"))
ARCHIVE_SUFFIXES = (".zip", ".whl", ".egg", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
HISTORY_SUFFIXES = (".bundle", ".pack", ".patch", ".diff", ".orig", ".rej", ".bak", ".swp")
"""Endings of files that may contain another version of a file."""


class RepositoryNotFound(UserError):
    """The repository of a task is not available."""


class InvalidTask(UserError):
    """A file to mask is not in the repository."""


class MaskedCopy(NamedTuple):
    folder: Path
    tree: str
    removed: tuple[str, ...]


def find_repository(task: ExpTask, folder: Path, repos: Path | None) -> Path:
    """Return the repository of a task: by the name of `code_url` in `repos`, otherwise next to the tasks.

    Nothing is fetched. Raises `RepositoryNotFound`.
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
    raise RepositoryNotFound(
        f"its repository ({task.code_url or stem or 'no code_url'}) is not available: give a folder of "
        "repositories or bundles with --repos"
    )


def copy_repository(task: ExpTask, repository: Path, mirror: GitMirror, folder: Path) -> str:
    """Copy every file of a task's commit to a new folder; return the id of its tree. Raises `RepositoryError`."""
    tree = mirror.import_commit(repository, task.commit)
    mirror.checkout(tree, folder)
    for path in list(folder.rglob("*")):
        if path.is_symlink() and mirror.folder.parent in path.resolve().parents:  # a large file that was linked
            target = path.resolve()
            path.unlink()
            shutil.copy2(target, path)
    return tree


def copy_masked(task: ExpTask, repository: Path, mirror: GitMirror, folder: Path) -> MaskedCopy:
    """Copy the repository as the agent sees it to a new folder. Raises `RepositoryError`, `InvalidTask`."""
    if task.invalid:
        raise InvalidTask(task.invalid)
    try:
        tree = copy_repository(task, repository, mirror, folder)
        missing = [name for name in task.masked if not (folder / name).is_file()]
        if missing:
            raise InvalidTask(f"a file to mask is not in the repository: {', '.join(missing)}")
        removed = tuple(sorted(_mask(task, folder)))
    except (RepositoryError, InvalidTask):
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return MaskedCopy(folder, tree, removed)


def create_fresh_history(folder: Path) -> None:
    """Make a masked copy a repository with a single commit, without access to earlier history.

    Raises `RepositoryError`.
    """
    for words in (
        ("init", "--quiet", "--initial-branch=main", "--template="),
        ("add", "--all", "--force"),
        ("commit", "--quiet", "--no-verify", "--message=the repository"),
    ):
        read_git_output(folder, *words)


def _mask(task: ExpTask, folder: Path) -> Iterator[str]:
    hidden = {(folder / name).read_bytes() for name in task.masked}
    sizes = {len(content) for content in hidden if content.strip()}
    names = {PurePosixPath(name).name for name in task.masked}
    stems = {PurePosixPath(name).stem for name in task.masked}
    for path in sorted(folder.rglob("*"), reverse=True):  # contents of a folder before the folder
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            gone = not path.resolve().is_relative_to(folder.resolve()) or not path.exists()
        elif path.is_dir():
            gone = path.name in CACHE_FOLDERS
        else:
            gone = (
                name in task.masked
                or _is_readme_or_paper(path, name)
                or path.suffix in COMPILED_SUFFIXES
                or (
                    path.suffix in (".so", ".pyd", ".c", ".ipynb")
                    and path.name.partition(".")[0] in stems
                    and name not in task.masked
                    and path.suffix != ".ipynb"
                )
                or (path.name.endswith(HISTORY_SUFFIXES) and any(stem in path.name for stem in stems))
                or path.name.endswith((".bundle", ".pack"))
                or _contains_masked(path, names)
                or (path.stat().st_size in sizes and path.read_bytes() in hidden)
            )
        if gone:
            with suppress(FileNotFoundError):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else os.unlink(path)
            yield name


def _is_readme_or_paper(path: Path, name: str) -> bool:
    """Return whether a file is the root's README, or a paper."""
    return ("/" not in name and path.name.lower().startswith("readme")) or path.suffix.lower() in PAPER_SUFFIXES


def _contains_masked(path: Path, names: set[str]) -> bool:
    """Return whether an archive contains a file with a masked name, or cannot be read."""
    if not path.name.lower().endswith(ARCHIVE_SUFFIXES) or not names:
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
