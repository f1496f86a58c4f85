"""`scientist bench exp`: research questions on repositories, each answer judged step by step; table, CSV and JSON."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from labwright.agent.budget import open_model
from labwright.agent.campaign import Campaign, last_words, limits_of, prepare
from labwright.agent.cli.campaign import terms_of
from labwright.agent.cli.checks import check_isolation, check_space, check_writable
from labwright.agent.cli.edge import DONE, FAILED, INTERRUPTED, say
from labwright.agent.cli.paper_commands import BenchExp
from labwright.agent.cli.shown import line, show
from labwright.agent.cli.shown import table as lines_in_columns
from labwright.agent.settings import Settings, compose
from labwright.evals.expbench.answers import Answer, read_answers
from labwright.evals.expbench.evaluating import STEPS, Evaluated, Steps, kept
from labwright.evals.expbench.masking import NoRepository, repository_of
from labwright.evals.expbench.page import page
from labwright.evals.expbench.scores import NAMES, percent, scores
from labwright.evals.expbench.table import ExpTable, as_csv, by_group, of_all, table
from labwright.evals.expbench.tasks import Task, read_tasks
from labwright.inspector.text import plain, short
from labwright.models.roles.answering import ANSWER_DESIGN
from labwright.record.campaign import CampaignBegan, CampaignEvent, Entry, Queued, RunEnded, Share
from labwright.record.errors import WrongUse
from labwright.record.folder import write_file
from labwright.record.nouns.frozen import Frozen
from labwright.sandbox.gpu_leases import open_leases
from labwright.sandbox.gpus import cuda_visible_devices

JSON, CSV, PAGE, ORDER = "results.json", "results.csv", "results.html", "order.json"


class Order(Frozen):
    """What a bench was asked for; one folder has one order."""

    tasks: str
    repos: str | None
    answers: str | None
    steps: tuple[Steps, ...]
    minutes: float
    execute_minutes: float
    monitor: str
    model: str
    judge: str

    @property
    def same(self) -> tuple[object, ...]:
        """What may not change when a bench is gone on with."""
        return self.answers, self.steps, self.execute_minutes, self.monitor, self.model, self.judge


def bench_exp(asked: BenchExp) -> int:
    out = asked.out.absolute()
    tasks = read_tasks(asked.tasks, tuple(asked.only or ()))
    answers = None if asked.answers is None else read_answers(asked.answers)
    settings = compose(config=asked.config, flags=asked.flags)
    check_isolation(settings.sandbox)
    order = order_of(asked, settings, answers)
    skipped = {
        task.name: why
        for task in tasks
        if (why := "" if asked.anyway else lacking(task, settings) or without_repository(task, asked))
    }
    ready = [task.name for task in tasks if task.name not in skipped]
    if asked.dry_run:
        show_plan(tasks, skipped, order)
        return DONE
    check_writable(out, "--out")
    check_space(settings, out)
    _check_same(out, order)
    terms = terms_of(settings, parallel=asked.parallel, of="tasks")
    prepare(out, settings, terms)
    write_file(out / ORDER, order.model_dump_json(indent=1))
    console = Console(quiet=asked.json)

    def told(event: CampaignEvent) -> None:
        for one in found_in(out, event.name) if isinstance(event, RunEnded) else ():
            console.print(as_line(one), soft_wrap=True, markup=False, highlight=False)

    to_do = [name for name in ready if not complete(found_in(out, folder_name(name)), answers, name)]
    state = Campaign(out, ExpTasks(out), told=told, only=[folder_name(name) for name in to_do]).work(
        (CampaignBegan(terms=terms, version=version("labwright")), *(Queued(name=folder_name(name)) for name in to_do))
    )
    evaluated = evaluated_of(out, tasks, skipped)
    results = results_of(evaluated, tasks, order)
    write_file(out / JSON, results.model_dump_json(indent=1) + "\n")
    write_file(out / CSV, as_csv(results))
    write_file(out / PAGE, page(results, evaluated, {task.name: task for task in tasks}))
    if asked.json:
        print(results.model_dump_json(indent=1))
    else:
        show_results(results)
        print(f"written to {out / CSV}, {out / JSON} and {out / PAGE}")
    standings = {state.entries[folder_name(name)].standing for name in to_do}
    if standings & {"interrupted", "failed", "waiting"}:
        say("interrupted; continue with the same command")
        return INTERRUPTED
    return DONE if results.complete else FAILED


def order_of(asked: BenchExp, settings: Settings, answers: Mapping[str, Sequence[Answer]] | None) -> Order:
    """Raises `WrongUse`."""
    named = [name.strip() for name in asked.steps.split(",") if name.strip()]
    if not named or any(name not in STEPS for name in named):
        raise WrongUse(f"--steps {asked.steps!r}: name one or more of {', '.join(STEPS)}, separated by commas")
    scripted = settings.models.name == "offline"
    if scripted and answers is None:
        raise WrongUse(
            "the offline model answers no questions on repositories: configure another, as with --model, or "
            "give --answers FILE"
        )
    if scripted and any(one.judge is None and one.given for each in (answers or {}).values() for one in each):
        raise WrongUse(
            "the answers hold no verdicts, and the offline model judges none: configure a model, as with --model"
        )
    judge = "the file of answers" if scripted else open_model(settings.models).name_of(ANSWER_DESIGN)
    return Order(
        tasks=str(asked.tasks.absolute()),
        repos=None if asked.repos is None else str(asked.repos.absolute()),
        answers=None if asked.answers is None else str(asked.answers.absolute()),
        steps=tuple(step for step in STEPS if step in named),
        minutes=asked.minutes,
        execute_minutes=asked.execute_minutes,
        monitor=asked.monitor,
        judge=judge,
        model="answers" if asked.answers is not None else settings.models.called,
    )


def _check_same(out: Path, order: Order) -> None:
    if (out / ORDER).exists() and Order.model_validate_json((out / ORDER).read_bytes()).same != order.same:
        raise WrongUse(f"{out} was begun with other answers, steps, limits or models: choose another --out")


# --- what cannot be set here ----------------------------------------------------------------------------------------


def lacking(task: Task, settings: Settings) -> str:
    """What a task needs and this machine has not, in words; also where nobody knows what it needs."""
    needs = task.needs
    if needs is None:
        return "nobody said what it needs (needs.json); --anyway sets it all the same"
    gpus = open_leases(settings.sandbox, cuda_visible_devices()).capacity or 0
    unknown = [name for name in ("gpus", "network", "data") if getattr(needs, name) is None]
    keys = [key for key in needs.keys if not os.environ.get(key)]
    why = [f"needs {needs.gpus} GPUs, has {gpus}"] if (needs.gpus or 0) > gpus else []
    why += [f"needs the keys {', '.join(keys)}"] if keys else []
    why += ["needs a network"] if needs.network else []
    why += [f"needs the data {', '.join(needs.data)}"] if needs.data else []
    why += [f"nobody knows what it needs of {', '.join(unknown)}"] if unknown else []
    return "; ".join(why)


def without_repository(task: Task, asked: BenchExp) -> str:
    try:
        repository_of(task, asked.tasks, asked.repos)
    except NoRepository as error:
        return str(error)
    return ""


# --- the work -------------------------------------------------------------------------------------------------------


def folder_name(task: str) -> str:
    return task.replace("/", "_")


class ExpTasks:
    """The tasks of the bench as jobs of a campaign: each is a process that takes its answers one after the other."""

    def __init__(self, out: Path, program: tuple[str, ...] = ()) -> None:
        self.out, self.program = out, program or (sys.executable, "-m", "labwright.evals.expbench")

    def command(self, entry: Entry, share: Share) -> list[str]:
        return [*self.program, str(self.out), entry.name, *limits_of(share)]

    def ended(self, entry: Entry, returned: int | None) -> RunEnded:
        spent = {"usd": sum(one.judging_usd for one in found_in(self.out, entry.name))}
        code = returned if returned in (0, 1, 2, 130) else None
        if returned is None and all_there(self.out, entry.name):
            code = 0
        return RunEnded(
            name=entry.name, code=code, spent=spent, why="" if code == 0 else last_words(self.out, entry.name)
        )


def found_in(out: Path, name: str) -> list[Evaluated]:
    """What was kept of a task's answers, by variant."""
    return [one for folder in sorted((out / "tasks" / name).glob("*")) if (one := kept(folder)) is not None]


