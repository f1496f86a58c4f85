"""The commands with their options and help, and the main function; `evals.commands` adds those of benchmarks.

Each command is implemented in a module that is imported only when the command is called: parsing and `--help` load
nothing heavy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version as version_of
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from labwright.agent.api_keys import read_keys
from labwright.agent.cli.errors import READER_GONE, discard_unread_output, report_error, saving_traceback
from labwright.agent.cli.options import (
    ABLATION_SETTINGS,
    IDEATION_SETTINGS,
    MODEL_SETTINGS,
    REPOSITORY_SETTINGS,
    RUN_SETTINGS,
    STUDY_SETTINGS,
    CliCommand,
    RunArgument,
    TrackOption,
)
from labwright.pdf.reader import isolate_workers
from labwright.record.errors import UsageError
from labwright.record.machine import normalise_no_proxy

EXIT_CODES = """
Exit codes: 0 success, paper released; 1 unexpected error; 2 invalid usage or configuration; 3 budget or time limit
reached, partial report written; 4 paper not released; 5 findings (audit, reproduce, trace, doctor); 130 interrupted,
continue with resume.
"""


app = typer.Typer(
    name="scientist",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Turn a research idea into a paper in which every number is measured.",
    epilog=EXIT_CODES,
)

queue = typer.Typer(help="Add ideas to a campaign or list them.")
cluster = typer.Typer(help="Run a command on a cluster.")
app.add_typer(queue, name="queue")
memory = typer.Typer(help="List or delete records of finished studies.")
app.add_typer(memory, name="memory")
idea = typer.Typer(help="Check an idea file.")
app.add_typer(idea, name="idea")
app.add_typer(cluster, name="cluster")


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


# --- creating runs --------------------------------------------------------------------------------------------------


class Run(CliCommand, to=app, work="agent.cli.run:run", options=STUDY_SETTINGS):
    """Run an idea: four stages of experiments, then figures and a paper."""

    idea: Path | None = Option(
        None, help="One idea or a list of ideas (AI-Scientist-v2 JSON), or a proposal (.md), which the model converts."
    )
    task: Path | None = Option(None, help="With --code: a question (.md, .toml) that one experiment answers.")
    idea_idx: int | None = Option(None, help="Index of the idea in a list, starting at 0.")
    runs: Path = Option(Path("runs"), help="Folder in which the run's folder is created.")
    name: str | None = Option(None, help="Name of the run's folder; default: built from time and idea.")
    plan: Path | None = Option(None, help="A data plan (YAML) to use instead of the planner's.")
    space: Path | None = Option(None, help="With --code: hyperparameters, arms and levels (YAML) of every plan.")
    dry_run: bool = Option(False, "--dry-run", help="Only show a data plan (billed model calls) and a cost forecast.")
    out: Path | None = Option(None, help="With --dry-run: write the plan to this YAML file, for use with --plan.")
    json: bool = Option(False, "--json", help="With --dry-run: print JSON.")
    track: TrackOption = None


class Demo(CliCommand, to=app, work="agent.cli.run:run_demo", options=RUN_SETTINGS):
    """Run a small study with the built-in model. It needs no key and no network, and takes some minutes."""

    runs: Path = Option(Path("runs"), help="Folder in which the run's folder is created.")
    name: str | None = Option(None, help="Name of the run's folder; default: built from time and idea.")


class Init(CliCommand, to=app, work="agent.cli.idea:write_template"):
    """Write an example of an idea file, for you to edit."""

    file: Path = Argument(Path("idea.json"), metavar="[FILE]", help="File to create.")


class IdeaCheck(
    CliCommand, to=idea, name="check", work="agent.cli.idea:check_idea", options=("assignments", "data", "config")
):
    """Check an idea file and read its data. Exits 5 if a field, metric or dataset is unknown."""

    file: Path = Argument(metavar="FILE", help="Idea file (.json), or a proposal (.md).")
    idea_idx: int | None = Option(None, help="Index of the idea in a list, starting at 0.")


class Resume(CliCommand, to=app, work="agent.cli.run:resume", options=RUN_SETTINGS):
    """Resume a run where it stopped. Finished work is not repeated; changed settings are recorded."""

    run: RunArgument
    track: TrackOption = None


class Campaign(CliCommand, to=app, work="agent.cli.campaign:run_campaign", options=(*STUDY_SETTINGS, "json")):
    """Run several ideas in parallel under a shared budget and time limit (docs/budget.md). Continue with `scientist
    resume`."""

    ideas: list[Path] | None = Argument(None, metavar="IDEAS...", help="Idea files (JSON), or folders of them.")
    out: Path = Option(help="Output folder (created).")
    parallel: int | None = Option(None, min=1, help="Number of concurrent runs; default: --workers.")


class QueueAdd(CliCommand, to=queue, name="add", work="agent.cli.campaign:add_to_queue"):
    """Add ideas to a campaign, even while it is running."""

    campaign: Path = Argument(metavar="CAMPAIGN", help="Folder of the campaign.")
    ideas: list[Path] = Argument(metavar="IDEAS...", help="Idea files, or folders of them.")


class QueueList(CliCommand, to=queue, name="list", work="agent.cli.campaign:list_queue", options=("json",)):
    """Show the ideas of a campaign and their status."""

    campaign: Path = Argument(metavar="CAMPAIGN", help="Folder of the campaign.")


class Branch(CliCommand, to=app, work="agent.cli.branch:branch", options=RUN_SETTINGS):
    """Start a new run from a point in another run. The original run is not changed; budget and time start at zero."""

    run: RunArgument
    point: str = Option(..., "--from", metavar="NODE|STAGE", help="After a node (n0012) or before a stage.")
    code: Path | None = Option(None, help="Folder with your own experiment.py, which becomes the first new node.")
    author: str | None = Option(None, help="Author of the code; default: your user name.")
    note: str = Option("", help="Note to add to the next prompts of the stage.")
    runs: Path | None = Option(None, help="Where to create the run's folder; default: the folder that contains RUN.")
    name: str | None = Option(None, help="Name of the run's folder; default: built from time, idea and branch point.")
    seed: int | None = Option(None, min=0, help="Seed; default: a new one. RUN's seed repeats its choices.")


class Write(CliCommand, to=app, work="agent.cli.run:write", options=(*MODEL_SETTINGS, "bib", "template")):
    """Write a new version of a finished run's paper, in paper/v2. No experiments are re-run; the original paper is
    kept."""

    run: RunArgument


class Revise(CliCommand, to=app, work="agent.cli.branch:revise", options=(*RUN_SETTINGS, "template")):
    """Revise a finished run's paper after its reviews, in paper/v2. What reviewers ask for is measured as a registered
    addendum where possible; a response to each request and the changes are written next to the new version. Limits
    are those of the revision alone."""

    run: RunArgument
    reviews: list[Path] = Option(
        metavar="FILE", help="A review (text, Markdown, PDF), or several (JSON); may be repeated."
    )
    more: list[Path] | None = Argument(None, metavar="[FILE...]", help="Further reviews.")


class Execute(
    CliCommand,
    to=app,
    work="agent.cli.execute:execute_file",
    options=("assignments", "data", "timeout", "config", "json"),
    name="exec",
):
    """Run a Python file in the sandbox, as a node would. Shows output and measurements; exits 1 if the file fails."""

    file: Path | None = Argument(None, metavar="FILE", help="Python file, such as the experiment.py of a node.")
    describe: bool = Option(False, "--describe", help="Show how columns, target and splits of --data are read.")
    cells: str = Option(
        "", metavar="ARM@LEVEL,...", help="For a program that calls lab.measure: cells to measure, as arm or arm@level."
    )
    on: str = Option("", metavar="DATASET,...", help="Datasets on which to measure these cells.")
    setting: list[str] | None = Option(
        None, metavar="NAME=VALUE", help="Hyperparameter of these cells, passed in cell.setting; may be repeated."
    )


class Prefetch(CliCommand, to=app, work="agent.cli.store:prefetch_files", options=("assignments", "data", "config")):
    """Download the datasets and models of a run from the Hugging Face Hub. The run can then work offline."""

    file: Path = Argument(metavar="IDEA|CONFIG", help="Idea (.json) or configuration (.yaml).")
    idea_idx: int | None = Option(None, help="Index of the idea in a list, starting at 0.")


class Store(CliCommand, to=app, work="agent.cli.store:show_store", options=("assignments", "config", "json")):
    """Show or prune the shared cache. It holds datasets, pretrained models and packages."""

    prune: bool = Option(False, "--prune", help="Remove items that were not used for the time given by --unused.")
    unused: str = Option("30d", metavar="TIME", help="With --prune: a duration such as 30d, 12h or 0s.")
    check: bool = Option(False, "--check", help="Verify the content hash of every item.")


class Doctor(CliCommand, to=app, work="agent.cli.doctor:run_doctor", options=(*MODEL_SETTINGS, "config", "json")):
    """Check whether this machine can run experiments. With --model, also test the model with a few short requests."""

    runs: Path = Option(Path("runs"), help="Folder of your runs, whose disk and filesystem are checked.")
    fix: bool = Option(
        False,
        "--fix",
        help="First install the Debian packages that are missing (as root or with passwordless sudo; otherwise "
        "name them), and PyTorch for experiments if there is none.",
    )
    gpu: bool = Option(False, "--gpu", help="Run GPU self-tests and write a report.")
    out: Path = Option(Path("gpu-report.json"), help="With --gpu: report file.")


class Ablate(
    CliCommand,
    to=app,
    work="agent.cli.run:ablate",
    options=(*RUN_SETTINGS, "context", *REPOSITORY_SETTINGS, *ABLATION_SETTINGS, "config", "json"),
):
    """Reproduce a git repository's result, then measure which components matter for it. Exits 5 if the result differs
    from --expect or cannot be reproduced."""

    repository: Path = Argument(metavar="REPO", help="Folder of a git repository; it is not modified.")
    runs: Path = Option(Path("runs"), help="Folder in which the output folder is created.")
    out: Path | None = Option(None, help="Output folder; an existing one is continued.")


# --- controlling a run ----------------------------------------------------------------------------------------------

# The fields of these commands, except Approve, are those of `CommandReceived`.

NodeArgument = Annotated[str, Argument(metavar="NODE", help="Node id as shown by `scientist tree`, such as n0012.")]
ReasonOption = Annotated[str, Option("--reason", help="Reason; it is recorded.")]
RequiredReason = Annotated[
    str, Option("--reason", help="Reason, in one sentence; recorded and disclosed in the paper.")
]


class Stop(CliCommand, to=app, work="agent.cli.control:run_control_command"):
    """Stop a run; it can be resumed. Running nodes get a short grace period."""

    run: RunArgument
    text: ReasonOption = ""


class Pause(CliCommand, to=app, work="agent.cli.control:run_control_command"):
    """Pause a run. Nothing new starts, running nodes finish, and the clock stops until `scientist resume`."""

    run: RunArgument
    text: ReasonOption = ""


class Kill(CliCommand, to=app, work="agent.cli.control:run_control_command"):
    """Stop a node immediately. Its slot is freed, and the node is not retried or debugged."""

    run: RunArgument
    target: NodeArgument
    text: RequiredReason


class Mark(CliCommand, to=app, work="agent.cli.control:run_control_command"):
    """Mark a node as suspect or closed. A suspect node is never selected as best; a closed node gets no children."""

    run: RunArgument
    target: NodeArgument
    text: RequiredReason
    mark: Literal["suspect", "closed"] = Option(
        "suspect", "--as", help="suspect: its numbers are not used; closed: it gets no children."
    )


class Note(CliCommand, to=app, work="agent.cli.control:run_control_command"):
    """Add a note to the next prompts of a stage. A note suggests a direction; a later note may withdraw it, and all
    honesty checks still apply."""

    run: RunArgument
    text: str = Argument(metavar="TEXT", help="The note, up to 1000 characters.")
    target: str = Option("", "--stage", help="preliminary, tuning, agenda or ablation; default: the current stage.")


class Amend(CliCommand, to=app, work="agent.cli.control:run_control_command"):
    """Amend the data plan of a run before it is locked. Hypotheses, objective, untested items and notes may change.
    Each amendment is numbered and recorded with the results known at the time."""

    run: RunArgument
    plan: Path = Option(help="The complete new plan (YAML); data_plan.json has the current one.")
    text: RequiredReason


class Approve(CliCommand, to=app, work="agent.cli.control:run_control_command"):
    """Let a run that waits at a gate continue, with your changes if you give any. Changes pass the same checks as the
    work of a model, are recorded, and are disclosed in the paper."""

    run: RunArgument
    edit: Path | None = Option(
        None,
        metavar="FILE",
        help="Your version of what waits: the plan (data_plan.json, or YAML) at plan and lock, the text "
        "(text.yaml, as status shows) at paper.",
    )
    reason: str = Option("", help="Reason, recorded and disclosed in the paper.")


# --- a memory of finished studies -----------------------------------------------------------------------------------

MemoryArgument = Annotated[Path, Argument(metavar="DIR", help="Folder given as --memory.")]


class MemoryList(CliCommand, to=memory, name="list", work="agent.cli.store:list_records", options=("json",)):
    """List the records of a memory, newest first: what each study decided, and why it failed if it did."""

    memory: MemoryArgument


class MemoryForget(CliCommand, to=memory, name="forget", work="agent.cli.store:forget_records"):
    """Delete records from a memory: one, or all. Studies that already read them keep their copies."""

    memory: MemoryArgument
    record: str | None = Argument(None, metavar="[ID]", help="Id of a record or name of its run; default: all records.")


# --- inspecting runs ------------------------------------------------------------------------------------------------


class Status(CliCommand, to=app, work="agent.cli.status:show_status", options=("json",)):
    """Show the state of a run and the reasons for it. Includes phase, nodes, cost, time, recent events, what workers
    wait for, errors, baseline differences and next steps."""

    run: RunArgument


class ListRuns(CliCommand, to=app, name="list", work="agent.cli.status:list_runs", options=("json",)):
    """List the runs of a folder, newest first. Shows kind, condition, verdicts, hours, cost and age."""

    folder: Path = Argument(Path("runs"), metavar="[DIR]", help="A folder of runs, or a campaign.")


class Tree(CliCommand, to=app, work="agent.cli.status:show_tree", options=("json",)):
    """Show the nodes of a run by stage. Includes their state and metric, and the path to the best node."""

    run: RunArgument
    watch: bool = Option(False, "--watch", "-w", help="Update the tree until the run ends or you press Ctrl-C.")


class Logs(CliCommand, to=app, work="agent.cli.status:show_logs", options=("json",)):
    """Show the events of a run, one per line. With --node, also show the node's steps and live output."""

    run: RunArgument
    node: str | None = Option(None, help="Show only this node, with its steps and output.")
    follow: bool = Option(False, "--follow", "-f", help="Keep printing until the run ends or you press Ctrl-C.")
    last: int | None = Option(None, "--last", "-n", min=0, help="Show only the last N lines; default: all.")


