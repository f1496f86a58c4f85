"""A repository of the user as the record keeps it: a bare copy, and trees of files that follow from it by edits.

Kept: the user's folder is only read, its index included, and no hook of theirs runs; their settings of git decide what
counts as uncommitted, and nothing else. A tree is named by git's own id, so equal files are one tree. Not kept: the
history, what git does not track, submodules, and files that lie in LFS: these are told (`Taken.faults`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from record.nouns.repository import Edit
from sandbox.errors import RepositoryError

LIMIT = 600.0
"""Seconds that one command of git may take."""
LARGE = 2**20
"""Bytes from which a file is not copied into each checkout, but linked to where it lies read-only."""
TEXT = 2**20
"""Bytes of the largest file that is read as text."""
_AUTHOR = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (
    ("NAME", "scientist"), ("EMAIL", "scientist@localhost"), ("DATE", "2000-01-01T00:00:00Z"))}
_QUIET = {
    "GIT_OPTIONAL_LOCKS": "0", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C", "GIT_ATTR_NOSYSTEM": "1"}
_OPTIONS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "safe.directory=*", "-c",
            "gc.auto=0", "-c", "core.untrackedCache=false")
_POINTER = b"version https://git-lfs"


class Blob(NamedTuple):
    """A file of a tree."""

    mode: str
    id: str
    size: int


@dataclass(frozen=True)
class Taken:
    """What was taken in: where it stands, and what is not there."""

    commit: str
    tree: str
    snapshot: bool
    """Whether uncommitted work was made a commit of ours."""
    files: int
    bytes: int
    faults: tuple[str, ...] = ()


class Mirror:
    """The record's copy of a repository. Methods raise `RepositoryError` where git fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._checkouts = self.folder.parent / "trees"
        self._texts: dict[str, dict[str, str]] = {}

    def take(self, repository: Path, *, dirty: bool = False) -> Taken:
        """Copy a repository as its HEAD is; with `dirty`, with what is not committed.

        Raises `RepositoryError` for what is none, has no commit, or holds uncommitted work without `dirty`.
        """
        root, changed = self.check(repository, dirty=dirty)
        commit = _git(root, "rev-parse", "HEAD").strip()
        if not self.folder.exists():
            part = self.folder.with_name(self.folder.name + ".part")
            shutil.rmtree(part, ignore_errors=True)
            part.parent.mkdir(parents=True, exist_ok=True)
            _git(part.parent, "init", "--quiet", "--bare", "--template=", str(part))
            # not linked to: git would touch the files of the other's objects
            _git(part, "-c", "protocol.file.allow=always", "fetch", "--quiet", "--depth=1", "--no-tags",
                 "--no-recurse-submodules", f"file://{quote(str(root))}", f"{commit}:refs/heads/taken")
            os.rename(part, self.folder)
        tree = self._git("rev-parse", f"{commit}^{{tree}}").strip()
        if changed:
            tree = self._snapshot(root, commit)
            commit = self.commit(tree, commit, "uncommitted work")
        listed = self.listing(tree)
        return Taken(commit, tree, bool(changed), len(listed), sum(one.size for one in listed.values()),
                     self._faults(tree, listed))

    def take_commit(self, source: Path, commit: str = "") -> str:
        """Copy one commit of a folder, a bare repository or a bundle (by default its HEAD); returns the id of its tree.

        Nothing is fetched from elsewhere. Raises `RepositoryError` where the commit is not there.
        """
        if not source.exists():
            raise RepositoryError(f"{source} is not there: give the folder, bare repository or bundle of it")
        if not self.folder.exists():
            part = self.folder.with_name(self.folder.name + ".part")
            shutil.rmtree(part, ignore_errors=True)
            part.parent.mkdir(parents=True, exist_ok=True)
            _git(part.parent, "init", "--quiet", "--bare", "--template=", str(part))
            where = f"file://{quote(str(source.absolute()))}" if source.is_dir() else str(source.absolute())
            _git(part, "-c", "protocol.file.allow=always", "fetch", "--quiet", "--no-tags", "--no-recurse-submodules",
                 where, "HEAD:refs/taken/HEAD", "refs/heads/*:refs/taken/*")
            os.rename(part, self.folder)
        wanted = commit or "refs/taken/HEAD"
        try:
            return self._git("rev-parse", "--verify", "--quiet", f"{wanted}^{{tree}}").strip()
        except RepositoryError:
            raise RepositoryError(f"{source} holds no commit {wanted}") from None

    @staticmethod
    def check(repository: Path, *, dirty: bool = False) -> tuple[Path, list[str]]:
        """Its top folder, and what is not committed; writes nothing. Raises `RepositoryError` as `take` does."""
        root = root_of(repository)
        if (changed := _changed(root)) and not dirty:
            raise RepositoryError(
                f"{repository} holds work that is not committed ({_listed(changed)}): commit it, or take it as it is "
                "with --dirty")
        return root, changed

    @staticmethod
    def texts_of(repository: Path, *, dirty: bool = False) -> dict[str, str]:
        """The texts that `take` would find, read where they lie. Raises `RepositoryError` as it does."""
        root, _ = Mirror.check(repository, dirty=dirty)
        listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        found: dict[str, str] = {}
        for name in filter(None, listed.split("\0")):
            path = root / name
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= TEXT and (
                    text := _text(path.read_bytes())) is not None:
                found[name] = text
        return found

    # --- trees --------------------------------------------------------------------------------------------------------

    def listing(self, tree: str) -> dict[str, Blob]:
        """The files of a tree by their paths; submodules are none."""
        found: dict[str, Blob] = {}
        for line in filter(None, self._git("ls-tree", "-r", "-l", "-z", tree).split("\0")):
            told, _, path = line.partition("\t")
            mode, kind, blob, size = told.split()
            if kind == "blob":
                found[path] = Blob(mode, blob, int(size))
        return found

    def holds(self, tree: str) -> bool:
        """Whether the tree is there with all its files, undamaged."""
        try:
            self._git("fsck", "--no-dangling", "--no-progress", "--strict", tree)
        except RepositoryError:
            return False
        return self.folder.is_dir()

    def texts(self, tree: str) -> dict[str, str]:
        """The files of a tree that are text, in UTF-8 and not large, by their paths."""
        if tree not in self._texts:
            self._texts[tree] = self._read_texts(tree)
        return self._texts[tree]

    def _read_texts(self, tree: str) -> dict[str, str]:
        wanted = {path: one.id for path, one in self.listing(tree).items() if one.size <= TEXT and one.mode != "120000"}
        answer = self._run(["cat-file", "--batch"], "".join(f"{one}\n" for one in wanted.values()).encode())
        found: dict[str, str] = {}
        at = 0
        for path in wanted:
            head, _, _ = answer[at:at + 200].partition(b"\n")
            size = int(head.split()[2])
            begins = at + len(head) + 1
            content, at = answer[begins:begins + size], begins + size + 1
            if (text := _text(content)) is not None:
                found[path] = text
        return found

    def edited(self, tree: str, edits: Sequence[Edit]) -> str:
        """The tree that edits make of another. Raises `RepositoryError` where a piece does not occur exactly once."""
        if not edits:
            return tree
        texts, made = self.texts(tree), dict[str, str]()
        for edit in edits:
            before = made.get(edit.path, texts.get(edit.path))
            made[edit.path] = changed(before, edit)
        return self.with_files(tree, made)

    def patched(self, tree: str, patch: str) -> str:
        """The tree that a unified diff of git (`difference`) makes of another. Raises `RepositoryError`."""
        if not patch:
            return tree
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            index = {"GIT_INDEX_FILE": str(Path(place) / "index")}
            self._git("read-tree", tree, **index)
            try:
                self._run(["apply", "--cached", "--whitespace=nowarn", "-"], patch.encode(), index)
            except RepositoryError as error:
                raise RepositoryError(f"the patch does not fit the files that it is made for: {error}") from None
            return self._git("write-tree", **index).strip()

    def with_files(self, tree: str, files: Mapping[str, str]) -> str:
        """The tree with these texts in place of what it has, or beside it."""
        modes = {path: one.mode for path, one in self.listing(tree).items()}
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            index = {"GIT_INDEX_FILE": str(Path(place) / "index")}
            self._git("read-tree", tree, **index)
            lines = "".join(f"{modes.get(path, '100644')} {self._write(text)}\t{path}\n"
                            for path, text in files.items())
            self._run(["update-index", "--add", "--index-info"], lines.encode(), index)
            return self._git("write-tree", **index).strip()

    def commit(self, tree: str, parent: str, message: str) -> str:
        """A commit of ours, dated to no day, so that equal ones are one. It is kept by a reference."""
        made = self._git("commit-tree", tree, "-p", parent, "-m", message, **_AUTHOR).strip()
        self._git("update-ref", f"refs/scientist/{made}", made)
        return made

    def difference(self, before: str, after: str) -> str:
        """A unified diff of two trees."""
        return self._git("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--text", "--full-index",
                         "--no-renames", "--src-prefix=a/", "--dst-prefix=b/", before, after)

    def checkout(self, tree: str, folder: Path) -> Path:
        """Put the files of a tree into a new folder; what is large is linked to `large`, which must be seen there.

        The folder that large files lie in, read-only.
        """
        kept = self._kept(tree)
        shutil.copytree(kept, folder, symlinks=True, copy_function=_copy_small)
        return kept

    def _kept(self, tree: str) -> Path:
        """The files of a tree as they are copied from, made once."""
        kept = self._checkouts / tree
        if not kept.exists():
            part = Path(tempfile.mkdtemp(dir=_made(self._checkouts), prefix=".part"))
            with tempfile.TemporaryDirectory(dir=self.folder) as place:
                index = {"GIT_INDEX_FILE": str(Path(place) / "index"), "GIT_WORK_TREE": str(part)}
                self._git("read-tree", tree, **index)
                self._git("checkout-index", "--all", "--force", f"--prefix={part}/", **index)
            part.chmod(0o755)
            try:
                os.rename(part, kept)
            except OSError:  # another run of ours was first
                shutil.rmtree(part, ignore_errors=True)
        return kept

    def forget_checkouts(self) -> None:
        """Remove what checkouts are copied from; it is made again where it is needed."""
        shutil.rmtree(self._checkouts, ignore_errors=True)

    # --- git ----------------------------------------------------------------------------------------------------------

    def _snapshot(self, root: Path, commit: str) -> str:
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            index = {"GIT_INDEX_FILE": str(Path(place) / "index"), "GIT_WORK_TREE": str(root)}
            self._git("read-tree", commit, **index)
            self._git("add", "--all", **index, cwd=str(root))
            return self._git("write-tree", **index).strip()

    def _faults(self, tree: str, listed: Mapping[str, Blob]) -> tuple[str, ...]:
        faults: list[str] = []
        modules = [line.partition("\t")[2] for line in self._git("ls-tree", "-r", tree).splitlines()
                   if line.startswith("160000")]
        if modules:
            faults.append(f"submodules are not taken along: {_listed(modules)}")
        small = [path for path, one in listed.items() if 100 <= one.size <= 200]
        pointers = [path for path in small if self._run(["cat-file", "blob", listed[path].id]).startswith(_POINTER)]
        if pointers:
            faults.append(f"files lie in LFS and are only named here: {_listed(pointers)}; give them by --mount")
        return tuple(faults)

    def _write(self, text: str) -> str:
        return self._run(["hash-object", "-w", "--stdin", "--no-filters"], text.encode()).decode().strip()

    def _git(self, *words: str, cwd: str | None = None, **variables: str) -> str:
        return self._run(words, b"", variables, cwd).decode("utf-8", errors="surrogateescape")

    def _run(
        self, words: Sequence[str], given: bytes = b"", variables: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> bytes:
        return _run(Path(cwd) if cwd else self.folder, words, given, {"GIT_DIR": str(self.folder.absolute()),
                                                                      **(variables or {})})


def _text(content: bytes) -> str | None:
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def root_of(repository: Path) -> Path:
    """The top of the repository that a folder lies in, if it has a commit. Raises `RepositoryError`."""
    if not repository.is_dir():
        raise RepositoryError(f"{repository} is no folder: name one that holds a git repository")
    try:
        root = Path(_git(repository, "rev-parse", "--show-toplevel").strip())
    except RepositoryError:
        raise RepositoryError(f"{repository} is no git repository: run git init there, and commit your code") from None
    try:
        _git(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except RepositoryError:
        raise RepositoryError(f"{repository} has no commit: commit your code") from None
    return root


def changed(before: str | None, edit: Edit) -> str:
    """A text after an edit. Raises `RepositoryError` where the piece does not occur exactly once."""
    if not edit.old:
        if before is not None:
            raise RepositoryError(f"{edit.path} is there already: name the piece of it that is to change")
        return edit.new
    if (count := (before or "").count(edit.old)) != 1:
        raise RepositoryError(f"the piece that is to change occurs {count} times in {edit.path}, and must occur once")
    assert before is not None
    return before.replace(edit.old, edit.new)


def _changed(root: Path) -> list[str]:
    """Files with uncommitted changes, new ones included that nothing ignores: by the person's own settings of git."""
    own = {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in os.environ}
    if "HOME" in own:
        own["GIT_CONFIG_GLOBAL"] = os.environ.get("GIT_CONFIG_GLOBAL", str(Path(own["HOME"], ".gitconfig")))
    told = _run(root, ("status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=all"), b"",
                own).decode("utf-8", errors="surrogateescape")
    return [line[3:] for line in told.split("\0") if re.match(r"[ MTADRCU?!]{2} ", line)]


def git(folder: Path, *words: str) -> str:
    """What a command of git prints, as our own author and without anybody's settings. Raises `RepositoryError`."""
    return _run(folder, words, b"", _AUTHOR).decode("utf-8", errors="surrogateescape")


def _git(folder: Path, *words: str) -> str:
    return _run(folder, words, b"", {}).decode("utf-8", errors="surrogateescape")


def _run(folder: Path, words: Sequence[str], given: bytes, variables: Mapping[str, str]) -> bytes:
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    try:
        ran = subprocess.run(["git", *_OPTIONS, *words], input=given, capture_output=True, timeout=LIMIT, check=False,
                             cwd=folder, env={**kept, "HOME": os.devnull, **_QUIET, **variables})
    except FileNotFoundError:
        raise RepositoryError("git is not installed: install it (apt-get install git)") from None
    except subprocess.TimeoutExpired:
        raise RepositoryError(f"git {words[0]} took more than {LIMIT:g} s") from None
    if ran.returncode:
        told = " ".join(ran.stderr.decode("utf-8", errors="replace").split())[-300:]
        raise RepositoryError(f"git {words[0]} failed: {told or ran.returncode}")
    return ran.stdout


def _copy_small(source: str, target: str) -> None:
    """Copy a file, or link to it where it is large."""
    if os.path.islink(source) or os.path.getsize(source) <= LARGE:
        shutil.copy2(source, target, follow_symlinks=False)
    else:
        os.symlink(source, target)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
