"""Look at runs: in the terminal, in a browser, a number back to its source."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent.cli.options import AsJson, Run

commands = typer.Typer()


@commands.command()
def status(run: Run, json: AsJson = False) -> int:
    """Show where a run stands. Phase, nodes, cost, time, last events, what is next."""
    from agent.commands.look import status as work

    return work(run, as_json=json)


@commands.command()
def tree(run: Run, json: AsJson = False) -> int:
    """Show the nodes of a run by stage. With state, metric and the path to the best."""
    from agent.commands.look import tree as work

    return work(run, as_json=json)


@commands.command()
def why(run: Run, json: AsJson = False) -> int:
    """Show why a run is where it is. What each worker waits for, errors, best minus baseline, next actions."""
    from agent.commands.why import why as work

    return work(run, as_json=json)


@commands.command()
def view(
    place: Annotated[Path, typer.Argument(metavar="[RUN|DIR]", help="A run, or a folder of runs.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="To listen on; 0: one that is free.")] = 0,
) -> int:
    """Show runs in a browser. A page on this machine alone: tree, nodes, reports, cost, paper; live."""
    from agent.commands.view import view as work

    return work(place, port=port)


@commands.command(context_settings={"ignore_unknown_options": True})  # a number may begin with a minus
def trace(
    run: Run,
    number: Annotated[str, typer.Argument(metavar="NUMBER", help="As the paper prints it: 87.3, -0.021 or 5%.")],
    json: AsJson = False,
) -> int:
    """Show where a printed number comes from. Claims, nodes, seeds, files, code, and what makes it again."""
    from agent.commands.trace import trace as work

    return work(run, number, as_json=json)
