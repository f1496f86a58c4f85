"""`python -m labwright.evals.expbench OUT TASK [--set KEY=VALUE]...`: answer one task in its own process."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from labwright.agent.campaign import CONFIG_FILE
from labwright.agent.cli.errors import INTERRUPTED, LIMITED
from labwright.agent.cli.run import build_question_idea
from labwright.agent.forecast import open_budgeted_models
from labwright.agent.run import start_or_resume
from labwright.agent.settings import Settings, compose_settings, override_settings, settings_from_assignments
from labwright.evals.expbench.answer_judge import AnswerVerdicts, JudgedWork, judge_by_model, judge_by_script
from labwright.evals.expbench.answers import SCRIPT_FILE as SUBMITTED_SCRIPT_FILE
from labwright.evals.expbench.answers import ExpTask, SubmittedAnswer, answer_from_reply, read_answers, read_tasks
from labwright.evals.expbench.command import ORDER_FILE, ExpBenchConfig, clean_name, folder_name, read_evaluated
from labwright.evals.expbench.evaluation import EVALUATED_FILE, Evaluated, Evaluation
from labwright.evals.expbench.roles import ANSWER_DESIGN
from labwright.evals.expbench.violations import InvalidTask, copy_masked, create_fresh_history, find_repository
from labwright.evals.item_loop import read_stored, run_item, store_result
from labwright.models.budget import BudgetSettings
from labwright.models.errors import BudgetSpent, ProviderDown
from labwright.record.claims.question_results import list_experiment_nodes
from labwright.record.event_log import MemoryLog, read_state
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.idea import ResearchQuestion
from labwright.sandbox.isolation.processes import kill_orphans
from labwright.sandbox.repository.git_mirror import GitMirror
from labwright.stages.repository.question import ANSWER_FILE, RESULTS_FILE, SCRIPT_FILE, read_changed_files


def main(words: list[str]) -> int:
    out, name = Path(words[0]), words[1]
    settings = compose_settings(
        config=out / CONFIG_FILE, flags=settings_from_assignments(word for word in words[2:] if word != "--set")
    )
    order = ExpBenchConfig.model_validate_json((out / ORDER_FILE).read_bytes())
    task = next(one for one in read_tasks(Path(order.tasks)) if folder_name(one.name) == name)

    def work() -> None:
        own = None if order.answers is not None else attempt_task(task, out, settings, order)
        asyncio.run(evaluate_answers(out, task, settings, order, own))

    return run_item(work, out)


def attempt_task(task: ExpTask, out: Path, settings: Settings, order: ExpBenchConfig) -> SubmittedAnswer:
    """Return this project's answer, as given by `scientist run --task`: a question on a masked copy without history.

    Raises `ModelError`, `SandboxError`.
    """
    place = out / "tasks" / folder_name(task.name)
    masked, made = place / "masked", place / "attempt"
    if not (masked / ".git").is_dir():
        shutil.rmtree(masked, ignore_errors=True)
        repository = find_repository(task, Path(order.tasks), None if order.repos is None else Path(order.repos))
        try:
            copy_masked(task, repository, GitMirror(place / "repository.git"), masked)
        except InvalidTask:  # reported by the evaluation
            return SubmittedAnswer(missing=True)
        create_fresh_history(masked)
    question = ResearchQuestion(
        question=task.question, method=task.method, instructions=task.instructions, minutes=order.minutes
    )
    settings = settings.model_copy(
        update={"question": question, "code": settings.code.model_copy(update={"repository": masked.absolute()})}
    )
    idea = build_question_idea(question, "question")
    code = start_or_resume(idea, settings, "question", made, listener=lambda event, state: None)
    state = read_state(made)
    if code == INTERRUPTED:
        raise ProviderDown(state.process_end.reason if state.process_end is not None else "interrupted")
    if code == LIMITED:  # no answer within its budget, like no answer within its time
        return SubmittedAnswer(given=False)
    files, done = read_changed_files(state, RunFolder(made)), state.question.answer
    if SCRIPT_FILE in files:
        files = {name: text for name, text in files.items() if name != SCRIPT_FILE} | {
            SUBMITTED_SCRIPT_FILE: files[SCRIPT_FILE]
        }
    instructions = (
        answer_from_reply(json.loads((made / ANSWER_FILE).read_text(encoding="utf-8")))
        if done is not None and (done.conclusion)
        else SubmittedAnswer(given=False)
    )
    return instructions.model_copy(
        update={
            "files": files,
            "record": build_work_record(state),
            "usd": state.calls.total_usage.usd,
            "minutes": round(state.active_seconds / 60, 2),
        }
    )


def build_work_record(state: RunState) -> dict[str, Any]:
    """Build the record of executions, output files and the author's tool calls, for the monitor."""
    ran = [one.attempts[-1] for one in list_experiment_nodes(state) if one.attempts]
    called = ((state.calls.answers[key].answer, one.result) for key, one in state.calls.tool_uses.items())
    codes: dict[str | None, int | None] = {None: 0, "timeout": None}
    return {
        "commands": [
            {"argv": ["bash", SCRIPT_FILE], "exit": codes.get(None if end is None else end.kind, 1)}
            for end in (one.failure for one in ran)
        ],
        "reads": [],
        "log": "\n\n".join(f"{json.dumps(call)}\n{result}" for call, result in called),
        "result_files": [
            {"path": RESULTS_FILE, "sha256": digest, "written_by_run": True, "same_as_base": False}
            for digest in (ran[-1].artifacts.values() if ran else ())
        ],
    }