class View(CliCommand, to=app, work="agent.cli.status:serve_page"):
    """Show runs live in a browser. The page has the tree, nodes, reports, cost and paper; it is served to this machine
    only."""

    place: Path = Argument(Path("runs"), metavar="[RUN|DIR]", help="A run or its zip, or a folder of runs.")
    port: int = Option(0, min=0, max=65535, help="Port to listen on; 0: any free port.")
    read_only: bool = Option(False, "--read-only", help="Hide the buttons that control a run.")


class Export(CliCommand, to=app, work="agent.cli.status:export_run"):
    """Export a run. Writes its page, events, tree or folder to a file, or scalars, claims and paper to a tracker."""

    run: RunArgument
    html: Path | None = Option(None, metavar="FILE", help="Write the run's page as one HTML file.")
    events: Path | None = Option(None, metavar="FILE", help="Write all events as JSON lines; - prints them.")
    tree: Path | None = Option(None, metavar="FILE", help="Write the tree as JSON; - prints it.")
    exchange: Path | None = Option(None, metavar="FILE", help="Write the model's answers (--model replay:FILE).")
    zip: Path | None = Option(None, metavar="FILE", help="Write the run's folder as a zip, without its data.")
    with_data: bool = Option(False, "--with-data", help="Include data, all labels and documents in the zip.")
    small: bool = Option(False, "--small", help="Compress the zip further; only scientist can open it.")
    mlflow: str | None = Option(None, metavar="DIR|URI", help="Export to MLflow (needs the extra mlflow).")
    wandb: Path | None = Option(None, metavar="DIR", help="Export to W&B, offline (needs the extra wandb).")
    force: bool = Option(False, "--force", help="Overwrite existing files.")


