"""Exit codes, error messages of one line, and output to a pipe or terminal that may have closed."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO, cast

from typer.exceptions import TyperException

from labwright.inspector.safe_text import to_plain
from labwright.record.errors import UsageError, UserError
from labwright.record.log_reader import is_run

DONE, FAILED, WRONG_USE, LIMITED, NOT_RELEASED, FINDINGS, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


@contextmanager
def saving_traceback(folder: Path | None = None) -> Generator[None]:
    """Save the traceback of an unexpected exception in the run folder, or else in a temporary file.

    Raises `UserError` with the location.
    """
    try:
        yield
    except (UsageError, UserError, TyperException):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:  # a path given by the user
            raise UsageError(f"{error.filename}: the name is too long; choose a shorter one") from None
        words, text = to_plain(f"{type(error).__name__}: {error}")[:300], "".join(traceback.format_exception(error))
        raise UserError(f"unexpected error: {words}; the traceback is in {_save_traceback(text, folder)}") from error


def _save_traceback(text: str, folder: Path | None) -> Path:
    if folder is not None and folder.is_dir():
        path = folder / f"crash-{datetime.now():%Y-%m-%d_%H-%M-%S}.txt"
        with suppress(OSError):  # the disk may be full or read-only; the temporary folder may still work
            path.write_text(text)
            return path
    with tempfile.NamedTemporaryFile("w", prefix="scientist-crash-", suffix=".txt", delete=False) as file:
        file.write(text)
    return Path(file.name)


def report_error(error: BaseException) -> int:
    """Print an error as one line on stderr and return its exit code."""
    message = str(error)
    if isinstance(error, TyperException):  # for an invalid command line, also point to its help
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "scientist"
        message = f"{error.format_message().rstrip('.')} (see: {command} --help)"
    if os.environ.get("SCIENTIST_DEBUG") == "1":
        traceback.print_exception(error)
    print_to_stderr(message)
    return WRONG_USE if isinstance(error, UsageError | TyperException) else FAILED


def check_output(path: Path, *read: Path | None) -> None:
    """Refuse to overwrite a folder, an input file or a file of a run. Raises `UsageError`."""
    target = path.resolve()
    if target.is_dir():
        raise UsageError(f"{path} is a folder: give the path of a file")
    if any(one is not None and one.resolve() == target for one in read):
        raise UsageError(f"{path} is an input file: give another path")
    run = next((folder for folder in target.parents if is_run(folder)), None)
    if run is not None and (target.exists() or target.parent != run):
        raise UsageError(f"{path} is a file of a run and is never overwritten: choose a path outside {run}")


def print_to_stderr(message: str) -> None:
    """Print one line on stderr; if its terminal was closed, print nothing, so that the exit code does not change."""
    with _discarding_unread_output(sys.stderr):
        print(f"scientist: {to_plain(message)}", file=sys.stderr)


# --- output ---------------------------------------------------------------------------------------------------------

READER_GONE_ERRNOS = (errno.EPIPE, errno.EIO)
"""Errors when writing to a closed pipe or terminal."""


@contextmanager
def ignoring_closed_output() -> Generator[None]:
    """End without an error message on Ctrl-C, or when the output is closed: `| head` has ended, or the terminal was
    closed.
    """
    with suppress(KeyboardInterrupt), _discarding_unread_output(sys.stdout):
        yield
        sys.stdout.flush()


@contextmanager
def _discarding_unread_output(stream: TextIO) -> Generator[None]:
    """Redirect a closed stream to the null device, so that flushing it at exit does not raise."""
    try:
        yield
    except OSError as error:
        if error.errno not in READER_GONE_ERRNOS:
            raise
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def as_unbreakable(stream: TextIO) -> TextIO:
    """Wrap a stream so that writing to it after it was closed does not raise, since that must not end a run."""
    return cast(TextIO, _UnbreakableStream(stream))


class _UnbreakableStream:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with _discarding_unread_output(self._stream):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with _discarding_unread_output(self._stream):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
