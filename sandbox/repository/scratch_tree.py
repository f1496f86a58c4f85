"""A scratch checkout of a tree, and the tools by which an author (a model with tools) reads, changes and runs it.

The change is a git tree: files that the author edits or writes, and text files of the tree that a command changes or
deletes. Files that a command creates stay in the checkout for later commands until it is closed or restored, but they
are no part of the tree.

Guarantees: the host reads and writes the checkout only through `record.untrusted_files`, so it follows no link;
commands run in the sandbox of repository commands, without network, labels or credentials, and end with all their
processes; text is bounded; frozen files keep their content. A call that fails is a result with one line, and changes
nothing. Limits: files of more than `MAX_TEXT_BYTES` and binary files do not become part of the tree when a command
changes them.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import accumulate, islice, takewhile
from pathlib import Path, PurePosixPath
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from labwright.record.errors import SandboxError
from labwright.record.schema import replace_unencodable
from labwright.record.schema.decisions import ToolResult, ToolSpec
from labwright.record.schema.repository import RepositoryEdit
from labwright.record.untrusted_files import (
    BadFile,
    create_file,
    iterate_entries,
    make_harmless,
    open_parent,
    open_regular,
    read_status,
    remove_tree,
)
from labwright.sandbox.job import ExecutorError
from labwright.sandbox.limited_process import LimitedProcess
from labwright.sandbox.output import cut_middle
from labwright.sandbox.repository.command import CommandEnvironment, CommandJob, CommandOutcome
from labwright.sandbox.repository.git_mirror import MAX_TEXT_BYTES, GitMirror, TreeFile, apply_edit, decode_text

MAX_RESULT_CHARS = 16_000
"""Maximum length of the text of a result; the middle of longer text is left out, and its length is given. `read` and
`search` end earlier, with a whole line, and say how to go on.
"""
_MAX_LINES_CHARS = MAX_RESULT_CHARS - 1_000
"""Maximum length of the lines that `read` and `search` return; the rest is for a heading and notes."""
MAX_READ_BYTES = 32 * 2**20
"""Size limit of a file that is read in part."""
MAX_COMMAND_SECONDS = 600.0
"""Time limit of one command."""
MAX_LISTED, MAX_MATCHES, MAX_WALKED = 500, 200, 100_000
"""Maximum number of files that `list` names, of lines that `search` returns, and of entries that either looks at."""
_SEARCH_SECONDS, _SEARCH_MEMORY_BYTES = 10.0, 2 * 2**30
_MAX_LINE_CHARS = 500
"""Maximum length of a line that `search` returns."""

RunCommand = Callable[[CommandJob], Awaitable[CommandOutcome]]
"""Runs a command in the sandbox, such as `LocalExecutor.run_command`."""


class ToolArguments(BaseModel):
    """Arguments of a tool; the docstrings of the fields describe them to the model."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class _ListArguments(ToolArguments):
    path: str = ""
    """Folder, relative to the top of the repository; empty: the top."""
    recursive: bool = False
    """Whether to include the files of subfolders."""


class _ReadArguments(ToolArguments):
    path: str
    """File, relative to the top of the repository."""
    first: int = Field(default=1, ge=1)
    """Number of the first line."""
    last: int | None = Field(default=None, ge=1)
    """Number of the last line; null: the end of the file."""


class _SearchArguments(ToolArguments):
    pattern: str
    """Regular expression (Python), matched line by line."""
    path: str = ""
    """Folder or file to search; empty: everything."""
    files: str = "*"
    """Pattern of file names, such as *.py."""


class _EditArguments(ToolArguments):
    path: str
    """File, relative to the top of the repository."""
    old: str = Field(min_length=1)
    """Text to replace, exactly as in the file; it must occur exactly once."""
    new: str
    """Text in its place."""


class _WriteArguments(ToolArguments):
    path: str
    """File, relative to the top of the repository; it and its folders are created if they do not exist."""
    text: str
    """The whole content of the file."""


