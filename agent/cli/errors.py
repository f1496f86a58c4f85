"""Exit codes, error messages of one line, and output to a pipe or terminal that may have closed."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from json import dumps, loads
from pathlib import Path
from typing import Any, TextIO, cast

import rich.table
from pydantic import BaseModel
from rich.console import Console
from rich.text import Text
from typer.exceptions import TyperException

from labwright.inspector.safe_text import to_plain
from labwright.record.errors import UsageError, UserError
from labwright.record.event_log import is_run
from labwright.record.table import Table, format_cell

DONE, FAILED, WRONG_USE, LIMITED, NOT_RELEASED, FINDINGS, INTERRUPTED, READER_GONE = 0, 1, 2, 3, 4, 5, 130, 141


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
    with discard_unread_output(sys.stderr):
        print(f"scientist: {to_plain(message)}", file=sys.stderr)


# --- output ---------------------------------------------------------------------------------------------------------

READER_GONE_ERRNOS = (errno.EPIPE, errno.EIO)
"""Errors when writing to a closed pipe or terminal."""


@contextmanager
def discard_unread_output(stream: TextIO) -> Generator[None]:
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
        with discard_unread_output(self._stream):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with discard_unread_output(self._stream):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


# Print results as JSON, or as lines and tables of text that is safe for a terminal.

Lines = Iterable[Text | Table]


def print_result(found: BaseModel | dict[str, Any], lines: Lines, *, json: bool) -> None:
    """Print the result as JSON, or print the lines, which are not evaluated for JSON."""
    if json:
        print(format_json(found))
    else:
        print_lines(lines)


def format_json(found: BaseModel | dict[str, Any]) -> str:
    """Return JSON in ASCII, since a terminal obeys some of the other control characters."""
    return dumps(loads(found.model_dump_json()) if isinstance(found, BaseModel) else found, indent=1)


def print_lines(lines: Lines, console: Console | None = None) -> None:
    """Print the lines without wrapping them."""
    console = console or Console(highlight=False)
    for line in lines:
        for part in _list_parts(line) if isinstance(line, Table) else [line]:
            console.print(part, soft_wrap=True)


def _list_parts(table: Table) -> Iterator[Text | rich.table.Table]:
    if table.title:
        yield Text(to_plain(table.title), style="bold")
    yield to_terminal(table)
    yield from (format_line(note, "dim") for note in table.notes)


def format_line(text: str, style: str = "", *, label: str = "") -> Text:
    """Format one line. If there is a label, only the label is styled."""
    return Text(label, style=style) + Text(to_plain(text)) if label else Text(to_plain(text), style=style)


def format_block(text: str, style: str = "") -> Iterator[Text]:
    """Format lines of text with their indentation, safe for a terminal."""
    for one in text.splitlines():
        yield Text(" " * (len(one) - len(one.lstrip(" "))) + to_plain(one), style=style)


def take_first(lines: Sequence[Text], limit: int) -> list[Text]:
    """Return the first lines, and a line with the number of omitted ones."""
    more = [Text(f"... {len(lines) - limit} more: --json", style="dim")] if len(lines) > limit else []
    return [*lines[:limit], *more]


def to_terminal(table: Table) -> rich.table.Table:
    """Convert a table for the terminal, without borders; cells that are styled texts keep their style."""
    made = rich.table.Table(box=None, padding=(0, 2, 0, 0))
    for column in table.columns:
        side = "right" if column.kind == "number" else "left"
        made.add_column(Text(to_plain(column.title)), justify=side, overflow="fold")
    for row in table.rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(to_plain(format_cell(cell))) for cell in row))
    return made
