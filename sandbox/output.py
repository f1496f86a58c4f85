"""Output of a script, kept in bounded memory, shown in a file while it runs, and saved as a notebook; exceptions and
process deaths as failures: an error class for the search, a message for debugging.
"""

from __future__ import annotations

import re
import signal
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from labwright.record.schema import replace_unencodable
from labwright.record.schema.nodes import ErrorClass, Failure

MAX_KEPT_CHARS = 200_000
"""Number of output characters kept, half from the beginning and half from the end."""
MAX_PRINTED_CHARS = 10**9
"""Maximum number of output characters before the code is killed: no legitimate code prints this much."""
MAX_TAIL_CHARS = 4000
"""Number of characters from the end of the output that the record and prompts contain."""


OutputChunk = tuple[str, str]
"""The name of a stream and a piece of its text."""


@dataclass
class Transcript:
    """Keeps the first and the last `limit / 2` characters of all output; the rest is only counted."""

    limit: int
    dropped: int = 0
    """Number of characters left out."""
    _head: list[OutputChunk] = field(default_factory=list[OutputChunk])
    _tail: deque[OutputChunk] = field(default_factory=deque[OutputChunk])
    _head_chars: int = 0
    _tail_chars: int = 0

    @property
    def char_count(self) -> int:
        """Number of characters of the whole output, including those left out."""
        return self._head_chars + self._tail_chars + self.dropped

    def add(self, stream: str, text: str) -> None:
        """Add some output."""
        room = self.limit // 2 - self._head_chars
        if room > 0:
            self._head.append((stream, text[:room]))
            self._head_chars += len(text[:room])
            text = text[room:]
        if text:
            self._tail.append((stream, text))
            self._tail_chars += len(text)
        while (excess := self._tail_chars - self.limit // 2) > 0:
            stream, text = self._tail.popleft()
            gone = min(excess, len(text))
            if gone < len(text):
                self._tail.appendleft((stream, text[gone:]))
            self._tail_chars -= gone
            self.dropped += gone

    def to_chunks(self) -> list[OutputChunk]:
        """Return the kept output in order, with adjacent pieces of a stream joined and a line about omitted output."""
        gap = [("stderr", f"\n... [{self.dropped} characters of output left out] ...\n")] if self.dropped else []
        runs = groupby([*self._head, *gap, *self._tail], key=itemgetter(0))
        return [(stream, "".join(text for _, text in run)) for stream, run in runs]

    def to_text(self) -> str:
        """Return the kept output of both streams in order."""
        return "".join(text for _, text in self.to_chunks())

    def read_tail(self, chars: int) -> str:
        """Return the last whole lines within `chars` characters as a terminal shows them, e.g. only the last state of
        a progress bar.

        If the last line is longer, return its end.
        """
        shown = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in self.to_text().split("\n"))
        if len(shown) <= chars:
            return shown
        begins = shown.find("\n", -chars - 1) + 1
        return shown[begins:] if 0 < begins < len(shown) else shown[-chars:]


class LiveOutput:
    """Shows the beginning of a script's output in a file while it runs; the file is removed on close.

    The script cannot write to the file. Write errors are ignored, so that no experiment fails because of them.
    """

    def __init__(self, path: Path | None, limit: int) -> None:
        """`limit` is in characters."""
        self._path, self._room = path, limit
        if path is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)
                path.touch(exist_ok=False)

    def add(self, text: str) -> None:
        """Append some output."""
        if self._path is not None and self._room > 0:
            with suppress(OSError), open(self._path, "a", encoding="utf-8", errors="replace", newline="") as file:
                file.write(text[: self._room])
            self._room -= len(text)

    def close(self) -> None:
        """Remove the file: the output is, or will be, stored with the attempt."""
        path, self._path = self._path, None
        if path is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)


_CONTROL_PATTERN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")


def build_notebook(cells: Iterable[tuple[str, Iterable[OutputChunk]]], failure: Failure | None = None) -> str:
    """Build a valid notebook (nbformat 4) of sources with their output; the last one ends with the failure, if any."""
    import nbformat  # slow to import

    library: Any = nbformat
    make = library.v4
    book = make.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    for number, (source, chunks) in enumerate(cells, start=1):
        outputs = [make.new_output("stream", name=stream, text=strip_control_chars(text)) for stream, text in chunks]
        text, name = strip_control_chars(source), f"cell-{number}"
        book.cells.append(make.new_code_cell(text, outputs=outputs, execution_count=number, id=name))
    if failure is not None:
        name, value, trace = map(strip_control_chars, (*failure.message.partition(": ")[::2], failure.traceback))
        error = make.new_output("error", ename=name, evalue=value, traceback=trace.splitlines())
        book.cells[-1].outputs.append(error)
    library.validate(book)
    return str(library.writes(book, version=4))


