"""Keep a copy of the user's repository in the run: a bare mirror, and file trees that are derived from it by edits.

Guarantees: the user's folder is only read, and no program named in it is run (`sandbox.repository.git`). A tree is
identified by git's id, so equal files give the same tree. Limits: the history, untracked files, submodules and LFS
files are not copied; the latter two are reported (`ImportedTree.faults`).
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from labwright.record.run_folder import RunFolder, is_disk_full
from labwright.record.schema.repository import RepositoryEdit
from labwright.record.untrusted_files import MAX_ENTRIES, BadFile, open_regular
from labwright.sandbox.errors import RepositoryError
from labwright.sandbox.repository.git import (
    AUTHOR_VARIABLES,
    LFS_POINTER_PREFIX,
    UserGitRepository,
    find_link,
    open_repository,
    read_config_values,
    run_git,
)

_GIT_CONFIG_KEYS = (
    "repositoryformatversion filemode bare symlinks ignorecase precomposeunicode logallrefupdates".split()
)
"""Settings that git itself writes into the configuration of a new repository."""
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The tree without files, which every repository has."""
LINKED_FILE_BYTES = 2**20
"""Size in bytes; larger files are linked read-only into each checkout instead of being copied."""
MAX_HISTORY_BYTES = 200 * 10**6
"""Size of the files in bytes up to which a checkout has a `.git`."""
MAX_TEXT_BYTES = 2**20
"""Size limit of files read as text."""


class TreeFile(NamedTuple):
    """A file of a tree."""

    mode: str
    id: str
    size: int


@dataclass(frozen=True)
class ImportedTree:
    """An imported tree: its commit, and the items that could not be imported."""

    commit: str
    tree: str
    is_snapshot: bool
    """Whether uncommitted changes were added as a temporary commit."""
    files: int
    bytes: int
    faults: tuple[str, ...] = ()


def open_mirror(folder: RunFolder) -> GitMirror:
    """Return the copy of the repository in the folder of a study."""
    return GitMirror(folder.root / "code" / "mirror")


