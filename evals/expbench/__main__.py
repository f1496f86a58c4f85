"""`python -m evals.expbench OUT TASK [--set KEY=VALUE]...`: the answers to one task, as a process of its bench."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from agent.budget import models_of
from agent.campaign import CONFIG
from agent.cli.edge import INTERRUPTED, exit_code_of, say, traceback_saved
from agent.settings import Settings, compose, from_assignments, override
from evals.expbench.answers import Answer, read_answers
from evals.expbench.command import ORDER, Order, clean_name, folder_name, found_in
from evals.expbench.evaluating import Evaluated, Evaluation, keep, kept
from evals.expbench.judging import Verdicts, by_model, scripted
from evals.expbench.masking import repository_of
from evals.expbench.tasks import Task, read_tasks
from models.errors import BudgetSpent
from models.roles.answering import ANSWER_DESIGN
from record.errors import ExpectedFailure
from record.log import MemoryLog
from sandbox.isolation.processes import kill_orphans
from sandbox.repository.mirror import Mirror


def main(words: list[str]) -> int:
    out, name = Path(words[0]), words[1]
    settings = compose(config=out / CONFIG, flags=from_assignments(word for word in words[2:] if word != "--set"))
    order = Order.model_validate_json((out / ORDER).read_bytes())
    task = next(one for one in read_tasks(Path(order.tasks)) if folder_name(one.name) == name)
    try:
        with traceback_saved(out):
            asyncio.run(evaluate(out, task, settings, order))
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except ExpectedFailure as error:
        say(str(error))
        return exit_code_of(error)
    return 0


async def evaluate(out: Path, task: Task, settings: Settings, order: Order) -> None:
    """Evaluate what is not evaluated yet of the answers to a task. Raises `ModelError`."""
    place = out / "tasks" / folder_name(task.name)
    kill_orphans(place / "work" / "cache")
    folder = Path(order.tasks)
    repository = repository_of(task, folder, None if order.repos is None else Path(order.repos))
    answers: Sequence[Answer] = read_answers(Path(order.answers)).get(task.name, ()) if order.answers else ()
    log, settings = MemoryLog(), within(settings, found_in(out, folder_name(task.name)))
    for answer in answers or (Answer(missing=True),):
        target = place / clean_name(answer.variant)
        known, before = kept(target), log.state.total.usd
        if known is not None and known.state not in ("failed", "not_begun"):
            continue
        found = await Evaluation(
            repository, Mirror(place / "repository.git"), settings.sandbox, partial(judge, settings, log),
            place / "work", order.execute_minutes * 60, order.steps).evaluate(task, answer)
        keep(target, found.model_copy(update={"judging_usd": log.state.total.usd - before}))


def within(settings: Settings, known: Sequence[Evaluated]) -> Settings:
    """The settings with what is left of the task's budget. Raises `BudgetSpent`."""
    cap = settings.budget.usd
    if cap is None:
        return settings
    left = cap - sum(one.judging_usd for one in known)
    if left <= 0:
        raise BudgetSpent(f"the task's part of the budget, ${cap:.2f}, is used up")
    return override(settings.model_dump(mode="json"), {"budget.usd": left})


async def judge(settings: Settings, log: MemoryLog, task: Task, answer: Answer, change: str, originals: str,
                arms: Sequence[str], metrics: Sequence[str]) -> Verdicts:
    """By the model of the settings; by the file of answers where that is the offline one."""
    if settings.models.name == "offline":
        return scripted(task, answer)
    models = models_of(settings, log)
    told = answer.record.get("log", "")
    return await by_model(models.at(0, 0), models.name_of(ANSWER_DESIGN), task, answer, change=change,
                          originals=originals, arms=arms, metrics=metrics, log=told if isinstance(told, str) else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
