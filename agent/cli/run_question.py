"""`scientist run --code REPO --task FILE`: run a single experiment that answers a question, without a paper."""

from __future__ import annotations

import shlex
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from labwright.agent.campaign import to_slug
from labwright.agent.cli.commands import Run
from labwright.agent.cli.errors import DONE, INTERRUPTED, NOT_RELEASED, print_to_stderr, saving_traceback
from labwright.agent.cli.output import format_line, print_lines
from labwright.agent.cli.preflight import (
    check_disk_space,
    check_isolation,
    check_name,
    check_writable,
    removing_new_folder_on_refusal,
)
from labwright.agent.question import REPORT_FILE, answer_question, read_question
from labwright.agent.settings import Settings, override_settings
from labwright.inspector.event_text import describe_event
from labwright.models.errors import BudgetSpent, ProviderDown
from labwright.record.errors import UsageError
from labwright.record.line_store import RecordError
from labwright.record.log_reader import is_study
from labwright.record.schema.idea import Idea


def run_question(args: Run, settings: Settings) -> int:
    assert args.task is not None
    repository = settings.code.repository
    if repository is None:
        raise UsageError("--task asks a question about a repository: give --code")
    for name, given in (("--idea", args.idea), ("--plan", args.plan), ("--space", args.space)):
        if given is not None:
            raise UsageError(f"{name} cannot be combined with --task")
    question = read_question(args.task)
    check_writable(args.runs)
    check_disk_space(settings, args.runs)
    check_isolation(settings.sandbox)
    folder = args.runs / (check_name(args.name) if args.name else choose_name(args.task, args.runs))
    print_lines([format_line(f"answering {args.task} with {repository}, in {folder}")])
    try:
        with removing_new_folder_on_refusal(args.runs), saving_traceback(folder):
            state, _ = answer_question(
                question,
                repository,
                settings,
                folder,
                dirty=settings.code.dirty,
                listener=lambda event, state: print_lines(
                    map(format_line, filter(None, [describe_event(event, state)]))
                ),
            )
    except (KeyboardInterrupt, ProviderDown, BudgetSpent) as error:
        print_to_stderr(f"{error or 'interrupted'}; continue with the same command and --name {folder.name}")
        return INTERRUPTED
    finally:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    done = state.repository_state.question_answer
    assert done is not None
    print_lines(
        [
            format_line(done.conclusion or f"no answer: {done.why}", "bold"),
            format_line(f"report: {folder / REPORT_FILE}"),
        ]
    )
    return DONE if done.conclusion else NOT_RELEASED


def question_to_idea(task: Path, settings: Settings) -> tuple[Idea, Settings]:
    """Convert a question to the idea of a full study of the repository, with its settings. Raises `UsageError`."""
    question = read_question(task)
    if settings.code.repository is None or not question.run:
        raise UsageError("--paper requires --code, and `run` and `measure` in the --task file")
    steps = [text for text in (question.method, question.instructions) if text] or [question.question]
    idea = Idea.model_validate(
        {
            "Name": to_slug(task.stem),
            "Title": question.question.splitlines()[0][:300],
            "Experiments": steps,
            "Short Hypothesis": question.question,
        }
    )
    return idea, override_settings(
        settings.model_dump(mode="json"),
        {
            "code.command": shlex.join(question.run),
            "code.metric": question.measure,
            "code.direction": question.better,
            "code.frozen": list(question.protect),
            "search.num_seeds": question.seeds,
        },
    )


def choose_name(task: Path, runs: Path) -> str:
    """Return the newest unfinished folder of this task, or a new name with the time."""
    for folder in sorted(runs.glob(f"*_task_{to_slug(task.stem)}"), reverse=True):
        with suppress(RecordError):
            if is_study(folder, "question") and not (folder / REPORT_FILE).exists():
                return folder.name
    return f"{datetime.now():%Y-%m-%d_%H-%M-%S}_task_{to_slug(task.stem)}"