async def evaluate_answers(
    out: Path, task: ExpTask, settings: Settings, order: ExpBenchConfig, own: SubmittedAnswer | None = None
) -> None:
    """Evaluate the answers to a task that are not evaluated yet. Raises `ModelError`."""
    place = out / "tasks" / folder_name(task.name)
    kill_orphans(place / "work" / "cache")
    folder = Path(order.tasks)
    repository = find_repository(task, folder, None if order.repos is None else Path(order.repos))
    answers: Sequence[SubmittedAnswer] = read_answers(Path(order.answers)).get(task.name, ()) if order.answers else ()
    answers = answers if own is None else (own,)
    log = MemoryLog()
    if own is None:
        settings = limit_settings(settings, read_evaluated(out, folder_name(task.name)))
    else:  # this share of the budget was for the answer; judging is counted separately
        settings = settings.model_copy(update={"budget": BudgetSettings()})
    for answer in answers or (SubmittedAnswer(missing=True),):
        target = place / clean_name(answer.variant) / EVALUATED_FILE
        known, before = read_stored(target, Evaluated), log.state.calls.total_usage.usd
        if known is not None and known.state not in ("failed", "not_begun"):
            continue
        found = await Evaluation(
            repository,
            GitMirror(place / "repository.git"),
            settings.sandbox,
            partial(judge_answer, settings, log),
            place / "work",
            order.execute_minutes * 60,
            order.steps,
        ).evaluate(task, answer)
        store_result(target, found.model_copy(update={"judging_usd": log.state.calls.total_usage.usd - before}))


def limit_settings(settings: Settings, known: Sequence[Evaluated]) -> Settings:
    """Return the settings with the rest of the task's budget. Raises `BudgetSpent`."""
    cap = settings.budget.usd
    if cap is None:
        return settings
    left = cap - sum(one.judging_usd for one in known)
    if left <= 0:
        raise BudgetSpent(f"the task's share of the budget, ${cap:.2f}, is used up")
    return override_settings(settings.model_dump(mode="json"), {"budget.usd": left})


async def judge_answer(settings: Settings, log: MemoryLog, work: JudgedWork) -> AnswerVerdicts:
    """Judge an answer with the configured model, or with stored verdicts if that is the offline model."""
    if settings.models.name == "offline":
        return judge_by_script(work.task, work.answer)
    models = open_budgeted_models(settings, log)
    return await judge_by_model(models.make_client(0, 0), models.get_model_name(ANSWER_DESIGN), work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
