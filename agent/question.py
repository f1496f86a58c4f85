"""One research question on one repository, from its file to a report: makes the folder, holds the lock, keeps the log.

Its log is `question.db`; it is no run, and no command for runs takes it for one. The same order given again goes on
where it was left.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import tomllib
from contextlib import closing
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from labwright.agent.budget import check_priced, models_of
from labwright.agent.environment import packages
from labwright.agent.settings import Settings
from labwright.models.failover import open_backend
from labwright.record.errors import WrongUse
from labwright.record.events.repository import CodeTaken, EnvironmentBuilt
from labwright.record.fold.state import RunState
from labwright.record.folder import write_file
from labwright.record.lock import hold, is_unused
from labwright.record.log import EventLog, Listener
from labwright.record.network import on_network
from labwright.record.nouns.question import Question
from labwright.record.prompts import keep as keep_prompt
from labwright.sandbox.isolation.probe import describe_isolation
from labwright.sandbox.isolation.processes import kill_orphans
from labwright.sandbox.opening import open_executor
from labwright.sandbox.repository.environment import environment_for
from labwright.sandbox.repository.metric import MetricError, parse_metric
from labwright.sandbox.repository.mirror import Mirror
from labwright.stages.repository.question import SCRIPT, Answering, change_of, compared_lines, measured_lines
from labwright.stages.repository.results import comparisons_of

LOG, REPORT, ANSWER, PATCH, RECORD = "question.db", "report.md", "answer.json", "change.patch", "record.json"
MOST_BYTES = 100_000


def read_question(file: Path) -> Question:
    """The question of a file: Markdown is the question itself, TOML has its fields. Raises `WrongUse`."""
    try:
        if file.stat().st_size > MOST_BYTES:
            raise WrongUse(f"--task {file} is larger than {MOST_BYTES // 1000} kB: give the question alone")
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise WrongUse(f"cannot read --task {file} ({error.strerror}): give a question (.md or .toml)") from None
    except UnicodeDecodeError:
        raise WrongUse(f"--task {file} is not UTF-8 text: save it as text") from None
    if file.suffix != ".toml":
        if len(text.split()) < 3:
            raise WrongUse(f"--task {file} holds fewer than three words: ask a question")
        return Question(question=text.strip())
    try:
        return of_table(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValueError, MetricError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first is not None else str(error)
        raise WrongUse(f"--task {file}: {' '.join(why.split())}") from None


def of_table(told: dict[str, Any]) -> Question:
    """Raises `ValueError`, `MetricError`."""
    known = {*Question.model_fields}
    if odd := [name for name in told if name not in known]:
        raise ValueError(f"there is no key {odd[0]!r}, only {', '.join(sorted(known))}")
    if "question" not in told:
        raise ValueError("it lacks question")
    measure = told.get("measure", "")
    if isinstance(measure, dict):
        given: dict[str, Any] = measure  # pyright: ignore
        told = told | {
            "better": {"lower": "min", "higher": "max"}.get(
                given.get("better", ""), given.get("better", told.get("better", "max"))
            )
        }
        measure = (
            f"stdout:{given['stdout']}" if "stdout" in given else (f"{given.get('file', '')}:{given.get('key', '')}")
        )
    run = told.get("run", ())
    run = tuple(shlex.split(run)) if isinstance(run, str) else tuple(run)
    if bool(run) != bool(measure):
        raise ValueError("run and measure go together: how the repository is run, and where its number is read")
    if measure:
        parse_metric(str(measure))
    found = Question.model_validate(told | {"measure": measure, "run": run})
    if found.better not in ("max", "min"):
        raise ValueError("better is max or min")
    return found


def answer(
    question: Question, repository: Path, settings: Settings, folder: Path, *, listener: Listener, dirty: bool = False
) -> tuple[RunState, dict[str, str]]:
    """Bring a question to its answer in a folder. Returns the state of its log, and the files that are changed, with
    the script.

    Raises: `WrongUse`, `ModelError`, `ExecutorError`, `RepositoryError`, `RecordError`, `RunLockedError`.
    """
    open_backend(settings.models)
    check_priced(settings)
    if not folder.exists():
        Mirror.check(repository, dirty=dirty)
    elif not (folder / LOG).exists() and not is_unused(folder):
        raise WrongUse(f"{folder} is not empty and holds no question: choose another --name")
    folder.mkdir(parents=True, exist_ok=True)
    if on_network(folder):
        raise WrongUse(f"{folder} lies on a network filesystem: give --runs a folder on a local disk")
    with hold(folder), closing(EventLog(folder / LOG, listener=listener)) as log:
        files = asyncio.run(_work(question, repository, settings, log, dirty=dirty))
        return log.state, files


async def _work(
    question: Question, repository: Path, settings: Settings, log: EventLog, *, dirty: bool
) -> dict[str, str]:
    folder = log.path.parent.absolute()
    mirror, terms = Mirror(folder / "mirror"), question.model_dump(mode="json")
    kill_orphans(folder / "cache")
    known = log.state.code.taken
    if known is None:
        taken = mirror.take(repository, dirty=dirty)
        known = CodeTaken(
            repository=str(repository),
            commit=taken.commit,
            tree=taken.tree,
            snapshot=taken.snapshot,
            files=taken.files,
            bytes=taken.bytes,
            faults=taken.faults,
            settings=terms,
            version=version("labwright"),
            model=settings.models.called,
            isolation=describe_isolation(settings.sandbox),
        )
        log.append(known)
    elif known.settings != terms:
        raise WrongUse(f"{folder} holds another question: choose another --name")
    executor = open_executor(
        settings.search.num_workers,
        folder / "views",
        labels=folder / "labels",
        cache=folder / "cache",
        settings=settings.sandbox.model_copy(update={"pool": 0}),
    )
    try:
        built = log.state.code.environment
        environment = environment_for(
            mirror.texts(known.tree), settings.sandbox, known=built.packages if built is not None else {}
        )
        if built is None:
            log.append(
                EnvironmentBuilt(
                    how=environment.how,
                    python=environment.version,
                    packages=dict(environment.packages),
                    folders=environment.ground.folders,
                    deviations=environment.deviations,
                    mounts=dict(environment.mounts),
                    device=settings.sandbox.device,
                )
            )
        working = Answering(
            question,
            log,
            models_of(settings, log, partial(keep_prompt, folder)),
            mirror,
            known.tree,
            environment,
            folder / "work",
            executor.command,
            packages(settings.sandbox.python),
        )
        files = await working.answer()
        write_out(log.state, files, mirror.texts(known.tree), folder)
        return files
    finally:
        await executor.close()
        mirror.forget_checkouts()
        for left in ("work", "cache", "views"):
            shutil.rmtree(folder / left, ignore_errors=True)


# --- what is left -----------------------------------------------------------------------------------------------------


def write_out(state: RunState, files: dict[str, str], texts: dict[str, str], folder: Path) -> None:
    """The answer, the change for the repository, the script, the record of the work, and the report."""
    code = state.code
    done = code.answered
    assert done is not None
    if code.designed is not None and done.conclusion:
        said = {"design": list(code.designed.design.statements), "conclusion": done.conclusion}
        write_file(folder / ANSWER, json.dumps(said, indent=1, ensure_ascii=False) + "\n")
    write_file(folder / PATCH, change_of({path: text for path, text in files.items() if path != SCRIPT}, texts))
    if SCRIPT in files:
        write_file(folder / SCRIPT, files[SCRIPT])
    write_file(folder / RECORD, json.dumps(record_of(state), indent=1) + "\n")
    write_file(folder / REPORT, report_of(state))


def record_of(state: RunState) -> dict[str, Any]:
    """What was executed and what it left, in the form that EXP-Bench's monitor reads."""
    tries = sorted((number, run) for number, run in state.code.tries.items() if number)
    last = tries[-1][1] if tries else None
    return {
        "commands": [{"argv": ["bash", SCRIPT], "exit": run.exit} for _, run in tries],
        "reads": [],
        "result_files": [
            {"path": path, "sha256": digest, "written_by_run": True, "same_as_base": False}
            for path, digest in (last.files.items() if last is not None and not last.why else ())
        ],
    }


