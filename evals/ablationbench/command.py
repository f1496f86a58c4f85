"""`scientist bench ablation`: a planner of ablations on the papers of a benchmark, judged and scored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from pydantic import ValidationError

from labwright.agent.budget import check_priced, models_of
from labwright.agent.cli.checks import check_writable
from labwright.agent.cli.edge import DONE, FAILED, INTERRUPTED, say
from labwright.agent.cli.paper_commands import BenchAblation
from labwright.agent.cli.shown import answer, show
from labwright.agent.settings import Settings, compose
from labwright.evals.ablationbench.compared import JSON, compared, comparison_lines
from labwright.evals.ablationbench.data import TASKS, BenchPaper, Task, read_papers, tasks_in
from labwright.evals.ablationbench.judge_eval import JudgeEval, read_judge_eval
from labwright.evals.ablationbench.results import PaperResult
from labwright.evals.ablationbench.shown import bench_lines, planned_lines
from labwright.evals.ablationbench.stored import check_plans, stored_judges
from labwright.evals.ablationbench.table import as_csv
from labwright.evals.ablationbench.table import table as table_of
from labwright.evals.ablationbench.work import MODELS_PLAN, OpenModels, Work, work
from labwright.models.client import Models
from labwright.models.offline.assessing import CONFIGURE
from labwright.models.roles.ablations import PAPER_ABLATIONS
from labwright.models.settings import ModelSettings
from labwright.record.errors import WrongUse
from labwright.record.folder import write_file
from labwright.record.lock import hold
from labwright.record.log import EventLog, Recorder
from labwright.record.nouns.frozen import Frozen

LOG, BEGUN, CSV = "answers.db", "bench.json", "results.csv"
PLANNERS = (*MODELS_PLAN, "headings")


class Begun(Frozen):
    """What a bench was begun with; it goes on with the same alone."""

    data: str
    split: str
    planner: str
    plans: str
    answers: str
    model: str
    judges: tuple[str, ...]
    k: int | None
    controls: bool


def bench_ablation(asked: BenchAblation) -> int:
    if asked.compare:
        found = compared(asked.outs or ())
        answer(found, comparison_lines(found), json=asked.json)
        return DONE
    if asked.outs:
        raise WrongUse("folders of results are only read by --compare: name where to write with --out")
    if asked.data is None:
        raise WrongUse("Missing option '--data': give a folder with author/test.jsonl or reviewer/test.jsonl")
    tasks = tasks_of(asked.task, asked.data)
    papers = [
        paper
        for task in tasks
        for paper in read_papers(asked.data, task, asked.split, papers=asked.papers, only=asked.only or ())
    ]
    settings = compose(config=asked.config, flags=asked.flags)
    bench = _work(asked, tasks, settings)
    if bench.plans is not None:
        check_plans(bench.plans, bench.planner, papers)
    if asked.dry_run:
        show(planned_lines(bench, papers))
        return DONE
    check_out(asked.out)
    results = _results(asked, bench, papers, settings)
    k = {task: bench.most(task) for task in tasks}
    if results is None:
        return INTERRUPTED
    made = table_of(results, split=asked.split, planner=bench.planner, judges=bench.judges, k=k)
    write_file(asked.out / JSON, made.model_dump_json(indent=1) + "\n")
    write_file(asked.out / CSV, as_csv(made))
    calibration = _calibration(asked.calibration)
    answer(made, bench_lines(made, calibration), json=asked.json)
    if not asked.json:
        print(f"written to {asked.out / CSV} and {asked.out / JSON}")
    return DONE if made.complete else FAILED


def tasks_of(text: str, data: str) -> tuple[Task, ...]:
    """The tasks that are asked for, or those that there are tables of. Raises `WrongUse`."""
    named = [name.strip() for name in text.split(",") if name.strip()]
    if any(name not in TASKS for name in named):
        raise WrongUse(f"--task {text!r}: name author, reviewer, or both separated by a comma")
    return tuple(task for task in TASKS if task in named) or tasks_in(data)


def _work(asked: BenchAblation, tasks: Sequence[Task], settings: Settings) -> Work:
    """What the bench does. Raises `WrongUse`."""
    if asked.plans is None and asked.planner not in PLANNERS:
        raise WrongUse(
            f"--planner {asked.planner!r}: there are {', '.join(PLANNERS)}; with --plans DIR it names a "
            "folder of plans there"
        )
    if asked.answers is not None and asked.plans is None:
        raise WrongUse("--answers are about plans that are stored: give these with --plans DIR")
    for folder, option in ((asked.plans, "--plans"), (asked.answers, "--answers"), (asked.papers, "--papers")):
        if folder is not None and not folder.is_dir():
            raise WrongUse(f"{option} {folder} is no folder")
    planner = asked.planner
    if asked.plans is not None and planner in PLANNERS:
        planner = asked.plans.name
    work = Work(
        planner,
        judges_of(asked.judges, asked.answers, tasks, settings.models),
        asked.k,
        asked.plans,
        asked.answers,
        asked.controls,
    )
    if asked.plans is None and planner in MODELS_PLAN and _offline(settings.models):
        raise WrongUse(f"the offline model reads no papers; use --planner headings, or {CONFIGURE}")
    return work


def judges_of(named: str, answers: Path | None, tasks: Sequence[Task], models: ModelSettings) -> tuple[str, ...]:
    """The judges by name: those whose rows are stored, or models. Raises `WrongUse`."""
    judges = tuple(name.strip() for name in named.split(",") if name.strip())
    if len(set(judges)) < len(judges):
        raise WrongUse(f"--judges {named}: name each judge once")
    if answers is not None:
        there = stored_judges(answers, tasks)
        if not there or not set(judges) <= set(there):
            raise WrongUse(
                f"--answers {answers} has rows of {', '.join(there) or 'no judge'}: it needs TASK/JUDGE/, "
                "and --judges names some of them"
            )
        return judges or there
    if judges:
        return judges
    if _offline(models):
        raise WrongUse(
            f"a judge has to read: name models with --judges, give stored rows with --answers, or {CONFIGURE}"
        )
    return (models.candidates(PAPER_ABLATIONS)[0].name,)


def _offline(models: ModelSettings) -> bool:
    return models.candidates(PAPER_ABLATIONS)[0].name == "offline"


def opener(settings: Settings, own: str) -> OpenModels:
    """Opens the planner's models, and each judge as the only model of its settings; all within one budget."""

    def open_models(judge: str | None, log: Recorder) -> Models:
        models = settings.models if judge is None or judge == own else settings.models.alone(judge)
        return models_of(settings.model_copy(update={"models": models}), log)

    return open_models


