"""`scientist`: from a research idea to a paper whose every number was measured.

What a command needs is imported when it runs: `scientist --help` loads neither torch nor a model library.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from agent.cli import checking, finding, looking, running, steering

EXIT_CODES = """
Exit codes: 0 done and released; 1 unexpected failure; 2 wrong use or configuration; 3 stopped by budget or time with a
partial report; 4 paper not released; 5 findings (audit, reproduce, trace, doctor); 130 interrupted, take it up again
with resume.
"""

app = typer.Typer(
    name="scientist", add_completion=False, pretty_exceptions_enable=False,
    rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]},
    help="From a research idea to a paper whose every number was measured.", epilog=EXIT_CODES)
for part in (running, steering, looking, checking, finding):
    app.add_typer(part.commands)


@app.callback(invoke_without_command=True)
def scientist(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        from importlib.metadata import version as version_of

        print(f"scientist {version_of('scientist')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


PLACES = ("--runs", "--out", "--context", "--papers", "--code", "--results", "--config", "--bib")
"""Options whose value is a path."""


def _check_paths(arguments: list[str]) -> None:
    """Refuse an empty path, which would be the working directory: a variable of the shell that is not set.

    Raises `WrongUse`.
    """
    from agent.commands.edge import WrongUse

    given = [*pairwise(arguments), *(one.split("=", 1) for one in arguments if "=" in one)]
    for name, value in given:
        if name in PLACES and not value.strip():
            raise WrongUse(f"{name} is empty: give a path, as . for this folder")


def main(arguments: list[str] | None = None) -> int:
    """The exit code of a command line; every error is one line on stderr."""
    from agent.commands.edge import exit_code_of, traceback_saved
    from agent.dotenv import read_keys

    read_keys(Path(), os.environ)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore  a terminal without Unicode gets '?', not an error
    try:
        with traceback_saved():
            _check_paths(sys.argv[1:] if arguments is None else arguments)
            code: Any = app(arguments, prog_name="scientist", standalone_mode=False)
    except Exception as error:  # noqa: BLE001  the outer edge of the program
        return exit_code_of(error)
    return code if isinstance(code, int) else 0
