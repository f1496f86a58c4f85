"""`scientist bench ablation`: a planner of ablations on the papers of a benchmark, judged and scored."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from pydantic import ValidationError
from rich.table import Table
from rich.text import Text

from agent.budget import check_priced, models_of
from agent.cli.checks import check_writable
from agent.cli.edge import DONE, FAILED, INTERRUPTED, say
from agent.cli.paper_commands import BenchAblation
from agent.cli.shown import answer, line, show, table
from agent.settings import Settings, compose
from evals.ablationbench.data import TASKS, BenchPaper, Task, read_papers, tasks_in
from evals.ablationbench.judge_eval import MAJORITY, JudgeEval, JudgeTable, corrected, read_judge_eval
from evals.ablationbench.means import Mean, Paired, paired
from evals.ablationbench.table import FIGURES, BenchTable, TaskTable, as_csv
from evals.ablationbench.table import table as table_of
from evals.ablationbench.work import MODELS_PLAN, OpenModels, PaperResult, Work, check_plans, stored_judges, work
from inspector.text import dollars, duration, plain
from models.client import Models
from models.offline.assessing import CONFIGURE
from models.roles.ablations import PAPER_ABLATIONS
from models.settings import ModelSettings
from record.claims.means import holm
from record.errors import WrongUse
from record.folder import write_file
from record.lock import hold
from record.log import EventLog, Recorder
from record.nouns.frozen import Frozen

LOG, BEGUN, JSON, CSV = "answers.db", "bench.json", "results.json", "results.csv"
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


class Comparison(Frozen):
    """Planners on the papers that both have, each pair of them; p adjusted after Holm over all pairs of a figure."""

    planners: tuple[str, ...]
    paired: tuple[Paired, ...]


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
    papers = [paper for task in tasks
              for paper in read_papers(asked.data, task, asked.split, papers=asked.papers, only=asked.only or ())]
    settings = compose(config=asked.config, flags=asked.flags)
    bench = _work(asked, tasks, settings)
    if bench.plans is not None:
        check_plans(bench.plans, bench.planner, papers)
    if asked.dry_run:
        show(_planned(bench, papers))
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
        raise WrongUse(f"--planner {asked.planner!r}: there are {', '.join(PLANNERS)}; with --plans DIR it names a "
                       "folder of plans there")
    if asked.answers is not None and asked.plans is None:
        raise WrongUse("--answers are about plans that are stored: give these with --plans DIR")
    for folder, option in ((asked.plans, "--plans"), (asked.answers, "--answers"), (asked.papers, "--papers")):
        if folder is not None and not folder.is_dir():
            raise WrongUse(f"{option} {folder} is no folder")
    planner = asked.planner
    if asked.plans is not None and planner in PLANNERS:
        planner = asked.plans.name
    work = Work(planner, judges_of(asked.judges, asked.answers, tasks, settings.models), asked.k, asked.plans,
                asked.answers, asked.controls)
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
            raise WrongUse(f"--answers {answers} has rows of {', '.join(there) or 'no judge'}: it needs TASK/JUDGE/, "
                           "and --judges names some of them")
        return judges or there
    if judges:
        return judges
    if _offline(models):
        raise WrongUse("a judge has to read: name models with --judges, give stored rows with --answers, or "
                       f"{CONFIGURE}")
    return (models.candidates(PAPER_ABLATIONS)[0].name,)


def _offline(models: ModelSettings) -> bool:
    return models.candidates(PAPER_ABLATIONS)[0].name == "offline"


def opener(settings: Settings, own: str) -> OpenModels:
    """Opens the planner's models, and each judge as the only model of its settings; all within one budget."""

    def open_models(judge: str | None, log: Recorder) -> Models:
        models = settings.models if judge is None or judge == own else settings.models.alone(judge)
        return models_of(settings.model_copy(update={"models": models}), log)

    return open_models