def strip_control_chars(text: str) -> str:
    """Replace control characters, which notebooks cannot contain, with `?`."""
    return _CONTROL_PATTERN.sub("?", text)


# --- failures ---------------------------------------------------------------------------------------------------------


_MAX_MESSAGE_CHARS = 2000
_MAX_TRACEBACK_CHARS = 8000
"""About two hundred lines; a longer traceback is a recursion with a repetitive middle."""
_ANSI_PATTERN = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""A title's text excludes the escape character, so that the search takes linear time."""

_CLASS_BY_EXCEPTION: dict[str, ErrorClass] = {
    **dict.fromkeys(("SyntaxError", "IndentationError", "TabError"), "syntax"),
    **dict.fromkeys(("ImportError", "ModuleNotFoundError"), "import"),
    **dict.fromkeys(("MemoryError", "OutOfMemoryError", "_ArrayMemoryError"), "memory"),
}
_MEMORY_PATTERN = re.compile(
    r"out of memory|can't allocate memory|not enough memory|unable to allocate|"
    r"cannot allocate memory|CU[A-Z]+_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED|"
    r"(insufficient|out of) shared memory",
    re.IGNORECASE,
)


def classify_exception(name: str, message: str) -> ErrorClass:
    """Return the error class of an exception, from its name and message.

    The patterns take quadratic time, so only the beginning and the end of a long message are searched.
    """
    message = cut_middle(message, _MAX_MESSAGE_CHARS)
    if name in _CLASS_BY_EXCEPTION:
        return _CLASS_BY_EXCEPTION[name]
    return "memory" if _MEMORY_PATTERN.search(message) else "other"


def _shorten(text: str, folder: Path, limit: int = _MAX_TRACEBACK_CHARS) -> str:
    """Remove colours, make paths relative to the folder and cut the middle of the text if it is too long."""
    text = strip_colours(text)
    for form in {str(folder), str(folder.resolve())}:
        text = text.replace(f"{form}/", "")
    return cut_middle(text, limit)


def failure_from_exception(name: str, message: str, *, traceback: Sequence[str], folder: Path) -> Failure:
    """Return the failure for an exception raised by code in `folder`; paths are shortened."""
    words = _shorten(f"{name}: {message}" if message else name, folder, _MAX_MESSAGE_CHARS)
    trace = _shorten("\n".join(traceback), folder)
    return Failure(kind=classify_exception(name, message), message=words, traceback=trace)


_HARNESS_FRAME_PATTERN = re.compile(r'\n *File "[^"\n]*/lab/_child\.py"')
"""Marks the end of the experiment's own frames in a crash log."""


def failure_from_death(exit_code: int, crash_log: str, *, folder: Path) -> Failure:
    """Return the failure for a kernel that died while running code. A negative exit code is the signal that killed
    it.
    """
    if exit_code >= 0:
        words = f"the process ended with exit code {exit_code} before the script did"
    else:
        names = {number.value: number.name for number in signal.Signals}
        words = f"the process was killed by {names.get(-exit_code, f'signal {-exit_code}')}"
        if exit_code == -signal.SIGKILL:
            words += "; the system does this when it runs out of memory"
    trace = _shorten(_HARNESS_FRAME_PATTERN.split(crash_log)[0].strip(), folder)
    return Failure(kind="died", message=words, traceback=trace)


def failure_from_timeout(limit: float, *, stopped: bool, traceback: Sequence[str], folder: Path) -> Failure:
    """Return the failure for code that reached its wall-clock limit (seconds)."""
    how = "it was interrupted" if stopped else "it did not stop when interrupted and was killed"
    advice = "Do less work, and save progress with lab.checkpoint"
    message = f"the wall-clock limit of {limit:g} s was reached; {how}. {advice}"
    return Failure(kind="timeout", message=message, traceback=_shorten("\n".join(traceback), folder))


def failure_from_flood(limit: int) -> Failure:
    """Return the failure for code that printed more than `limit` characters."""
    message = f"it printed more than {limit:,} characters and was killed: print less, at most one line per epoch"
    return Failure(kind="other", message=message)


def strip_colours(text: str) -> str:
    """Remove terminal colours and replace characters that UTF-8 cannot encode with `?`."""
    return replace_unencodable(_ANSI_PATTERN.sub("", text))


def cut_middle(text: str, limit: int) -> str:
    """Cut the middle out of a string that is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... [{len(text) - 2 * half} characters left out] ...\n{text[-half:]}"