ANY_WORDS = {"ignore_unknown_options": True}
"""Words that begin with a dash, such as negative numbers, are arguments."""


class ClusterSlurm(
    CliCommand, to=cluster, name="slurm", work="agent.cli.slurm:run_on_slurm", context_settings=ANY_WORDS
):
    """Run a command from a login node on workers that SLURM starts. They leave the queue when it ends
    (docs/hardware.md)."""

    command: list[str] = Argument(metavar="-- COMMAND...", help="A command, such as: run --idea idea.json.")
    nodes: int = Option(1, min=1, help="Number of nodes.")
    gpus: int = Option(0, min=0, help="GPUs of each node.")
    cpus: int | None = Option(None, min=1, help="Processors of each node; default: the whole node.")
    time: str = Option("24:00:00", metavar="D-HH:MM:SS", help="Time limit of the workers.")
    partition: str = Option("", help="Partition; default: the cluster's.")
    sbatch: list[str] = Option(
        [], metavar="OPTION", help="Further option of sbatch, such as --account=lab; may be repeated."
    )
    address: str = Option("", metavar="IP", help="Address of this machine that nodes can reach.")
    wait_hours: float = Option(24.0, min=0.0001, help="Maximum time in the queue.")
    log: Path = Option(Path("runs/slurm"), metavar="DIR", help="Folder for the logs of head and workers.")


