"""`python -m evals.expbench OUT TASK [--set KEY=VALUE]...`: the answers to one task, as a process of its bench."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from labwright.agent.budget import models_of
from labwright.agent.campaign import CONFIG
from labwright.agent.cli.edge import INTERRUPTED, exit_code_of, say, traceback_saved
from labwright.agent.question import ANSWER, record_of
from labwright.agent.question import answer as work_on
from labwright.agent.settings import Settings, compose, from_assignments, override
from labwright.evals.expbench.answers import SCRIPT as HANDED_IN
from labwright.evals.expbench.answers import Answer, of_reply, read_answers
from labwright.evals.expbench.command import ORDER, Order, clean_name, folder_name, found_in
from labwright.evals.expbench.evaluating import Evaluated, Evaluation, keep, kept
from labwright.evals.expbench.judging import Verdicts, by_model, scripted
from labwright.evals.expbench.masking import InvalidTask, begin_history, masked_copy, repository_of
from labwright.evals.expbench.tasks import Task, read_tasks
from labwright.models.budget import BudgetSettings
from labwright.models.errors import BudgetSpent, ProviderDown
from labwright.models.roles.answering import ANSWER_DESIGN
from labwright.record.errors import ExpectedFailure
from labwright.record.log import MemoryLog
from labwright.record.nouns.question import Question
from labwright.sandbox.isolation.processes import kill_orphans
from labwright.sandbox.repository.mirror import Mirror
from labwright.stages.repository.question import SCRIPT


def main(words: list[str]) -> int:
    out, name = Path(words[0]), words[1]
    settings = compose(config=out / CONFIG, flags=from_assignments(word for word in words[2:] if word != "--set"))
    order = Order.model_validate_json((out / ORDER).read_bytes())
    task = next(one for one in read_tasks(Path(order.tasks)) if folder_name(one.name) == name)
    try:
        with traceback_saved(out):
            own = None if order.answers is not None else attempted(task, out, settings, order)
            asyncio.run(evaluate(out, task, settings, order, own))
    except (KeyboardInterrupt, ProviderDown) as error:
        say(str(error) or "interrupted")
        return INTERRUPTED
    except ExpectedFailure as error:
        say(str(error))
        return exit_code_of(error)
    return 0


def attempted(task: Task, out: Path, settings: Settings, order: Order) -> Answer:
    """Our own agent's answer, as `scientist run --task` gives it: a question on a masked copy without a history.

    Raises `ModelError`, `SandboxError`.
    """
    place = out / "tasks" / folder_name(task.name)
    masked, made = place / "masked", place / "attempt"
    if not (masked / ".git").is_dir():
        shutil.rmtree(masked, ignore_errors=True)
        repository = repository_of(task, Path(order.tasks), None if order.repos is None else Path(order.repos))
        try:
            masked_copy(task, repository, Mirror(place / "repository.git"), masked)
        except InvalidTask:  # told by the evaluation
            return Answer(missing=True)
        begin_history(masked)
    question = Question(
        question=task.question, method=task.method, instructions=task.instructions, minutes=order.minutes
    )
    try:
        state, files = work_on(question, masked, settings, made, listener=lambda event, state: None)
    except BudgetSpent:  # no answer within what it may take, as without one within the time
        return Answer(given=False)
    done = state.code.answered
    if SCRIPT in files:
        files = {name: text for name, text in files.items() if name != SCRIPT} | {HANDED_IN: files[SCRIPT]}
    told = (
        of_reply(json.loads((made / ANSWER).read_text(encoding="utf-8")))
        if done is not None and (done.conclusion)
        else Answer(given=False)
    )
    return told.model_copy(
        update={
            "files": files,
            "record": record_of(state),
            "usd": state.total.usd,
            "minutes": round(state.active_seconds / 60, 2),
        }
    )


async def evaluate(out: Path, task: Task, settings: Settings, order: Order, own: Answer | None = None) -> None:
    """Evaluate what is not evaluated yet of the answers to a task. Raises `ModelError`."""
    place = out / "tasks" / folder_name(task.name)
    kill_orphans(place / "work" / "cache")
    folder = Path(order.tasks)
    repository = repository_of(task, folder, None if order.repos is None else Path(order.repos))
    answers: Sequence[Answer] = read_answers(Path(order.answers)).get(task.name, ()) if order.answers else ()
    answers = answers if own is None else (own,)
    log = MemoryLog()
    if own is None:
        settings = within(settings, found_in(out, folder_name(task.name)))
    else:  # the part of the budget was for the answer; judging is told apart
        settings = settings.model_copy(update={"budget": BudgetSettings()})
    for answer in answers or (Answer(missing=True),):
        target = place / clean_name(answer.variant)
        known, before = kept(target), log.state.total.usd
        if known is not None and known.state not in ("failed", "not_begun"):
            continue
        found = await Evaluation(
            repository,
            Mirror(place / "repository.git"),
            settings.sandbox,
            partial(judge, settings, log),
            place / "work",
            order.execute_minutes * 60,
            order.steps,
        ).evaluate(task, answer)
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


async def judge(
    settings: Settings,
    log: MemoryLog,
    task: Task,
    answer: Answer,
    change: str,
    originals: str,
    arms: Sequence[str],
    metrics: Sequence[str],
) -> Verdicts:
    """By the model of the settings; by the file of answers where that is the offline one."""
    if settings.models.name == "offline":
        return scripted(task, answer)
    models = models_of(settings, log)
    told = answer.record.get("log", "")
    return await by_model(
        models.at(0, 0),
        models.name_of(ANSWER_DESIGN),
        task,
        answer,
        change=change,
        originals=originals,
        arms=arms,
        metrics=metrics,
        log=told if isinstance(told, str) else "",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