def _results(
    asked: BenchAblation, bench: Work, papers: Sequence[BenchPaper], settings: Settings
) -> list[PaperResult] | None:
    """The results of the work, done in the folder of the bench; None where it was interrupted."""
    own = settings.models.candidates(PAPER_ABLATIONS)[0].name
    begun = Begun(
        data=asked.data or "",
        split=asked.split,
        planner=bench.planner,
        plans=str(asked.plans or ""),
        answers=str(asked.answers or ""),
        judges=bench.judges,
        k=bench.k,
        controls=bench.controls,
        model=own if asked.plans is None and bench.planner in MODELS_PLAN else "",
    )
    check_begun(asked.out, begun)
    check_priced(settings)
    asked.out.mkdir(parents=True, exist_ok=True)
    with hold(asked.out), closing(EventLog(asked.out / LOG)) as log:
        write_file(asked.out / BEGUN, begun.model_dump_json(indent=1) + "\n")
        try:
            return asyncio.run(work(bench, papers, asked.out, log, opener(settings, own)))
        except KeyboardInterrupt:
            say("interrupted (Ctrl-C); continue with the same command")
            return None


def check_out(out: Path) -> None:
    """Refuse what cannot be a folder of results. Raises `WrongUse`."""
    if out.exists() and not out.is_dir():
        raise WrongUse(f"--out {out} is a file: choose a folder")
    check_writable(out, "--out")


def check_begun(out: Path, begun: Begun) -> None:
    """Refuse a folder that was begun with something else. Raises `WrongUse`."""
    kept = out / BEGUN
    if not kept.exists():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise WrongUse(f"{out} is not empty and holds no bench of ablations: choose another --out")
        return
    try:
        before = Begun.model_validate_json(kept.read_bytes())
    except (OSError, ValidationError):
        raise WrongUse(f"{kept} cannot be read: choose another --out") from None
    other = [name for name in Begun.model_fields if getattr(before, name) != getattr(begun, name)]
    if other:
        was, now = (", ".join(f"{name} {getattr(one, name)!r}" for name in other) for one in (before, begun))
        raise WrongUse(f"{out} was begun with {was}, and now it is {now}: choose another --out")


def _calibration(path: Path | None) -> JudgeEval | None:
    if path is None:
        return None
    try:
        return read_judge_eval(path)
    except (OSError, ValueError):
        raise WrongUse(f"--calibration {path}: give the folder that scientist bench ablation-judge wrote") from None
