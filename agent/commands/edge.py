"""The edge of the command line: exit codes, and every error as one line.

    WrongUse    you: an argument or a folder is not what the command needs; nothing was created (exit 2)
    Crashed     us: something unexpected; the traceback was saved where the line says (exit 1)
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from inspector.text import plain
from sandbox.settings import SandboxSettings

DONE, FAILED, WRONG_USE, LIMITED, NOT_RELEASED, FINDINGS, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


class WrongUse(Exception):
    """A command was asked for something that it cannot do. The message says what and how to mend it."""


class Crashed(Exception):
    """Something unexpected happened. The message says what, and where the traceback lies."""


def wrong_use() -> tuple[type[Exception], ...]:
    """The errors of all folders that the person at the keyboard can mend by asking otherwise: exit 2."""
    from typer.exceptions import TyperException

    from agent.settings import SettingsError
    from models.errors import CatalogueError, ModelConfigError
    from record.lock import RunLockedError
    from record.nouns.idea import IdeaError
    from record.reading import OtherVersionError
    from sandbox.errors import GpuError, IsolationError, PretrainedError
    from stages.paper.template import TemplateError

    return (WrongUse, TyperException, IdeaError, SettingsError, RunLockedError, OtherVersionError, ModelConfigError,
            CatalogueError, GpuError, IsolationError, PretrainedError, TemplateError)


def told_failures() -> tuple[type[Exception], ...]:
    """The errors whose message says all that is needed to go on: exit 1, no traceback."""
    from models.errors import ModelError
    from record.reading import RecordError
    from sandbox.errors import SandboxError
    from stages.prepare import PlanError

    return Crashed, RecordError, SandboxError, ModelError, PlanError


@contextmanager
def traceback_saved(folder: Path | None = None) -> Generator[None]:
    """Turn what nobody expected into `Crashed`, its traceback saved in a run folder, or else a temporary file."""
    try:
        yield
    except (*wrong_use(), *told_failures()):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:  # of a path that was asked for
            raise WrongUse(f"{error.filename}: the name is too long; choose a shorter one") from None
        said = plain(f"{type(error).__name__}: {error}")[:300]
        raise Crashed(f"unexpected failure: {said}; the traceback is in {_save(error, folder)}") from error


@contextmanager
def data_refused() -> Generator[None]:
    """Where nothing has begun yet, data that are at fault are wrong use."""
    from sandbox.errors import DatasetError

    try:
        yield
    except DatasetError as error:
        raise WrongUse(str(error)) from None


def isolation_told(settings: SandboxSettings) -> None:
    """Say where code will run without isolation that was wanted. Raises `IsolationError` where it is required, and
    where code may not read what it is to read; `WrongUse` where no experiment could run in the interpreter."""
    from sandbox.errors import ExecutorError
    from sandbox.isolation.bubblewrap import check_readable
    from sandbox.isolation.interpreter import check_interpreter
    from sandbox.isolation.probe import isolation_of

    check_readable(settings.readable)
    try:
        check_interpreter(settings.python)
    except ExecutorError as error:
        raise WrongUse(str(error)) from None
    found = isolation_of(settings)
    if settings.isolation == "auto" and not found.on:
        say(f"experiments run without isolation, as you, with your files and network: {found.why}; mend it: "
            f"{found.fix}")


def check_papers(folder: Path | None) -> None:
    """Refuse a folder of papers that holds none. Raises `WrongUse`."""
    if folder is None:
        return
    if not folder.is_dir():
        raise WrongUse(f"there is no folder {folder}: give --papers a folder of PDFs")
    if not any(one.suffix.lower() == ".pdf" for one in folder.iterdir()):
        raise WrongUse(f"--papers {folder} holds no PDF: give a folder of PDFs, or leave it out")


def exit_code_of(error: BaseException) -> int:
    """Say an error in one line on stderr, and return the exit code that belongs to it."""
    if os.environ.get("SCIENTIST_DEBUG") == "1":
        traceback.print_exception(error)
    say(message_of(error))
    return WRONG_USE if isinstance(error, wrong_use()) else FAILED


def message_of(error: BaseException) -> str:
    """An error in words; of a wrong command line also where its help is."""
    if not hasattr(error, "format_message"):
        return str(error)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "scientist"
    said = str(error.format_message()).rstrip(".")  # pyright: ignore
    for words, plain_words in _NUMBERS.items():
        said = said.replace(words, plain_words)
    return f"{said} (see: {command} --help)"


_NUMBERS = {
    "Input should be a valid integer, unable to parse string as an integer": "give a whole number, as 7",
    "Input should be a valid number, unable to parse string as a number": "give a number, as 2.5"}
"""What the command line's own parser says of numbers, and what that means."""


def say(message: str) -> None:
    """One line on stderr."""
    print(f"scientist: {plain(message)}", file=sys.stderr)


def _save(error: Exception, folder: Path | None) -> Path:
    text = "".join(traceback.format_exception(error))
    if folder is not None and folder.is_dir():
        path = folder / f"crash-{datetime.now():%Y-%m-%d_%H-%M-%S}.txt"
        try:
            path.write_text(text)
            return path
        except OSError:
            pass  # a full or read-only disk may be the very cause; the temporary folder often still works
    handle, name = tempfile.mkstemp(prefix="scientist-crash-", suffix=".txt")
    with open(handle, "w") as file:
        file.write(text)
    return Path(name)
