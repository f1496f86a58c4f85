"""The folder of a run: its paths, and atomic writing of files and folders."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from labwright.record.reducers.run_state import RunState
from labwright.record.schema.nodes import Attempt, ExecutionResult, Node
from labwright.record.source_tree import check_source
from labwright.record.untrusted_files import remove_tree

REPORT_FILES = tuple("report.md answer.json change.patch reproduce.sh ablations.json section.tex results.tex".split())
"""Files that an ablation or a question writes into its folder."""


class _RelativePath:
    """A path inside a run's folder, as an attribute."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __get__(self, folder: RunFolder, owner: type[RunFolder]) -> Path:
        return folder.root.joinpath(*self._names)


@dataclass(frozen=True)
class RunFolder:
    """Paths of one run. Accessing a path creates nothing."""

    root: Path
    paper_version: int = 1
    """Version of the paper that `paper_folder` refers to."""

    events = _RelativePath("events.jsonl")
    control = _RelativePath("control")
    views = _RelativePath("data", "views")
    pretrained = _RelativePath("data", "pretrained")
    """Prepared datasets without withheld labels: the only data that kernels see."""
    labels = _RelativePath("data", "labels")
    """Withheld labels, read only by the host."""
    scorers = _RelativePath("data", "scorers")
    """The user's own scorers, frozen before the search."""
    packages_lock = _RelativePath("packages.lock")
    """Lock file of the packages installed for experiments."""
    environment = _RelativePath("environment.txt")
    """The packages of the experiments' interpreter, and those installed for the run."""
    library = _RelativePath("library.bib")
    """The run's own copy of the given .bib file."""
    context = _RelativePath("context")
    """The run's own copies of the given papers and notes."""
    prior_papers = _RelativePath("context", "prior")
    """Full texts of published papers fetched before planning."""
    checked_library = _RelativePath("literature", "library.bib")
    """The citable part of the given library, with verification records."""
    templates = _RelativePath("templates")
    """The run's own copies of paper templates, each named by its hash."""
    prompts = _RelativePath("prompts")
    """Model prompts, each named by its hash (`record.llm_calls`)."""
    cache = _RelativePath("cache")
    drawn_figures = _RelativePath("paper", "figures")
    """The figures of the paper's first version."""
    review = _RelativePath("review")

    @property
    def paper_folder(self) -> Path:
        """The folder of the paper; later versions are in paper/v2, paper/v3, ..."""
        return self.root / "paper" / ("" if self.paper_version == 1 else f"v{self.paper_version}")

    def get_figures_path(self, version: int) -> Path:
        """Return the folder of the figures of a version of the paper."""
        return self.drawn_figures if version == 1 else self.root / "paper" / f"v{version}" / "figures"

    def get_gathered_path(self, version: int, round_: int) -> Path:
        """Return the file of works that a citation round added for a version of the paper."""
        return self.root / "literature" / f"v{version}-round{round_}.bib"

    def get_node_path(self, node: str) -> Path:
        return self.root / "nodes" / node

    def get_source_path(self, node: str) -> Path:
        return self.get_node_path(node) / "source"

    def get_attempt_path(self, node: str, number: int) -> Path:
        """Return the sealed folder of an attempt: arrays, sealed predictions, measurements, notebook, output."""
        return self.get_node_path(node) / f"attempt{number}"

    def get_cell_path(self, run: str) -> Path:
        """Return the sealed folder of a cell execution by its id."""
        return self.root / "cells" / run

    def get_live_output_path(self, node: str, number: int) -> Path:
        """Return the live output of a running attempt, written by the host outside the folder of the experiment
        code."""
        return self.get_node_path(node) / f".attempt{number}.live"

    def delete_live_output(self, node: str = "*") -> None:
        """Delete live output that is no longer written, of one node or of all."""
        for path in (self.root / "nodes").glob(f"{node}/.attempt*.live"):
            with suppress(OSError):
                path.unlink()

    def get_plots_path(self, node: str, n: int) -> Path:
        """Return the sealed folder of the n-th attempt at plots: plots.py and figures."""
        return self.get_node_path(node) / f"plots{n}"

    def create_folders(self) -> None:
        """Create the folders that every run has."""
        for path in (self.root, self.control, self.views, self.labels, self.cache, self.root / "nodes", self.review):
            path.mkdir(parents=True, exist_ok=True)


