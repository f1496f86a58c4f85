"""Answer a research question about a repository, from the question file to the report: folder, lock and log.

Commands for runs ignore its folder. Repeating the same task resumes it.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import tomllib
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from labwright.agent.budget import check_prices_known, open_budgeted_models
from labwright.agent.environment import list_packages
from labwright.agent.repository_session import RepositorySession
from labwright.agent.settings import Settings
from labwright.models.failover import open_backend
from labwright.record.errors import UsageError
from labwright.record.event_log import EventListener, EventLog
from labwright.record.line_store import EVENTS_FILE
from labwright.record.lock import acquire_lock, is_unused
from labwright.record.log_reader import is_study
from labwright.record.prompt_store import store_prompt
from labwright.record.reducers.run_state import RunState
from labwright.record.repository_source import OUTPUT_FOLDER
from labwright.record.run_folder import write_file
from labwright.record.schema.research_question import ResearchQuestion
from labwright.sandbox.repository.git_mirror import GitMirror
from labwright.sandbox.repository.metric import MetricError, parse_metric
from labwright.stages.repository.question import (
    SCRIPT_FILE,
    QuestionStudy,
    format_change,
    format_comparisons,
    format_measured,
)
from labwright.stages.repository.result_files import MAX_SAME_SHARE, build_comparisons

REPORT_FILE, ANSWER_FILE, PATCH_FILE, RECORD_FILE = ("report.md", "answer.json", "change.patch", "record.json")
MAX_QUESTION_BYTES = 100_000


def read_question(file: Path) -> ResearchQuestion:
    """Read a question file: A Markdown file contains just the question, a TOML file its fields. Raises `UsageError`."""
    try:
        if file.stat().st_size > MAX_QUESTION_BYTES:
            raise UsageError(f"--task {file} is larger than {MAX_QUESTION_BYTES // 1000} kB: give only the question")
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read --task {file} ({error.strerror}): give a question (.md or .toml)") from None
    except UnicodeDecodeError:
        raise UsageError(f"--task {file} is not UTF-8 text: save it as text") from None
    if file.suffix != ".toml":
        if len(text.split()) < 3:
            raise UsageError(f"--task {file} has fewer than three words: ask a question")
        return ResearchQuestion(question=text.strip())
    try:
        return parse_question(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValueError, MetricError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first is not None else str(error)
        raise UsageError(f"--task {file}: {' '.join(why.split())}") from None


def parse_question(table: dict[str, Any]) -> ResearchQuestion:
    """Parse the fields of a question. Raises `ValueError`, `MetricError`."""
    known = {*ResearchQuestion.model_fields}
    if odd := [name for name in table if name not in known]:
        raise ValueError(f"unknown key {odd[0]!r}; known keys are {', '.join(sorted(known))}")
    if "question" not in table:
        raise ValueError("`question` is missing")
    measure = table.get("measure", "")
    if isinstance(measure, dict):
        given: dict[str, Any] = measure  # pyright: ignore
        table = table | {
            "better": {"lower": "min", "higher": "max"}.get(
                given.get("better", ""), given.get("better", table.get("better", "max"))
            )
        }
        measure = (
            f"stdout:{given['stdout']}" if "stdout" in given else (f"{given.get('file', '')}:{given.get('key', '')}")
        )
    run = table.get("run", ())
    run = tuple(
        str(word).replace("{out}", OUTPUT_FOLDER) for word in (shlex.split(run) if isinstance(run, str) else run)
    )
    if bool(run) != bool(measure):
        raise ValueError("`run` (the command) and `measure` (where to read its number) must be given together")
    if measure:
        parse_metric(str(measure))
    found = ResearchQuestion.model_validate(table | {"measure": measure, "run": run})
    if found.better not in ("max", "min"):
        raise ValueError("`better` must be max or min")
    return found


def answer_question(
    question: ResearchQuestion,
    repository: Path,
    settings: Settings,
    folder: Path,
    *,
    listener: EventListener,
    dirty: bool = False,
) -> tuple[RunState, dict[str, str]]:
    """Answer a question in a folder. Return the state of its log, and the changed files with their content.

    Raises: `UsageError`, `ExecutorError`, `RecordError`, `RunLockedError`.
    """
    open_backend(settings.models)
    check_prices_known(settings)
    if not folder.exists():
        GitMirror.check_importable(repository, dirty=dirty)
    elif not is_study(folder, "question") and not is_unused(folder):
        raise UsageError(f"{folder} is not empty and is not a question: choose another --name")
    folder.mkdir(parents=True, exist_ok=True)
    with acquire_lock(folder), closing(EventLog(folder / EVENTS_FILE, kind="question", listener=listener)) as log:
        files = asyncio.run(_answer(question, repository, settings, log, dirty=dirty))
        return log.state, files


async def _answer(
    question: ResearchQuestion, repository: Path, settings: Settings, log: EventLog, *, dirty: bool
) -> dict[str, str]:
    session, terms = RepositorySession(settings, log), question.model_dump(mode="json")
    folder, mirror = session.folder, session.mirror
    known = session.import_code(str(repository), terms, dirty=dirty)
    async with session.open_executor() as executor:
        environment = session.build_environment(mirror.read_texts(known.tree))
        working = QuestionStudy(
            question,
            log,
            open_budgeted_models(settings, log, partial(store_prompt, folder)),
            mirror,
            known.tree,
            environment,
            folder / "work",
            executor.run_command,
            list_packages(settings.sandbox.python),
        )
        files = await working.answer()
        write_answer(log.state, files, mirror.read_texts(known.tree), folder)
        return files


# --- output ---------------------------------------------------------------------------------------------------------


def write_answer(state: RunState, files: dict[str, str], texts: dict[str, str], folder: Path) -> None:
    """Write the answer, the patch of the repository, the script, the record of the work and the report."""
    code = state.repository_state
    done = code.question_answer
    assert done is not None
    if code.question_design is not None and done.conclusion:
        answer = {"design": list(code.question_design.design.statements), "conclusion": done.conclusion}
        write_file(folder / ANSWER_FILE, json.dumps(answer, indent=1, ensure_ascii=False) + "\n")
    write_file(
        folder / PATCH_FILE, format_change({path: text for path, text in files.items() if path != SCRIPT_FILE}, texts)
    )
    if SCRIPT_FILE in files:
        write_file(folder / SCRIPT_FILE, files[SCRIPT_FILE])
    write_file(folder / RECORD_FILE, json.dumps(build_work_record(state), indent=1) + "\n")
    write_file(folder / REPORT_FILE, format_report(state))


def build_work_record(state: RunState) -> dict[str, Any]:
    """Build the record of executions and output files, in the format of EXP-Bench's monitor."""
    tries = sorted((number, run) for number, run in state.repository_state.question_runs.items() if number)
    last = tries[-1][1] if tries else None
    return {
        "commands": [{"argv": ["bash", SCRIPT_FILE], "exit": run.exit} for _, run in tries],
        "reads": [],
        "result_files": [
            {"path": path, "sha256": digest, "written_by_run": True, "same_as_base": False}
            for path, digest in (last.files.items() if last is not None and not last.why else ())
        ],
    }


