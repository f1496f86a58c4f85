"""The commands about papers and ideas, and those implemented in `evals`, which this module refers to only by name."""

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

bib = typer.Typer(help="Check a bibliography.")
bench = typer.Typer(help="Run benchmarks.")
app.add_typer(bib, name="bib")
app.add_typer(bench, name="bench")


class Trace(CliCommand, to=app, work="agent.cli.trace:trace_number", context_settings={"ignore_unknown_options": True}):
    """Show where a printed number comes from. Lists its claims, nodes, seeds, files and code, and how to reproduce it.

    Exits 5 if neither the paper nor the record has such a number.
    """

    run: RunArgument
    number: Annotated[str, Argument(metavar="NUMBER", help="Number as printed in the paper: 87.3, -0.021 or 5%.")]
    json: JsonOption = False


class Audit(CliCommand, to=app, work="agent.cli.audit:audit"):
    """Check a paper against its record or its result files. Exits 5 if there are findings."""

    path: Annotated[Path, Argument(metavar="RUN|PAPER", help="A run, or any paper (.md, .tex, .pdf).")]
    results: Annotated[Path | None, Option(help="With PAPER: folder of its result files.")] = None
    code: Annotated[Path | None, Option(help="With PAPER: folder of its Python code.")] = None
    json: JsonOption = False


class Reproduce(CliCommand, to=app, work="agent.cli.reproduce:run_reproduction", settings=("assignments",)):
    """Re-run the experiments behind a paper. Exits 5 unless the printed digits are reproduced (docs/evidence.md)."""

    run: RunArgument
    node: Annotated[list[str] | None, Option(help="Re-run only this node, such as n0031; may be repeated.")] = None
    limit: Annotated[int | None, Option(min=1, help="Maximum number of replicates per configuration.")] = None
    json: JsonOption = False


class Judge(CliCommand, to=app, work="agent.cli.judge:run_judge", settings=("model", "base_url")):
    """Score a paper against a rubric. Each dimension gets a score, a reason and a quote that is checked against the
    paper."""

    paper: Annotated[
        Path | None, Argument(metavar="PAPER|RUN", help="Paper (PDF, LaTeX, Markdown or text), or a run.")
    ] = None
    rubric: Annotated[str, Option(metavar="NAME|FILE", help="Bundled rubric ('list' shows all) or TOML file.")] = (
        "end-to-end"
    )
    judges: Annotated[
        str, Option(metavar="MODEL,...", help="Several judges, as model strings, each with an optional @ADDRESS.")
    ] = ""
    n: Annotated[int, Option(help="Number of times each judge scores the paper.")] = 1
    task: Annotated[Path | None, Option(help="Text file with the task that the paper addresses.")] = None
    code: Annotated[Path | None, Option(help="Folder of the paper's code. Nothing is executed.")] = None
    log: Annotated[Path | None, Option(help="Log of the experiments; the judge sees its beginning and end.")] = None
    results: Annotated[Path | None, Option(help="Folder of the paper's result files, for the audit.")] = None
    view: Annotated[
        Literal["all", "paper"], Option(help="What the judge sees: all material, or only the paper, as a reader would.")
    ] = "all"
    pages: Annotated[int | None, Option(min=0, max=40, help="Pages shown as images to a vision model (8).")] = None
    json: JsonOption = False


class MissingAblations(
    CliCommand,
    to=app,
    name="missing-ablations",
    work="evals.ablationbench.missing_ablations:find_missing_ablations",
    settings=(*MODEL_SETTINGS, "budget_usd", "budget_tokens"),
):
    """List the ablations that a paper reports and those it lacks. Each is listed with the claim that it tests and a
    quote; --plan compares your own list with the paper (docs/benchmarks.md)."""

    paper: Annotated[Path, Argument(metavar="PAPER|RUN", help="Paper (PDF, LaTeX, Markdown or text), or a run.")]
    view: Annotated[
        str, Option("--as", metavar="reviewer|author", help="reviewer sees the whole paper, author only the method.")
    ] = "reviewer"
    k: Annotated[int, Option("--k", min=1, max=30, help="Maximum number of ablations to propose.")] = 5
    until: Annotated[str, Option(metavar="SECTION", help="With --as author: last section that is shown.")] = ""
    plan: Annotated[Path | None, Option(help="Your own list of ablations, as JSON lines (the format of --out).")] = None
    gold: Annotated[Path | None, Option(help="With --plan: score it against these ablations (same format).")] = None
    reviews: Annotated[list[Path] | None, Option(help="With --plan: score it against a review; may be repeated.")] = (
        None
    )
    judges: Annotated[str, Option(metavar="MODEL,...", help="Judges for --gold and --reviews; default: the model.")] = (
        ""
    )
    out: Annotated[Path | None, Option(help="Also write the missing ablations to this file, as JSON lines.")] = None
    config: ConfigOption = None
    json: JsonOption = False


