"""Run git with fixed settings, and read a user's repository without its configuration.

The user's repository is read through a separate git directory.

Guarantees: nothing is written to the user's folder, and none of its programs runs (filters, hooks, fsmonitor, text
conversions, credential helpers, `core.sshCommand`, lazy fetches, or programs of a submodule's configuration), because
git never reads the configuration that names them. Only plain values that determine what counts as changed (line
endings, modes) are copied from it; ignore rules are copied from the user's global configuration as well. Nothing
outside the repository is read: a `.git` that is a link or does not refer back to this folder, and borrowed objects, are
rejected. Limits: filters are not applied, so a file that a filter writes counts as changed; LFS files are compared with
their pointers.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from urllib.parse import quote

from labwright.record.run_folder import is_disk_full
from labwright.record.untrusted_files import BadFile, open_regular
from labwright.sandbox.errors import RepositoryError

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
    inherited = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
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
            env={**inherited, "HOME": os.devnull, **_QUIET_VARIABLES, **(variables or {})},
        ) as git:
            timer = Timer(GIT_TIMEOUT_SECONDS, git.kill)
            timer.start()
            try:
                assert git.stdout is not None
                output = git.stdout.read(MAX_OUTPUT_BYTES + 1)
                if len(output) > MAX_OUTPUT_BYTES:
                    raise RepositoryError(
                        f"git {arguments[0]} printed more than {MAX_OUTPUT_BYTES} bytes: the repository is too large"
                    )
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

LFS_POINTER_PREFIX = b"version https://git-lfs"
"""First bytes of an LFS pointer file."""
_MAX_TEXT_BYTES, _MAX_INDEX_BYTES = 2**26, 2**32
"""Size limits of text files (references, configuration) and of the index of a git directory."""
_PLAIN_KEYS_PATTERN = r"^core\.(autocrlf|eol|filemode|ignorecase|symlinks)$"
_LFS_PATTERN = re.compile(rb"^oid sha256:([0-9a-f]{64})\nsize (\d+)$", re.MULTILINE)


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
        return run_git(self.root, arguments, stdin.encode(errors="surrogateescape"), own).decode(
            errors="surrogateescape"
        )

    def list_changed(self) -> list[str]:
        """Return the files with uncommitted changes, including new files that are not ignored."""
        output = self.run_git("status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=all")
        found = [(line[:2], line[3:]) for line in output.split("\0") if re.match(r"[ MTADRCU?!]{2} ", line)]
        same = self._find_unchanged_in_lfs([path for how, path in found if how == " M"])
        return [path for _, path in found if path not in same]

    def select_filtered(self, paths: Iterable[str]) -> list[str]:
        """Return the paths that have a filter in git's attributes (filters are not run here)."""
        fields = self.run_git(
            "check-attr", "-z", "--stdin", "filter", stdin="".join(f"{path}\0" for path in paths)
        ).split("\0")
        return [
            path
            for path, value in zip(fields[::3], fields[2::3], strict=False)
            if value not in ("unspecified", "unset")
        ]

    def list_files(self) -> list[str]:
        """Return the paths of the working folder except ignored ones."""
        return list(
            filter(None, self.run_git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"))
        )

    def write_snapshot(self, objects: Path, index: Path) -> str:
        """Write the working folder as a tree into an object folder that contains HEAD, and return its id."""
        variables = {"GIT_OBJECT_DIRECTORY": str(objects), "GIT_INDEX_FILE": str(index)}
        self.run_git("read-tree", self.commit, **variables)
        linked = [
            line.partition("\t")[2]
            for line in self.run_git("ls-files", "-z", "--stage", **variables).split("\0")
            if line.startswith("160000")
        ]
        # otherwise git would read the submodule's configuration to find changes in it
        paths = [".", *(f":(top,exclude,literal){path}" for path in linked)]
        self.run_git(
            "add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul", stdin="\0".join(paths), **variables
        )
        return self.run_git("write-tree", **variables).strip()

    def _find_unchanged_in_lfs(self, paths: list[str]) -> set[str]:
        """Return the files whose content matches their LFS pointer in HEAD."""
        return {path for path in (self.select_filtered(paths) if paths else ()) if self._is_pointed_to(path)}

    def _is_pointed_to(self, path: str) -> bool:
        pointer = self.run_git("cat-file", "blob", f"HEAD:{path}").encode(errors="surrogateescape")[:1000]
        match = _LFS_PATTERN.search(pointer) if pointer.startswith(LFS_POINTER_PREFIX) else None
        if match is None:
            return False
        with suppress(BadFile, OSError), open_regular(self.root, path, int(match[2])) as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == match[1].decode()
        return False


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
        for folder, name in (
            (own, "index"),
            (common, "shallow"),
            (common, "info/exclude"),
            *((own, name) for name in os.listdir(own) if name.startswith("sharedindex.")),
        ):
            _copy_with_time(folder, name, reader)
        source = UserGitRepository(root, "", reader)
        _copy_settings(source, common)
        try:
            found = source.run_git("rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()
        except RepositoryError:
            raise RepositoryError(
                f"{repository} has no commit {commit}" if commit else f"{repository} has no commit: commit your code"
            ) from None
        if not (reader / "index").exists():
            source.run_git("read-tree", "HEAD")
        try:
            yield UserGitRepository(root, found, reader)
        except RepositoryError as error:
            partial = str(error).startswith("git ") and any((common / "objects" / "pack").glob("*.promisor"))
            raise (
                RepositoryError(f"{repository} is a partial clone with missing objects: make a full clone ({error})")
                if partial
                else error
            ) from None


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
    if (
        own.parent.name == "worktrees"
        and own.is_dir()
        and Path(os.path.realpath(own / _read_text(own, "gitdir").strip())) == dot
    ):
        return own, common
    place = (
        read_config_values(_read_text(own, "config"), r"^core\.worktree$").get("core.worktree", "")
        if own.is_dir()
        else ""
    )
    if place and Path(os.path.realpath(own / place)) == root:  # a submodule
        return own, own
    raise RepositoryError(
        f"{dot} names a repository that does not refer back to this folder: clone it and use the clone"
    )


def _find_objects(repository: Path, common: Path) -> Path:
    objects = common / "objects"
    if objects.is_symlink() or not objects.is_dir():
        raise RepositoryError(f"{repository} has no objects of its own ({objects}): clone it and use the clone")
    if linked := find_link(objects):
        raise RepositoryError(
            f"{repository} has objects stored elsewhere ({linked} is a symbolic link): clone it and use the clone"
        )
    alternates = objects / "info" / "alternates"
    if alternates.exists() and (
        alternates.stat().st_size > _MAX_TEXT_BYTES or _read_text(common, "objects/info/alternates").strip()
    ):
        raise RepositoryError(
            f"{repository} borrows objects from another repository ({objects}/info/alternates): run "
            "`git repack -a -d` there and remove that file, or clone it with --dissociate"
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
        packed = (
            line.partition(" ")[0]
            for line in _read_text(common, "packed-refs").splitlines()
            if line.partition(" ")[2] == name
        )
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
    home, folder = os.environ.get("HOME", ""), os.environ.get("XDG_CONFIG_HOME", "")
    folder = folder or (f"{home}/.config" if home else "")
    user_variables = {
        name: value
        for name, value in (
            ("HOME", home),
            ("XDG_CONFIG_HOME", folder),
            ("GIT_CONFIG_GLOBAL", os.environ.get("GIT_CONFIG_GLOBAL") or (f"{home}/.gitconfig" if home else "")),
        )
        if value
    }
    ignored = {"core.excludesfile": f"{folder}/git/ignore"} if folder else {}
    plain = {}
    if user_variables:
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
        output = run_git(
            Path(temporary),
            ("config", *where, *options, "-z", "--get-regexp", pattern),
            (config or "").encode(errors="surrogateescape"),
            {"GIT_DIR": os.devnull, **variables},
        ).decode(errors="surrogateescape")
        pairs = (line.partition("\n") for line in output.split("\0") if line)
        return {key: value if equals else "true" for key, equals, value in pairs}
    return {}
