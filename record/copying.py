"""The files that a log names, copied into the folder of another run, each held against the record.

What only the record names is copied, never what else lies in the folder: no cache, no lock, no command, no attempt that
was not sealed. Data, code, figures and texts are copies; the arrays and predictions of sealed attempts, which nobody
writes to again, are linked where the filesystem allows, and then the two runs share them on disk.

Not guaranteed: that a person who writes into a linked file changes one run alone. An audit of either says so.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from record.fold.state import RunState
from record.folder import RunFolder, read_source, sha256, sha256_of_files
from record.log import RecordError
from record.manifest import files_of

LINKED = frozenset({"arrays", "sealed", "artifacts", "checkpoints"})
"""Folders of a sealed attempt whose files are linked."""
WHOLE = ("idea.json", "data_plan.json", "library.bib", "context", "literature/library.bib", "templates", "data")
"""What every run has a copy of, where the parent has it."""


def copy_run(parent: RunFolder, to: RunFolder, state: RunState) -> None:
    """Copy what the state names, and check it there. Raises `RecordError`, `OSError`."""
    for name in WHOLE:
        _copy(parent.root / name, to.root / name)
    for node in state.nodes.values():
        if node.source_sha256:
            _copy(parent.source(node.id), to.source(node.id))
        for attempt in node.attempts:
            _copy(parent.attempt(node.id, attempt.number), to.attempt(node.id, attempt.number), link=True)
        for plotting in node.plottings:
            _copy(parent.plots(node.id, plotting.n), to.plots(node.id, plotting.n))
    for one in (*state.answers.values(), *state.superseded, *state.drifted.values()):
        name = f"{one.request_sha256}.json.gz"
        _copy(parent.prompts / name, to.prompts / name)
    _check(parent, to, state)


def _check(parent: RunFolder, to: RunFolder, state: RunState) -> None:
    for path, expected in files_of(state, to):
        if not path.is_file() or sha256(path) != expected:
            raise RecordError(f"{parent.root / path.relative_to(to.root)} is gone, or not what the record says: a "
                              "branch would rest on it; 'scientist audit' tells all of it")
    for node in state.nodes.values():
        source = to.source(node.id)
        if node.source_sha256 and (not source.is_dir() or sha256_of_files(read_source(source)) != node.source_sha256):
            raise RecordError(f"{parent.source(node.id)} is not the code that the record says was run: a branch would "
                              "rest on it")


def _copy(source: Path, target: Path, *, link: bool = False) -> None:
    """A file, or all plain files below a folder; what is not there is passed over, and so are links and pipes."""
    for path in _plain(source):
        place = target / path.relative_to(source) if path != source else target
        place.parent.mkdir(parents=True, exist_ok=True)
        if not (link and LINKED & set(path.relative_to(source).parts) and _linked(path, place)):
            shutil.copy2(path, place, follow_symlinks=False)


def _plain(source: Path) -> Iterator[Path]:
    if _is_plain(source):
        yield source
    elif not source.is_symlink():
        for folder, folders, names in os.walk(source):
            folders[:] = [name for name in folders if not name.endswith(".part")]
            yield from (path for name in names if not name.endswith(".part") and _is_plain(path := Path(folder, name)))


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _linked(path: Path, place: Path) -> bool:
    try:
        os.link(path, place, follow_symlinks=False)
    except OSError:  # another filesystem, one without links, or a file of another user
        return False
    return True
