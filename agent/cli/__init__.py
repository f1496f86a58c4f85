"""`scientist`: turn a research idea into a paper in which every number is measured."""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit code. Ctrl-C during loading also prints one line on stderr."""
    try:
        from labwright.agent.cli.program import run_program  # takes most of a second

        return run_program(arguments)
    except KeyboardInterrupt:
        print("scientist: interrupted", file=sys.stderr)
        return 130
