"""The program behind the command `scientist`. Only what is named here is meant for other programs (docs/python.md)."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labwright.inspector.frames import RunFrames

__all__ = ["__version__", "open_run"]

__version__ = version("labwright")


def open_run(path: str | Path) -> RunFrames:
    """The nodes, cells, measurements and claims of a run as pandas frames. Raises `FolderError`."""
    from labwright.inspector.frames import open_run as read_frames  # pandas takes a second, which no command needs

    return read_frames(path)
