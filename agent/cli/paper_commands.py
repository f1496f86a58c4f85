"""The commands about papers and ideas, and those of `evals`, which is reached from here alone, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from labwright.agent.cli.commands import app
from labwright.agent.cli.options import (
    MODEL_SETTINGS,
    CliCommand,
    ConfigOption,
    ContextOption,
    JsonOption,
    PapersOption,
    RunArgument,
)

bib = typer.Typer(help="Check a library of references.")
bench = typer.Typer(help="Run benchmarks, from task to judged paper.")
app.add_typer(bib, name="bib")
app.add_typer(bench, name="bench")


class Trace(CliCommand, to=app, work="agent.cli.trace:trace_number", context_settings={"ignore_unknown_options": True}):
    """Show where a printed number comes from. Claims, nodes, seeds, files, code, and how to reproduce it.

    Exits 5 when the paper and the record have no such number.
    """

    run: RunArgument
    number: Annotated[str, Argument(metavar="NUMBER", help="As the paper prints it: 87.3, -0.021 or 5%.")]
    json: JsonOption = False


class Audit(CliCommand, to=app, work="agent.cli.audit:audit"):
    """Check a paper against its record or its result files. Exits 5 if there are findings."""

    path: Annotated[Path, Argument(metavar="RUN|PAPER", help="A run, or somebody else's paper (.md, .tex, .pdf).")]
    results: Annotated[Path | None, Option(help="With PAPER: the folder of its result files.")] = None
    code: Annotated[Path | None, Option(help="With PAPER: the folder of its Python code.")] = None
    json: JsonOption = False


class Reproduce(CliCommand, to=app, work="agent.cli.reproduce:run_reproduction", settings=("assignments",)):
    """Run the experiments behind a paper again. Exits 5 unless the printed digits are reproduced
    (docs/evidence.md)."""

    run: RunArgument
    node: Annotated[list[str] | None, Option(help="Only this node, such as n0031; may be repeated.")] = None
    limit: Annotated[int | None, Option(min=1, help="Most replicates of each configuration.")] = None
    json: JsonOption = False


class Judge(CliCommand, to=app, work="agent.cli.judge:run_judge", settings=("model", "base_url")):
    """Score a paper by a rubric. Each dimension gets a score, a reason and a quote checked against the paper."""

    paper: Annotated[Path | None, Argument(metavar="PAPER|RUN", help="PDF, LaTeX, Markdown or text; or a run.")] = None
    rubric: Annotated[str, Option(metavar="NAME|FILE", help="A bundled one ('list' shows all) or TOML.")] = "end-to-end"
    judges: Annotated[
        str, Option(metavar="MODEL,...", help="Several judges: model strings, each with an optional @ADDRESS.")
    ] = ""
    n: Annotated[int, Option(help="How many times each judge is asked.")] = 1
    task: Annotated[Path | None, Option(help="A text file with the task that the paper answers.")] = None
    code: Annotated[Path | None, Option(help="The folder of the paper's code. Nothing is executed.")] = None
    log: Annotated[Path | None, Option(help="A log of the experiments; its beginning and end are shown.")] = None
    results: Annotated[Path | None, Option(help="The paper's result files, for the audit.")] = None
    view: Annotated[
        Literal["all", "paper"],
        Option(help="What the judge sees: all that is there, or the paper alone as its reader does."),
    ] = "all"
    pages: Annotated[int | None, Option(min=0, max=40, help="Pages shown as pictures to a vision model (8).")] = None
    json: JsonOption = False


class MissingAblations(
    CliCommand,
    to=app,
    name="missing-ablations",
    work="evals.ablationbench.missing_ablations:find_missing_ablations",
    settings=(*MODEL_SETTINGS, "budget_usd", "budget_tokens"),
):
    """List the ablations that a paper has and those that are missing. Each with the claim that it tests and a quote;
    --plan holds your own list against the paper (docs/benchmarks.md)."""

    paper: Annotated[Path, Argument(metavar="PAPER|RUN", help="PDF, LaTeX, Markdown or text; or a run.")]
    view: Annotated[str, Option("--as", metavar="reviewer|author", help="author: sees the method.")] = "reviewer"
    k: Annotated[int, Option("--k", min=1, max=30, help="Most ablations to ask for.")] = 5
    until: Annotated[str, Option(metavar="SECTION", help="With --as author: the last section that is shown.")] = ""
    plan: Annotated[Path | None, Option(help="Your own list, a line of JSON each (as --out writes).")] = None
    gold: Annotated[Path | None, Option(help="With --plan: score it against these ablations, in the same form.")] = None
    reviews: Annotated[list[Path] | None, Option(help="With --plan: score it by a review; may be repeated.")] = None
    judges: Annotated[str, Option(metavar="MODEL,...", help="Of --gold and --reviews; default: the model.")] = ""
    out: Annotated[Path | None, Option(help="Also write the missing ones here, a line of JSON each.")] = None
    config: ConfigOption = None
    json: JsonOption = False


class Ideate(
    CliCommand,
    to=app,
    work="agent.cli.ideate:run_ideation",
    settings=(*MODEL_SETTINGS, "gpus", "time_limit", "budget_usd", "budget_tokens", "data"),
):
    """Propose ideas for a topic. Each is checked against the literature, this machine (--time-limit: of a run) and the
    other ideas. Exits 3 if there are fewer than asked for."""

    topic: Annotated[Path, Option(help="A text file that describes the topic, such as a call for papers.")]
    count: Annotated[int, Option("-n", "--count", help="How many ideas.")] = 1
    rounds: Annotated[int, Option(help="Most rounds of reflection on an idea.")] = 3
    steps: Annotated[
        str, Option(metavar="STEPS", help="idea, or idea,literature,proposal; each writes files to start a run from.")
    ] = "idea"
    context: ContextOption = None
    out: Annotated[Path | None, Option(help="Where to write; default: below --runs, by time and topic.")] = None
    runs: Annotated[Path, Option(help="Without --out: where the folder is created.")] = Path("runs")
    config: ConfigOption = None
    json: JsonOption = False


class BibCheck(CliCommand, to=bib, work="agent.cli.bib:check_bib", settings=("assignments",), name="check"):
    """Verify a library against public catalogues. Title, authors and year; exits 5 if an entry may not be cited."""

    file: Annotated[Path, Argument(metavar="FILE", help="A .bib file.")]
    out: Annotated[Path | None, Option(help="Write the library here, with the verification of each entry.")] = None
    papers: PapersOption = None
    config: ConfigOption = None
    json: JsonOption = False


# --- measuring scientists and judges --------------------------------------------------------------------------------


class Compare(CliCommand, to=app, work="evals.compare_command:compare_runs", settings=("model", "base_url")):
    """Compare runs side by side. Nodes, seeds, claims, scores and cost; with --model the papers are judged in pairs,
    in both orders."""

    runs: Annotated[list[Path], Argument(metavar="RUN RUN...", help="The folders of two or more runs.")]
    json: JsonOption = False


class BenchMlr(
    CliCommand,
    to=bench,
    name="mlr",
    work="evals.bench.command:run_mlr_bench",
    settings=(*MODEL_SETTINGS, "workers", "gpus", "time_limit", "budget_usd"),
):
    """Take tasks from idea to paper and judge each step. Exits 1 if a step is missing (docs/benchmarks.md)."""

    tasks: Annotated[Path, Option(help="A folder with one .md file per task, as MLR-Bench's tasks/.")]
    only: Annotated[list[str] | None, Option(metavar="NAME|PATTERN", help="As iclr2025_*; may be repeated.")] = None
    steps: Annotated[str, Option(help="Steps to judge; 'paper' alone: end to end.")] = "idea,proposal,experiment,paper"
    out: Annotated[Path, Option(help="Folder of all results; an existing one is continued.")] = Path("bench-mlr")
    parallel: Annotated[int | None, Option(min=1, help="Tasks at the same time; default: --workers.")] = None
    config: ConfigOption = None
    dry_run: Annotated[bool, Option("--dry-run", help="Only print what is done and what would be run.")] = False
    json: JsonOption = False


class BenchAblation(
    CliCommand,
    to=bench,
    name="ablation",
    work="evals.ablationbench.command:run_ablation_bench",
    settings=(*MODEL_SETTINGS, "budget_usd", "budget_tokens"),
):
    """Score plans of ablations against what authors report and reviewers miss. With --compare: planners against each
    other. Exits 1 if a paper is not scored (docs/benchmarks.md)."""

    outs: Annotated[list[Path] | None, Argument(metavar="[OUT OUT...]", help="With --compare: benches.")] = None
    compare: Annotated[bool, Option("--compare", help="Compare finished benches paper by paper.")] = False
    data: Annotated[str | None, Option(metavar="DIR|hf:OWNER", help="With author/test.jsonl, reviewer/...")] = None
    papers: Annotated[Path | None, Option(help="Where paper_path starts; default: --data.")] = None
    task: Annotated[str, Option(metavar="author,reviewer", help="Default: those that --data has.")] = ""
    split: Annotated[str, Option(metavar="dev|test")] = "test"
    plans: Annotated[Path | None, Option(help="Stored plans: TASK/PLANNER/ID.jsonl, or fewer folders.")] = None
    planner: Annotated[str, Option(metavar="lm|agent|headings", help="With --plans: a folder of it.")] = "lm"
    k: Annotated[int | None, Option("--k", min=1, max=40, help="Entries that count (author 5, reviewer 2).")] = None
    judges: Annotated[str, Option(metavar="MODEL,...", help="Judges that vote; default: the model.")] = ""
    answers: Annotated[Path | None, Option(help="Stored rows of judges: TASK/JUDGE/PLANNER/ID.jsonl.")] = None
    controls: Annotated[bool, Option(help="Also judge gold, another paper's plan, and headings.")] = True
    calibration: Annotated[Path | None, Option(help="What ablation-judge wrote; corrects shares by it.")] = None
    only: Annotated[list[str] | None, Option(metavar="ID|PATTERN", help="Only these papers; may be repeated.")] = None
    out: Annotated[Path, Option(help="Folder of all results; an existing one is continued.")] = Path("bench-ablation")
    config: ConfigOption = None
    dry_run: Annotated[bool, Option("--dry-run", help="Only print what would be asked.")] = False
    json: JsonOption = False


class BenchAblationJudge(
    CliCommand,
    to=bench,
    name="ablation-judge",
    work="evals.ablationbench.judge_command:run_judge_eval",
    settings=(*MODEL_SETTINGS, "budget_usd", "budget_tokens"),
):
    """Hold judges of plans against people's labels. Exits 1 if a judge left a plan without an answer."""

    data: Annotated[str, Option(metavar="DIR|hf:OWNER", help="A folder with judge_eval/author.jsonl ...")]
    papers: Annotated[Path | None, Option(help="Where paper_path starts; default: --data.")] = None
    task: Annotated[str, Option(metavar="author,reviewer", help="Default: those that --data has.")] = ""
    plans: Annotated[Path | None, Option(help="The labelled plans; default: plans/ in --data.")] = None
    judges: Annotated[str, Option(metavar="MODEL,...", help="Default: the model.")] = ""
    answers: Annotated[Path | None, Option(help="Stored rows of judges: TASK/JUDGE/PLANNER/ID.jsonl.")] = None
    out: Annotated[Path, Option(help="Folder of the results.")] = Path("bench-ablation-judge")
    config: ConfigOption = None
    json: JsonOption = False


