"""Convert exceptions and process deaths to failures: an error class for the search, a message for debugging."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path

from labwright.record.schema.frozen_model import replace_unencodable
from labwright.record.schema.nodes import ErrorClass, Failure

_MAX_MESSAGE_CHARS = 2000
_MAX_TRACEBACK_CHARS = 8000
"""About two hundred lines; a longer traceback is a recursion with a repetitive middle."""
_ANSI_PATTERN = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""A title's text excludes the escape character, so that the search takes linear time."""

_CLASS_BY_EXCEPTION: dict[str, ErrorClass] = {
    "SyntaxError": "syntax",
    "IndentationError": "syntax",
    "TabError": "syntax",
    "ImportError": "import",
    "ModuleNotFoundError": "import",
    "MemoryError": "memory",
    "OutOfMemoryError": "memory",
    "_ArrayMemoryError": "memory",
}
_SHAPE_ERRORS = frozenset("ValueError RuntimeError IndexError AssertionError LabError TypeError".split())
_MEMORY_PATTERN = re.compile(
    r"out of memory|can't allocate memory|not enough memory|unable to allocate|"
    r"cannot allocate memory|CU[A-Z]+_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED|"
    r"(insufficient|out of) shared memory",
    re.IGNORECASE,
)
_SHAPE_PATTERN = re.compile(
    r"shapes? .*(cannot be multiplied|not aligned|mismatch)|mat1 and mat2|could not broadcast|"
    r"operands could not be broadcast|size mismatch|shape mismatch|mismatch in its core dimension|"
    r"must match the (existing )?size|expected .*batch_size .*to match|inconsistent numbers? of samples|"
    r"cannot reshape array|shape '.*' is invalid for input of size|inhomogeneous shape|"
    r"array dimensions? .* must match|all (the )?input array|expected (input|\d+d)\b.*(dimension|channels|got)|"
    r"features?, but .* is expecting|boolean index did not match|same (first dimension|size)|"
    r"sizes? of tensors? must match|batch_size|must have shape|dimension out of range",
    re.IGNORECASE | re.DOTALL,
)


def classify_exception(name: str, message: str) -> ErrorClass:
    """Return the error class of an exception, from its name and message.

    The patterns take quadratic time, so only the beginning and the end of a long message are searched.
    """
    message = cut_middle(message, _MAX_MESSAGE_CHARS)
    if name in _CLASS_BY_EXCEPTION:
        return _CLASS_BY_EXCEPTION[name]
    if _MEMORY_PATTERN.search(message):
        return "memory"
    if name in _SHAPE_ERRORS and _SHAPE_PATTERN.search(message):
        return "shape"
    return "other"


def _shorten(text: str, folder: Path, limit: int = _MAX_TRACEBACK_CHARS) -> str:
    """Remove colours, make paths relative to the folder and cut the middle of the text if it is too long."""
    text = strip_colours(text)
    for form in {str(folder), str(folder.resolve())}:
        text = text.replace(f"{form}/", "")
    return cut_middle(text, limit)


def failure_from_exception(name: str, message: str, *, traceback: Sequence[str], folder: Path) -> Failure:
    """Return the failure for an exception raised by code in `folder`; paths are shortened."""
    words = _shorten(f"{name}: {message}" if message else name, folder, _MAX_MESSAGE_CHARS)
    return Failure(
        kind=classify_exception(name, message), message=words, traceback=_shorten("\n".join(traceback), folder)
    )


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
    return Failure(
        kind="died", message=words, traceback=_shorten(_HARNESS_FRAME_PATTERN.split(crash_log)[0].strip(), folder)
    )


def failure_from_timeout(limit: float, *, stopped: bool, traceback: Sequence[str], folder: Path) -> Failure:
    """Return the failure for code that reached its wall-clock limit (seconds)."""
    how = "it was interrupted" if stopped else "it did not stop when interrupted and was killed"
    return Failure(
        kind="timeout",
        message=f"the wall-clock limit of {limit:g} s was reached; {how}. "
        "Do less work, and save progress with lab.checkpoint",
        traceback=_shorten("\n".join(traceback), folder),
    )


def failure_from_flood(limit: int) -> Failure:
    """Return the failure for code that printed more than `limit` characters."""
    return Failure(
        kind="other",
        message=f"it printed more than {limit:,} characters and was killed: print less, at most one line per epoch",
    )


def strip_colours(text: str) -> str:
    """Remove terminal colours and replace characters that UTF-8 cannot encode with `?`."""
    return replace_unencodable(_ANSI_PATTERN.sub("", text))


def cut_middle(text: str, limit: int) -> str:
    """Cut the middle out of a string that is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... [{len(text) - 2 * half} characters left out] ...\n{text[-half:]}"
