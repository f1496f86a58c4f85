"""`scientist`: from a research idea to a paper whose every number was measured.

What a command needs is imported when it runs: `scientist --help` loads neither torch nor a model library.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

EXIT_CODES = """
Exit codes: 0 done and released; 1 unexpected failure; 2 wrong use or configuration; 3 stopped by budget or time with a
partial report; 4 paper not released; 5 findings (audit, reproduce, trace, doctor); 130 interrupted, take it up again
with resume.
"""

COMMANDS = {
    "compare": ("evals.compare:compare", "Compare runs side by side."),
    "bench": ("evals.bench.command:app", "Take benchmarks from their tasks to judged papers."),
    "judge-agreement": ("evals.agreement.command:judge_agreement", "Compare a judge's scores with people's."),
}
"""Command -> where it is defined, and what `scientist --help` says of it. `evals` is reached from here alone."""


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are called: `scientist --help` loads none of them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (_, summary) in COMMANDS.items():  # what is listed, and suggested for a misspelt name
            self.add_command(TyperCommand(name, help=summary))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return imported(cmd_name) if cmd_name in COMMANDS else super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(72)) for name, one in self.commands.items()])


def imported(name: str) -> Any:
    """A command of `COMMANDS`: the function of that name, or a `Typer` of several."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    found: Any = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    single = typer.Typer(rich_markup_mode=None)
    single.command(name)(found)
    return typer.main.get_command(single)


app = typer.Typer(
    name="scientist", cls=LazyGroup, add_completion=False, pretty_exceptions_enable=False,
    rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]},
    help="From a research idea to a paper whose every number was measured.", epilog=EXIT_CODES)
from agent.cli import checking, finding, looking, running, steering  # noqa: E402

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
