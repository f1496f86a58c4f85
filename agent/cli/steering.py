"""Ask something of a run that goes on (docs/steering.md)."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from agent.cli.options import Run

commands = typer.Typer()
Node = Annotated[str, typer.Argument(metavar="NODE", help="As the tree shows it: n0012.")]
Reason = Annotated[str, typer.Option(help="Why; it is recorded.")]
Why = Annotated[str, typer.Option("--reason", help="Why, in a sentence: it is recorded and disclosed.")]


@commands.command()
def stop(run: Run, reason: Reason = "") -> int:
    """Ask a run to stop; it can be resumed."""
    from agent.commands.control import stop as work

    return work(run, reason=reason)


@commands.command()
def pause(run: Run, reason: Reason = "") -> int:
    """Hold a run. Nothing new is begun, what runs comes to its end, no time counts; resume goes on."""
    from agent.commands.control import ask
    from record.events.running import Commanded

    return ask(run, Commanded(verb="pause", text=reason))


@commands.command()
def kill(run: Run, node: Node, reason: Why) -> int:
    """End the work on a node at once. Its place is freed; it is neither run again nor debugged."""
    from agent.commands.control import ask
    from record.events.running import Commanded

    return ask(run, Commanded(verb="kill", target=node, text=reason))


@commands.command()
def mark(
    run: Run,
    node: Node,
    reason: Why,
    kind: Annotated[Literal["suspect", "closed"], typer.Option(
        "--as", help="suspect: its numbers are kept out; closed: nothing is built on it.")] = "suspect",
) -> int:
    """Mark a node. As suspect, so that it is never the best, or as closed, so that nothing builds on it."""
    from agent.commands.control import ask
    from record.events.running import Commanded

    return ask(run, Commanded(verb="mark", target=node, text=reason, mark=kind))


@commands.command()
def note(
    run: Run,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Up to 1000 characters.")],
    stage: Annotated[str, typer.Option(help="preliminary, tuning, agenda, ablation; else the one at work.")] = "",
) -> int:
    """Tell the next prompts of a stage something. A wish on direction: a later one takes it back, and
    no rule of honesty yields to it."""
    from agent.commands.control import ask
    from record.events.running import Commanded

    return ask(run, Commanded(verb="note", target=stage, text=text))
