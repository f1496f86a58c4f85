"""Every command with its options and its help; those about papers are in `agent.cli.paper_commands`.

What a command does lies in a module of its own, imported when it is called: parsing and `--help` load nothing heavy.
"""

from __future__ import annotations

from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from agent.cli.options import MODEL, RUN, AsJson, Command, Config, RunPath

EXIT_CODES = """
Exit codes: 0 done and released; 1 unexpected failure; 2 wrong use or configuration; 3 stopped by budget or time with a
partial report; 4 paper not released; 5 findings (audit, reproduce, trace, doctor); 130 interrupted, continue with
resume.
"""


app = typer.Typer(
    name="scientist", add_completion=False, pretty_exceptions_enable=False,
    rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]},
    help="From a research idea to a paper whose every number was measured.", epilog=EXIT_CODES)


@app.callback(invoke_without_command=True)
def scientist(
    context: typer.Context,
    version: Annotated[bool, Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        print(f"scientist {version_of('scientist')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


# --- making runs ----------------------------------------------------------------------------------------------------


class Run(Command, to=app, work="agent.cli.run:run",
          settings=(*RUN, "seed", "bib", "papers", "template", "data", "context")):
    """Run an idea: experiments in four stages, then figures and a paper."""

    idea: Annotated[Path, Option(
        help="JSON as AI-Scientist-v2 writes it, one idea or a list; or a proposal (.md), read by the model.")]
    idea_idx: Annotated[int | None, Option(help="Which idea of a list, from 0.")] = None
    config: Config = None
    runs: Annotated[Path, Option(help="The folder in which the run's own folder is made.")] = Path("runs")
    name: Annotated[str | None, Option(help="Name of the run's folder; by default time and idea.")] = None
    dry_run: Annotated[bool, Option("--dry-run", help="Only show a data plan (asks the planner) and forecast.")] = False
    json: Annotated[bool, Option("--json", help="With --dry-run: print JSON.")] = False


class Resume(Command, to=app, work="agent.cli.run:resume", settings=RUN):
    """Continue a run where it stopped; nothing finished is done again. Overrides are recorded."""

    run: RunPath


class Branch(Command, to=app, work="agent.cli.branch:branch", settings=RUN):
    """Begin a new run from a point of another one, which stays as it is. Budget and time begin anew."""

    run: RunPath
    point: Annotated[str, Option(
        "--from", metavar="NODE|STAGE", help="After a node's verdict, as n0012, or before a stage, as ablation.")]
    code: Annotated[Path | None, Option(help="A folder with an experiment.py of yours: its first node.")] = None
    author: Annotated[str | None, Option(help="Who wrote it; by default your user name.")] = None
    note: Annotated[str, Option(help="A note for the next prompts of the stage.")] = ""
    runs: Annotated[Path | None, Option(help="Where the folder is made; by default beside RUN.")] = None
    name: Annotated[str | None, Option(help="Its name; by default time, idea and point.")] = None
    seed: Annotated[int | None, Option(
        min=0, help="Of its choices; by default a new one; with that of RUN it chooses as RUN did.")] = None


class Write(Command, to=app, work="agent.cli.run:write", settings=(*MODEL, "template")):
    """Write the paper of a finished run again, as paper/v2. No experiment is repeated, and the first paper stays."""

    run: RunPath


class Execute(Command, to=app, work="agent.cli.execute:execute", settings=("assignments", "data"), name="exec"):
    """Run a file exactly as a node would, as isolated. Shows what it printed and measured; exit 1 when it failed."""

    file: Annotated[Path, Argument(metavar="FILE", help="A Python file, such as the experiment.py of a node.")]
    cells: Annotated[str, Option(
        metavar="ARM@LEVEL,...", help="Cells to measure of a program that calls lab.measure: arm or arm@level.")] = ""
    on: Annotated[str, Option(metavar="DATASET,...", help="Datasets to measure these cells on.")] = ""
    timeout: Annotated[str | None, Option(help="Wall clock: 90s, 5m; by default as for a node.")] = None
    config: Config = None
    json: AsJson = False


class Prefetch(Command, to=app, work="agent.cli.prefetch:prefetch", settings=("assignments", "data")):
    """Fetch what a run needs from the Hugging Face hub. Datasets and pretrained models, for a machine without a
    network."""

    file: Annotated[Path, Argument(metavar="IDEA|CONFIG", help="An idea (.json) or a configuration (.yaml).")]
    idea_idx: Annotated[int | None, Option(help="Which idea of a list, from 0.")] = None
    config: Config = None


class Doctor(Command, to=app, work="agent.cli.doctor:doctor", settings=MODEL):
    """Check whether this machine is fit for a run. With --model also the model, which is asked some small questions."""

    config: Config = None
    runs: Annotated[Path, Option(help="Where runs are made: its disk and filesystem are checked.")] = Path("runs")
    probe_context: Annotated[bool, Option(
        "--probe-context", help="With --model: find out how long a prompt it really reads (up to 500 k characters).",
    )] = False
    json: AsJson = False


# --- steering a run -------------------------------------------------------------------------------------------------

Node = Annotated[str, Argument(metavar="NODE", help="As the tree shows it: n0012.")]
Reason = Annotated[str, Option(help="Why; it is recorded.")]
NeededReason = Annotated[str, Option("--reason", help="Why, in a sentence: it is recorded and disclosed.")]


class Stop(Command, to=app, work="agent.cli.control:steer"):
    """Ask a run to stop; it can be resumed. Nodes that run get a short grace."""

    run: RunPath
    reason: Reason = ""


class Pause(Command, to=app, work="agent.cli.control:steer"):
    """Pause a run. Nothing new begins, what runs finishes, no time counts; resume continues it."""

    run: RunPath
    reason: Reason = ""


class Kill(Command, to=app, work="agent.cli.control:steer"):
    """End the work on a node at once. Its slot is freed; it is neither run again nor debugged."""

    run: RunPath
    node: Node
    reason: NeededReason


class Mark(Command, to=app, work="agent.cli.control:steer"):
    """Mark a node as suspect or closed. A suspect node is never the best, and nothing builds on a closed one."""

    run: RunPath
    node: Node
    reason: NeededReason
    kind: Annotated[Literal["suspect", "closed"], Option(
        "--as", help="suspect: its numbers are not used; closed: nothing is built on it.")] = "suspect"


class Note(Command, to=app, work="agent.cli.control:steer"):
    """Show a note to the next prompts of a stage. It is a wish about direction: a later note may withdraw it, and no
    rule of honesty gives way to it."""

    run: RunPath
    text: Annotated[str, Argument(metavar="TEXT", help="Up to 1000 characters.")]
    stage: Annotated[str, Option(help="preliminary, tuning, agenda, ablation; by default the current one.")] = ""


# --- looking at runs ------------------------------------------------------------------------------------------------


class Status(Command, to=app, work="agent.cli.status:status"):
    """Show the state of a run. Phase, nodes, cost, time, last events, what comes next."""

    run: RunPath
    json: AsJson = False


class Tree(Command, to=app, work="agent.cli.status:tree"):
    """Show the nodes of a run by stage. With state, metric and the path to the best."""

    run: RunPath
    watch: Annotated[bool, Option("--watch", "-w", help="Keep showing it until the run ends, or Ctrl-C.")] = False
    json: AsJson = False


class Logs(Command, to=app, work="agent.cli.status:logs"):
    """Show what happened in a run. An event a line, or a node's steps and output, also while it runs."""

    run: RunPath
    node: Annotated[str | None, Option(help="Only of this node, with its small steps and output.")] = None
    follow: Annotated[bool, Option("--follow", "-f", help="Keep printing until the run ends, or Ctrl-C.")] = False
    last: Annotated[int | None, Option("--last", "-n", min=0, help="Only the last lines; by default all.")] = None
    json: AsJson = False


class Why(Command, to=app, work="agent.cli.status:why"):
    """Show why a run is in its present state. What workers wait for, errors, baseline differences, next actions."""

    run: RunPath
    json: AsJson = False


class View(Command, to=app, work="agent.cli.status:view"):
    """Show runs in a browser. A page on this machine alone: tree, nodes, reports, cost, paper; live."""

    place: Annotated[Path, Argument(metavar="[RUN|DIR]", help="A run, or a folder of runs.")] = Path("runs")
    port: Annotated[int, Option(min=0, max=65535, help="To listen on; 0: any free one.")] = 0
    read_only: Annotated[bool, Option("--read-only", help="Without the buttons that steer a run.")] = False


class Export(Command, to=app, work="agent.cli.export:export"):
    """Write a run to files that others can look at. Its page, events, tree or folder; its nodes into a tracker."""

    run: RunPath
    html: Annotated[Path | None, Option(metavar="FILE", help="The run's page in one file.")] = None
    events: Annotated[Path | None, Option(metavar="FILE", help="All events as JSON lines; - to print.")] = None
    tree: Annotated[Path | None, Option(metavar="FILE", help="The tree as JSON; - to print it.")] = None
    zip: Annotated[Path | None, Option(metavar="FILE", help="The run's folder, without its data.")] = None
    with_data: Annotated[bool, Option("--with-data", help="In the zip also data, all labels, and documents.")] = False
    mlflow: Annotated[str | None, Option(metavar="DIR|URI", help="Into MLflow (extra mlflow).")] = None
    wandb: Annotated[Path | None, Option(metavar="DIR", help="Into W&B, offline (extra wandb).")] = None
    force: Annotated[bool, Option("--force", help="Replace what is there.")] = False