# --- papers and ideas -----------------------------------------------------------------------------------------------

bib = typer.Typer(help="Check a bibliography.")
app.add_typer(bib, name="bib")


class Trace(CliCommand, to=app, work="agent.cli.trace:trace_number", options=("json",), context_settings=ANY_WORDS):
    """Show where a printed number comes from. Lists its claims, nodes, seeds, files and code, and how to reproduce it.

    Exits 5 if neither the paper nor the record has such a number.
    """

    run: RunArgument
    number: str = Argument(metavar="NUMBER", help="Number as printed in the paper: 87.3, -0.021 or 5%.")


class Audit(CliCommand, to=app, work="agent.cli.trace:audit", options=("json",)):
    """Check a paper against its record or its result files. Exits 5 if there are findings."""

    path: Path = Argument(metavar="RUN|PAPER", help="A run, or any paper (.md, .tex, .pdf).")
    results: Path | None = Option(None, help="With PAPER: folder of its result files.")


class Reproduce(CliCommand, to=app, work="agent.cli.reproduce:run_reproduction", options=("assignments", "json")):
    """Re-run the experiments behind a paper. Exits 5 unless the printed digits are reproduced (docs/evidence.md)."""

    run: RunArgument
    node: list[str] | None = Option(None, help="Re-run only this node, such as n0031; may be repeated.")
    limit: int | None = Option(None, min=1, help="Maximum number of replicates per configuration.")