def format_report(state: RunState) -> str:
    """Format the report as Markdown; a model wrote only the design and the conclusion."""
    code, lines = state.repository_state, list[str]()
    taken, designed, done = code.imported, code.question_design, code.question_answer
    assert taken is not None and done is not None
    question = ResearchQuestion.model_validate(taken.settings)
    lines += [
        "# A question about a repository",
        "",
        question.question,
        "",
        "## Answer",
        "",
        done.conclusion or f"None: {done.why}.",
    ]
    if done.conclusion and done.why:
        lines += ["", f"({done.why}.)"]
    tries = sorted((number, run) for number, run in code.question_runs.items() if number)
    good = next((run for _, run in tries if not run.why), None)
    if good is not None:
        lines += [
            "",
            "## Measurements",
            "",
            *(f"- {line}" for line in format_measured(good.results)),
            "",
            "Arms are paired by seed. An arm is lower or higher if the 95 % interval of the differences excludes zero, "
            f"otherwise the same if the means differ by at most {MAX_SAME_SHARE:.0%}.",
            "",
            *(f"- {line}" for line in format_comparisons(build_comparisons([good.results]))),
        ]
    if designed is not None:
        lines += [
            "",
            "## Design (recorded before any file was changed)",
            "",
            *(f"- {line}" for line in designed.design.statements),
        ]
    lines += [
        "",
        "## Runs",
        "",
        *(
            f"- {'the unmodified repository' if not number else f'attempt {number}'}: {run.why or 'measured'} "
            f"({run.seconds:.1f} s)"
            for number, run in sorted(code.question_runs.items())
        ),
        "",
        f"Commit {taken.commit}" + (", with uncommitted changes" if taken.snapshot else "") + "; "
        f"`{PATCH_FILE}` is the change, `{SCRIPT_FILE}` runs everything from the repository's root. Values were "
        "read by this program from the files that the script wrote.",
    ]
    return "\n".join(lines) + "\n"
