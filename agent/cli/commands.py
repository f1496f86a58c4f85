"""Every command with its options and its help; those about papers are in `agent.cli.paper_commands`.

What a command does lies in a module of its own, imported when it is called: parsing and `--help` load nothing heavy.
"""

from __future__ import annotations

from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from labwright.agent.cli.options import (
    CODE_SETTINGS,
    MODEL_SETTINGS,
    RUN_SETTINGS,
    CliCommand,
    ConfigOption,
    JsonOption,
    RunArgument,
    TrackOption,
)

EXIT_CODES = """
Exit codes: 0 done and released; 1 unexpected failure; 2 wrong use or configuration; 3 stopped by budget or time with a
partial report; 4 paper not released; 5 findings (audit, reproduce, trace, doctor); 130 interrupted, continue with
resume.
"""


app = typer.Typer(
    name="scientist",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="From a research idea to a paper whose every number was measured.",
    epilog=EXIT_CODES,
)

queue = typer.Typer(help="Add ideas to a campaign, and show them.")
app.add_typer(queue, name="queue")


@app.callback(invoke_without_command=True)
def show_version_or_help(
    context: typer.Context,
    version: Annotated[bool, Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        print(f"scientist {version_of('labwright')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


# --- making runs ----------------------------------------------------------------------------------------------------


class Run(
    CliCommand,
    to=app,
    work="agent.cli.run:run",
    settings=(*RUN_SETTINGS, "seed", "bib", "papers", "template", "data", "context", *CODE_SETTINGS),
):
    """Run an idea: experiments in four stages, then figures and a paper."""

    idea: Annotated[
        Path | None,
        Option(help="One idea or a list, in AI-Scientist-v2's JSON; or a proposal (.md), read by the model."),
    ] = None
    task: Annotated[
        Path | None,
        Option(help="With --code, in place of --idea: a question (.md, .toml) that one experiment answers."),
    ] = None
    paper: Annotated[bool, Option("--paper", help="With --task: the whole study of it, with a paper.")] = False
    idea_idx: Annotated[int | None, Option(help="Which idea of a list, from 0.")] = None
    config: ConfigOption = None
    runs: Annotated[Path, Option(help="The folder in which the run's folder is created.")] = Path("runs")
    name: Annotated[str | None, Option(help="Name of the run's folder; default: time and idea.")] = None
    plan: Annotated[Path | None, Option(help="A data plan (YAML) instead of the planner's.")] = None
    space: Annotated[
        Path | None, Option(help="With --code: hyperparameters, arms and levels (YAML) that every plan has.")
    ] = None
    dry_run: Annotated[bool, Option("--dry-run", help="Only show a data plan (a model call) and a forecast.")] = False
    out: Annotated[Path | None, Option(help="With --dry-run: write the plan as YAML, for --plan.")] = None
    json: Annotated[bool, Option("--json", help="With --dry-run: print JSON.")] = False
    track: TrackOption = None


class Resume(CliCommand, to=app, work="agent.cli.run:resume", settings=RUN_SETTINGS):
    """Continue a run where it stopped; finished work is not repeated. Changed settings are recorded."""

    run: RunArgument
    track: TrackOption = None


class Campaign(
    CliCommand,
    to=app,
    work="agent.cli.campaign:run_campaign",
    settings=(*RUN_SETTINGS, "seed", "bib", "papers", "template", "data", "context", *CODE_SETTINGS),
):
    """Run many ideas under one budget and time limit, some at a time (docs/budget.md). Go on with it: resume."""

    ideas: Annotated[
        list[Path] | None, Argument(metavar="IDEAS...", help="Files of ideas (JSON), or folders of such files.")
    ] = None
    out: Annotated[Path, Option(help="The campaign's folder, which is made.")]
    topic: Annotated[
        list[Path] | None,
        Option(metavar="FILE|DIR", help="A topic to find ideas for, or a folder of them, as MLR-Bench's tasks/."),
    ] = None
    count: Annotated[int, Option("-n", "--count", help="With --topic: how many ideas for each.")] = 1
    parallel: Annotated[int | None, Option(min=1, help="Runs at the same time; default: --workers.")] = None
    keep: Annotated[
        int | None, Option(min=1, help="How many go on after the preliminary stage: those that decide most an hour.")
    ] = None
    config: ConfigOption = None
    json: JsonOption = False


class QueueAdd(CliCommand, to=queue, name="add", work="agent.cli.campaign:add_to_queue"):
    """Add ideas to a campaign, also to one that is running."""

    campaign: Annotated[Path, Argument(metavar="CAMPAIGN", help="The folder of a campaign.")]
    ideas: Annotated[list[Path], Argument(metavar="IDEAS...", help="Files of ideas, or folders of such files.")]


class QueueList(CliCommand, to=queue, name="list", work="agent.cli.campaign:list_queue"):
    """Show the ideas of a campaign and how they stand."""

    campaign: Annotated[Path, Argument(metavar="CAMPAIGN", help="The folder of a campaign.")]
    json: JsonOption = False


class Branch(CliCommand, to=app, work="agent.cli.branch:branch", settings=RUN_SETTINGS):
    """Start a new run from a point of another, which stays unchanged. Budget and time start at zero."""

    run: RunArgument
    point: Annotated[
        str, Option("--from", metavar="NODE|STAGE", help="Point to branch from: after a node (n0012), before a stage.")
    ]
    code: Annotated[Path | None, Option(help="A folder with your own experiment.py, the first new node.")] = None
    author: Annotated[str | None, Option(help="Who wrote the code; default: your user name.")] = None
    note: Annotated[str, Option(help="A note for the next prompts of the stage.")] = ""
    runs: Annotated[Path | None, Option(help="Where to create the run's folder; default: beside RUN.")] = None
    name: Annotated[str | None, Option(help="Name of the run's folder; default: time, idea and point.")] = None
    seed: Annotated[
        int | None, Option(min=0, help="Seed of its choices; default: a new one. RUN's own seed repeats RUN's choices.")
    ] = None


class Write(CliCommand, to=app, work="agent.cli.run:write", settings=(*MODEL_SETTINGS, "template")):
    """Write a new version of a finished run's paper, in paper/v2. No experiment is repeated; the first paper stays."""

    run: RunArgument


class Execute(CliCommand, to=app, work="agent.cli.execute:execute_file", settings=("assignments", "data"), name="exec"):
    """Run a Python file in the sandbox, as a node would. Shows its output and measurements; exits 1 if it fails."""

    file: Annotated[Path, Argument(metavar="FILE", help="A Python file, such as the experiment.py of a node.")]
    cells: Annotated[
        str,
        Option(metavar="ARM@LEVEL,...", help="Cells to measure of a program that calls lab.measure: arm or arm@level."),
    ] = ""
    on: Annotated[str, Option(metavar="DATASET,...", help="Datasets to measure these cells on.")] = ""
    setting: Annotated[
        list[str] | None,
        Option(metavar="NAME=VALUE", help="A hyperparameter of these cells, as cell.setting has it; may be repeated."),
    ] = None
    timeout: Annotated[str | None, Option(help="Wall-clock limit, such as 90s or 5m; default: a node's.")] = None
    config: ConfigOption = None
    json: JsonOption = False


class Prefetch(CliCommand, to=app, work="agent.cli.prefetch:prefetch_files", settings=("assignments", "data")):
    """Download what a run needs from the Hugging Face hub. Datasets and pretrained models, for use without a
    network."""

    file: Annotated[Path, Argument(metavar="IDEA|CONFIG", help="An idea (.json) or a configuration (.yaml).")]
    idea_idx: Annotated[int | None, Option(help="Which idea of a list, from 0.")] = None
    config: ConfigOption = None


class Store(CliCommand, to=app, work="agent.cli.store:show_store", settings=("assignments",)):
    """Show what runs have in common on this machine, and prune it. Datasets, pretrained models and packages."""

    prune: Annotated[bool, Option("--prune", help="Remove what was not used for --unused.")] = False
    unused: Annotated[str, Option(metavar="TIME", help="With --prune: such as 30d, 12h or 0s.")] = "30d"
    check: Annotated[bool, Option("--check", help="Compare everything with the hash that it is named by.")] = False
    config: ConfigOption = None
    json: JsonOption = False


class Doctor(CliCommand, to=app, work="agent.cli.doctor:run_doctor", settings=MODEL_SETTINGS):
    """Check whether this machine can do a run. With --model, the model is checked too, by a few small questions."""

    config: ConfigOption = None
    runs: Annotated[Path, Option(help="The folder of your runs: its disk and filesystem are checked.")] = Path("runs")
    probe_context: Annotated[
        bool,
        Option(
            "--probe-context", help="With --model: measure how long a prompt it really reads (up to 500k characters)."
        ),
    ] = False
    gpu: Annotated[bool, Option("--gpu", help="Try what experiments do on a GPU, and write a report.")] = False
    out: Annotated[Path, Option(help="With --gpu: the report.")] = Path("gpu-report.json")
    json: JsonOption = False


class Ablate(CliCommand, to=app, work="agent.cli.ablate:ablate", settings=(*MODEL_SETTINGS, "workers", "gpus")):
    """Reproduce a git repository's result, then find out which of its parts carry it. Exits 5 where the result differs
    from what is expected, or cannot be made."""

    repository: Annotated[Path, Argument(metavar="REPO", help="The folder of a git repository; it is only read.")]
    command: Annotated[
        str,
        Option(
            metavar="CMD",
            help="What makes the result, with {seed} where its seed goes; default: found in the "
            "repository. {out} is a folder for what it writes, {device} cpu or cuda.",
        ),
    ] = ""
    metric: Annotated[
        str,
        Option(
            metavar="SPEC",
            help="Where the result is: FILE.json:a.b, FILE.csv:column@last, tb:DIR:tag@last or stdout:REGEX.",
        ),
    ] = ""
    predictions: Annotated[
        str,
        Option(
            metavar="FILE[:COLUMN]",
            help="The predictions that it leaves, which we score by --metric (accuracy, mse, ...) against --truth.",
        ),
    ] = ""
    truth: Annotated[Path | None, Option(help="A table of labels (label, id), which the command never sees.")] = None
    direction: Annotated[Literal["max", "min"], Option(help="Whether more of it is better, or less.")] = "max"
    metric_scale: Annotated[float, Option(help="What the number is multiplied with, such as 0.01 of percents.")] = 1.0
    expect: Annotated[str, Option(metavar="VALUE", help="What its authors report: 0.83, 0.83±0.02 or 0.83±5%.")] = ""
    top: Annotated[int, Option(help="How many of the most important parts are wanted.")] = 5
    budget_runs: Annotated[int | None, Option(help="Runs of the command in all; default: by its parts.")] = None
    timeout: Annotated[str, Option(help="Wall-clock limit of one run, such as 90s or 2h.")] = "1h"
    python: Annotated[
        str,
        Option(
            metavar="PATH",
            help="Its interpreter, or the prefix of a conda environment, taken as it is; default: "
            "ours, with what it asks for installed beside.",
        ),
    ] = ""
    mount: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=PATH",
            help="Data from outside, read-only, beside the checkout as NAME, or in it at a NAME with "
            "a slash (data/raw, ./data); may be repeated.",
        ),
    ] = None
    env: Annotated[
        list[str] | None, Option(metavar="NAME=VALUE", help="A variable of its environment; may be repeated.")
    ] = None
    resume_command: Annotated[str, Option(metavar="CMD", help="What goes on after a cut, in the same folder.")] = ""
    proxy: Annotated[
        str,
        Option(
            metavar="CMD",
            help="A cheaper command with the same metric, by which parts are ranked; what is reported comes "
            "of full runs, with how alike both rank.",
        ),
    ] = ""
    reproduce_only: Annotated[bool, Option("--reproduce-only", help="Only make the result again.")] = False
    accept_baseline: Annotated[
        bool, Option("--accept-baseline", help="Ablate also where the result differs from what is expected.")
    ] = False
    dirty: Annotated[bool, Option("--dirty", help="Take uncommitted work along, as a commit of ours.")] = False
    config: ConfigOption = None
    runs: Annotated[Path, Option(help="The folder in which a folder for it is created.")] = Path("runs")
    out: Annotated[Path | None, Option(help="The folder itself; given again, it goes on there.")] = None
    json: JsonOption = False


# --- steering a run -------------------------------------------------------------------------------------------------

NodeArgument = Annotated[str, Argument(metavar="NODE", help="The node's id, as the tree shows it: n0012.")]
ReasonOption = Annotated[str, Option(help="Why; it is recorded.")]
RequiredReason = Annotated[str, Option("--reason", help="Why, in a sentence; recorded, and disclosed in the paper.")]


class Stop(CliCommand, to=app, work="agent.cli.control:run_control_command"):
    """Ask a run to stop; it can be resumed. Running nodes get a short grace period."""

    run: RunArgument
    reason: ReasonOption = ""


class Pause(CliCommand, to=app, work="agent.cli.control:run_control_command"):
    """Pause a run. Nothing new starts, running nodes finish, and no time is counted until 'scientist resume'."""

    run: RunArgument
    reason: ReasonOption = ""


class Kill(CliCommand, to=app, work="agent.cli.control:run_control_command"):
    """Stop the work on a node at once. Its slot is freed; the node is neither run again nor debugged."""

    run: RunArgument
    node: NodeArgument
    reason: RequiredReason


class Mark(CliCommand, to=app, work="agent.cli.control:run_control_command"):
    """Mark a node as suspect or closed. A suspect node is never the best, and nothing builds on a closed one."""

    run: RunArgument
    node: NodeArgument
    reason: RequiredReason
    kind: Annotated[
        Literal["suspect", "closed"],
        Option("--as", help="suspect: its numbers are not used; closed: nothing is built on it."),
    ] = "suspect"


class Note(CliCommand, to=app, work="agent.cli.control:run_control_command"):
    """Add a note to the next prompts of a stage. A note suggests a direction: a later note may withdraw it, and the
    rules of honesty still hold."""

    run: RunArgument
    text: Annotated[str, Argument(metavar="TEXT", help="The note, up to 1000 characters.")]
    stage: Annotated[str, Option(help="preliminary, tuning, agenda or ablation; default: the current stage.")] = ""


class Amend(CliCommand, to=app, work="agent.cli.control:run_control_command"):
    """Amend the data plan of a run before it is locked. Hypotheses, objective, what is not tested and notes may change;
    each amendment is numbered, with what had been seen."""

    run: RunArgument
    plan: Annotated[Path, Option(help="The whole plan (YAML), as it is to be; data_plan.json shows it as it is.")]
    reason: RequiredReason


# --- looking at runs ------------------------------------------------------------------------------------------------


class Status(CliCommand, to=app, work="agent.cli.status:show_status"):
    """Show the state of a run. Phase, nodes, cost, time, last events, what comes next."""

    run: RunArgument
    json: JsonOption = False


class Tree(CliCommand, to=app, work="agent.cli.status:show_tree"):
    """Show the nodes of a run by stage. With their state, metric and the path to the best node."""

    run: RunArgument
    watch: Annotated[bool, Option("--watch", "-w", help="Keep the tree current until the run ends, or Ctrl-C.")] = False
    json: JsonOption = False


class Logs(CliCommand, to=app, work="agent.cli.status:show_logs"):
    """Show what happened in a run. One line per event; with --node, also its steps and output, live."""

    run: RunArgument
    node: Annotated[str | None, Option(help="Only this node, with its smaller steps and its output.")] = None
    follow: Annotated[bool, Option("--follow", "-f", help="Keep printing until the run ends, or Ctrl-C.")] = False
    last: Annotated[int | None, Option("--last", "-n", min=0, help="Only the last N lines; default: all.")] = None
    json: JsonOption = False


class Why(CliCommand, to=app, work="agent.cli.status:show_diagnosis"):
    """Show why a run is in its present state. What workers wait for, errors, baseline differences, next steps."""

    run: RunArgument
    json: JsonOption = False


class View(CliCommand, to=app, work="agent.cli.status:serve_page"):
    """Show runs in a browser, live. Tree, nodes, reports, cost and paper; served to this machine only."""

    place: Annotated[Path, Argument(metavar="[RUN|DIR]", help="A run or its zip, or a folder of runs.")] = Path("runs")
    port: Annotated[int, Option(min=0, max=65535, help="Port to listen on; 0: any free port.")] = 0
    read_only: Annotated[bool, Option("--read-only", help="Leave out the buttons that steer a run.")] = False


class Export(CliCommand, to=app, work="agent.cli.export:export_run"):
    """Export a run for others to look at. Its page, events, tree or folder, or its nodes to a tracker."""

    run: RunArgument
    html: Annotated[Path | None, Option(metavar="FILE", help="The run's page as one HTML file.")] = None
    events: Annotated[Path | None, Option(metavar="FILE", help="All events as JSON lines; - prints them.")] = None
    tree: Annotated[Path | None, Option(metavar="FILE", help="The tree as JSON; - prints it.")] = None
    exchange: Annotated[Path | None, Option(metavar="FILE", help="The answers, for --model replay:FILE.")] = None
    zip: Annotated[Path | None, Option(metavar="FILE", help="The run's folder, without its data.")] = None
    with_data: Annotated[bool, Option("--with-data", help="Add data, all labels and documents to the zip.")] = False
    small: Annotated[bool, Option("--small", help="Make the zip small; scientist opens it, unzip does not.")] = False
    mlflow: Annotated[str | None, Option(metavar="DIR|URI", help="Export to MLflow (needs the extra mlflow).")] = None
    wandb: Annotated[Path | None, Option(metavar="DIR", help="Export to W&B, offline (needs the extra wandb).")] = None
    force: Annotated[bool, Option("--force", help="Overwrite existing files.")] = False