def all_there(out: Path, name: str) -> bool:
    order = Order.model_validate_json((out / ORDER).read_bytes())
    answers = read_answers(Path(order.answers)) if order.answers is not None else {}
    task = next((task for task in answers if folder_name(task) == name), name)
    return complete(found_in(out, name), answers, task)


def complete(found: Sequence[Evaluated], answers: Mapping[str, Sequence[Answer]] | None, task: str) -> bool:
    wanted = {one.variant for one in (answers or {}).get(task, ())}
    done = {one.variant for one in found if one.state not in ("failed", "not_begun")}
    return wanted <= done and bool(wanted or found)


def evaluated_of(out: Path, tasks: Sequence[Task], skipped: Mapping[str, str]) -> list[Evaluated]:
    """Every answer as it was kept, and a line for each task without."""
    found: list[Evaluated] = []
    for task in tasks:
        if task.name in skipped:
            found.append(Evaluated(task=task.name, state="skipped", why=skipped[task.name]))
        else:
            found += found_in(out, folder_name(task.name)) or [Evaluated(task=task.name, state="not_begun")]
    return found


def results_of(found: Sequence[Evaluated], tasks: Sequence[Task], order: Order) -> ExpTable:
    return table(
        found,
        {task.name: task for task in tasks},
        model=order.model,
        judge=order.judge,
        steps=order.steps,
        by_anchor=order.monitor == "anchor",
    )


