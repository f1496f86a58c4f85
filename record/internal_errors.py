"""What nobody expected while we worked on what an experiment had left behind: a failure of its node, not of the run.

Kept: the failure has our traceback, and a signature by which the same place is known again, so that a fault of
ours which meets node after node differs from one odd experiment (`RunState.internal_faults`). What fails for want of
disk, files or memory of the machine is the run's (`of_machine`).

Not guaranteed: that an exception which is not of the machine is really the experiment's doing; three nodes tell.
"""

from __future__ import annotations

import errno
import sqlite3
import traceback
from pathlib import Path

from labwright.record.schema.nodes import Failure

PACKAGE_ROOT = Path(__file__).parents[1]
SIGNATURE_FRAMES = 3
"""Innermost frames of ours that make a signature."""
MAX_FRAMES_SHOWN = 30
"""Innermost frames that a traceback shows."""
MAX_NODES_PER_FAULT = 3
"""Nodes that may meet the same fault of ours; then the run ends, and counts anew when it is taken up again."""
_MACHINE_ERRNOS = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EIO,
        errno.ESTALE,
        errno.ENXIO,
        errno.ENODEV,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ETIMEDOUT,
    }
)


def is_machine_error(error: BaseException) -> bool:
    """Whether an exception is of our own disk, database or system, whatever was being read or written."""
    return isinstance(error, sqlite3.Error) or (isinstance(error, OSError) and error.errno in _MACHINE_ERRNOS)


def list_own_frames(error: BaseException) -> list[tuple[str, str, int]]:
    """(file, function, line) of every frame of ours that an exception passed, the innermost last."""
    return [
        (str(path.relative_to(PACKAGE_ROOT)), frame.name, frame.lineno or 0)
        for frame in traceback.extract_tb(error.__traceback__)
        if (path := Path(frame.filename)).is_relative_to(PACKAGE_ROOT)
    ]


def build_internal_failure(error: Exception) -> Failure:
    """The failure of the node whose files we could not work on."""
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
        message=f"the program could not work on what the code left ({kind}: {' '.join(text.split())[:300]}): leave "
        "plain files, as lab writes",
    )
