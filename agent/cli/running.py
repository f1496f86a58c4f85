"""Begin a run, take it up, write its paper again, try its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent.cli.options import (
    AsJson,
    Assignments,
    BaseUrl,
    Bib,
    BudgetTokens,
    BudgetUsd,
    Config,
    Context,
    Data,
    GpuHours,
    Gpus,
    Model,
    Papers,
    Run,
    Template,
    TimeLimit,
    Workers,
    capped,
    given,
    on,
)

commands = typer.Typer()


@commands.command()
def run(
    idea: Annotated[Path, typer.Option(
        help="JSON as AI-Scientist-v2 writes it: one idea or a list; or a proposal (.md), read by the model.")],
    idea_idx: Annotated[int | None, typer.Option(help="Which idea of a list, from 0.")] = None,
    model: Model = None,
    base_url: BaseUrl = None,
    config: Config = None,
    assignments: Assignments = None,
    runs: Annotated[Path, typer.Option(help="Where the run's folder is made.")] = Path("runs"),
    name: Annotated[str | None, typer.Option(help="Name of the run's folder; by default time and idea.")] = None,
    workers: Workers = None,
    gpus: Gpus = None,
    time_limit: TimeLimit = None,
    budget_usd: BudgetUsd = None,
    budget_tokens: BudgetTokens = None,
    gpu_hours: GpuHours = None,
    seed: Annotated[int | None, typer.Option(help="Of the run.")] = None,
    bib: Bib = None,
    papers: Papers = None,
    template: Template = None,
    data: Data = None,
    context: Context = None,
    dry_run: Annotated[bool, typer.Option(
        "--dry-run", help="Only make and show the data plan (asks the planner), and what the run would take.")] = False,
    json: Annotated[bool, typer.Option("--json", help="With --dry-run: print JSON.")] = False,
) -> int:
    """Run an idea: experiments in four stages, then figures and a paper."""
    from agent.commands.run import Request
    from agent.commands.run import run as work

    flags = given({
        "models.name": model, "models.base_url": base_url, "search.num_workers": workers, "time_limit": time_limit,
        "seed": seed, "paper.bib": bib, "paper.papers": papers, "paper.template": template, "data": data or None,
        "context": context, **on(gpus), **capped(budget_usd, budget_tokens, gpu_hours)})
    return work(Request(
        idea=idea, index=idea_idx, config=config, assignments=tuple(assignments or ()), runs=runs, name=name,
        flags=flags, dry=dry_run, as_json=json))


@commands.command()
def resume(
    run: Run,
    model: Model = None,
    base_url: BaseUrl = None,
    assignments: Assignments = None,
    workers: Workers = None,
    gpus: Gpus = None,
    time_limit: TimeLimit = None,
    budget_usd: BudgetUsd = None,
    budget_tokens: BudgetTokens = None,
    gpu_hours: GpuHours = None,
) -> int:
    """Take a run up where it was left; overrides are recorded. Nothing finished is done again."""
    from agent.commands.run import resume as work

    flags = given({
        "models.name": model, "models.base_url": base_url, "search.num_workers": workers, "time_limit": time_limit,
        **on(gpus), **capped(budget_usd, budget_tokens, gpu_hours)})
    return work(run, tuple(assignments or ()), flags)


@commands.command()
def branch(
    run: Run,
    point: Annotated[str, typer.Option(
        "--from", metavar="NODE|STAGE", help="After a node's verdict, as n0012, or before a stage, as ablation.")],
    code: Annotated[Path | None, typer.Option(
        help="A folder with an experiment.py of yours: the branch's first node.")] = None,
    author: Annotated[str | None, typer.Option(help="Who wrote it; by default you, as the system knows you.")] = None,
    note: Annotated[str, typer.Option(help="What the next prompts of the stage are to see.")] = "",
    runs: Annotated[Path | None, typer.Option(help="Where the folder is made; by default beside RUN.")] = None,
    name: Annotated[str | None, typer.Option(help="Its name; by default time, idea and point.")] = None,
    seed: Annotated[int | None, typer.Option(
        min=0, help="Of its choices; by default one of its own, with RUN's it chooses as RUN did.")] = None,
    model: Model = None,
    base_url: BaseUrl = None,
    assignments: Assignments = None,
    workers: Workers = None,
    gpus: Gpus = None,
    time_limit: TimeLimit = None,
    budget_usd: BudgetUsd = None,
    budget_tokens: BudgetTokens = None,
    gpu_hours: GpuHours = None,
) -> int:
    """Begin a new run from a point of another one, which stays as it is. Budget and time begin anew."""
    from agent.commands.branch import Request
    from agent.commands.branch import branch as work

    flags = given({
        "models.name": model, "models.base_url": base_url, "search.num_workers": workers, "time_limit": time_limit,
        **on(gpus), **capped(budget_usd, budget_tokens, gpu_hours)})
    return work(Request(run=run, point=point, code=code, author=author, note=note, runs=runs, name=name, seed=seed,
                        assignments=tuple(assignments or ()), flags=flags))


@commands.command()
def write(
    run: Run,
    model: Model = None,
    base_url: BaseUrl = None,
    template: Template = None,
    assignments: Assignments = None,
) -> int:
    """Write the paper of a finished run again, as paper/v2. Nothing is run again, and the first paper stays."""
    from agent.commands.run import write as work

    flags = given({"models.name": model, "models.base_url": base_url, "paper.template": template})
    return work(run, tuple(assignments or ()), flags)


@commands.command("exec")
def execute(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file, as an experiment.py of a node.")],
    timeout: Annotated[str | None, typer.Option(help="Wall clock: 90s, 5m; by default as for a node.")] = None,
    config: Config = None,
    assignments: Assignments = None,
    data: Data = None,
    json: AsJson = False,
) -> int:
    """Run a file exactly as a node would, as isolated. Shows what it printed and measured; exit 1 when it failed."""
    from agent.commands.execute import execute as work
    from agent.settings import from_assignments

    flags = from_assignments(assignments or ()) | given({"data": data or None})
    return work(file, flags, config=config, timeout=timeout, as_json=json)


@commands.command()
def prefetch(
    file: Annotated[Path, typer.Argument(metavar="IDEA|CONFIG", help="An idea (.json) or a configuration (.yaml).")],
    idea_idx: Annotated[int | None, typer.Option(help="Which idea of a list, from 0.")] = None,
    config: Config = None,
    assignments: Assignments = None,
    data: Data = None,
) -> int:
    """Fetch what a run needs from the hub. Datasets and pretrained models, for a machine without a network."""
    from agent.commands.prefetch import prefetch as work
    from agent.settings import from_assignments

    return work(file, index=idea_idx, config=config,
                flags=from_assignments(assignments or ()) | given({"data": data or None}))


@commands.command()
def doctor(
    model: Model = None,
    base_url: BaseUrl = None,
    config: Config = None,
    assignments: Assignments = None,
    runs: Annotated[Path, typer.Option(help="Where runs go: its disk and filesystem are looked at.")] = Path("runs"),
    probe_context: Annotated[bool, typer.Option(
        "--probe-context", help="With --model: find out how long a prompt it really reads (up to 500 k characters).",
    )] = False,
    json: AsJson = False,
) -> int:
    """Look whether this machine is fit for a run. With --model also the model, which is asked some small questions."""
    from agent.commands.doctor import doctor as work
    from agent.settings import from_assignments

    flags = from_assignments(assignments or ()) | given({"models.name": model, "models.base_url": base_url})
    return work(flags, config=config, runs=runs, probe_context=probe_context, as_json_text=json)
