"""Keep a copy of the user's repository in the run: a bare mirror, and file trees that are derived from it by edits.

Guarantees: the user's folder is only read, and no program named in it is run. A tree is
identified by git's id, so equal files give the same tree. Limits: the history, untracked files, submodules and LFS
files are not copied; the latter two are reported (`RepositoryImported.faults`).
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import NamedTuple
from urllib.parse import quote

from labwright.record.events.repository_events import RepositoryImported
from labwright.record.run_folder import RunFolder, is_disk_full
from labwright.record.schema.repository import RepositoryEdit
from labwright.record.untrusted_files import MAX_ENTRIES, BadFile, open_regular
from labwright.sandbox.job import RepositoryError

# Run git with fixed settings, and read a user's repository without its configuration. The user's repository is read
# through a separate git directory. Guarantees: nothing is written to the user's folder, and none of its programs runs
# (filters, hooks, fsmonitor, text conversions, credential helpers, `core.sshCommand`, lazy fetches, or programs of a
# submodule's configuration), because git never reads the configuration that names them. Only plain values that
# determine what counts as changed (line endings, modes) are copied from it; ignore rules are copied from the user's
# global configuration as well. Nothing outside the repository is read: a `.git` that is a link or does not refer back
# to this folder, and borrowed objects, are rejected. Limits: filters are not applied, so a file that a filter writes
# counts as changed.

GIT_TIMEOUT_SECONDS = 600.0
"""Timeout of one git command in seconds."""
_MAX_MEMORY_BYTES, MAX_OUTPUT_BYTES = 8 * 2**30, 2**30
"""Limits of the memory (without mapped files) and of the output of one git command."""
AUTHOR_VARIABLES = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "scientist"), ("EMAIL", "scientist@localhost"), ("DATE", "2000-01-01T00:00:00Z"))
}
_QUIET_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "LC_ALL": "C",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
}
_SAFE_OPTIONS = (
    "-c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c core.untrackedCache=false "
    "-c core.commitGraph=false -c core.fsync=objects,reference "
    "-c protocol.file.allow=always"
).split()


def run_git(
    folder: Path, arguments: Sequence[str], stdin: bytes = b"", variables: Mapping[str, str] | None = None
) -> bytes:
    """Run a git command and return its output; `variables` set the git directory. Raises `RepositoryError`,
    and `OSError` if the disk is full.

    Memory and output are limited, since a few objects can describe a tree of any number of files.
    """
    environment = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    environment |= {"HOME": os.devnull, **_QUIET_VARIABLES, **(variables or {})}
    limited = ["/bin/sh", "-c", f'ulimit -d {_MAX_MEMORY_BYTES >> 10}; exec "$@"', "sh", "git"]
    with TemporaryFile() as given, TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        with subprocess.Popen(
            [*limited, *_SAFE_OPTIONS, *arguments],
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=folder,
            env=environment,
        ) as git:
            timer = Timer(GIT_TIMEOUT_SECONDS, git.kill)
            timer.start()
            try:
                assert git.stdout is not None
                output = git.stdout.read(MAX_OUTPUT_BYTES + 1)
                if len(output) > MAX_OUTPUT_BYTES:
                    raise RepositoryError(f"git {arguments[0]} printed more than {MAX_OUTPUT_BYTES} bytes")
                git.wait()
            finally:
                late = timer.finished.is_set()
                timer.cancel()
                git.kill()
        errors.seek(0)
        message = " ".join(errors.read().decode("utf-8", errors="replace").split())[-300:]
    if late:
        raise RepositoryError(f"git {arguments[0]} took more than {GIT_TIMEOUT_SECONDS:g} s")
    if git.returncode == 127:
        raise RepositoryError("git is not installed: install it (apt-get install git)")
    if git.returncode and is_disk_full(folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if git.returncode:
        raise RepositoryError(f"git {arguments[0]} failed: {message or git.returncode}")
    return output


# --- a user's repository ----------------------------------------------------------------------------------------------

LFS_POINTER_PREFIX = "version https://git-lfs"
"""Beginning of an LFS pointer file."""
_MAX_TEXT_BYTES, _MAX_INDEX_BYTES = 2**26, 2**32
"""Size limits of text files (references, configuration) and of the index of a git directory."""
_PLAIN_KEYS_PATTERN = r"^core\.(autocrlf|eol|filemode|ignorecase|symlinks)$"


@dataclass(frozen=True)
class UserGitRepository:
    """A readable repository: its top folder, its HEAD commit and the separate git directory for it."""

    root: Path
    commit: str
    git_folder: Path

    @property
    def url(self) -> str:
        """The URL from which its commits are fetched."""
        return f"file://{quote(str(self.git_folder))}"

    def run_git(self, *arguments: str, stdin: str = "", **variables: str) -> str:
        """Run git on the repository and its working folder and return the output. Raises `RepositoryError`."""
        own = {"GIT_DIR": str(self.git_folder), "GIT_WORK_TREE": str(self.root), **variables}
        output = run_git(self.root, arguments, stdin.encode(errors="surrogateescape"), own)
        return output.decode(errors="surrogateescape")

    def list_changed(self) -> list[str]:
        """Return the files with uncommitted changes, including new files that are not ignored, without LFS files, which
        are not copied.
        """
        output = self.run_git("status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=all")
        found = [(line[:2], line[3:]) for line in output.split("\0") if re.match(r"[ MTADRCU?!]{2} ", line)]
        asked = "".join(f"{path}\0" for how, path in found if how == " M")
        fields = self.run_git("check-attr", "-z", "--stdin", "filter", stdin=asked).split("\0")
        filtered = {path for path, value in zip(fields[::3], fields[2::3], strict=False) if value == "lfs"}
        return [path for _, path in found if path not in filtered]

    def list_files(self) -> list[str]:
        """Return the paths of the working folder except ignored ones."""
        output = self.run_git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return list(filter(None, output.split("\0")))

    def write_snapshot(self, objects: Path, index: Path) -> str:
        """Write the working folder as a tree into an object folder that contains HEAD, and return its id."""
        variables = {"GIT_OBJECT_DIRECTORY": str(objects), "GIT_INDEX_FILE": str(index)}
        self.run_git("read-tree", self.commit, **variables)
        listed = self.run_git("ls-files", "-z", "--stage", **variables).split("\0")
        linked = [line.partition("\t")[2] for line in listed if line.startswith("160000")]
        # otherwise git would read the submodule's configuration to find changes in it
        paths = [".", *(f":(top,exclude,literal){path}" for path in linked)]
        options = "--all", "--pathspec-from-file=-", "--pathspec-file-nul"
        self.run_git("add", *options, stdin="\0".join(paths), **variables)
        return self.run_git("write-tree", **variables).strip()


@contextmanager
def open_repository(repository: Path, commit: str = "", *, bare: bool = False) -> Generator[UserGitRepository]:
    """Open the repository that contains a folder, with `commit` as its HEAD; with `bare` it may be a bare one.

    Raises `RepositoryError` if there is no repository or commit, or if it borrows objects.
    """
    root, own, common = _locate(repository, bare=bare)
    with tempfile.TemporaryDirectory(prefix="scientist-git-") as temporary:
        reader = Path(temporary)
        for name in ("objects/info", "refs", "info"):
            (reader / name).mkdir(parents=True)
        (reader / "objects/info/alternates").write_bytes(os.fsencode(_find_objects(repository, common)) + b"\n")
        (reader / "HEAD").write_text(f"{commit or _read_head(repository, own, common)}\n")
        (reader / "config").write_text(
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[uploadpack]\n\tallowAnySHA1InWant = true\n"
        )
        shared = [name for name in os.listdir(own) if name.startswith("sharedindex.")]
        for folder, names in ((own, ("index", *shared)), (common, ("shallow", "info/exclude"))):
            for name in names:
                _copy_with_time(folder, name, reader)
        source = UserGitRepository(root, "", reader)
        _copy_settings(source, common)
        try:
            found = source.run_git("rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()
        except RepositoryError:
            raise RepositoryError(f"{repository} has no commit {commit or '(commit your code)'}") from None
        if not (reader / "index").exists():
            source.run_git("read-tree", "HEAD")
        try:
            yield UserGitRepository(root, found, reader)
        except RepositoryError as error:
            if str(error).startswith("git ") and any((common / "objects" / "pack").glob("*.promisor")):
                why = "is a partial clone with missing objects: make a full clone"
                raise RepositoryError(f"{repository} {why} ({error})") from None
            raise


def find_root(repository: Path) -> Path:
    """Return the top folder of the repository that contains a folder. Raises `RepositoryError`."""
    with open_repository(repository) as source:
        return source.root


# --- where its git directory is ---------------------------------------------------------------------------------------


def _locate(repository: Path, *, bare: bool) -> tuple[Path, Path, Path]:
    """Return the top folder, its git directory and, for a linked worktree, the main git directory."""
    if not repository.is_dir():
        raise RepositoryError(f"{repository} is not a folder: use one that contains a git repository")
    start = repository.resolve()
    for root in (start, *start.parents):
        dot = root / ".git"
        if dot.is_symlink():
            raise RepositoryError(f"{dot} is a symbolic link: clone the repository and use the clone")
        if dot.is_file():
            return root, *_read_linked_worktree(root, dot)
        if (dot / "HEAD").is_file():
            return root, dot, dot
        if bare and root == start and (start / "HEAD").is_file() and (start / "objects").is_dir():
            return start, start, start
    raise RepositoryError(f"{repository} is not a git repository: run git init there and commit your code")


def _read_linked_worktree(root: Path, dot: Path) -> tuple[Path, Path]:
    """Return the git directory named by a file `.git`, if that directory refers back to this folder, and the main
    git directory.
    """
    text = _read_text(root, ".git")
    own = Path(os.path.realpath(root / text.removeprefix("gitdir:").strip()))
    common = own.parent.parent
    if own.is_dir() and own.parent.name == "worktrees":
        if Path(os.path.realpath(own / _read_text(own, "gitdir").strip())) == dot:
            return own, common
    elif own.is_dir():  # a submodule
        values = read_config_values(_read_text(own, "config"), r"^core\.worktree$")
        if values and Path(os.path.realpath(own / values["core.worktree"])) == root:
            return own, own
    raise RepositoryError(f"{dot} names a repository that does not refer back to this folder: use a clone of it")


def _find_objects(repository: Path, common: Path) -> Path:
    objects = common / "objects"
    if objects.is_symlink() or not objects.is_dir():
        raise RepositoryError(f"{repository} has no objects of its own ({objects}): clone it and use the clone")
    if linked := find_link(objects):
        raise RepositoryError(
            f"{repository} has objects stored elsewhere ({linked} is a link): clone it, use the clone"
        )
    alternates = objects / "info" / "alternates"
    is_large = alternates.exists() and alternates.stat().st_size > _MAX_TEXT_BYTES
    if is_large or _read_text(common, "objects/info/alternates").strip():
        raise RepositoryError(
            f"{repository} borrows objects from another repository ({alternates}): run `git repack -a -d` there and "
            "remove that file, or clone it with --dissociate"
        )
    return objects


def find_link(objects: Path) -> str:
    """Return a link among the objects of a git directory that git would follow; empty if there is none."""
    paths = (os.path.join(place, name) for place, folders, names in os.walk(objects) for name in (*folders, *names))
    return next(filter(os.path.islink, paths), "")


def _read_head(repository: Path, own: Path, common: Path) -> str:
    """Return the commit of HEAD."""
    value = _read_text(own, "HEAD").strip()
    for _ in range(5):
        if not value.startswith("ref:"):
            break
        name = value.removeprefix("ref:").strip()
        loose = (_read_text(folder, name).strip() for folder in (own, common))
        lines = (line.partition(" ") for line in _read_text(common, "packed-refs").splitlines())
        packed = (commit for commit, _, other in lines if other == name)
        value = next(filter(None, (*loose, *packed)), "")
    if re.fullmatch(r"[0-9a-f]{64}", value):
        raise RepositoryError(f"{repository} uses SHA-256 objects, which are not supported: use a SHA-1 repository")
    if not re.fullmatch(r"[0-9a-f]{40}", value):
        raise RepositoryError(f"{repository} has no commit: commit your code")
    return value


def _read_text(folder: Path, name: str) -> str:
    """Return a text file of a git directory; empty if it cannot be read."""
    with suppress(BadFile, OSError), open_regular(folder, name, _MAX_TEXT_BYTES) as file:
        return file.read().decode(errors="surrogateescape")
    return ""


def _copy_with_time(folder: Path, name: str, reader: Path) -> None:
    """Copy a file of a git directory with its times, from which git infers what may have changed."""
    with suppress(BadFile, FileNotFoundError), open_regular(folder, name, _MAX_INDEX_BYTES) as file:
        with open(reader / name, "wb") as copy:
            shutil.copyfileobj(file, copy)
        times = os.fstat(file.fileno())
        os.utime(reader / name, ns=(times.st_atime_ns, times.st_mtime_ns))


def _copy_settings(source: UserGitRepository, common: Path) -> None:
    """Copy the settings that determine what counts as changed, and the user's ignore rules."""
    home = os.environ.get("HOME") or os.devnull
    folder = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    user_variables = {"HOME": home, "XDG_CONFIG_HOME": folder}
    user_variables["GIT_CONFIG_GLOBAL"] = os.environ.get("GIT_CONFIG_GLOBAL") or f"{home}/.gitconfig"
    ignored = {"core.excludesfile": f"{folder}/git/ignore"}
    ignored |= read_config_values(None, r"^core\.excludesfile$", "--type=path", **user_variables)
    plain = read_config_values(None, _PLAIN_KEYS_PATTERN, **user_variables)
    plain |= read_config_values(_read_text(common, "config"), _PLAIN_KEYS_PATTERN)
    for key, value in (*ignored.items(), *((key, value) for key, value in plain.items() if value.isalpha())):
        source.run_git("config", key, value)