class Ideate(
    CliCommand,
    to=app,
    work="agent.cli.ideate:run_ideation",
    settings=(*MODEL_SETTINGS, "gpus", "time_limit", "budget_usd", "budget_tokens", "data", "memory"),
):
    """Propose ideas for a topic. Each is checked against the literature, the other ideas and what this machine can run
    within --time-limit. Exits 3 if fewer than --count ideas are found."""

    topic: Annotated[Path, Option(help="Text file that describes the topic, such as a call for papers.")]
    count: Annotated[int, Option("-n", "--count", help="Number of ideas.")] = 1
    rounds: Annotated[int, Option(help="Maximum rounds of reflection per idea.")] = 3
    steps: Annotated[
        str,
        Option(
            metavar="STEPS",
            help="idea, or idea,literature,proposal; each step writes files from which a run can start.",
        ),
    ] = "idea"
    context: ContextOption = None
    out: Annotated[Path | None, Option(help="Output folder; default: a folder in --runs named by time and topic.")] = (
        None
    )
    runs: Annotated[Path, Option(help="Without --out: where the output folder is created.")] = Path("runs")
    config: ConfigOption = None
    json: JsonOption = False


class Follow(
    CliCommand,
    to=app,
    work="agent.cli.ideate:follow_study",
    settings=(*MODEL_SETTINGS, "gpus", "time_limit", "budget_usd", "budget_tokens", "data"),
):
    """Propose the next idea from a study's surprises and open verdicts. Each reason names a finding of the record,
    which the program checks."""

    run: RunArgument
    rounds: Annotated[int, Option(help="Maximum rounds of reflection.")] = 3
    out: Annotated[Path | None, Option(help="Output folder; default: a folder in --runs named by time and run.")] = None
    runs: Annotated[Path, Option(help="Without --out: where the output folder is created.")] = Path("runs")
    config: ConfigOption = None
    json: JsonOption = False


class BibCheck(CliCommand, to=bib, work="agent.cli.bib:check_bib", settings=("assignments",), name="check"):
    """Verify a bibliography against public catalogues. Compares title, authors and year; exits 5 if an entry must not
    be cited."""

    file: Annotated[Path, Argument(metavar="FILE", help="Bibliography (.bib).")]
    out: Annotated[
        Path | None, Option(help="Write the bibliography to this file, with the verification of each entry.")
    ] = None
    papers: PapersOption = None
    config: ConfigOption = None
    json: JsonOption = False


# --- evaluating scientists and judges -------------------------------------------------------------------------------


class Compare(CliCommand, to=app, work="evals.compare_command:compare_runs", settings=("model", "base_url")):
    """Compare runs side by side. Shows nodes, seeds, claims, scores and cost; with --model, papers are also judged in
    pairs, in both orders."""

    runs: Annotated[list[Path], Argument(metavar="RUN RUN...", help="Folders of two or more runs.")]
    json: JsonOption = False


class BenchMlr(
    CliCommand,
    to=bench,
    name="mlr",
    work="evals.bench.command:run_mlr_bench",
    settings=(*MODEL_SETTINGS, "workers", "gpus", "time_limit", "budget_usd"),
):
    """Run MLR-Bench tasks from idea to paper and judge each step. Exits 1 if a step is missing (docs/benchmarks.md)."""

    tasks: Annotated[Path, Option(help="Folder with one .md file per task, such as MLR-Bench's tasks/.")]
    only: Annotated[
        list[str] | None, Option(metavar="NAME|PATTERN", help="Only these tasks, such as iclr2025_*; may be repeated.")
    ] = None
    steps: Annotated[str, Option(help="Steps to judge; 'paper' alone judges end to end.")] = (
        "idea,proposal,experiment,paper"
    )
    out: Annotated[Path, Option(help="Output folder; an existing one is continued.")] = Path("bench-mlr")
    parallel: Annotated[int | None, Option(min=1, help="Number of tasks run at the same time; default: --workers.")] = (
        None
    )
    config: ConfigOption = None
    dry_run: Annotated[bool, Option("--dry-run", help="Only print which steps are done and which would be run.")] = (
        False
    )
    json: JsonOption = False