class BenchExp(
    CliCommand,
    to=bench,
    name="exp",
    work="evals.expbench.command:run_exp_bench",
    settings=(*MODEL_SETTINGS, "workers", "gpus", "budget_usd"),
):
    """Judge answers to research questions on repositories, step by step. Exits 1 if one could not be judged
    (docs/benchmarks.md)."""

    tasks: Annotated[Path, Option(help="The folder of EXP-Bench's tasks, with papers.jsonl and needs.json.")]
    answers: Annotated[Path | None, Option(help="Answers of any agent (JSON): TASK, VARIANT, files, answer.")] = None
    repos: Annotated[Path | None, Option(help="Folders, bare repositories or bundles; nothing is fetched.")] = None
    only: Annotated[
        list[str] | None, Option(metavar="ID|ID/N|type=N|category=X", help="Which tasks; may be repeated.")
    ] = None
    steps: Annotated[str, Option(help="Steps to judge.")] = "design,implement,execute,conclude"
    minutes: Annotated[float, Option(min=0.1, help="Time for an answer.")] = 40.0
    execute_minutes: Annotated[float, Option(min=0.01, help="Time limit of its script.")] = 60.0
    monitor: Annotated[Literal["facts", "anchor"], Option(help="Whose rule stops an answer.")] = "facts"
    anyway: Annotated[bool, Option("--anyway", help="Also tasks whose needs this machine may not meet.")] = False
    out: Annotated[Path, Option(help="Folder of all results; an existing one is continued.")] = Path("bench-exp")
    parallel: Annotated[int | None, Option(min=1, help="Tasks at the same time; default: --workers.")] = None
    config: ConfigOption = None
    dry_run: Annotated[bool, Option("--dry-run", help="Only print which tasks can be set, and why others not.")] = False
    json: JsonOption = False


