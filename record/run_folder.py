"""The folder of a run: where everything lies, and how a file or folder gets there whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labwright.record.folder_descriptors import remove_tree
from labwright.record.source_tree import check_source


class _RelativePath:
    """A path below the root of a run's folder, as an attribute of it."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __get__(self, folder: RunFolder, owner: type[RunFolder]) -> Path:
        return folder.root.joinpath(*self._names)


@dataclass(frozen=True)
class RunFolder:
    """Paths of one run. Nothing is created by asking for a path."""

    root: Path
    paper_version: int = 1
    """Which writing of the paper `paper` is."""

    db = _RelativePath("run.db")
    control = _RelativePath("control")
    views = _RelativePath("data", "views")
    pretrained = _RelativePath("data", "pretrained")
    """Materialised datasets without withheld labels: all that a kernel is shown."""
    labels = _RelativePath("data", "labels")
    """Withheld labels, read by the host only."""
    scorers = _RelativePath("data", "scorers")
    """Scorers of the user's own, as they were frozen before the search."""
    packages_lock = _RelativePath("packages.lock")
    """The lock of what was installed for its experiments."""
    library = _RelativePath("library.bib")
    """The run's own copy of the .bib file that it was given."""
    context = _RelativePath("context")
    """The run's own copies of the papers and notes that it was given."""
    prior_papers = _RelativePath("context", "prior")
    """Full texts of published papers that were fetched before the plan."""
    checked_library = _RelativePath("literature", "library.bib")
    """What of the given library may be cited, with the records of verification."""
    templates = _RelativePath("templates")
    """The run's own copies of the templates that its papers are set with, each named by its hash."""
    prompts = _RelativePath("prompts")
    """What models were asked, each question named by its hash (`record.prompt_store`)."""
    cache = _RelativePath("cache")
    drawn_figures = _RelativePath("paper", "figures")
    """The paper's figures, the same for every writing of it."""
    review = _RelativePath("review")

    @property
    def paper_folder(self) -> Path:
        """The paper; written again, it lies in paper/v2, paper/v3, ..."""
        return self.root / "paper" / ("" if self.paper_version == 1 else f"v{self.paper_version}")

    def get_gathered_path(self, version: int, round_: int) -> Path:
        """Works that a round added for a writing of the paper."""
        return self.root / "literature" / f"v{version}-round{round_}.bib"

    def get_node_path(self, node: str) -> Path:
        return self.root / "nodes" / node

    def get_source_path(self, node: str) -> Path:
        return self.get_node_path(node) / "source"

    def get_attempt_path(self, node: str, number: int) -> Path:
        """The sealed folder of an attempt: arrays, sealed predictions, measurements, notebook, output."""
        return self.get_node_path(node) / f"attempt{number}"

    def get_cell_path(self, run: str) -> Path:
        """The sealed folder of one execution of a cell, by its id."""
        return self.root / "cells" / run

    def get_live_output_path(self, node: str, number: int) -> Path:
        """The output of an attempt that runs, kept by the host beside the folder that its code writes into."""
        return self.get_node_path(node) / f".attempt{number}.live"

    def delete_live_output(self, node: str = "*") -> None:
        """Take away what is left of output that nothing writes any more: of one node, or of all."""
        for path in (self.root / "nodes").glob(f"{node}/.attempt*.live"):
            with suppress(OSError):
                path.unlink()

    def get_plots_path(self, node: str, n: int) -> Path:
        """The sealed folder of the n-th plotting: plots.py and figures."""
        return self.get_node_path(node) / f"plots{n}"

    def create_folders(self) -> None:
        """Make the folders that every run has."""
        for path in (self.root, self.control, self.views, self.labels, self.cache, self.root / "nodes", self.review):
            path.mkdir(parents=True, exist_ok=True)


def partial_path(final: Path) -> Path:
    """Where a folder is written before `seal`."""
    return final.with_name(f".{final.name}.part")


def create_draft_folder(final: Path) -> Path:
    """An empty folder beside `final` to write into before `seal`; what a killed process left there is cleared."""
    draft = partial_path(final)
    remove_tree(draft)
    draft.mkdir(parents=True)
    return draft


def seal_folder(draft: Path, final: Path) -> None:
    """Rename a finished draft folder to its final name. A leftover without an event (killed in between) is replaced."""
    remove_tree(final)
    os.rename(draft, final)
    folder = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_file(path: Path, text: str | bytes) -> None:
    """Write a file whole or not at all: beside, synced, renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with open(part, "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def seal_source(folder: Path, files: dict[str, str]) -> str:
    """Seal the tree of a node's source; returns the sha256 over its paths and texts.

    Raises: `SourceError`, before anything is written: a path leads out of it, is hidden, or a file is too large.
    """
    check_source(files)
    draft = create_draft_folder(folder)
    for path, text in files.items():
        place = draft / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode())
    seal_folder(draft, folder)
    return hash_texts(files)


def read_source(folder: Path) -> dict[str, str]:
    """The plain files of a source's tree, relative path -> text. No link is followed."""
    found: dict[str, str] = {}
    for place, folders, names in os.walk(folder):
        folders.sort()
        for path in (Path(place, name) for name in names):
            if stat.S_ISREG(path.lstat().st_mode):
                found[path.relative_to(folder).as_posix()] = path.read_bytes().decode(errors="replace")
    return dict(sorted(found.items()))


def hash_texts(files: dict[str, str]) -> str:
    """One hash over names and texts."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0{files[name]}\0".encode(errors="replace"))
    return digest.hexdigest()


def open_regular(path: str | Path, folder: int | None = None) -> int:
    """A descriptor to read a regular file that is no link; nothing is waited for. Raises `OSError`, `ValueError`."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENODEV) and not stat.S_ISREG(
            os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode
        ):  # a socket, or a device that is none
            raise OSError(errno.EINVAL, "it is not a plain file") from error
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a plain file")
    return file


def read_free_gb(folder: Path) -> float:
    """The free space of a folder's disk, in 10^9 bytes."""
    return shutil.disk_usage(folder).free / 1e9


def is_disk_full(folder: Path) -> bool:
    """Whether the disk of a folder has no room left to speak of (less than 8 MiB)."""
    return shutil.disk_usage(folder).free < 8 * 2**20


def hash_file(path: Path) -> str:
    """The hash of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