class _RunArguments(ToolArguments):
    command: str = Field(min_length=1)
    """Shell command, run at the top of the repository."""
    seconds: float = Field(default=60.0, gt=0)
    """Time limit; then the command and everything that it started are killed."""


class RefusedCall(SandboxError):
    """A call with arguments that are not allowed."""


class CommandFailed(SandboxError):
    """A command that ended with an error or was killed; the message is its output."""


@dataclass(frozen=True)
class RunTool:
    """The tool `run`, in place of shell commands: its function gets the current tree and the arguments, and raises
    `RefusedCall` or `CommandFailed`."""

    arguments: type[ToolArguments]
    description: str
    function: Callable[[str, Any], Awaitable[str]]


def open_scratch_tree(
    mirror: GitMirror,
    tree: str,
    environment: CommandEnvironment,
    run_command: RunCommand,
    *,
    name: str = "scratch",
    frozen: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    redact: Callable[[str], str] = str,
    max_seconds: float = MAX_COMMAND_SECONDS,
) -> ScratchTree:
    """Return a checkout of a tree of the mirror in a folder of its own; its context creates and removes the folder.

    `name` names that folder: no two scratch trees of a study that are open at the same time may have the same name.
    `frozen` are patterns of files that may not change, `env` variables of commands. `redact` removes test results from
    text that the author sees, as `OutputRedactor.redact` does. `max_seconds` bounds one command.
    """
    made = ScratchTree(mirror, tree, name, frozen, redact)
    job = CommandJob("a command of the author", made.folder, (), environment, max_seconds, env=env or {})
    description = (
        f"Run a shell command for at most {max_seconds:g} seconds and return what it prints. There is "
        "no network. Text files of the repository that the command changes or deletes become part of your "
        "change; files that it creates there do not, but stay for later commands; those in /tmp do not stay."
    )
    made.tools["run"] = (_RunArguments, description, lambda given: made.run_shell_command(given, job, run_command))
    return made


def open_program_tree(mirror: GitMirror, tree: str, run: RunTool, *, name: str) -> ScratchTree:
    """The same for the program of an experiment, in which no shell commands run."""
    made = ScratchTree(mirror, tree, name)
    made.tools["run"] = (run.arguments, run.description, lambda given: run.function(made.tree, given))
    return made


