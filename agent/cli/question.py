"""`scientist run --code REPO --task FILE`: an experiment that answers a question, without a paper."""

from __future__ import annotations

import shlex
from datetime import datetime
from pathlib import Path

from labwright.agent.campaign import slug
from labwright.agent.cli.checks import (
    check_isolation,
    check_name,
    check_space,
    check_writable,
    runs_folder_removed_if_refused,
)
from labwright.agent.cli.commands import Run
from labwright.agent.cli.edge import DONE, INTERRUPTED, NOT_RELEASED, say, traceback_saved
from labwright.agent.cli.shown import line, show
from labwright.agent.question import LOG, REPORT, answer, read_question
from labwright.agent.settings import Settings, override
from labwright.inspector.describe import describe
from labwright.models.errors import BudgetSpent, ProviderDown
from labwright.record.errors import WrongUse
from labwright.record.nouns.idea import Idea


def run_task(asked: Run, settings: Settings) -> int:
    assert asked.task is not None
    repository = settings.code.repository
    if repository is None:
        raise WrongUse("--task asks a question on a repository: name it with --code")
    for name, given in (("--idea", asked.idea), ("--plan", asked.plan), ("--space", asked.space)):
        if given is not None:
            raise WrongUse(f"{name} goes without --task: a question is no idea of a paper")
    question = read_question(asked.task)
    check_writable(asked.runs)
    check_space(settings, asked.runs)
    check_isolation(settings.sandbox)
    folder = asked.runs / (check_name(asked.name) if asked.name else name_of(asked.task, asked.runs))
    show([line(f"the question of {asked.task} on {repository}, in {folder}")])
    try:
        with runs_folder_removed_if_refused(asked.runs), traceback_saved(folder):
            state, _ = answer(
                question,
                repository,
                settings,
                folder,
                dirty=settings.code.dirty,
                listener=lambda event, state: show(map(line, filter(None, [describe(event, state)]))),
            )
    except (KeyboardInterrupt, ProviderDown, BudgetSpent) as error:
        say(f"{error or 'interrupted'}; continue with the same command and --name {folder.name}")
        return INTERRUPTED
    finally:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    done = state.code.answered
    assert done is not None
    show([line(done.conclusion or f"no answer: {done.why}", "bold"), line(f"report: {folder / REPORT}")])
    return DONE if done.conclusion else NOT_RELEASED


def as_idea(task: Path, settings: Settings) -> tuple[Idea, Settings]:
    """A question as the idea of a whole study of the repository, and its settings. Raises `WrongUse`."""
    question = read_question(task)
    if settings.code.repository is None or not question.run:
        raise WrongUse("--paper studies a repository by its own command: give --code, and run and measure in --task")
    steps = [text for text in (question.method, question.instructions) if text] or [question.question]
    idea = Idea.model_validate(
        {
            "Name": slug(task.stem),
            "Title": question.question.splitlines()[0][:300],
            "Experiments": steps,
            "Short Hypothesis": question.question,
        }
    )
    return idea, override(
        settings.model_dump(mode="json"),
        {
            "code.command": shlex.join(question.run),
            "code.metric": question.measure,
            "code.direction": question.better,
            "code.frozen": list(question.protect),
            "search.num_seeds": question.seeds,
        },
    )


def name_of(task: Path, runs: Path) -> str:
    """The newest folder of this task that is not finished, or a new one by time."""
    for folder in sorted(runs.glob(f"*_task_{slug(task.stem)}"), reverse=True):
        if (folder / LOG).exists() and not (folder / REPORT).exists():
            return folder.name
    return f"{datetime.now():%Y-%m-%d_%H-%M-%S}_task_{slug(task.stem)}"
