"""What runs and machines have in common, kept once by its content: datasets as experiments see them, pretrained models,
packages, trees of repositories. An entry is a folder named by the hash of what it holds, made beside and renamed whole.

Kept: what is handed out is what the name says, checked when it is made; runs share files by hard links, so that pruning
takes nothing from a run. Not kept: room, until somebody prunes; links where run and store lie on different
filesystems (there the run has a copy); that nobody who may write to the store changes a file later (`check` finds it).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labwright.record.folder_descriptors import remove_tree
from labwright.record.run_folder import RunFolder, hash_file, write_file
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.file_clock import read_file_time

KEY_CHARS = 64
"""Characters of a key."""


def default_store_root() -> Path:
    """Below the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "scientist" / "store"


def compute_key(path: Path) -> str:
    """The hash of a file or folder: of the names, bytes, links and permissions to run of all that is in it."""
    digest = hashlib.sha256()
    for name, file in _iterate_files(path):
        held = os.readlink(file) if file.is_symlink() else f"{hash_file(file)} {int(os.access(file, os.X_OK))}"
        digest.update(f"{name}\0{held}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


@dataclass(frozen=True)
class StoreEntry:
    """What the store tells of one thing in it."""

    key: str
    kind: str
    name: str
    bytes: int
    used: float
    """Seconds since 1970, when it was last handed out."""
    shared: bool
    """Whether a run links to it."""


@dataclass(frozen=True)
class ContentStore:
    """Entries below `root`. Methods raise `ExecutorError` where it cannot be written to."""

    root: Path

    def find(self, key: str) -> Path | None:
        """The file or folder of a key, which counts as used now."""
        with suppress(OSError):
            os.utime(self.root / key / "about.json")
            return self._content_path(key)
        return None

    def add(self, path: Path, kind: str, name: str) -> str:
        """The key of a file or folder, which is in the store then: by links where that can be, else by a copy."""
        key = compute_key(path)
        if self.find(key) is None:
            self._make_entry(key, path, kind, name)
        return key

    def share_files(self, path: Path, kind: str, name: str) -> None:
        """Have a file or folder of a run in the store, and the run's own files be links to it, where that can be."""
        content = self.find(self.add(path, kind, name))
        assert content is not None
        for relative, file in _iterate_files(path):
            ours = content / relative if path.is_dir() else content
            if not file.is_symlink() and not os.path.samefile(file, ours):
                with suppress(OSError):  # another filesystem: the run keeps its copy
                    part = file.with_name(f".{file.name}.{os.getpid()}.part")
                    os.link(ours, part)
                    os.replace(part, file)

    def iterate_entries(self) -> Iterator[StoreEntry]:
        """All that there is, in no order."""
        for about in self.root.glob("*/about.json"):
            with suppress(OSError, ValueError, KeyError):
                told = json.loads(about.read_text())
                content = self._content_path(about.parent.name)
                yield StoreEntry(
                    about.parent.name,
                    told["kind"],
                    told["name"],
                    told["bytes"],
                    about.stat().st_mtime,
                    any(file.lstat().st_nlink > 1 for _, file in _iterate_files(content)),
                )

    def find_damaged(self) -> list[StoreEntry]:
        """Those that do not hold what their name says."""
        return [one for one in self.iterate_entries() if compute_key(self._content_path(one.key)) != one.key]

    def prune(self, *, unused: float, now: float | None = None) -> list[StoreEntry]:
        """Remove what was not used for so many seconds, and what was never finished; what went."""
        if now is None:
            now = read_file_time(self.root.resolve()) if self.root.is_dir() else 0.0
        since = now - unused
        gone = [one for one in self.iterate_entries() if one.used <= since]
        for one in gone:
            remove_tree(self.root / one.key, ignore_errors=True)
        for part in self.root.glob(".part-*"):
            if part.stat().st_mtime <= since:
                remove_tree(part, ignore_errors=True)
        return gone

    def _content_path(self, key: str) -> Path:
        return self.root / key / "content"

    def _make_entry(self, key: str, path: Path, kind: str, name: str) -> None:
        """Raises `ExecutorError`."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            part = Path(tempfile.mkdtemp(prefix=".part-", dir=self.root))
            try:
                link_or_copy(path, part / "content")
                self.finish(part, key, kind, name)
            finally:
                remove_tree(part, ignore_errors=True)
        except OSError as error:
            raise ExecutorError(
                f"cannot write to the store {self.root}: {error.strerror}; free some room "
                "(scientist store --prune), or name another folder (sandbox.store)"
            ) from error

    def finish(self, part: Path, key: str, kind: str, name: str) -> None:
        """Make an entry of a folder that holds its `content`. Raises `ExecutorError` where that is not what the key
        says, `OSError`."""
        if compute_key(part / "content") != key:
            raise ExecutorError(f"{kind} {name!r} did not arrive in the store as it is: its hash is not {key[:12]}...")
        size = sum(file.lstat().st_size for _, file in _iterate_files(part / "content"))
        write_file(part / "about.json", json.dumps({"kind": kind, "name": name, "bytes": size}))
        with suppress(OSError):  # somebody else was faster
            os.rename(part, self.root / key)


def share_run(run: RunFolder, store: ContentStore) -> None:
    """Have a run's views and pretrained models be links into the store; what is linked already is passed over."""
    for path, kind in (
        *((one, "view") for one in run.views.glob("*.npz")),
        *((one, "pretrained") for one in run.pretrained.glob("*/files")),
    ):
        held = next((file for _, file in _iterate_files(path)), None)
        if held is not None and held.stat().st_nlink == 1:
            store.share_files(path, kind, path.stem if kind == "view" else path.parent.name)


def _iterate_files(path: Path) -> Iterator[tuple[str, Path]]:
    """Relative names and paths of all files and links, in order; of a file its own."""
    if not path.is_dir():
        yield "", path
        return
    for file in sorted(path.rglob("*")):
        if file.is_symlink() or not file.is_dir():
            yield str(file.relative_to(path)), file


def link_or_copy(source: Path, target: Path) -> None:
    """Link a file, or all files of a folder; copy where links cannot be."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, copy_function=_link)
    else:
        _link(source, target)


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