class BenchExpExtract(
    CliCommand,
    to=bench,
    name="exp-extract",
    work="evals.expbench.extraction:run_extraction",
    settings=(*MODEL_SETTINGS, "budget_usd"),
):
    """Make drafts of research questions from a paper and its repository. Exits 5 if a draft has a fault."""

    paper: Annotated[Path, Option(help="PDF, LaTeX, Markdown or text.")]
    code: Annotated[Path, Option("--code", metavar="DIR", help="The paper's git repository; it is only read.")]
    out: Annotated[Path, Option(help="Folder of the drafts, in the form of EXP-Bench's tasks.")]
    config: ConfigOption = None


class BenchExpReview(CliCommand, to=bench, name="exp-review", work="evals.expbench.extraction:review_drafts"):
    """List drafts of questions, or accept or reject one. The bench takes those alone that a person accepted."""

    folder: Annotated[Path, Argument(metavar="DIR", help="What exp-extract wrote.")]
    task: Annotated[str | None, Argument(metavar="ID/N", help="Default: all are listed.")] = None
    accept: Annotated[bool, Option("--accept")] = False
    reject: Annotated[bool, Option("--reject")] = False


class JudgeAgreement(CliCommand, to=app, work="evals.agreement.command:run_judge_agreement", name="judge-agreement"):
    """Compare a judge's scores with people's, or with what is known. Distances, rank correlation, bias and controls;
    with --invented how well they tell invented results from measured ones, people or not (docs/judge.md)."""

    human: Annotated[
        Path, Argument(metavar="HUMAN.csv", help="Columns: reviewer_id, model_name, workshop_name, one per dimension.")
    ]
    judge: Annotated[
        Path | None,
        Argument(
            metavar="JUDGE.csv", help="Columns workshop_name, model_name and the same dimensions; a row per paper."
        ),
    ] = None
    invented: Annotated[
        Path | None,
        Option(metavar="TRUTH", help="Labels, CSV or JSON: name, honest. The judge's file may then stand alone."),
    ] = None
    scale: Annotated[str, Option(metavar="LOWEST-HIGHEST", help="Range of the scores.")] = "1-10"
    dimensions: Annotated[str, Option(help="Such as clarity,overall; default: all in the human file.")] = ""
    plot: Annotated[Path | None, Option(help="Also draw a plot, as .png, .pdf or .svg.")] = None
    json: JsonOption = False
