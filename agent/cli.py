"""`scientist`: from a research idea to a paper whose every number was measured.

What a command needs is imported when it runs: `scientist --help` loads neither torch nor a model library.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

EXIT_CODES = """
Exit codes: 0 done and released; 1 unexpected failure; 2 wrong use or configuration; 3 stopped by budget or time with a
partial report; 4 paper not released; 5 findings (audit, reproduce, trace, doctor); 130 interrupted, take it up again
with resume.
"""

app = typer.Typer(
    name="scientist", add_completion=False, pretty_exceptions_enable=False,
    rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]},
    help="From a research idea to a paper whose every number was measured.", epilog=EXIT_CODES)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, as runs/NAME.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON (described in docs/command-line.md).")]
Model = Annotated[str | None, typer.Option(
    help="'offline', or a pydantic-ai model string such as anthropic:NAME or openai-chat:NAME.")]
BaseUrl = Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server, as a rule ending in /v1.")]
Assignments = Annotated[list[str] | None, typer.Option(
    "--set", metavar="KEY=VALUE", help="One setting, as search.num_seeds=5; may be repeated.")]
Workers = Annotated[int | None, typer.Option(help="Experiments that run at the same time.")]
Gpus = Annotated[str | None, typer.Option(
    help="GPUs to use, as 0,1: indices within CUDA_VISIBLE_DEVICES, or UUIDs; sets sandbox.device to cuda.")]
TimeLimit = Annotated[str | None, typer.Option(help="Of the whole run: 12h, 90m or 45s.")]
BudgetUsd = Annotated[float | None, typer.Option(help="USD at most for model calls; nothing passes it.")]
BudgetTokens = Annotated[int | None, typer.Option(help="Tokens at most, prompts and answers.")]
GpuHours = Annotated[float | None, typer.Option(help="Hours of experiments at most, times the GPUs of each.")]
Config = Annotated[Path | None, typer.Option(help="A YAML file of settings; ${NAME} is filled in.")]
Template = Annotated[str | None, typer.Option(
    metavar="NAME|DIR", help="Of the paper: workshop, conference, or a folder of your own (docs/templates.md).")]
Bib = Annotated[Path | None, typer.Option(help="A .bib file with verified entries that the paper may cite.")]
Papers = Annotated[Path | None, typer.Option(
    metavar="DIR", help="A folder of PDFs; those that a catalogue knows may be cited as well (docs/literature.md).")]
Context = Annotated[Path | None, typer.Option(
    metavar="DIR", help="A folder of your papers (PDF) and notes, which are read first (docs/context.md).")]
Data = Annotated[list[str] | None, typer.Option(
    "--data", metavar="NAME=PATH[,target=COLUMN]...", help="Data of your own: CSV, Parquet, NPZ, a folder or "
    "hf:OWNER/SET, with options as in docs/data.md; may be repeated.")]


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


@app.command()
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

    flags = _given({
        "models.name": model, "models.base_url": base_url, "search.num_workers": workers, "time_limit": time_limit,
        "seed": seed, "paper.bib": bib, "paper.papers": papers, "paper.template": template, "data": data or None,
        "context": context, **_on(gpus), **_capped(budget_usd, budget_tokens, gpu_hours)})
    return work(Request(
        idea=idea, index=idea_idx, config=config, assignments=tuple(assignments or ()), runs=runs, name=name,
        flags=flags, dry=dry_run, as_json=json))


@app.command()
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

    flags = _given({
        "models.name": model, "models.base_url": base_url, "search.num_workers": workers, "time_limit": time_limit,
        **_on(gpus), **_capped(budget_usd, budget_tokens, gpu_hours)})
    return work(run, tuple(assignments or ()), flags)


@app.command()
def write(
    run: Run,
    model: Model = None,
    base_url: BaseUrl = None,
    template: Template = None,
    assignments: Assignments = None,
) -> int:
    """Write the paper of a finished run again, as paper/v2. Nothing is run again, and the first paper stays."""
    from agent.commands.run import write as work

    flags = _given({"models.name": model, "models.base_url": base_url, "paper.template": template})
    return work(run, tuple(assignments or ()), flags)


@app.command()
def stop(run: Run) -> int:
    """Ask a run to stop; it can be resumed."""
    from agent.commands.control import stop as work

    return work(run)


@app.command()
def status(run: Run, json: AsJson = False) -> int:
    """Show where a run stands. Phase, nodes, cost, time, last events, what is next."""
    from agent.commands.look import status as work

    return work(run, as_json=json)


@app.command()
def tree(run: Run, json: AsJson = False) -> int:
    """Show the nodes of a run by stage. With state, metric and the path to the best."""
    from agent.commands.look import tree as work

    return work(run, as_json=json)


@app.command("exec")
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

    flags = from_assignments(assignments or ()) | _given({"data": data or None})
    return work(file, flags, config=config, timeout=timeout, as_json=json)


@app.command()
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
                flags=from_assignments(assignments or ()) | _given({"data": data or None}))


@app.command()
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


@app.command()
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


@app.command(context_settings={"ignore_unknown_options": True})  # a number may begin with a minus
def trace(
    run: Run,
    number: Annotated[str, typer.Argument(metavar="NUMBER", help="As the paper prints it: 87.3, -0.021 or 5%.")],
    json: AsJson = False,
) -> int:
    """Show where a printed number comes from. Claims, nodes, seeds, files, code, and what makes it again."""
    from agent.commands.trace import trace as work

    return work(run, number, as_json=json)


@app.command()
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
    flags = _given({"models.name": model, "models.base_url": base_url})
    asked = tuple(name.strip() for name in (judges or "").split(",") if name.strip())
    beside = Beside(task=task, code=code, log=log, results=results, pages=pages)
    return work(Request(path=paper, rubric=rubric, judges=asked, repeats=n, beside=beside, flags=flags, as_json=json))


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN...", help="The folders of two or more runs.")],
    model: Annotated[str | None, typer.Option(
        help="Judges the papers in pairs, in both orders; without it records are compared alone.")] = None,
    base_url: BaseUrl = None,
    json: AsJson = False,
) -> int:
    """Lay runs side by side. Nodes, seeds, claims, scores, cost; with --model the papers are judged in pairs."""
    from agent.commands.compare import Request
    from agent.commands.compare import compare as work

    flags = _given({"models.name": model, "models.base_url": base_url})
    return work(Request(runs=tuple(runs), flags=flags, as_json=json))


bench = typer.Typer(help="Take benchmarks from their tasks to judged papers.", rich_markup_mode=None)
app.add_typer(bench, name="bench")


@bench.command("mlr")
def bench_mlr(
    tasks: Annotated[Path, typer.Option(help="A folder with a .md file for each task, as MLR-Bench's tasks/.")],
    only: Annotated[list[str] | None, typer.Option(
        metavar="NAME|PATTERN", help="These tasks alone, as iclr2025_*; may be repeated.")] = None,
    steps: Annotated[str, typer.Option(
        help="What is judged; 'paper' alone is end to end.")] = "idea,proposal,experiment,paper",
    out: Annotated[Path, typer.Option(
        help="Where everything lies; given again, it is gone on with.")] = Path("bench-mlr"),
    model: Model = None,
    base_url: BaseUrl = None,
    config: Config = None,
    assignments: Assignments = None,
    workers: Workers = None,
    gpus: Gpus = None,
    time_limit: TimeLimit = None,
    budget_usd: BudgetUsd = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is done and what would be.")] = False,
    json: AsJson = False,
) -> int:
    """Take tasks from idea to paper and judge each step. Exits 1 where a step is missing (docs/bench.md)."""
    from agent.commands.bench_mlr import Request
    from agent.commands.bench_mlr import bench_mlr as work

    flags = _given({"models.name": model, "models.base_url": base_url, "search.num_workers": workers,
                    "time_limit": time_limit, **_on(gpus), "budget.usd": budget_usd})
    return work(Request(tasks=tasks, only=tuple(only or ()), steps=steps, out=out, config=config,
                        assignments=tuple(assignments or ()), flags=flags, dry=dry_run, as_json=json))


@app.command("judge-agreement")
def judge_agreement(
    human: Annotated[Path, typer.Argument(
        metavar="HUMAN.csv", help="reviewer_id, model_name, workshop_name and a column a dimension.")],
    judge: Annotated[Path, typer.Argument(
        metavar="JUDGE.csv", help="workshop_name, model_name and the same dimensions; one row a paper.")],
    scale: Annotated[str, typer.Option(metavar="LOWEST-HIGHEST", help="Of the scores.")] = "1-10",
    dimensions: Annotated[str, typer.Option(help="Only these, as clarity,overall; by default the human file's.")] = "",
    plot: Annotated[Path | None, typer.Option(help="Draw it too: a .png, .pdf or .svg.")] = None,
    json: AsJson = False,
) -> int:
    """Hold a judge's scores against people's. Distances, rank correlation, bias, and controls (docs/agreement.md)."""
    from agent.commands.judge_agreement import judge_agreement as work

    return work(human, judge, scale=scale, dimensions=dimensions, plot=plot, as_json=json)


@app.command()
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

    flags = _given({"models.name": model, "models.base_url": base_url, "time_limit": time_limit, "data": data or None,
                    **_on(gpus), **_capped(budget_usd, budget_tokens, None)})
    return work(Request(
        topic=topic, count=count, rounds=rounds, out=out, runs=runs, steps=steps, context=context, config=config,
        flags=flags, assignments=tuple(assignments or ()), as_json=json))


bibliography = typer.Typer(help="Look after a library of references.", rich_markup_mode=None)
app.add_typer(bibliography, name="bib")


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


@app.command()
def why(run: Run, json: AsJson = False) -> int:
    """Show why a run is where it is. What each worker waits for, errors, best minus baseline, next actions."""
    from agent.commands.why import why as work

    return work(run, as_json=json)


@app.command()
def view(
    place: Annotated[Path, typer.Argument(metavar="[RUN|DIR]", help="A run, or a folder of runs.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="To listen on; 0: one that is free.")] = 0,
) -> int:
    """Show runs in a browser. A page on this machine alone: tree, nodes, reports, cost, paper; live."""
    from agent.commands.view import view as work

    return work(place, port=port)


@app.command()
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

    flags = from_assignments(assignments or ()) | _given({"models.name": model, "models.base_url": base_url})
    return work(flags, config=config, runs=runs, probe_context=probe_context, as_json_text=json)


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
            code: Any = app(arguments, prog_name="scientist", standalone_mode=False)
    except Exception as error:  # noqa: BLE001  the outer edge of the program
        return exit_code_of(error)
    return code if isinstance(code, int) else 0


def _on(gpus: str | None) -> dict[str, Any]:
    return {} if gpus is None else {"sandbox.gpus": gpus, "sandbox.device": "cuda"}


def _capped(usd: float | None, tokens: int | None, gpu_hours: float | None) -> dict[str, Any]:
    return {"budget.usd": usd, "budget.tokens": tokens, "budget.gpu_hours": gpu_hours}


def _given(flags: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in flags.items() if value is not None}


if __name__ == "__main__":
    sys.exit(main())
