"""Output that nobody may read any more: `| head` has seen enough, or the terminal was closed."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO, cast

GONE = (errno.EPIPE, errno.EIO)
"""What writing to a pipe or a terminal gives that nobody holds any more."""


@contextmanager
def until_left() -> Generator[None]:
    """End quietly when the reader of our output is gone, or at Ctrl-C."""
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    except OSError as error:
        if error.errno not in GONE:
            raise
        _to_nowhere(sys.stdout)


def lasting(stream: TextIO) -> TextIO:
    """A stream that takes everything, also when nobody reads it any more: a run does not end by that."""
    return cast(TextIO, _Lasting(stream))


class _Lasting:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._left(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._left(error)

    def _left(self, error: OSError) -> None:
        if error.errno not in GONE:
            raise error
        _to_nowhere(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _to_nowhere(stream: TextIO) -> None:
    """What is still held back goes where it does no harm, also at the exit of the program."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