class BenchAblation(
    CliCommand,
    to=bench,
    name="ablation",
    work="evals.ablationbench.command:run_ablation_bench",
    settings=(*MODEL_SETTINGS, "budget_usd", "budget_tokens"),
):
    """Score ablation plans against ablations that authors report or reviewers request. With --compare, compare
    planners. Exits 1 if a paper is not scored (docs/benchmarks.md)."""

    outs: Annotated[
        list[Path] | None, Argument(metavar="[OUT OUT...]", help="With --compare: output folders to compare.")
    ] = None
    compare: Annotated[bool, Option("--compare", help="Compare finished benchmark runs paper by paper.")] = False
    data: Annotated[
        str | None, Option(metavar="DIR|hf:OWNER", help="Data set with author/test.jsonl, reviewer/...")
    ] = None
    papers: Annotated[Path | None, Option(help="Folder that paper_path is relative to; default: --data.")] = None
    task: Annotated[str, Option(metavar="author,reviewer", help="Tasks; default: those in --data.")] = ""
    split: Annotated[str, Option(metavar="dev|test")] = "test"
    plans: Annotated[Path | None, Option(help="Stored plans: TASK/PLANNER/ID.jsonl, or fewer folder levels.")] = None
    planner: Annotated[
        str, Option(metavar="lm|agent|headings", help="Name of the planner, or of a planner's folder under --plans.")
    ] = "lm"
    k: Annotated[
        int | None, Option("--k", min=1, max=40, help="Number of entries that are scored (author 5, reviewer 2).")
    ] = None
    judges: Annotated[str, Option(metavar="MODEL,...", help="Judges, which vote; default: the model.")] = ""
    answers: Annotated[Path | None, Option(help="Stored judge answers: TASK/JUDGE/PLANNER/ID.jsonl.")] = None
    controls: Annotated[bool, Option(help="Also judge controls: gold, another paper's plan, and headings.")] = True
    calibration: Annotated[Path | None, Option(help="Output of ablation-judge, used to correct the shares.")] = None
    only: Annotated[
        list[str] | None, Option(metavar="ID|PATTERN", help="Score only these papers; may be repeated.")
    ] = None
    out: Annotated[Path, Option(help="Output folder; an existing one is continued.")] = Path("bench-ablation")
    config: ConfigOption = None
    dry_run: Annotated[bool, Option("--dry-run", help="Only print the requests that would be sent.")] = False
    json: JsonOption = False


class BenchAblationJudge(
    CliCommand,
    to=bench,
    name="ablation-judge",
    work="evals.ablationbench.judge_command:run_judge_eval",
    settings=(*MODEL_SETTINGS, "budget_usd", "budget_tokens"),
):
    """Compare plan judges with human labels. Exits 1 if a judge did not answer for a plan."""

    data: Annotated[str, Option(metavar="DIR|hf:OWNER", help="Data set with judge_eval/author.jsonl ...")]
    papers: Annotated[Path | None, Option(help="Folder that paper_path is relative to; default: --data.")] = None
    task: Annotated[str, Option(metavar="author,reviewer", help="Tasks; default: those in --data.")] = ""
    plans: Annotated[Path | None, Option(help="Labelled plans; default: plans/ in --data.")] = None
    judges: Annotated[str, Option(metavar="MODEL,...", help="Judges; default: the model.")] = ""
    answers: Annotated[Path | None, Option(help="Stored judge answers: TASK/JUDGE/PLANNER/ID.jsonl.")] = None
    out: Annotated[Path, Option(help="Output folder.")] = Path("bench-ablation-judge")
    config: ConfigOption = None
    json: JsonOption = False