class ScratchTree:
    """Tools over one checkout. Calls are carried out one after the other.

    Made by `open_scratch_tree` or `open_program_tree`; entering its context raises `RepositoryError`, `OSError`.
    """

    def __init__(
        self, mirror: GitMirror, start: str, name: str, frozen: Sequence[str] = (), redact: Callable[[str], str] = str
    ) -> None:
        self.tree = start
        """Git tree id."""
        self._mirror, self._frozen, self._redact = mirror, tuple(frozen), redact
        self.folder = mirror.folder.parent / "scratch" / name
        self._files: dict[str, TreeFile] = {}
        self._signatures: dict[str, tuple[int, ...]] = {}
        """Path -> times, size and number of the file, as of the current tree."""
        self._lock = asyncio.Lock()
        self._searcher = LimitedProcess(_SEARCH_MEMORY_BYTES, _SEARCH_SECONDS)
        self.tools: dict[str, tuple[type[ToolArguments], str, Callable[[Any], str | Awaitable[str]]]] = {
            "list": (_ListArguments, "List the files of a folder with their sizes in bytes.", self._list),
            "read": (_ReadArguments, "Read a text file, or some of its lines.", self._read),
            "search": (_SearchArguments, "Find the lines of text files that match an expression.", self._search),
            "edit": (_EditArguments, "Replace a piece of text in a file.", self._edit),
            "write": (_WriteArguments, "Create a text file, or replace its content.", self._write),
        }
        """Name -> type of the arguments, description for models, function (called in a thread)."""

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self.restore, self.tree)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._searcher.close()
        await asyncio.to_thread(remove_tree, self.folder, ignore_errors=True)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools."""
        tools = self.tools.items()
        return tuple(ToolSpec(name, text, _build_parameters(arguments)) for name, (arguments, text, _) in tools)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool. What the call got wrong is a failed result in one line. Raises `ExecutorError`, `OSError` if the
        sandbox or the disk fails.
        """
        began = time.monotonic()
        async with self._lock:
            try:
                if name not in self.tools:
                    raise RefusedCall(f"there is no tool {name!r}: use {', '.join(self.tools)}")
                kind, _, function = self.tools[name]
                made, failed = await asyncio.to_thread(function, kind.model_validate(dict(arguments))), False
                text = made if isinstance(made, str) else await made
            except CommandFailed as error:
                text, failed = str(error), True
            except ValidationError as error:
                text, failed = _describe_problem(name, error), True
            except (SandboxError, FileNotFoundError) as error:
                if isinstance(error, ExecutorError):
                    raise
                text, failed = " ".join(str(error).split()), True
            text = cut_middle(await asyncio.to_thread(self._redact, replace_unencodable(text)), MAX_RESULT_CHARS)
            return ToolResult(text, self.tree, time.monotonic() - began, failed)

    def restore(self, tree: str) -> None:
        """Replace the checkout by that of another tree. Files that commands created are removed.

        Raises `RepositoryError`, `OSError`.
        """
        remove_tree(self.folder)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._mirror.checkout(tree, self.folder)
        self.tree, self._files = tree, self._mirror.list_files(tree)
        self._signatures = {path: self._read_signature(path) for path in self._files}

    # --- tools --------------------------------------------------------------------------------------------------------

    def _list(self, given: _ListArguments) -> str:
        folder = _check_path(given.path, ".")
        relative = "" if folder == "." else folder
        shown = (
            _format_entry(name, status)
            for name, status in islice(iterate_entries(self.folder, relative), MAX_WALKED)
            if not _is_in_git_folder(name) and not (stat.S_ISDIR(status.st_mode) if given.recursive else "/" in name)
        )
        lines = list(islice(shown, MAX_LISTED + 1))
        more = [f"... more than {MAX_LISTED}: list a subfolder"] if len(lines) > MAX_LISTED else []
        return "\n".join([*lines[:MAX_LISTED], *more]) or "the folder is empty"

    def _read(self, given: _ReadArguments) -> str:
        path = _check_path(given.path)
        lines = self._read_text(path, MAX_READ_BYTES).splitlines(keepends=True)
        last = min(given.last or len(lines), len(lines))
        shown = _take_lines(lines[given.first - 1 : last])
        end = given.first - 1 + len(shown) if shown else last
        head = f"{path}, lines {given.first} to {end} of {len(lines)}:\n"
        left = f"[lines {end + 1} to {last} are left out: read on with first={end + 1}]" if end < last else ""
        return head + "".join(shown) + left

    def _search(self, given: _SearchArguments) -> str:
        try:
            re.compile(given.pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise RefusedCall(f"pattern: {error}; write a regular expression of Python") from None
        arguments = self.folder, _check_path(given.path, "."), given.pattern, given.files
        return self._searcher.call(_search_files, *arguments, subject="search")

    def _edit(self, given: _EditArguments) -> str:
        path = self._check_changeable(given.path)
        before = self._read_text(path, MAX_TEXT_BYTES)
        self._put(path, apply_edit(before, RepositoryEdit(path=path, old=given.old, new=given.new)))
        return f"{path}: text at line {before[: before.index(given.old)].count(chr(10)) + 1} replaced"

    def _write(self, given: _WriteArguments) -> str:
        path = self._check_changeable(given.path)
        status = read_status(self.folder, path)
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise RefusedCall(f"{path} is a folder, a link or no plain file: choose another path")
        self._put(path, given.text)
        return f"{path}: {len(given.text.splitlines())} lines written"

    async def run_shell_command(self, given: _RunArguments, job: CommandJob, run_command: RunCommand) -> str:
        """Run a command as a job in the checkout, take its changes and return its output. Raises `CommandFailed`."""
        if "\0" in given.command:
            raise RefusedCall("command: it contains a character that no command line can contain")
        argv = ("bash" if shutil.which("bash") else "sh", "-c", given.command)
        try:
            outcome = await run_command(replace(job, argv=argv, timeout=min(given.seconds, job.timeout)))
        finally:
            notes = await asyncio.to_thread(self._take_changes)
        failure = outcome.failure
        ended = "exit code 0" if failure is None else failure.message.partition("\n")[0]
        lines = (outcome.output.rstrip(), f"[{ended}, {outcome.seconds:.1f} s]", *notes)
        text = "\n".join(filter(None, lines))
        if failure is not None:
            raise CommandFailed(text)
        return text

    # --- files --------------------------------------------------------------------------------------------------------

    def _check_changeable(self, raw: str) -> str:
        path = _check_path(raw)
        if pattern := self._find_frozen_pattern(path):
            raise RefusedCall(f"{path} is frozen ({pattern}) and may not change")
        return path

    def _find_frozen_pattern(self, path: str) -> str:
        return next((pattern for pattern in self._frozen if fnmatch(path, pattern)), "")

    def _read_text(self, path: str, limit: int) -> str:
        """Read a text file of the checkout. Raises `BadFile`, `RefusedCall`."""
        with open_regular(self.folder, path, limit) as file:
            text = decode_text(file.read())
        if text is None:
            raise RefusedCall(f"{path} is not a text file")
        return text

    def _put(self, path: str, text: str) -> None:
        """Write a file of the author to the checkout and to the tree."""
        data = replace_unencodable(text).encode()
        if len(data) > MAX_TEXT_BYTES:
            raise RefusedCall(f"{path} would have {len(data)} bytes, more than the limit of {MAX_TEXT_BYTES}")
        tree = self._mirror.replace_files(self.tree, {path: data.decode()})
        self._write_plain(path, data)
        self._set_tree(tree)
        self._signatures[path] = self._read_signature(path)

    def _write_plain(self, path: str, data: bytes) -> None:
        mode = 0o755 if path in self._files and self._files[path].mode == "100755" else 0o644
        with open_parent(self.folder, path) as (place, name), create_file(place, name) as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)

    def _set_tree(self, tree: str) -> None:
        if tree != self.tree:
            self.tree, self._files = tree, self._mirror.list_files(tree)

    def _read_signature(self, path: str) -> tuple[int, ...]:
        """Return what changes with a file's content; empty if there is no file. A time of change (ctime) cannot be set
        by code."""
        with suppress(BadFile):
            if (status := read_status(self.folder, path)) is not None:
                return (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return ()

    def _take_changes(self) -> list[str]:
        """Add what a command changed in files of the tree to the tree; return notes about it."""
        notes: list[str] = []
        with suppress(BadFile):  # deeper folders are removed
            make_harmless(self.folder)
        changed: dict[str, str | None] = {}
        others, frozen = list[str](), list[str]()
        for path in self._files:
            if (signature := self._read_signature(path)) == self._signatures[path]:
                continue
            self._signatures[path] = signature
            if self._find_frozen_pattern(path):
                frozen.append(path)
                continue
            text = None
            with suppress(BadFile), open_regular(self.folder, path, MAX_TEXT_BYTES) as file:
                text = decode_text(file.read())
            is_gone = not signature or stat.S_ISDIR(signature[0])
            if is_gone or (text is not None and self._files[path].mode != "120000"):
                changed[path] = text
            else:
                others.append(path)
        before = self._files
        self._set_tree(self._mirror.replace_files(self.tree, changed) if changed else self.tree)
        taken = [path for path in changed if before.get(path) != self._files.get(path)]
        if taken:
            notes.append(f"[changed in the tree: {_format_paths(taken)}]")
        if others:
            notes.append(f"[changed, but not kept in the tree (no text, or too large): {_format_paths(others)}]")
        self._signatures = {path: self._signatures.get(path, ()) for path in self._files}
        if frozen:
            self.restore(self.tree)
            notes.append(f"[frozen: {_format_paths(frozen)}; put back, and files that commands created are gone]")
        return notes


def _search_files(folder: Path, path: str, pattern: str, files: str) -> str:
    """Return the lines of text files below a path that match, as `file:line: text`."""
    expression, matches, skipped = re.compile(pattern), list[tuple[str, str]](), 0
    status = read_status(folder, path) if path != "." else None
    if status is not None and not stat.S_ISDIR(status.st_mode):
        found = iter([path])
    else:
        prefix = "" if path == "." else f"{path}/"
        found = (
            prefix + name
            for name, one in islice(iterate_entries(folder, prefix[:-1]), MAX_WALKED)
            if stat.S_ISREG(one.st_mode) and not _is_in_git_folder(name) and fnmatch(name.rpartition("/")[2], files)
        )
    for name in found:
        try:
            with open_regular(folder, name, MAX_TEXT_BYTES) as file:
                text = decode_text(file.read())
        except BadFile:
            skipped += 1
            continue
        for number, line in enumerate((text or "").splitlines(), start=1):
            if expression.search(line):
                place = f"{_format_path(name)}:{number}"
                matches.append((place, f"{place}: {line[:_MAX_LINE_CHARS]}\n"))
        if len(matches) > MAX_MATCHES:
            break
    shown = _take_lines([line for _, line in matches[:MAX_MATCHES]])
    notes: list[str] = []
    if len(shown) < len(matches):
        last = matches[len(shown) - 1][0]
        notes.append(f"[lines that match after {last} are left out: narrow the pattern, path or files to see them]")
    if skipped:
        notes.append(f"[{skipped} files of more than {MAX_TEXT_BYTES} bytes are not searched]")
    return (("".join(shown) or "no line matches\n") + "\n".join(notes)).rstrip("\n")


def _take_lines(lines: Sequence[str]) -> Sequence[str]:
    """Return the first lines that have at most `_MAX_LINES_CHARS` characters together; at least one, if there is
    one."""
    ends = accumulate(map(len, lines))
    return lines[: max(1, sum(1 for _ in takewhile(lambda end: end <= _MAX_LINES_CHARS, ends)))]


def _check_path(raw: str, top: str = "") -> str:
    """Return a path in the repository in its plain form; `top` is the top folder, if it is allowed.

    Raises `RefusedCall` for a path that leads outside, into `.git`, or has characters that are not printable.
    """
    parts = PurePosixPath(raw).parts
    if raw.startswith("/") or ".." in parts:
        why = "is not a path in the repository: give one relative to its top, such as src/train.py"
    elif _is_in_git_folder(raw):
        why = "is in .git, which is not part of the tree"
    else:
        why = "" if raw.isprintable() and (parts or top) else "is not the path of a file"
    if why:
        raise RefusedCall(f"{raw[:200]!r} {why}")
    return "/".join(parts) or top


def _is_in_git_folder(path: str) -> bool:
    return any(part.lower() == ".git" for part in path.split("/"))


def _format_path(path: str) -> str:
    """Return a path on one line."""
    return path if path.isprintable() else repr(path)


def _format_paths(paths: Sequence[str]) -> str:
    return ", ".join(map(_format_path, paths[:5])) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")


def _format_entry(name: str, status: os.stat_result) -> str:
    kind = stat.S_IFMT(status.st_mode)
    how = {stat.S_IFREG: f" ({status.st_size})", stat.S_IFDIR: "/", stat.S_IFLNK: " (link)"}
    return _format_path(name) + how.get(kind, " (no plain file)")


def _build_parameters(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, without the titles that pydantic adds."""
    schema = arguments.model_json_schema()
    schema.pop("title")
    for one in schema["properties"].values():
        one.pop("title", None)
    return schema


def _describe_problem(name: str, error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{name}: {where + ': ' if where else ''}{first['msg']}"[:500]