class Judge(CliCommand, to=app, work="agent.cli.judge:run_judge", options=("model", "base_url", "json")):
    """Score a paper against a rubric. Each dimension gets a score, a reason and a quote that is checked against the
    paper."""

    paper: Path | None = Argument(None, metavar="PAPER|RUN", help="Paper (PDF, LaTeX, Markdown or text), or a run.")
    rubric: str = Option("end-to-end", metavar="NAME|FILE", help="Bundled rubric ('list' shows all) or TOML file.")
    judges: str = Option("", metavar="MODEL,...", help="Several judges, each with an optional @ADDRESS.")
    n: int = Option(1, help="Number of times each judge scores the paper.")
    task: Path | None = Option(None, help="Text file with the task that the paper addresses.")
    code: Path | None = Option(None, help="Folder of the paper's code. Nothing is executed.")
    log: Path | None = Option(None, help="Log of the experiments; the judge sees its beginning and end.")
    results: Path | None = Option(None, help="Folder of the paper's result files, for the audit.")
    view: Literal["all", "paper"] = Option("all", help="What the judge sees: all, or only the paper.")
    pages: int | None = Option(None, min=0, max=40, help="Pages shown as images to a vision model (8).")

    @property
    def judge_names(self) -> list[str]:
        return [name.strip() for name in self.judges.split(",") if name.strip()]


