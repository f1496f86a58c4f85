"""The players of a replication tournament: a question study of this program, and a bare loop of the same tools.

Both get the same repository, question, model and limits of tokens and time; the question's minutes are those of
commands and experiments, not of the model. The loop lists, reads, writes and runs until it hands in a conclusion; it
has no design, record or checks. A player that was interrupted goes on where it stopped, and an answer that was paid for
is not asked for again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field

from labwright.agent.cli.errors import INTERRUPTED
from labwright.agent.cli.run import build_question_idea
from labwright.agent.forecast import open_budgeted_models
from labwright.agent.run import start_or_resume
from labwright.agent.settings import Settings, override_settings
from labwright.evals.item_loop import ItemInterrupted, open_answers, read_stored, store_result
from labwright.evals.replication.questions import ReplicationQuestion
from labwright.models.author import Author, AuthorLimits
from labwright.models.roles.experiment_code import AuthorTask, CoderFact, CoderInputs, HandIn
from labwright.record.event_log import EventLog, read_state
from labwright.record.llm_calls import store_prompt
from labwright.record.reducers.run_state import RoleUsage
from labwright.record.schema import FrozenModel
from labwright.record.schema.decisions import RunTask
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.repository.environment import build_environment
from labwright.sandbox.repository.git_mirror import AUTHOR_VARIABLES, GitMirror, run_git
from labwright.sandbox.repository.scratch_tree import RefusedCall, open_scratch_tree
from labwright.stages.repository.authors import format_machine
from labwright.stages.repository.patch_scope import index_code
from labwright.stages.run_context import decision_number

PlayerName = Literal["study", "loop"]
ANSWER_FILE = "played.json"
LOOP_STEPS = 60
"""Maximum number of tool calls of the loop."""


class WrittenConclusion(HandIn):
    """The answer to the question."""

    conclusion: str = Field(min_length=1, max_length=4000, description="two to six sentences, the answer first")


class ConclusionTaskInputs(CoderInputs):
    task: AuthorTask = "conclusion"


class PlayedAnswer(FrozenModel):
    """The conclusion of a player; empty: it gave none, for the reason `why`."""

    player: PlayerName
    question: str
    conclusion: str
    why: str = ""
    usage: RoleUsage
    seconds: float = Field(description="elapsed seconds, without interruptions")


def read_played(folder: Path) -> PlayedAnswer | None:
    """Return the answer that a folder has; None if its player has not finished."""
    return read_stored(folder / ANSWER_FILE, PlayedAnswer)


def play(player: PlayerName, question: ReplicationQuestion, settings: Settings, folder: Path) -> PlayedAnswer:
    """Return the answer of a player, kept or given now. Raises `ItemInterrupted`, and errors of models and sandbox."""
    if (known := read_played(folder)) is not None:
        return known
    settings = override_settings(
        settings.model_dump(mode="json"), {"code.repository": str(_copy_repository(question, folder))}
    )
    answer = _PLAYERS[player](question, settings, folder)
    store_result(folder / ANSWER_FILE, answer)
    return answer


def _copy_repository(question: ReplicationQuestion, folder: Path) -> Path:
    """Return a copy of the question's files as a git repository, made now or earlier."""
    made = folder / "repository"
    if not made.is_dir():
        part = made.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(question.repository, part, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        for words in ("init --quiet --template=", "add --all --force", "commit --quiet --message=question"):
            run_git(part, words.split(), variables=AUTHOR_VARIABLES)
        os.rename(part, made)
    return made


def _play_study(question: ReplicationQuestion, settings: Settings, folder: Path) -> PlayedAnswer:
    idea = build_question_idea(question.asked, question.name)
    settings = settings.model_copy(update={"question": question.asked})
    run = folder / "run"
    if start_or_resume(idea, settings, "question", run, listener=lambda event, state: None) == INTERRUPTED:
        raise ItemInterrupted
    state = read_state(run)
    answer, reason = (
        state.question.answer,
        state.limit_reason or (state.process_end.reason if state.process_end else ""),
    )
    return PlayedAnswer(
        player="study",
        question=question.name,
        conclusion=answer.conclusion if answer is not None else "",
        why=answer.why if answer is not None else reason,
        usage=state.calls.total_usage,
        seconds=round(state.active_seconds, 1),
    )


def _play_loop(question: ReplicationQuestion, settings: Settings, folder: Path) -> PlayedAnswer:
    with open_answers(folder) as log:
        return asyncio.run(_work_in_loop(question, settings, folder, log))


async def _work_in_loop(question: ReplicationQuestion, settings: Settings, folder: Path, log: EventLog) -> PlayedAnswer:
    mirror = GitMirror(folder / "mirror")
    assert settings.code.repository is not None
    tree = mirror.import_head(settings.code.repository).tree
    texts = mirror.read_texts(tree)
    environment = build_environment(texts, settings.sandbox)
    client = open_budgeted_models(settings, log, partial(store_prompt, folder)).make_client(
        decision_number(log, RunTask(task="conclusion")), 0
    )
    limits = AuthorLimits(
        steps=LOOP_STEPS, tokens=settings.budget.tokens or AuthorLimits().tokens, seconds=settings.time_limit
    )
    inputs = ConclusionTaskInputs(
        known=(
            CoderFact(title="The question", text=describe_question(question)),
            CoderFact(title="Files", text="\n".join(sorted(mirror.list_files(tree)))),
        ),
        surroundings=f"All your commands may take {question.asked.minutes:g} minutes together. "
        + format_machine(settings.sandbox, environment, index_code(texts)),
        steps=limits.steps,
    )

    async def accept(result: WrittenConclusion, tree: str) -> str:
        return ""

    executor = LocalExecutor(1, folder / "views", settings=settings.sandbox)

    async def run_command(job: CommandJob) -> CommandOutcome:
        left = question.asked.minutes * 60 - sum(one.seconds for one in log.state.calls.tool_uses.values())
        if left < 1:
            raise RefusedCall(f"the {question.asked.minutes:g} minutes of commands are used: hand in")
        return await executor.run_command(replace(job, timeout=min(job.timeout, left)))

    began = time.monotonic()
    try:
        async with open_scratch_tree(mirror, tree, environment.command_environment, run_command, name="loop") as tools:
            made = await Author(client, tools, WrittenConclusion, accept, limits).work(inputs)
    finally:
        await executor.close()
    return PlayedAnswer(
        player="loop",
        question=question.name,
        conclusion=made.result.conclusion if made.result is not None else "",
        why=made.ended,
        usage=log.state.calls.total_usage,
        seconds=round(time.monotonic() - began, 1),
    )


def describe_question(question: ReplicationQuestion) -> str:
    """Return the question, method and instructions as a player reads them."""
    asked = question.asked
    return "\n\n".join(filter(None, (asked.question, asked.method, asked.instructions)))


_PLAYERS: dict[PlayerName, Callable[[ReplicationQuestion, Settings, Path], PlayedAnswer]] = {
    "study": _play_study,
    "loop": _play_loop,
}
