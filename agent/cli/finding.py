"""Find ideas, look after references."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent.cli.options import (
    AsJson,
    Assignments,
    BaseUrl,
    BudgetTokens,
    BudgetUsd,
    Config,
    Context,
    Data,
    Gpus,
    Model,
    Papers,
    TimeLimit,
    capped,
    given,
    on,
)

commands = typer.Typer()


@commands.command()
def ideate(
    topic: Annotated[Path, typer.Option(help="A text file that describes a topic, as a call for papers does.")],
    count: Annotated[int, typer.Option("-n", "--count", help="How many ideas.")] = 1,
    rounds: Annotated[int, typer.Option(help="Reflections on an idea at most.")] = 3,
    steps: Annotated[str, typer.Option(
        metavar="STEPS", help="idea, or idea,literature,proposal: each a file, and a start for run.")] = "idea",
    context: Context = None,
    out: Annotated[Path | None, typer.Option(help="The folder; by default below --runs, by time and topic.")] = None,
    runs: Annotated[Path, typer.Option(help="Where a folder is made without --out.")] = Path("runs"),
    model: Model = None,
    base_url: BaseUrl = None,
    config: Config = None,
    assignments: Assignments = None,
    gpus: Gpus = None,
    time_limit: TimeLimit = None,
    budget_usd: BudgetUsd = None,
    budget_tokens: BudgetTokens = None,
    data: Data = None,
    json: AsJson = False,
) -> int:
    """Find ideas for a topic. Looked up, held against this machine (--time-limit: of a run) and against each other."""
    from agent.commands.ideate import Request
    from agent.commands.ideate import ideate as work

    flags = given({"models.name": model, "models.base_url": base_url, "time_limit": time_limit, "data": data or None,
                    **on(gpus), **capped(budget_usd, budget_tokens, None)})
    return work(Request(
        topic=topic, count=count, rounds=rounds, out=out, runs=runs, steps=steps, context=context, config=config,
        flags=flags, assignments=tuple(assignments or ()), as_json=json))


bibliography = typer.Typer(help="Look after a library of references.", rich_markup_mode=None)
commands.add_typer(bibliography, name="bib")


@bibliography.command("check")
def bib_check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .bib file.")],
    out: Annotated[Path | None, typer.Option(
        help="Write the library here, each verified entry with the record of its verification.")] = None,
    papers: Papers = None,
    config: Config = None,
    assignments: Assignments = None,
    json: AsJson = False,
) -> int:
    """Verify a library. Title, authors and year against public catalogues; exit 5 where something may not be cited."""
    from agent.commands.bib import check as work

    return work(file, out=out, papers=papers, config=config, assignments=tuple(assignments or ()), as_json=json)
