"""`scientist`: turn a research idea into a paper in which every number is measured."""

from __future__ import annotations

import gc
import sys

_COLLECTION_THRESHOLD = 50_000
"""Number of new objects after which Python looks for garbage (its default of 700 costs a fifth of the time in which the
modules of a run are loaded)."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit code. Ctrl-C prints one line on stderr even while modules are loading."""
    gc.set_threshold(_COLLECTION_THRESHOLD)
    try:
        from labwright.agent.cli.commands import run_program  # takes most of a second

        return run_program(arguments)
    except KeyboardInterrupt:
        print("scientist: interrupted", file=sys.stderr)
        return 130
