"""`scientist`: turn a research idea into a paper in which every number is measured."""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit code. Ctrl-C prints one line on stderr even while modules are loading."""
    try:
        from labwright.agent.cli.commands import run_program  # takes most of a second

        return run_program(arguments)
    except KeyboardInterrupt:
        print("scientist: interrupted", file=sys.stderr)
        return 130