def read_config_values(config: str | None, pattern: str, *options: str, **variables: str) -> dict[str, str]:
    """Return configuration values by key; None reads the user's global configuration. If a key is repeated, the last
    value wins."""
    where = ("--global", "--includes") if config is None else ("--file", "-", "--no-includes")
    with tempfile.TemporaryDirectory() as temporary, suppress(RepositoryError):  # also raised if nothing matches
        arguments = ("config", *where, *options, "-z", "--get-regexp", pattern)
        given = (config or "").encode(errors="surrogateescape")
        found = run_git(Path(temporary), arguments, given, {"GIT_DIR": os.devnull, **variables})
        output = found.decode(errors="surrogateescape")
        pairs = (line.partition("\n") for line in output.split("\0") if line)
        return {key: value if equals else "true" for key, equals, value in pairs}
    return {}


_GIT_CONFIG_KEYS = (
    "repositoryformatversion filemode bare symlinks ignorecase precomposeunicode logallrefupdates".split()
)
"""Settings that git itself writes into the configuration of a new repository."""
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The tree without files, which every repository has."""
MAX_HISTORY_BYTES = 200 * 10**6
"""Size of the files in bytes up to which a checkout has a `.git`."""
MAX_TEXT_BYTES = 2**20
"""Size limit of files read as text."""


class TreeFile(NamedTuple):
    """A file of a tree."""

    mode: str
    id: str
    size: int


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

    def import_head(self, repository: Path, *, dirty: bool = False) -> RepositoryImported:
        """Copy a repository at HEAD; with `dirty`, include uncommitted changes.

        Raises `RepositoryError` if there is no repository or commit, or for uncommitted changes without `dirty`.
        """
        with open_repository(repository) as source:
            changed, commit = _has_uncommitted_work(source, repository, dirty=dirty), source.commit
            if not self.folder.exists():
                self.fetch(source.url, f"{commit}:refs/heads/taken", "--depth=1")
            tree = self.find_tree(commit)
            if changed:
                with tempfile.TemporaryDirectory(dir=self.folder) as place:
                    tree = source.write_snapshot(self.folder / "objects", Path(place) / "index")
                commit = self.commit(tree, commit, "uncommitted changes")
        return self.describe_import(repository, commit, tree)

    def import_files(self, files: Mapping[str, str]) -> str:
        """Return the tree of text files by path, creating the mirror if necessary."""
        if not self.folder.exists():
            os.rename(self._init_part(), self.folder)
        return self.replace_files(_EMPTY_TREE, files)

    def describe_import(self, repository: Path, commit: str, tree: str) -> RepositoryImported:
        """Describe what `import_head` imported."""
        listed, head = self.list_files(tree), self._git("rev-parse", "refs/heads/taken").strip()
        return RepositoryImported(
            repository=str(repository),
            commit=commit,
            tree=tree,
            snapshot=head != commit,
            files=len(listed),
            bytes=sum(file.size for file in listed.values()),
            faults=self._find_faults(tree),
        )

    def find_tree(self, commit: str) -> str:
        """Return the tree of a commit."""
        return self._git("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}").strip()

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
        if tree in self._texts:
            return self._texts[tree]
        listed = self.list_files(tree).items()
        wanted = {path: one.id for path, one in listed if one.size <= MAX_TEXT_BYTES and one.mode != "120000"}
        answer = self._run(["cat-file", "--batch"], "".join(f"{blob}\n" for blob in wanted.values()).encode())
        found, stream = dict[str, str](), BytesIO(answer)
        for path in wanted:
            content = stream.read(int(stream.readline().split()[2]))
            stream.read(1)  # the end of the line
            if (text := decode_text(content)) is not None:
                found[path] = text
        self._texts[tree] = found
        return found

    def apply_edits(self, tree: str, edits: Sequence[RepositoryEdit]) -> str:
        """Apply edits to a tree and return the new one. Raises `RepositoryError` if a string to replace does not occur
        exactly once.
        """
        if not edits:
            return tree
        texts, changed = self.read_texts(tree), dict[str, str]()
        for edit in edits:
            changed[edit.path] = apply_edit(changed.get(edit.path, texts.get(edit.path)), edit)
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
        """Return a tree in which the given files are replaced or added, or removed where the text is None.

        Raises `RepositoryError` for a path with a zero byte, which would end it: the rest could name any other file.
        """
        if odd := next((path for path in files if "\0" in path), ""):
            raise RepositoryError(f"{odd!r} is not the path of a file")
        modes = {path: file.mode for path, file in self.list_files(tree).items() if file.mode != "120000"}
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            index = {"GIT_INDEX_FILE": str(Path(place) / "index")}
            self._git("read-tree", tree, **index)
            lines = list[str]()
            for path, text in files.items():
                mode, blob = "0", "0" * 40
                if text is not None:
                    mode = modes.get(path, "100644")
                    blob = self._run(["hash-object", "-w", "--stdin", "--no-filters"], text.encode()).decode().strip()
                lines.append(f"{mode} {blob}\t{path}\0")
            given = "".join(lines).encode(errors="surrogateescape")
            self._run(["update-index", "-z", "--add", "--index-info"], given, index)
            return self._git("write-tree", **index).strip()

    def commit(self, tree: str, parent: str, message: str) -> str:
        """Create a commit with a fixed date, so that equal commits have the same id, and keep it by a reference."""
        commit = self._git("commit-tree", tree, "-p", parent, "-m", message, **AUTHOR_VARIABLES).strip()
        self._git("update-ref", f"refs/scientist/{commit}", commit)
        return commit

    def build_diff(self, before: str, after: str) -> str:
        """Return the unified diff of two trees."""
        options = "--no-color --no-ext-diff --no-textconv --text --full-index --no-renames"
        return self._git("diff", *options.split(), "--src-prefix=a/", "--dst-prefix=b/", before, after)

    def checkout(self, tree: str, folder: Path) -> None:
        """Write the files of a tree to a new folder, with a `.git` of one commit."""
        try:
            shutil.copytree(self._prepare_source_checkout(tree), folder, symlinks=True)
        except shutil.Error as error:  # a list of failures, without errno
            if is_disk_full(self.folder):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise

    def _prepare_source_checkout(self, tree: str) -> Path:
        """Return the folder from which checkouts of a tree are copied, creating it once."""
        source = self._checkouts / tree
        if not source.exists():
            self._checkouts.mkdir(parents=True, exist_ok=True)
            size = sum(file.size for file in self.list_files(tree).values())
            if size > (free := shutil.disk_usage(self._checkouts).free) / 2:
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
        config, objects = self.folder / "config", self.folder / "objects"
        text = config.read_text(errors="surrogateescape") if config.is_file() else ""
        if odd := sorted(read_config_values(text, ".").keys() - {f"core.{key}" for key in _GIT_CONFIG_KEYS}):
            raise RepositoryError(f"{config} sets {odd[0]}, which scientist never sets: remove this setting")
        if objects.is_symlink() or find_link(objects) or (objects / "info" / "alternates").exists():
            raise RepositoryError(
                f"{self.folder} borrows objects from elsewhere, which scientist never does: restore it"
            )
        self._known = True

    def fetch(self, url: str, *words: str) -> None:
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
        entries = self._git("ls-tree", "-r", tree).splitlines()
        modules = [line.partition("\t")[2] for line in entries if line.startswith("160000")]
        pointers = [path for path, text in self.read_texts(tree).items() if text.startswith(LFS_POINTER_PREFIX)]
        faults = [f"submodules are not included: {_format_names(modules)}"] if modules else []
        if pointers:
            faults.append(f"LFS files are not included: {_format_names(pointers)}; provide them with --mount")
        return tuple(faults)

    def _git(self, *words: str, **variables: str) -> str:
        return self._run(words, b"", variables).decode("utf-8", errors="surrogateescape")

    def _run(self, words: Sequence[str], given: bytes = b"", variables: Mapping[str, str] | None = None) -> bytes:
        if not self._known:
            self._check_config()
        own = {"GIT_DIR": str(self.folder)}
        if not os.access(self.folder, os.W_OK):  # the study is on a read-only disk or another user's
            own["GIT_OBJECT_DIRECTORY"] = self._new_objects
            own["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = str(self.folder / "objects")
        return run_git(self.folder, words, given, {**own, **(variables or {})})

    @cached_property
    def _new_objects(self) -> str:
        """A temporary folder for new objects."""
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
        names = _format_names(found)
        raise RepositoryError(
            f"{repository} has uncommitted changes ({names}): commit them, or include them with --dirty"
        )
    return bool(found)


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