class GitMirror:
    """The run's copy of a repository. Methods raise `RepositoryError` if git fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._checkouts = self.folder.parent / "trees"
        self._texts: dict[str, dict[str, str]] = {}
        self._known = False

    def import_head(self, repository: Path, *, dirty: bool = False) -> ImportedTree:
        """Copy a repository at HEAD; with `dirty`, include uncommitted changes.

        Raises `RepositoryError` if there is no repository or commit, or for uncommitted changes without `dirty`.
        """
        with open_repository(repository) as source:
            changed, commit = _has_uncommitted_work(source, repository, dirty=dirty), source.commit
            if not self.folder.exists():
                self._fetch(source.url, f"{commit}:refs/heads/taken", "--depth=1")
            tree = self._git("rev-parse", f"{commit}^{{tree}}").strip()
            if changed:
                with tempfile.TemporaryDirectory(dir=self.folder) as place:
                    tree = source.write_snapshot(self.folder / "objects", Path(place) / "index")
                commit = self.commit(tree, commit, "uncommitted changes")
        return self.describe_import(commit, tree)

    def import_files(self, files: Mapping[str, str]) -> str:
        """Return the tree of text files by path, creating the mirror if necessary."""
        if not self.folder.exists():
            os.rename(self._init_part(), self.folder)
        return self.replace_files(_EMPTY_TREE, files)

    def describe_import(self, commit: str, tree: str) -> ImportedTree:
        """Describe what `import_head` imported."""
        listed, head = self.list_files(tree), self._git("rev-parse", "refs/heads/taken").strip()
        size = sum(file.size for file in listed.values())
        return ImportedTree(commit, tree, head != commit, len(listed), size, self._find_faults(tree))

    def import_commit(self, source: Path, commit: str = "") -> str:
        """Copy one commit (by default HEAD) of a folder, bare repository or bundle and return its tree id.

        Nothing is fetched from other places. Raises `RepositoryError` if the commit is missing.
        """
        if not source.exists():
            raise RepositoryError(f"{source} does not exist: give the folder, bare repository or bundle")
        wanted = commit or "HEAD"
        try:
            if source.is_dir():
                with open_repository(source, bare=True) as found:
                    wanted = found.run_git("rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}").strip()
                    if not (self.folder.exists() and self.has_tree(wanted)):
                        self._fetch(found.url, f"{wanted}:refs/taken/{wanted}", "--depth=1")
            elif not self.folder.exists():
                self._fetch(str(source.absolute()), "HEAD:refs/taken/HEAD", "refs/heads/*:refs/taken/*")
            wanted = wanted if commit or source.is_dir() else "refs/taken/HEAD"
            return self._git("rev-parse", "--verify", "--quiet", f"{wanted}^{{tree}}").strip()
        except RepositoryError as error:
            raise RepositoryError(f"{source} has no commit {wanted} ({error})") from None

    @staticmethod
    def check_importable(repository: Path, *, dirty: bool = False) -> None:
        """Raise `RepositoryError` if `import_head` would; this writes nothing."""
        with open_repository(repository) as source:
            _has_uncommitted_work(source, repository, dirty=dirty)

    @staticmethod
    def read_working_texts(repository: Path, *, dirty: bool = False) -> dict[str, str]:
        """Read the text files that `import_head` would copy from the working folder. Raises the same
        `RepositoryError`."""
        found: dict[str, str] = {}
        with open_repository(repository) as source:
            _has_uncommitted_work(source, repository, dirty=dirty)
            for name in source.list_files():
                with suppress(BadFile, OSError), open_regular(source.root, name, MAX_TEXT_BYTES) as file:
                    if (text := decode_text(file.read())) is not None:
                        found[name] = text
        return found

    # --- trees --------------------------------------------------------------------------------------------------------

    def list_files(self, tree: str) -> dict[str, TreeFile]:
        """Return the files of a tree by path, without submodules."""
        found: dict[str, TreeFile] = {}
        for line in filter(None, self._git("ls-tree", "-r", "-l", "-z", tree).split("\0")):
            entry, _, path = line.partition("\t")
            mode, kind, blob, size = entry.split()
            if size == "BAD":
                raise RepositoryError(f"{self.folder} is damaged ({path} is missing): restore the run's copy")
            if kind == "blob":
                found[path] = TreeFile(mode, blob, int(size))
        if len(found) > MAX_ENTRIES:
            raise RepositoryError(f"the repository has {len(found)} files, more than the limit of {MAX_ENTRIES}")
        return found

    def has_tree(self, tree: str) -> bool:
        """Return whether the tree exists with all its files, undamaged."""
        try:
            self._git("fsck", "--no-dangling", "--no-progress", "--strict", tree)
        except RepositoryError:
            return False
        return self.folder.is_dir()

    def read_texts(self, tree: str) -> dict[str, str]:
        """Return the UTF-8 text files of a tree by path, except large ones."""
        if tree not in self._texts:
            self._texts[tree] = self._load_texts(tree)
        return self._texts[tree]

    def _load_texts(self, tree: str) -> dict[str, str]:
        wanted = {
            path: file.id
            for path, file in self.list_files(tree).items()
            if file.size <= MAX_TEXT_BYTES and file.mode != "120000"
        }
        answer = self._run(["cat-file", "--batch"], "".join(f"{blob}\n" for blob in wanted.values()).encode())
        found: dict[str, str] = {}
        at = 0
        for path in wanted:
            head, _, _ = answer[at : at + 200].partition(b"\n")
            size = int(head.split()[2])
            begins = at + len(head) + 1
            content, at = answer[begins : begins + size], begins + size + 1
            if (text := decode_text(content)) is not None:
                found[path] = text
        return found

    def apply_edits(self, tree: str, edits: Sequence[RepositoryEdit]) -> str:
        """Apply edits to a tree and return the new one. Raises `RepositoryError` if a string to replace does not occur
        exactly once.
        """
        if not edits:
            return tree
        texts, changed = self.read_texts(tree), dict[str, str]()
        for edit in edits:
            before = changed.get(edit.path, texts.get(edit.path))
            changed[edit.path] = apply_edit(before, edit)
        return self.replace_files(tree, changed)

    def apply_patch(self, tree: str, patch: str) -> str:
        """Apply a unified diff (`build_diff`) to a tree and return the new one. Raises `RepositoryError`."""
        if not patch:
            return tree
        with tempfile.TemporaryDirectory() as place:
            index = {"GIT_INDEX_FILE": str(Path(place) / "index")}
            self._git("read-tree", tree, **index)
            try:
                self._run(["apply", "--cached", "--whitespace=nowarn", "-"], patch.encode(), index)
            except RepositoryError as error:
                raise RepositoryError(f"the patch does not apply to the tree: {error}") from None
            return self._git("write-tree", **index).strip()

    def replace_files(self, tree: str, files: Mapping[str, str | None]) -> str:
        """Return a tree in which the given files are replaced or added, or removed where the text is None."""
        modes = {path: file.mode for path, file in self.list_files(tree).items() if file.mode != "120000"}
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            index = {"GIT_INDEX_FILE": str(Path(place) / "index")}
            self._git("read-tree", tree, **index)
            lines = "".join(
                f"0 {'0' * 40}\t{path}\0"
                if text is None
                else f"{modes.get(path, '100644')} {self._write_blob(text)}\t{path}\0"
                for path, text in files.items()
            )
            self._run(["update-index", "-z", "--add", "--index-info"], lines.encode(errors="surrogateescape"), index)
            return self._git("write-tree", **index).strip()

    def commit(self, tree: str, parent: str, message: str) -> str:
        """Create a commit with a fixed date, so that equal commits have the same id, and keep it by a reference."""
        commit = self._git("commit-tree", tree, "-p", parent, "-m", message, **AUTHOR_VARIABLES).strip()
        self._git("update-ref", f"refs/scientist/{commit}", commit)
        return commit

    def build_diff(self, before: str, after: str) -> str:
        """Return the unified diff of two trees."""
        options = (
            "--no-color --no-ext-diff --no-textconv --text --full-index --no-renames --src-prefix=a/ --dst-prefix=b/"
        )
        return self._git("diff", *options.split(), before, after)

    def checkout(self, tree: str, folder: Path) -> Path:
        """Write the files of a tree to a new folder, with a `.git` of one commit; large files become links.

        Returns the folder to which the links point, which the command must be able to read.
        """
        source = self._prepare_source_checkout(tree)
        try:
            shutil.copytree(source, folder, symlinks=True, copy_function=_copy_or_link)
        except shutil.Error as error:  # a list of failures, without errno
            if is_disk_full(self.folder):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise
        return source

    def _prepare_source_checkout(self, tree: str) -> Path:
        """Return the folder from which checkouts of a tree are copied, creating it once."""
        source = self._checkouts / tree
        if not source.exists():
            self._checkouts.mkdir(parents=True, exist_ok=True)
            size, free = (
                sum(file.size for file in self.list_files(tree).values()),
                shutil.disk_usage(self._checkouts).free,
            )
            if size > free / 2:
                raise RepositoryError(
                    f"its files take {size / 1e9:.1f} GB, more than half of the {free / 1e9:.1f} GB that are free"
                )
            part = Path(tempfile.mkdtemp(dir=self._checkouts, prefix=".part"))
            with tempfile.TemporaryDirectory(dir=self.folder) as place:
                index = {"GIT_INDEX_FILE": str(Path(place) / "index"), "GIT_WORK_TREE": str(part)}
                self._git("read-tree", tree, **index)
                self._git("checkout-index", "--all", "--force", f"--prefix={part}/", **index)
            if size <= MAX_HISTORY_BYTES:
                self._write_history(tree, part)
            part.chmod(0o755)
            try:
                os.rename(part, source)
            except OSError:  # another process was first
                shutil.rmtree(part, ignore_errors=True)
        return source

    def _write_history(self, tree: str, folder: Path) -> None:
        """Give a checkout a `.git` of its own with one commit, for programs that ask git for their version."""
        commit = self._git("commit-tree", tree, "-m", "the files of this run", **AUTHOR_VARIABLES).strip()
        pack = self._run(["pack-objects", "--revs", "--stdout", "-q"], f"{commit}\n".encode())
        own = {"GIT_DIR": str(folder / ".git"), "GIT_WORK_TREE": str(folder)}
        run_git(folder, ("init", "--quiet", "--template=", "--initial-branch=main", str(folder)))
        run_git(folder, ("index-pack", "--stdin"), pack, own)
        run_git(folder, ("update-ref", "refs/heads/main", commit), variables=own)
        run_git(folder, ("read-tree", commit), variables=own)

    def forget_checkouts(self) -> None:
        """Remove the folders from which checkouts are copied; they are recreated when needed."""
        shutil.rmtree(self._checkouts, ignore_errors=True)

    # --- git ----------------------------------------------------------------------------------------------------------

    def _check_config(self) -> None:
        """Raise `RepositoryError` if the mirror was not made by this program, since the mirror of a copied run may name
        programs to execute.
        """
        config = self.folder / "config"
        keys = (
            set(read_config_values(config.read_text(errors="surrogateescape"), ".")) if config.is_file() else set[str]()
        )
        if odd := sorted({*keys} - {f"core.{key}" for key in _GIT_CONFIG_KEYS}):
            raise RepositoryError(f"{config} sets {odd[0]}, which scientist never sets: remove this setting")
        objects = self.folder / "objects"
        if objects.is_symlink() or find_link(objects) or (objects / "info" / "alternates").exists():
            raise RepositoryError(
                f"{self.folder} borrows objects from elsewhere, which scientist never does: restore the run's copy"
            )
        self._known = True

    def _fetch(self, url: str, *words: str) -> None:
        """Fetch from another repository without linking to it, creating the mirror if necessary."""
        target = self.folder if self.folder.exists() else self._init_part()
        run_git(target, ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", url, *words))
        if target != self.folder:
            os.rename(target, self.folder)

    def _init_part(self) -> Path:
        """Create an empty bare repository, which is renamed to the mirror once it is complete."""
        part = self.folder.with_name(self.folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        run_git(part.parent, ("init", "--quiet", "--bare", "--template=", str(part)))
        return part

    def _find_faults(self, tree: str) -> tuple[str, ...]:
        faults: list[str] = []
        modules = [
            line.partition("\t")[2]
            for line in self._git("ls-tree", "-r", tree).splitlines()
            if line.startswith("160000")
        ]
        if modules:
            faults.append(f"submodules are not included: {_format_names(modules)}")
        pointers = [
            path for path, text in self.read_texts(tree).items() if text.startswith(LFS_POINTER_PREFIX.decode())
        ]
        if pointers:
            faults.append(f"LFS files are not included: {_format_names(pointers)}; provide them with --mount")
        return tuple(faults)

    def _write_blob(self, text: str) -> str:
        return self._run(["hash-object", "-w", "--stdin", "--no-filters"], text.encode()).decode().strip()

    def _git(self, *words: str, **variables: str) -> str:
        return self._run(words, b"", variables).decode("utf-8", errors="surrogateescape")

    def _run(self, words: Sequence[str], given: bytes = b"", variables: Mapping[str, str] | None = None) -> bytes:
        if not self._known:
            self._check_config()
        own = {"GIT_DIR": str(self.folder)}
        if not os.access(self.folder, os.W_OK):
            known = str(self.folder / "objects")
            own |= {"GIT_OBJECT_DIRECTORY": self._new_objects, "GIT_ALTERNATE_OBJECT_DIRECTORIES": known}
        return run_git(self.folder, words, given, {**own, **(variables or {})})

    @cached_property
    def _new_objects(self) -> str:
        """A temporary folder for new objects, if the study is on a read-only disk or another user's."""
        place = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        return place


