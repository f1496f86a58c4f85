"""The commands that evaluate scientists and judges, with their options and help (`agent.cli.commands` has the others).

Each command is implemented in a module that is imported only when the command is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer
from typer import Argument, Option

from labwright.agent.cli.commands import app
from labwright.agent.cli.options import MODEL_SETTINGS, CliCommand

bench = typer.Typer(help="Run benchmarks.")
app.add_typer(bench, name="bench")


class MissingAblations(
    CliCommand,
    to=app,
    name="missing-ablations",
    work="evals.ablationbench.missing_ablations:find_missing_ablations",
    options=(*MODEL_SETTINGS, "budget_usd", "budget_tokens", "config", "json"),
):
    """List the ablations that a paper reports and those it lacks. Each is listed with the claim that it tests and a
    quote; --plan compares your own list with the paper (docs/benchmarks.md)."""

    paper: Path = Argument(metavar="PAPER|RUN", help="Paper (PDF, LaTeX, Markdown or text), or a run.")
    view: Literal["reviewer", "author"] = Option(
        "reviewer", "--as", help="reviewer sees the whole paper, author only the method."
    )
    k: int = Option(5, "--k", min=1, max=30, help="Maximum number of ablations to propose.")
    until: str = Option("", metavar="SECTION", help="With --as author: last section that is shown.")
    plan: Path | None = Option(None, help="Your own list of ablations, as JSON lines (the format of --out).")
    out: Path | None = Option(None, help="Also write the missing ablations to this file, as JSON lines.")


class Compare(CliCommand, to=app, work="evals.paper_pairs:compare_runs", options=("model", "base_url", "json")):
    """Compare runs side by side. Shows nodes, seeds, claims, scores and cost; with --model, papers are also judged in
    pairs, in both orders."""

    runs: list[Path] = Argument(metavar="RUN RUN...", help="Folders of two or more runs.")


class BenchMlr(
    CliCommand,
    to=bench,
    name="mlr",
    work="evals.bench.command:run_mlr_bench",
    options=(*MODEL_SETTINGS, "workers", "gpus", "time_limit", "budget_usd", "config", "json"),
):
    """Run MLR-Bench tasks from idea to paper and judge each step. Exits 1 if a step is missing (docs/benchmarks.md)."""

    tasks: Path = Option(help="Folder with one .md file per task, such as MLR-Bench's tasks/.")
    only: list[str] | None = Option(
        None, metavar="NAME|PATTERN", help="Only these tasks, such as iclr2025_*; may be repeated."
    )
    steps: str = Option(
        "idea,proposal,experiment,paper", help="Steps to judge, also 'writing'; 'paper' alone judges end to end."
    )
    judges: str = Option("", metavar="MODEL,...", help="Judges, whose scores are averaged; default: the model.")
    out: Path = Option(Path("bench-mlr"), help="Output folder; an existing one is continued.")
    parallel: int | None = Option(None, min=1, help="Number of tasks run at the same time; default: --workers.")
    dry_run: bool = Option(False, "--dry-run", help="Only print which steps are done and which would be run.")


class BenchAblation(
    CliCommand,
    to=bench,
    name="ablation",
    work="evals.ablationbench.command:run_ablation_bench",
    options=(*MODEL_SETTINGS, "budget_usd", "budget_tokens", "config", "json"),
):
    """Score ablation plans against ablations that authors report or reviewers request. With --compare, compare
    planners. Exits 1 if a paper is not scored (docs/benchmarks.md)."""

    outs: list[Path] | None = Argument(None, metavar="[OUT OUT...]", help="With --compare: output folders to compare.")
    compare: bool = Option(False, "--compare", help="Compare finished benchmark runs paper by paper.")
    data: str | None = Option(None, metavar="DIR|hf:OWNER", help="Data set with author/test.jsonl, reviewer/...")
    papers: Path | None = Option(None, help="Folder that paper_path is relative to; default: --data.")
    task: str = Option("", metavar="author,reviewer", help="Tasks; default: those in --data.")
    split: str = Option("test", metavar="dev|test")
    plans: Path | None = Option(None, help="Stored plans: TASK/PLANNER/ID.jsonl, or fewer folder levels.")
    planner: str = Option(
        "lm", metavar="lm|agent|headings", help="Name of the planner, or of a planner's folder under --plans."
    )
    k: int | None = Option(None, "--k", min=1, max=40, help="Number of entries that are scored (author 5, reviewer 2).")
    judges: str = Option("", metavar="MODEL,...", help="Judges, which vote; default: the model.")
    answers: Path | None = Option(None, help="Stored judge answers: TASK/JUDGE/PLANNER/ID.jsonl.")
    controls: bool = Option(True, help="Also judge controls: gold, another paper's plan, and headings.")
    only: list[str] | None = Option(None, metavar="ID|PATTERN", help="Score only these papers; may be repeated.")
    out: Path = Option(Path("bench-ablation"), help="Output folder; an existing one is continued.")
    dry_run: bool = Option(False, "--dry-run", help="Only print the requests that would be sent.")


class BenchAblationJudge(
    CliCommand,
    to=bench,
    name="ablation-judge",
    work="evals.ablationbench.command:run_judge_eval",
    options=(*MODEL_SETTINGS, "budget_usd", "budget_tokens", "config", "json"),
):
    """Compare plan judges with human labels. Exits 1 if a judge did not answer for a plan."""

    data: str = Option(metavar="DIR|hf:OWNER", help="Data set with judge_eval/author.jsonl ...")
    papers: Path | None = Option(None, help="Folder that paper_path is relative to; default: --data.")
    task: str = Option("", metavar="author,reviewer", help="Tasks; default: those in --data.")
    plans: Path | None = Option(None, help="Labelled plans; default: plans/ in --data.")
    judges: str = Option("", metavar="MODEL,...", help="Judges; default: the model.")
    answers: Path | None = Option(None, help="Stored judge answers: TASK/JUDGE/PLANNER/ID.jsonl.")
    out: Path = Option(Path("bench-ablation-judge"), help="Output folder.")


class BenchExp(
    CliCommand,
    to=bench,
    name="exp",
    work="evals.expbench.command:run_exp_bench",
    options=(*MODEL_SETTINGS, "workers", "gpus", "budget_usd", "config", "json"),
):
    """Judge answers to EXP-Bench's research questions step by step. Exits 1 if an answer could not be judged
    (docs/benchmarks.md)."""

    tasks: Path = Option(help="Folder of EXP-Bench's tasks, with papers.jsonl and needs.json.")
    answers: Path | None = Option(None, help="Answers of any agent (JSON) to judge: TASK, VARIANT, files, answer.")
    repos: Path | None = Option(None, help="Folder of the repositories (folders, bare or bundles); nothing is fetched.")
    only: list[str] | None = Option(
        None, metavar="ID|ID/N|type=N|category=X", help="Only these tasks; may be repeated."
    )
    steps: str = Option("design,implement,execute,conclude", help="Steps to judge.")
    minutes: float = Option(40.0, min=0.1, help="Time limit per answer, in minutes.")
    execute_minutes: float = Option(60.0, min=0.01, help="Time limit of the answer's script, in minutes.")
    anyway: bool = Option(False, "--anyway", help="Include tasks whose requirements this machine may not meet.")
    out: Path = Option(Path("bench-exp"), help="Output folder; an existing one is continued.")
    parallel: int | None = Option(None, min=1, help="Number of tasks run at the same time; default: --workers.")
    dry_run: bool = Option(False, "--dry-run", help="Only print which tasks can be run, and why others cannot.")


class BenchReplication(
    CliCommand,
    to=bench,
    name="replication",
    work="evals.replication.command:run_replication",
    options=(*MODEL_SETTINGS, "budget_tokens", "budget_usd", "config"),
):
    """Let players answer questions with a known answer, and count the claims that hold on fresh samples: a question
    study of this program, and a bare loop of the same tools (docs/benchmarks.md)."""

    questions: Path = Argument(metavar="DIR", help="Folder of questions, each with its hidden truth.")
    players: str = Option("study,loop", help="Players: study, loop.")
    only: list[str] | None = Option(None, metavar="NAME", help="Only these questions; may be repeated.")
    samples: int = Option(100, min=2, help="Fresh samples of each question.")
    score: bool = Option(True, help="Read the conclusions and score them when all players are done.")
    out: Path = Option(Path("bench-replication"), help="Output folder; an existing one is continued.")


class BenchExpExtract(
    CliCommand,
    to=bench,
    name="exp-extract",
    work="evals.expbench.extraction:run_extraction",
    options=(*MODEL_SETTINGS, "budget_usd", "config"),
):
    """Draft research questions from a paper and its repository. Exits 5 if a draft has an error."""

    paper: Path = Option(help="Paper (PDF, LaTeX, Markdown or text).")
    code: Path = Option(..., "--code", metavar="DIR", help="The paper's git repository; it is not modified.")
    out: Path = Option(help="Folder for the drafts, in the format of EXP-Bench's tasks.")


class BenchExpReview(CliCommand, to=bench, name="exp-review", work="evals.expbench.extraction:review_drafts"):
    """List drafts of questions, or accept or reject one. The benchmark uses only accepted drafts."""

    folder: Path = Argument(metavar="DIR", help="Output folder of exp-extract.")
    task: str | None = Argument(None, metavar="ID/N", help="Draft; default: list all.")
    accept: bool = Option(False, "--accept", help="Accept the draft.")
    reject: bool = Option(False, "--reject", help="Reject the draft.")


class JudgeAgreement(
    CliCommand, to=app, work="evals.agreement.command:run_judge_agreement", options=("json",), name="judge-agreement"
):
    """Compare a judge's scores with human scores or known labels. Reports distances, rank correlation, bias and
    controls; with --invented, how well the judge separates invented from measured results (docs/judge.md)."""

    human: Path = Argument(
        metavar="HUMAN.csv", help="Columns: reviewer_id, model_name, workshop_name, and one per dimension."
    )
    judge: Path | None = Argument(
        None,
        metavar="JUDGE.csv",
        help="Columns: workshop_name, model_name, and the same dimensions; one row per paper.",
    )
    invented: Path | None = Option(
        None, metavar="TRUTH", help="Labels (CSV or JSON): name, honest. The judge's file may then be the only one."
    )
    scale: str = Option("1-10", metavar="LOWEST-HIGHEST", help="Range of the scores.")
    dimensions: str = Option("", help="Dimensions to compare, such as clarity,overall; default: all in the human file.")
