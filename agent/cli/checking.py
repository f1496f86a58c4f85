"""Hold papers against what was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent.cli.options import AsJson, Assignments, BaseUrl, Model, Run, given

commands = typer.Typer()


@commands.command()
def audit(
    path: Annotated[Path, typer.Argument(
        metavar="RUN|PAPER", help="The folder of a run, or a paper that is not ours (.md, .tex, .pdf).")],
    results: Annotated[Path | None, typer.Option(help="Of a paper: the folder of its result files.")] = None,
    code: Annotated[Path | None, typer.Option(help="Of a paper: the folder of its Python code.")] = None,
    json: AsJson = False,
) -> int:
    """Check a run's paper against its record, or any paper against its result files. With findings, it exits 5."""
    from agent.commands.audit import audit as work

    return work(path, results=results, code=code, as_json=json)


@commands.command()
def reproduce(
    run: Run,
    node: Annotated[list[str] | None, typer.Option(help="Only this node, as n0031; may be repeated.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Replicates at most of each configuration.")] = None,
    assignments: Assignments = None,
    json: AsJson = False,
) -> int:
    """Execute what a paper rests on again. Its printed digits must come again, or it exits 5 (docs/reproduce.md)."""
    from agent.commands.reproduce import Request
    from agent.commands.reproduce import reproduce as work
    from agent.settings import from_assignments

    return work(Request(run=run, nodes=tuple(node or ()), limit=limit, flags=from_assignments(assignments or ()),
                        as_json=json))


@commands.command()
def judge(
    paper: Annotated[Path | None, typer.Argument(
        metavar="PAPER|RUN", help="A paper as PDF, LaTeX, Markdown or text, or the folder of a run.")] = None,
    rubric: Annotated[str, typer.Option(
        metavar="NAME|FILE", help="A rubric of ours by name ('list' shows them), or a TOML file (form: docs/judge.md).",
    )] = "end-to-end",
    judges: Annotated[str | None, typer.Option(
        metavar="MODEL,...", help="Several judges: model strings, with @ADDRESS where one has its own.")] = None,
    n: Annotated[int, typer.Option(help="How many times each judge is asked.")] = 1,
    task: Annotated[Path | None, typer.Option(help="The task that the paper answers, a text file.")] = None,
    code: Annotated[Path | None, typer.Option(help="The folder of the paper's code. Nothing is executed.")] = None,
    log: Annotated[Path | None, typer.Option(help="A log of the experiments, shown by head and tail.")] = None,
    results: Annotated[Path | None, typer.Option(help="The paper's result files, for the audit.")] = None,
    pages: Annotated[int | None, typer.Option(
        min=0, max=40, help="How many pages of a PDF a model that sees gets as pictures (8).")] = None,
    model: Model = None,
    base_url: BaseUrl = None,
    json: AsJson = False,
) -> int:
    """Score a paper by a rubric. For each dimension a score, a reason and a quote that is looked up in the paper."""
    from agent.commands.judge import Beside, Request, list_rubrics
    from agent.commands.judge import judge as work

    if rubric == "list":
        return list_rubrics()
    flags = given({"models.name": model, "models.base_url": base_url})
    asked = tuple(name.strip() for name in (judges or "").split(",") if name.strip())
    beside = Beside(task=task, code=code, log=log, results=results, pages=pages)
    return work(Request(path=paper, rubric=rubric, judges=asked, repeats=n, beside=beside, flags=flags, as_json=json))