def partial_path(final: Path) -> Path:
    """Return the path to which a folder is written before `seal_folder`."""
    return final.with_name(f".{final.name}.part")


def create_draft_folder(final: Path) -> Path:
    """Create an empty draft folder next to `final` for `seal_folder`; leftovers of a killed process are removed."""
    draft = partial_path(final)
    remove_tree(draft)
    draft.mkdir(parents=True)
    return draft


def seal_folder(draft: Path, final: Path) -> None:
    """Rename a finished draft folder to its final name, replacing what a killed process left there without an event."""
    remove_tree(final)
    os.rename(draft, final)
    sync_folder(final.parent)


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder, so that files created or renamed in it survive a power failure."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def sync_tree(folder: Path) -> None:
    """Sync the regular files and folders of a tree, so that an event that names them is not more durable than they."""
    for place, _, names in os.walk(folder, topdown=False):
        for path in (*(Path(place, name) for name in names), Path(place)):
            if not stat.S_ISREG(mode := path.lstat().st_mode) and not stat.S_ISDIR(mode):
                continue
            with suppress(PermissionError):  # of code that removed its own access
                file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    os.fsync(file)
                finally:
                    os.close(file)


def write_file(path: Path, text: str | bytes) -> None:
    """Write a file atomically: to a temporary file, synced, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with open(part, "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def seal_source(folder: Path, files: dict[str, str]) -> str:
    """Seal the source tree of a node. Returns the sha256 over its paths and contents.

    Raises: `SourceTreeError`, before anything is written: raised if a path leaves the tree or is hidden, or if a file
    is too large.
    """
    check_source(files)
    draft = create_draft_folder(folder)
    for path, text in files.items():
        place = draft / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode())
    sync_tree(draft)
    seal_folder(draft, folder)
    return hash_texts(files)


def read_source(folder: Path) -> dict[str, str]:
    """Read the regular files of a source tree, relative path -> text. No link is followed."""
    found: dict[str, str] = {}
    for place, folders, names in os.walk(folder):
        folders.sort()
        for path in (Path(place, name) for name in names):
            if stat.S_ISREG(path.lstat().st_mode):
                found[path.relative_to(folder).as_posix()] = path.read_bytes().decode(errors="replace")
    return dict(sorted(found.items()))


def hash_texts(files: dict[str, str]) -> str:
    """Return one hash over names and contents."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0{files[name]}\0".encode(errors="replace"))
    return digest.hexdigest()


def read_free_gb(folder: Path) -> float:
    """Return the free space of a folder's disk, in 10^9 bytes."""
    return shutil.disk_usage(folder).free / 1e9


def is_disk_full(folder: Path) -> bool:
    """Return whether the disk of a folder is full (less than 8 MiB free)."""
    return shutil.disk_usage(folder).free < 8 * 2**20


def hash_file(path: Path) -> str:
    """Return the sha256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# The folders with the files behind a node's results: those of its cells, or that of a plain script.


class ResultFolder(NamedTuple):
    """A sealed folder with arrays, artifacts, predictions and curves, and the recorded hashes of these files."""

    path: Path
    result: ExecutionResult


def list_result_folders(
    state: RunState, folder: RunFolder, node: Node, attempt: Attempt | None = None
) -> list[ResultFolder]:
    """Return the folders of an attempt, by default the last: of each measured cell in order, own or reused.

    Empty for a node that was not executed, and for one that tries settings, whose cells have values for other nodes.
    """
    attempt = attempt or (node.attempts[-1] if node.attempts else None)
    if attempt is None or node.is_trial:
        return []
    if not attempt.cells:
        return [ResultFolder(folder.get_attempt_path(node.id, attempt.number), attempt)]
    return [
        ResultFolder(folder.get_cell_path(line.id), state.cells[line.id][1])
        for line in attempt.cells
        if line.outcome in ("measured", "taken over") and line.id in state.cells
    ]
