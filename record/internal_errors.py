"""Unexpected internal exceptions while processing the output of an experiment: a failure of its node, not of the run.

The failure has a traceback and a signature of its location, so that an internal error that affects node after node can
be distinguished from a single unusual experiment (`RunState.internal_faults`). Lack of disk space, file handles or
memory is a failure of the run instead (`is_machine_error`).

Limits: an exception that is not a machine error may still not be caused by the experiment; after three nodes it is
treated as internal.

Also the cache of values derived from immutable objects.
"""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable, Hashable
from operator import is_
from pathlib import Path
from typing import Generic, TypeVar

from labwright.record.schema.nodes import Failure

PACKAGE_ROOT = Path(__file__).parents[1]
SIGNATURE_FRAMES = 3
MAX_FRAMES_SHOWN = 30
MAX_NODES_PER_FAULT = 3
"""The run ends when this number of nodes had the same internal error; the count restarts on resume."""
_MACHINE_ERRNOS = frozenset(
    getattr(errno, name)
    for name in "ENOSPC EDQUOT EROFS EIO ESTALE ENXIO ENODEV EMFILE ENFILE ENOMEM ETIMEDOUT".split()
)


def is_machine_error(error: BaseException) -> bool:
    """Return whether an exception comes from the host's disk or system."""
    return isinstance(error, OSError) and error.errno in _MACHINE_ERRNOS


def list_own_frames(error: BaseException) -> list[tuple[str, str, int]]:
    """Return (file, function, line) of every frame of this program that an exception passed, innermost last."""
    return [
        (str(path.relative_to(PACKAGE_ROOT)), frame.name, frame.lineno or 0)
        for frame in traceback.extract_tb(error.__traceback__)
        if (path := Path(frame.filename)).is_relative_to(PACKAGE_ROOT)
    ]


def build_internal_failure(error: Exception) -> Failure:
    """Build the failure of a node whose files could not be processed."""
    kind = type(error).__name__
    text, trace = (
        one.encode(errors="backslashreplace").decode()
        for one in (str(error), "".join(traceback.format_exception(error, limit=-MAX_FRAMES_SHOWN)))
    )
    place = [f"{file}:{function}:{line}" for file, function, line in list_own_frames(error)[-SIGNATURE_FRAMES:]]
    return Failure(
        kind="other",
        traceback=trace.replace(f"{PACKAGE_ROOT}/", "")[-8000:],
        ours=" < ".join([kind, *reversed(place)]),
        message=f"the program could not process the experiment's output ({kind}: {' '.join(text.split())[:300]}): "
        "write regular files only, as lab does",
    )


# Cache of values derived from immutable objects; a value is valid as long as its inputs are the identical objects. A
# snapshot of a run visits every node again, and nearly all are unchanged since the previous decision.

T = TypeVar("T")

MAX_ENTRIES = 20_000
"""Maximum number of cached values; the oldest are dropped."""


class Memo(Generic[T]):
    """A cache with one value per key. It keeps references to the inputs, so no other object can get their identity."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[tuple[object, ...], T]] = {}

    def get_or_compute(self, key: Hashable, inputs: tuple[object, ...], compute: Callable[[], T]) -> T:
        """Return the cached value for these input objects, or compute it now."""
        known = self._kept.get(key)
        if known is not None and len(known[0]) == len(inputs) and all(map(is_, known[0], inputs)):
            return known[1]
        value = compute()
        self._kept.pop(key, None)
        self._kept[key] = inputs, value
        if len(self._kept) > MAX_ENTRIES:
            self._kept.pop(next(iter(self._kept)), None)
        return value