class BenchExp(
    CliCommand,
    to=bench,
    name="exp",
    work="evals.expbench.command:run_exp_bench",
    settings=(*MODEL_SETTINGS, "workers", "gpus", "budget_usd"),
):
    """Judge answers to EXP-Bench's research questions step by step. Exits 1 if an answer could not be judged
    (docs/benchmarks.md)."""

    tasks: Annotated[Path, Option(help="Folder of EXP-Bench's tasks, with papers.jsonl and needs.json.")]
    answers: Annotated[
        Path | None, Option(help="Answers of any agent (JSON) to judge: TASK, VARIANT, files, answer.")
    ] = None
    repos: Annotated[
        Path | None, Option(help="Folder of the repositories (folders, bare or bundles); nothing is fetched.")
    ] = None
    only: Annotated[
        list[str] | None, Option(metavar="ID|ID/N|type=N|category=X", help="Only these tasks; may be repeated.")
    ] = None
    steps: Annotated[str, Option(help="Steps to judge.")] = "design,implement,execute,conclude"
    minutes: Annotated[float, Option(min=0.1, help="Time limit per answer, in minutes.")] = 40.0
    execute_minutes: Annotated[float, Option(min=0.01, help="Time limit of the answer's script, in minutes.")] = 60.0
    monitor: Annotated[
        Literal["facts", "anchor"], Option(help="Rule that stops invalid answers; anchor is EXP-Bench's own.")
    ] = "facts"
    anyway: Annotated[bool, Option("--anyway", help="Include tasks whose requirements this machine may not meet.")] = (
        False
    )
    out: Annotated[Path, Option(help="Output folder; an existing one is continued.")] = Path("bench-exp")
    parallel: Annotated[int | None, Option(min=1, help="Number of tasks run at the same time; default: --workers.")] = (
        None
    )
    config: ConfigOption = None
    dry_run: Annotated[bool, Option("--dry-run", help="Only print which tasks can be run, and why others cannot.")] = (
        False
    )
    json: JsonOption = False


class BenchReplication(
    CliCommand,
    to=bench,
    name="replication",
    work="evals.replication.command:run_replication",
    settings=(*MODEL_SETTINGS, "budget_tokens", "budget_usd"),
):
    """Let players answer questions with a known answer, and count the claims that hold on fresh samples: a question
    study of this program, and a bare loop of the same tools (docs/benchmarks.md)."""

    questions: Annotated[Path, Argument(metavar="DIR", help="Folder of questions, each with its hidden truth.")]
    players: Annotated[str, Option(help="Players: study, loop.")] = "study,loop"
    only: Annotated[list[str] | None, Option(metavar="NAME", help="Only these questions; may be repeated.")] = None
    samples: Annotated[int, Option(min=2, help="Fresh samples of each question.")] = 100
    score: Annotated[bool, Option(help="Read the conclusions and score them when all players are done.")] = True
    out: Annotated[Path, Option(help="Output folder; an existing one is continued.")] = Path("bench-replication")
    config: ConfigOption = None


class BenchExpExtract(
    CliCommand,
    to=bench,
    name="exp-extract",
    work="evals.expbench.extraction:run_extraction",
    settings=(*MODEL_SETTINGS, "budget_usd"),
):
    """Draft research questions from a paper and its repository. Exits 5 if a draft has an error."""

    paper: Annotated[Path, Option(help="Paper (PDF, LaTeX, Markdown or text).")]
    code: Annotated[Path, Option("--code", metavar="DIR", help="The paper's git repository; it is not modified.")]
    out: Annotated[Path, Option(help="Folder for the drafts, in the format of EXP-Bench's tasks.")]
    config: ConfigOption = None


class BenchExpReview(CliCommand, to=bench, name="exp-review", work="evals.expbench.extraction:review_drafts"):
    """List drafts of questions, or accept or reject one. The benchmark uses only accepted drafts."""

    folder: Annotated[Path, Argument(metavar="DIR", help="Output folder of exp-extract.")]
    task: Annotated[str | None, Argument(metavar="ID/N", help="Draft; default: list all.")] = None
    accept: Annotated[bool, Option("--accept", help="Accept the draft.")] = False
    reject: Annotated[bool, Option("--reject", help="Reject the draft.")] = False


class JudgeAgreement(CliCommand, to=app, work="evals.agreement.command:run_judge_agreement", name="judge-agreement"):
    """Compare a judge's scores with human scores or known labels. Reports distances, rank correlation, bias and
    controls; with --invented, how well the judge separates invented from measured results (docs/judge.md)."""

    human: Annotated[
        Path,
        Argument(metavar="HUMAN.csv", help="Columns: reviewer_id, model_name, workshop_name, and one per dimension."),
    ]
    judge: Annotated[
        Path | None,
        Argument(
            metavar="JUDGE.csv", help="Columns: workshop_name, model_name, and the same dimensions; one row per paper."
        ),
    ] = None
    invented: Annotated[
        Path | None,
        Option(metavar="TRUTH", help="Labels (CSV or JSON): name, honest. The judge's file may then be the only one."),
    ] = None
    scale: Annotated[str, Option(metavar="LOWEST-HIGHEST", help="Range of the scores.")] = "1-10"
    dimensions: Annotated[
        str, Option(help="Dimensions to compare, such as clarity,overall; default: all in the human file.")
    ] = ""
    plot: Annotated[Path | None, Option(help="Also draw a plot (.png, .pdf or .svg).")] = None
    json: JsonOption = False
