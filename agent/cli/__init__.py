"""`scientist`: from a research idea to a paper whose every number was measured.

A command is imported when it is called, so that `scientist --help` loads neither torch nor a model library.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.metadata import version as version_of
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from agent.cli.edge import WrongUse, exit_code_of, traceback_saved
from agent.keys import read_keys

EXIT_CODES = """
Exit codes: 0 done and released; 1 unexpected failure; 2 wrong use or configuration; 3 stopped by budget or time with a
partial report; 4 paper not released; 5 findings (audit, reproduce, trace, doctor); 130 interrupted, continue with
resume.
"""

COMMANDS = {
    "run": ("agent.cli.run:run", "Run an idea: experiments in four stages, then figures and a paper."),
    "resume": ("agent.cli.run:resume", "Continue a run where it stopped; nothing finished is done again."),
    "branch": ("agent.cli.branch:branch", "Begin a new run from a point of another one, which stays as it is."),
    "write": ("agent.cli.run:write", "Write the paper of a finished run again, as paper/v2."),
    "exec": ("agent.cli.execute:execute", "Run a file exactly as a node would, as isolated."),
    "prefetch": ("agent.cli.prefetch:prefetch", "Fetch what a run needs from the Hugging Face hub."),
    "doctor": ("agent.cli.doctor:doctor", "Check whether this machine is fit for a run."),
    "stop": ("agent.cli.control:stop", "Ask a run to stop; it can be resumed."),
    "pause": ("agent.cli.control:pause", "Pause a run."),
    "kill": ("agent.cli.control:kill", "End the work on a node at once."),
    "mark": ("agent.cli.control:mark", "Mark a node as suspect or closed."),
    "note": ("agent.cli.control:note", "Show a note to the next prompts of a stage."),
    "status": ("agent.cli.status:status", "Show the state of a run."),
    "tree": ("agent.cli.status:tree", "Show the nodes of a run by stage."),
    "logs": ("agent.cli.status:logs", "Show what happened in a run."),
    "why": ("agent.cli.why:why", "Show why a run is in its present state."),
    "view": ("agent.cli.status:view", "Show runs in a browser."),
    "export": ("agent.cli.export:export", "Write a run to files that others can look at."),
    "trace": ("agent.cli.trace:app", "Show where a printed number comes from."),
    "audit": ("agent.cli.audit:audit", "Check a paper against its record or its result files."),
    "reproduce": ("agent.cli.reproduce:reproduce", "Execute the experiments behind a paper again."),
    "judge": ("agent.cli.judge:judge", "Score a paper by a rubric."),
    "ideate": ("agent.cli.ideate:ideate", "Find ideas for a topic."),
    "bib": ("agent.cli.bib:app", "Look after a library of references."),
    "compare": ("evals.compare:compare", "Compare runs side by side."),
    "bench": ("evals.bench.command:app", "Take benchmarks from their tasks to judged papers."),
    "judge-agreement": ("evals.agreement.command:judge_agreement", "Compare a judge's scores with people's."),
}
"""Command -> where it is defined, and its line in `scientist --help`. `evals` is reached from here alone."""
PATH_OPTIONS = ("--runs", "--out", "--context", "--papers", "--code", "--results", "--config", "--bib")


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (_, summary) in COMMANDS.items():  # what is listed, and suggested for a misspelt name
            self.add_command(TyperCommand(name, help=summary))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return imported(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


def imported(name: str) -> Any:
    """A command of `COMMANDS`, from the function or the `Typer` that defines it."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    found: Any = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    single = typer.Typer(rich_markup_mode=None, add_completion=False)
    single.command(name)(found)
    return typer.main.get_command(single)


app = typer.Typer(
    name="scientist", cls=LazyGroup, add_completion=False, pretty_exceptions_enable=False,
    rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]},
    help="From a research idea to a paper whose every number was measured.", epilog=EXIT_CODES)


@app.callback(invoke_without_command=True)
def scientist(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        print(f"scientist {version_of('scientist')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


def main(arguments: list[str] | None = None) -> int:
    """The exit code of a command line; every error is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore  a terminal without Unicode gets '?', not an error
    read_keys(Path(), os.environ)
    try:
        with traceback_saved():
            _check_paths(sys.argv[1:] if arguments is None else arguments)
            code: Any = app(arguments, prog_name="scientist", standalone_mode=False)
    except Exception as error:  # noqa: BLE001  the outer edge of the program
        return exit_code_of(error)
    return code if isinstance(code, int) else 0


def _check_paths(arguments: list[str]) -> None:
    """Refuse an empty path, which would be the working directory: an unset variable of the shell.

    Raises `WrongUse`.
    """
    given = [*pairwise(arguments), *(one.split("=", 1) for one in arguments if "=" in one)]
    for name, value in given:
        if name in PATH_OPTIONS and not value.strip():
            raise WrongUse(f"{name} is empty: give a path, or . for this folder")
