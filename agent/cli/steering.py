"""Ask something of a run that goes on."""

from __future__ import annotations

import typer

from agent.cli.options import Run

commands = typer.Typer()


@commands.command()
def stop(run: Run) -> int:
    """Ask a run to stop; it can be resumed."""
    from agent.commands.control import stop as work

    return work(run)
