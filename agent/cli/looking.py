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
def tree(
    run: Run,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until the run ends, or Ctrl-C.")] = False,
    json: AsJson = False,
) -> int:
    """Show the nodes of a run by stage. With state, metric and the path to the best."""
    from agent.commands.look import tree as work

    return work(run, as_json=json, watched=watch)


@commands.command()
def logs(
    run: Run,
    node: Annotated[str | None, typer.Option(help="Of one node, with its small steps and output.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends, or Ctrl-C.")] = False,
    last: Annotated[int | None, typer.Option("--last", "-n", min=0, help="Lines of what is there; else all.")] = None,
    json: AsJson = False,
) -> int:
    """Show what happened in a run. An event a line, or a node's steps and output, also while it runs."""
    from agent.commands.logs import logs as work

    return work(run, node=node, follow=follow, last=last, as_json=json)


@commands.command()
def why(run: Run, json: AsJson = False) -> int:
    """Show why a run is where it is. What each worker waits for, errors, best minus baseline, next actions."""
    from agent.commands.why import why as work

    return work(run, as_json=json)


@commands.command()
def view(
    place: Annotated[Path, typer.Argument(metavar="[RUN|DIR]", help="A run, or a folder of runs.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="To listen on; 0: one that is free.")] = 0,
    read_only: Annotated[bool, typer.Option("--read-only", help="Nothing can be asked of a run.")] = False,
) -> int:
    """Show runs in a browser. A page on this machine alone: tree, nodes, reports, cost, paper; live."""
    from agent.commands.view import view as work

    return work(place, port=port, read_only=read_only)


@commands.command()
def export(
    run: Run,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="The run's page in one file.")] = None,
    events: Annotated[Path | None, typer.Option(metavar="FILE", help="All events as JSON lines; - to print.")] = None,
    tree: Annotated[Path | None, typer.Option(metavar="FILE", help="The tree as JSON; - to print it.")] = None,
    zip: Annotated[Path | None, typer.Option(metavar="FILE", help="The run's folder, without its data.")] = None,
    with_data: Annotated[bool, typer.Option(
        "--with-data", help="In the zip also the data, withheld labels too, and documents.")] = False,
    mlflow: Annotated[str | None, typer.Option(metavar="DIR|URI", help="Into MLflow (extra mlflow).")] = None,
    wandb: Annotated[Path | None, typer.Option(metavar="DIR", help="Into W&B, offline (extra wandb).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Put a new one in the place of what is there.")] = False,
) -> int:
    """Write a run for others to look at. Its page, events, tree or folder as a file; its nodes into a tracker."""
    from agent.commands.export import Wanted
    from agent.commands.export import export as work

    return work(run, Wanted(html=html, events=events, tree=tree, zip=zip, mlflow=mlflow, wandb=wandb,
                            with_data=with_data, force=force))


@commands.command(context_settings={"ignore_unknown_options": True})  # a number may begin with a minus
def trace(
    run: Run,
    number: Annotated[str, typer.Argument(metavar="NUMBER", help="As the paper prints it: 87.3, -0.021 or 5%.")],
    json: AsJson = False,
) -> int:
    """Show where a printed number comes from. Claims, nodes, seeds, files, code, and what makes it again."""
    from agent.commands.trace import trace as work

    return work(run, number, as_json=json)
