"""Content-addressed store shared by the runs of a machine: dataset views, pretrained models, packages, repository
trees.

An entry is a folder named by the hash of its contents; it is built under a temporary name and then renamed.

Guarantees: contents match the name when the entry is created; runs share files by hard links, so pruning removes
nothing from a run. Limits: space is freed only by pruning; a run on another filesystem has its own copy; later changes
to the store are found only by `find_damaged`.

Also the archives in which its folders travel.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import stat
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labwright.record.run_folder import RunFolder, hash_file, write_file
from labwright.record.untrusted_files import (
    MAX_ENTRIES,
    BadFile,
    FolderRef,
    create_file,
    iterate_entries,
    make_folder,
    open_parent,
    open_regular,
    open_subfolder,
    raise_read_errors_as,
    read_link,
    remove_tree,
)
from labwright.sandbox.job import ExecutorError


def default_store_root() -> Path:
    """Return the default store folder, in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "scientist" / "store"


def compute_key(path: Path) -> str:
    """Return the hash of a file or folder: names, bytes, links and executable bits of its contents."""
    digest = hashlib.sha256()
    for name, file in _iterate_files(path):
        state = os.readlink(file) if file.is_symlink() else f"{hash_file(file)} {int(os.access(file, os.X_OK))}"
        digest.update(f"{name}\0{state}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


@dataclass(frozen=True)
class StoreEntry:
    """Metadata of an entry in the store."""

    key: str
    kind: str
    name: str
    bytes: int
    used: float
    """Last use, in seconds since 1970."""
    shared: bool
    """Whether any run links to it."""


@dataclass(frozen=True)
class ContentStore:
    """Entries below `root`. Methods raise `ExecutorError` if the store is not writable."""

    root: Path

    def find(self, key: str) -> Path | None:
        """Return the file or folder of a key and mark it as used now; None if it is not in the store."""
        with suppress(OSError):
            os.utime(self.root / key / "about.json")
            return self._content_path(key)
        return None

    def add(self, path: Path, kind: str, name: str) -> str:
        """Add a file or folder, by hard links if possible, otherwise by copying; return its key."""
        key = compute_key(path)
        if self.find(key) is None:
            self._make_entry(key, path, kind, name)
        return key

    def share_files(self, path: Path, kind: str, name: str) -> None:
        """Add a run's file or folder to the store and replace its files with links to the store, where possible."""
        content = self.find(self.add(path, kind, name))
        assert content is not None
        for relative, file in _iterate_files(path):
            stored = content / relative if path.is_dir() else content
            if not file.is_symlink() and not os.path.samefile(file, stored):
                with suppress(OSError):  # another filesystem: the run keeps its copy
                    part = file.with_name(f".{file.name}.{os.getpid()}.part")
                    os.link(stored, part)
                    os.replace(part, file)

    def iterate_entries(self) -> Iterator[StoreEntry]:
        """Iterate over all entries, in no particular order."""
        for about in self.root.glob("*/about.json"):
            with suppress(OSError, ValueError, KeyError):
                metadata, key = json.loads(about.read_text()), about.parent.name
                files = (file for _, file in _iterate_files(self._content_path(key)))
                is_shared = any(file.lstat().st_nlink > 1 for file in files)
                kind, name, size = (metadata[word] for word in ("kind", "name", "bytes"))
                yield StoreEntry(key, kind, name, size, about.stat().st_mtime, is_shared)

    def find_damaged(self) -> list[StoreEntry]:
        """Return the entries whose contents do not match their key."""
        return [one for one in self.iterate_entries() if compute_key(self._content_path(one.key)) != one.key]

    def prune(self, *, unused: float) -> list[StoreEntry]:
        """Remove entries that were not used for `unused` seconds, and unfinished ones; return the removed entries."""
        since = (read_file_time(self.root.resolve()) if self.root.is_dir() else 0.0) - unused
        gone = [one for one in self.iterate_entries() if one.used <= since]
        parts = [part for part in self.root.glob(".part-*") if part.stat().st_mtime <= since]
        for folder in (*parts, *(self.root / one.key for one in gone)):
            remove_tree(folder, ignore_errors=True)
        return gone

    def _content_path(self, key: str) -> Path:
        return self.root / key / "content"

    def _make_entry(self, key: str, path: Path, kind: str, name: str) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            part = Path(tempfile.mkdtemp(prefix=".part-", dir=self.root))
            try:
                if path.is_dir():
                    shutil.copytree(path, part / "content", symlinks=True, copy_function=_link)
                else:
                    _link(path, part / "content")
                self.finish(part, key, kind, name)
            finally:
                remove_tree(part, ignore_errors=True)
        except OSError as error:
            raise ExecutorError(
                f"cannot write to the store {self.root} (sandbox.store): {error.strerror}; see scientist store --prune"
            ) from error

    def finish(self, part: Path, key: str, kind: str, name: str) -> None:
        """Turn a folder with its `content` into an entry.

        Raises `ExecutorError` if the content does not match the key, `OSError`.
        """
        if compute_key(part / "content") != key:
            raise ExecutorError(f"{kind} {name!r} was changed while it was copied to the store: try again")
        size = sum(file.lstat().st_size for _, file in _iterate_files(part / "content"))
        write_file(part / "about.json", json.dumps({"kind": kind, "name": name, "bytes": size}))
        with suppress(OSError):  # another process was faster
            os.rename(part, self.root / key)


def share_run(run: RunFolder, store: ContentStore) -> None:
    """Replace a run's views and pretrained models with links into the store, unless they are links already."""
    found = dict.fromkeys(run.views.glob("*.npz"), "view")
    for path, kind in (found | dict.fromkeys(run.pretrained.glob("*/files"), "pretrained")).items():
        first = next((file for _, file in _iterate_files(path)), None)
        if first is not None and first.stat().st_nlink == 1:
            store.share_files(path, kind, path.stem if kind == "view" else path.parent.name)


def _iterate_files(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield relative names and paths of all files and links, in order; a single file yields itself with an empty
    name.
    """
    if not path.is_dir():
        yield "", path
        return
    for file in sorted(path.rglob("*")):
        if file.is_symlink() or not file.is_dir():
            yield str(file.relative_to(path)), file


def _link(source: str | Path, target: str | Path) -> None:
    """Link a file; copy it if hard links are impossible."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


# --- the clock of files: a file server has its own, which may differ from the local one by seconds --------------------


_MAX_TICK_SECONDS = 3.0
"""Seconds within which every clock advances."""


def read_file_time(folder: FolderRef) -> float:
    """Return the time of a folder's file server in seconds since 1970. Raises `BadFile`, `OSError`."""
    name = f".{secrets.token_hex(8)}.time"
    with open_subfolder(folder) as place:
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=place)
        try:
            return os.fstat(file).st_mtime
        finally:
            os.close(file)
            os.unlink(name, dir_fd=place)


def wait_for_next_time(folder: FolderRef) -> float:
    """Block until file timestamps in the folder advance, and return the new time.

    It is later than the timestamps of all files written before. This takes milliseconds, or up to two seconds if the
    server counts whole seconds. Raises `BadFile`, `OSError`.
    """
    before, until = read_file_time(folder), time.monotonic() + _MAX_TICK_SECONDS
    while (now := read_file_time(folder)) == before and time.monotonic() < until:
        time.sleep(0.002)
    return now


# Pack folders and unpack archives: a tar of plain files, folders, links and pipes only. Guarantees: nothing is
# written outside the folder or through a link in it; nothing is unpickled.

MAX_FILE_TIME = 2.0**60
"""Largest modification time in seconds since 1970; experiment code can set times that system calls reject."""
_TAR_TYPES = {
    stat.S_IFREG: tarfile.REGTYPE,
    stat.S_IFDIR: tarfile.DIRTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFIFO: tarfile.FIFOTYPE,
}
"""Sockets and devices are not sent."""


def pack_archive(folder: Path, target: Path, *, max_bytes: int, clock_shift: float = 0.0) -> None:
    """Write a folder (or one file) to an archive; `clock_shift` (seconds) is added to file times. Raises `BadFile` if
    the files contain more than `max_bytes`, and `OSError`."""
    size, root, entries = 0, folder, iterate_entries(folder)
    if not folder.is_dir():
        root, entries = folder.parent, iter([(folder.name, folder.stat())])
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, status in entries:
            if (kind := _TAR_TYPES.get(stat.S_IFMT(status.st_mode))) is None:
                continue
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, stat.S_IMODE(status.st_mode) & 0o777
            info.mtime = min(max(status.st_mtime + clock_shift, -MAX_FILE_TIME), MAX_FILE_TIME)
            if not info.isreg():
                info.linkname = read_link(root, name) if info.issym() else ""
                archive.addfile(info)
                continue
            info.size = status.st_size
            if (size := size + info.size) > max_bytes:
                raise BadFile(f"the output files exceed {max_bytes / 1e9:g} GB (sandbox.disk_gb)")
            with open_regular(root, name, max_bytes) as file:
                archive.addfile(info, file)


def unpack_archive(source: Path, folder: Path, *, max_bytes: int = 2**62) -> None:
    """Extract an archive of at most `max_bytes` into a folder. Raises `BadFile`, `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    size = 0
    with raise_read_errors_as("the archive cannot be read"), tarfile.open(source, "r:") as archive:
        for number, member in enumerate(archive):
            size += member.size
            if size > max_bytes or number > MAX_ENTRIES:
                raise BadFile(f"the archive exceeds {max_bytes / 1e9:g} GB or {MAX_ENTRIES} files")
            _extract_member(archive, member, folder)


def _extract_member(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Extract one member; hard links and devices are skipped."""
    if member.isdir():
        if member.name != ".":
            make_folder(folder, member.name)
        return
    with open_parent(folder, member.name) as (parent, name):
        if member.issym():
            os.symlink(member.linkname, name, dir_fd=parent)
        elif member.isfifo():
            os.mkfifo(name, 0o600, dir_fd=parent)
        elif member.isreg() and (content := archive.extractfile(member)) is not None:
            with create_file(parent, name) as file:
                shutil.copyfileobj(content, file)
                os.fchmod(file.fileno(), member.mode & 0o777 | 0o600)
                file.flush()
                os.utime(file.fileno(), (member.mtime, member.mtime))