def decode_text(content: bytes) -> str | None:
    """Decode a text file; None if it is not one."""
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def apply_edit(before: str | None, edit: RepositoryEdit) -> str:
    """Apply an edit to a string. Raises `RepositoryError` if the text to replace does not occur exactly once."""
    if not edit.old:
        if before is not None:
            raise RepositoryError(f"{edit.path} exists already: give the text in it to replace")
        return edit.new
    if (count := (before or "").count(edit.old)) != 1:
        raise RepositoryError(f"the text to replace occurs {count} times in {edit.path}, but must occur exactly once")
    assert before is not None
    return before.replace(edit.old, edit.new)


def _has_uncommitted_work(source: UserGitRepository, repository: Path, *, dirty: bool) -> bool:
    """Return whether there are uncommitted changes. Raises `RepositoryError` if there are and `dirty` is not set."""
    found = source.list_changed()
    if found and not dirty:
        filtered = source.select_filtered(found)
        hint = (
            f"; git filters are not run, so {_format_names(filtered)} may wrongly count as changed" if filtered else ""
        )
        raise RepositoryError(
            f"{repository} has uncommitted changes ({_format_names(found)}): commit them, or include "
            f"them with --dirty{hint}"
        )
    return bool(found)


def read_git_output(folder: Path, *arguments: str) -> str:
    """Run git with a fixed author and without the user's settings, and return the output. Raises `RepositoryError`."""
    return run_git(folder, arguments, variables=AUTHOR_VARIABLES).decode("utf-8", errors="surrogateescape")


def _copy_or_link(source: str, target: str) -> None:
    """Copy a file, or link to it if it is large."""
    if os.path.islink(source) or os.path.getsize(source) <= LINKED_FILE_BYTES:
        shutil.copy2(source, target, follow_symlinks=False)
    else:
        os.symlink(source, target)


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