class Ideate(CliCommand, to=app, work="agent.cli.idea:propose_ideas", options=(*IDEATION_SETTINGS, "memory")):
    """Propose ideas for a topic. Each is checked against the literature, the other ideas and what this machine can run
    within --time-limit. Exits 3 if fewer than --count ideas are found."""

    topic: Path = Option(help="Text file that describes the topic, such as a call for papers.")
    count: int = Option(1, "-n", "--count", min=1, max=50, help="Number of ideas.")
    rounds: int = Option(3, min=1, max=10, help="Maximum rounds of reflection per idea.")
    steps: str = Option(
        "idea",
        metavar="STEPS",
        help="idea, or idea,literature,proposal; each step writes files from which a run can start.",
    )
    context: Path | None = Option(None, metavar="DIR", help="Folder of your papers (PDF) and notes (docs/ideas.md).")
    out: Path | None = Option(None, help="Output folder; default: a folder in --runs named by time and topic.")
    runs: Path = Option(Path("runs"), help="Without --out: where the output folder is created.")


class Follow(CliCommand, to=app, work="agent.cli.idea:propose_ideas", options=IDEATION_SETTINGS):
    """Propose the next idea from a study's surprises and open verdicts. Each reason names a finding of the record,
    which the program checks."""

    run: RunArgument
    rounds: int = Option(3, min=1, max=10, help="Maximum rounds of reflection.")
    out: Path | None = Option(None, help="Output folder; default: a folder in --runs named by time and run.")
    runs: Path = Option(Path("runs"), help="Without --out: where the output folder is created.")


class BibCheck(
    CliCommand, to=bib, work="agent.cli.bib:check_bib", options=("assignments", "config", "json"), name="check"
):
    """Verify a bibliography against public catalogues. Compares title, authors and year; exits 5 if an entry must not
    be cited."""

    file: Path = Argument(metavar="FILE", help="Bibliography (.bib).")
    out: Path | None = Option(None, help="Write the bibliography to this file, with the verification of each entry.")
    papers: Path | None = Option(None, metavar="DIR", help="Folder of PDFs, whose titles are looked up as well.")


# --- the main function -----------------------------------------------------------------------------------------------

PATH_OPTIONS = ("--runs", "--out", "--context", "--papers", "--code", "--results", "--config", "--bib")


def run_program(arguments: list[str] | None) -> int:
    """Run a command line and return its exit code; every error is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyrefly: ignore  print '?' if the terminal lacks Unicode
    import_module("labwright.evals.commands")  # adds its commands to `app`; agent does not import evals
    read_keys(Path(), os.environ)
    normalise_no_proxy(os.environ)
    isolate_workers(_isolate_worker)
    try:
        with saving_traceback():
            given = sys.argv[1:] if arguments is None else arguments
            for name, value in (*pairwise(given), *(one.split("=", 1) for one in given if "=" in one)):
                if name in PATH_OPTIONS and not value.strip():  # probably an unset shell variable
                    raise UsageError(f"{name} is empty: give a path, or . for this folder")
            code: Any = app(arguments, prog_name="scientist", standalone_mode=False)
            with discard_unread_output(sys.stdout):
                sys.stdout.flush()
    except SystemExit as error:  # with 1, rich and typer end the program when the reader of its output has gone
        if error.code != 1:
            raise
        return READER_GONE
    except Exception as error:  # noqa: BLE001  top-level handler
        return report_error(error)
    return code if isinstance(code, int) else 0


def _isolate_worker(command: Sequence[str], program: Path) -> list[str]:
    from labwright.sandbox.isolation.bubblewrap import isolate_command  # only commands that read PDFs need it

    return isolate_command(command, program)