# --- what is shown --------------------------------------------------------------------------------------------------


def as_line(one: Evaluated) -> str:
    head = f"{one.task}{f', {one.variant}' if one.variant else ''}: "
    found = scores(one.judged())
    told = ", ".join(
        f"{name} {percent(value):g} %" if name in ("D", "I") else f"{name} {int(value)}"
        for name in NAMES
        if (value := found[name]) is not None
    )
    why = "; ".join(one.reasons) or one.why
    state = "violation" if any(one.flags.values()) else one.state
    return plain(head + state + (f" ({short(why, 200)})" if why else "") + (f": {told}" if told else ""))


def show_results(found: ExpTable) -> None:
    show(
        [
            lines_in_columns("score", "%", "95 %", "tasks", "anchor", rows=of_all(found)),
            line(""),
            lines_in_columns("", "n", *NAMES, "bound", rows=by_group(found)),
        ]
    )
    counted = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in found.counts.items())
    show(
        [
            line(f"answers: {counted}; judged by {found.judge}"),
            line(
                "past the monitor, of those that were executed or stopped: "
                + ", ".join(f"{name} {value}" for name, value in found.ladder.items())
            ),
        ]
    )
    for state, each in found.not_counted.items():
        show([line(f"{state.replace('_', ' ')}, not counted: {short('; '.join(each), 400)}", "yellow")])


def show_plan(tasks: Sequence[Task], skipped: Mapping[str, str], order: Order) -> None:
    kinds = ", ".join(f"{sum(task.type == kind for task in tasks)} of type {kind}" for kind in (1, 2, 3))
    show(
        [
            line(
                f"{len(tasks)} tasks ({kinds}), {len(skipped)} skipped; an answer may take {order.minutes:g} minutes, "
                f"its script {order.execute_minutes:g}"
            ),
            *(line(f"{name}: skipped: {why}", "yellow") for name, why in skipped.items()),
        ]
    )


def clean_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text) or "answer"