def _results(asked: BenchAblation, bench: Work, papers: Sequence[BenchPaper], settings: Settings) -> (
        list[PaperResult] | None):
    """The results of the work, done in the folder of the bench; None where it was interrupted."""
    own = settings.models.candidates(PAPER_ABLATIONS)[0].name
    begun = Begun(data=asked.data or "", split=asked.split, planner=bench.planner, plans=str(asked.plans or ""),
                  answers=str(asked.answers or ""), judges=bench.judges, k=bench.k, controls=bench.controls,
                  model=own if asked.plans is None and bench.planner in MODELS_PLAN else "")
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
    check_writable(out)


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


# --- comparing planners -----------------------------------------------------------------------------------------------


def compared(outs: Sequence[Path]) -> Comparison:
    """Every pair of benches on the papers that both scored. Raises `WrongUse`."""
    if len(outs) < 2:
        raise WrongUse("--compare needs the folders of two benches or more")
    tables = [(_name(out, outs), _read(out)) for out in outs]
    found: list[Paired] = []
    for task, figure in itertools.product(TASKS, ("precision", "recall", "f1")):
        family = [one for (first, a), (second, b) in itertools.combinations(tables, 2)
                  if (one := _pair(first, a, second, b, task, figure)) is not None]
        adjusted = holm([one.p for one in family])
        found += [one.model_copy(update={"adjusted": p}) for one, p in zip(family, adjusted, strict=True)]
    if not found:
        raise WrongUse("these benches have no paper in common that each of two scored")
    return Comparison(planners=tuple(name for name, _ in tables), paired=tuple(found))


def _name(out: Path, outs: Sequence[Path]) -> str:
    return out.name if sum(one.name == out.name for one in outs) == 1 else str(out)


def _read(out: Path) -> BenchTable:
    try:
        return BenchTable.model_validate_json((out / JSON).read_bytes())
    except (OSError, ValidationError):
        raise WrongUse(f"{out} holds no results of scientist bench ablation: run the bench to its end first") from None


def _pair(first: str, a: BenchTable, second: str, b: BenchTable, task: Task, figure: str) -> Paired | None:
    scores = [{row.id: row.figures[figure] for row in one.rows if row.task == task and figure in row.figures}
              for one in (a, b)]
    common = [id for id in scores[0] if id in scores[1]]
    if not common:
        return None
    return paired(first, second, f"{task} {figure}", [(scores[0][id], scores[1][id]) for id in common])


# --- what is shown ----------------------------------------------------------------------------------------------------


def bench_lines(found: BenchTable, calibration: JudgeEval | None = None) -> Iterator[Text | Table]:
    """Figures of each task with intervals over papers, judges, controls and costs."""
    for one in found.tasks:
        yield Text(f"{one.task}@{found.k[one.task]}, {found.split}: {plain(found.planner)}", style="bold")
        yield line(_counts(one))
        judge = _calibrated(one, found, calibration)
        yield _figures(one, judge)
        yield from _judges(one, judge)
        if one.controls:
            yield table("control", "papers", "precision", "recall", "F1", rows=(
                (NAMES[control.what], str(control.papers), *(
                    f"{control.figures[name].mean:.3f}" if name in control.figures else "-"
                    for name in ("precision", "recall", "f1"))) for control in one.controls))
        yield from _costs(found, one)
        short = [row for row in found.rows if row.task == one.task and row.why and row.state != "not scorable"]
        yield from (line(f"{row.id}: {row.why[:300]}", "yellow", label=f"{row.state}: ") for row in short[:12])
        yield from (line(f"{row.id}: {', '.join(row.repeats)}", "dim", label="repeated entries: ")
                    for row in found.rows if row.task == one.task and row.repeats)
    if found.overall:
        yield line("both tasks: " + ", ".join(f"{name} {value:.3f}" for name, value in found.overall.items()), "bold")


NAMES = {"plan": "the plan", "gold": "gold as the plan", "other": "another paper's plan",
         "headings": "each named part taken out"}


def _counts(one: TaskTable) -> str:
    rest = [(one.not_scorable, "not scorable"), (one.not_judged, "not judged"), (one.no_plan, "without a plan"),
            (one.empty_plans, "of them with an empty plan")]
    return f"{one.scored} of {one.papers} papers scored" + "".join(f", {count} {what}" for count, what in rest if count)