def report_of(state: RunState) -> str:
    """The report as Markdown: no model writes more of it than design and conclusion."""
    code, lines = state.code, list[str]()
    taken, designed, done = code.taken, code.designed, code.answered
    assert taken is not None and done is not None
    question = Question.model_validate(taken.settings)
    lines += [
        "# A question on a repository",
        "",
        question.question,
        "",
        "## Answer",
        "",
        done.conclusion or f"None: {done.why}.",
    ]
    if done.conclusion and done.why:
        lines += ["", f"({done.why}.)"]
    tries = sorted((number, run) for number, run in code.tries.items() if number)
    good = next((run for _, run in tries if not run.why), None)
    if good is not None:
        lines += [
            "",
            "## What was measured",
            "",
            *(f"- {line}" for line in measured_lines(good.results)),
            "",
            "Arms are paired by seed; a direction is a 95 % interval of their differences that leaves out zero.",
            "",
            *(f"- {line}" for line in compared_lines(comparisons_of([good.results]))),
        ]
    if designed is not None:
        lines += [
            "",
            "## Design, recorded before any file was changed",
            "",
            *(f"- {line}" for line in designed.design.statements),
        ]
    lines += [
        "",
        "## What was run",
        "",
        *(
            f"- {'the repository as it is' if not number else f'try {number}'}: {run.why or 'measured'} "
            f"({run.seconds:.1f} s)"
            for number, run in sorted(code.tries.items())
        ),
        "",
        f"Commit {taken.commit}" + (", with work that was not committed" if taken.snapshot else "") + "; "
        f"`{PATCH}` is the change, `{SCRIPT}` runs all of it from the repository's root. Values are read by the "
        "program from what the script left; nobody else computed them.",
    ]
    return "\n".join(lines) + "\n"
