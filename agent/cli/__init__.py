"""`scientist`: from a research idea to a paper whose every number was measured."""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> int:
    """The exit code of a command line; every error is one line on stderr, Ctrl-C while the program loads too."""
    try:
        from labwright.agent.cli.program import run_program  # takes most of a second

        return run_program(arguments)
    except KeyboardInterrupt:
        print("scientist: interrupted", file=sys.stderr)
        return 130