def _calibrated(one: TaskTable, found: BenchTable, calibration: JudgeEval | None) -> JudgeTable | None:
    """The figures against people of whoever judged: the majority, or the one judge."""
    return None if calibration is None else calibration.of(
        one.task, MAJORITY if len(found.judges) > 1 else "".join(found.judges))


def _figures(one: TaskTable, judge: JudgeTable | None) -> Table:
    share = {"author": "recall", "reviewer": "precision_plan"}[one.task]  # what items of labelled plans are shares of
    rows = list[tuple[str, ...]]()
    for name in FIGURES[one.task]:
        if (mean := one.figures.get(name)) is not None:
            value = corrected(mean.mean, judge) if judge is not None and name == share else None
            rows.append((name, f"{mean.mean:.3f}", _interval(mean), "-" if mean.sd is None else f"{mean.sd:.3f}",
                         "" if value is None else f"{value:.3f}"))
    return table("figure", "mean", "95 % interval", "sd", "" if judge is None else "by the judge's errors", rows=rows)


def _interval(mean: Mean) -> str:
    return "-" if mean.low is None or mean.high is None else f"{mean.low:.3f} to {mean.high:.3f}"


def _judges(one: TaskTable, judge: JudgeTable | None) -> Iterator[Text | Table]:
    if judge is not None and judge.kappa.value is not None:
        yield line(f"kappa of {judge.judge} with people, on labelled plans: {judge.kappa.value:.3f}")
    if len(one.judges) > 1:
        yield table("judge", "papers", "F1 alone", "kappa with the majority", rows=(
            (each.judge, str(each.papers), "-" if each.f1 is None else f"{each.f1.mean:.3f}",
             "-" if each.kappa is None else f"{each.kappa:.3f}") for each in one.judges))
        yield line("kappa between judges: " + ("-" if one.kappa is None else f"{one.kappa:.3f}"))
    elif judge is None:
        yield line("one judge: how far it is to be believed, bench ablation-judge tells", "dim")


def _costs(found: BenchTable, one: TaskTable) -> Iterator[Text]:
    rows = [row for row in found.rows if row.task == one.task]
    for who in ("planner", "judge"):
        calls, tokens, usd, seconds = (sum(getattr(row, f"{who}_{what}") for row in rows)
                                       for what in ("calls", "tokens", "usd", "seconds"))
        if calls:
            unpriced = sum(row.unpriced for row in rows)
            yield line(f"{who}: {calls} calls, {tokens} tokens, {dollars(usd, unpriced)}, {duration(seconds)}; a paper "
                       f"{dollars(usd / len(rows), 0)}, {duration(seconds / len(rows))}", "dim")


def _planned(bench: Work, papers: Sequence[BenchPaper]) -> Iterator[Text]:
    """What would be asked, at most."""
    for task in TASKS:
        here = [paper for paper in papers if paper.task == task]
        if here:
            scorable = sum(bool(paper.wanted) for paper in here)
            plans = len(here) if bench.plans is None and bench.planner in MODELS_PLAN else 0
            kinds = 1 + (3 if bench.controls else 0)
            calls = 0 if bench.answers is not None else scorable * len(bench.judges) * (
                kinds + (task == "reviewer"))
            yield line(f"{task}: {len(here)} papers, {scorable} of them scorable; at most {plans} plans to ask for"
                       f"{' (up to four questions each)' if bench.planner == 'agent' and plans else ''}, and {calls} "
                       f"questions to {', '.join(bench.judges)}")


def comparison_lines(found: Comparison) -> Iterator[Text | Table]:
    yield table("figure", "first", "second", "n", "difference", "95 % interval", "p (Holm)", rows=(
        (one.figure, one.first, one.second, str(one.difference.n), f"{one.difference.mean:+.3f}",
         _interval(one.difference), "-" if one.adjusted is None else f"{one.adjusted:.3f}") for one in found.paired))
    yield line("difference: first minus second, by paper; intervals resample papers, p by paired t tests", "dim")
