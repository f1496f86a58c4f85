"""Run an answer's script once in a clean masked copy, in the sandbox and without network access."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labwright.evals.expbench.answers import SCRIPT_FILE, SubmittedAnswer, write_answer_files
from labwright.evals.expbench.result_files import list_result_files
from labwright.evals.expbench.result_origin import list_base_results, read_results
from labwright.record.untrusted_files import hash_regular, iterate_entries
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.repository.command import CommandJob
from labwright.sandbox.repository.environment import build_environment
from labwright.sandbox.settings import SandboxSettings


@dataclass(frozen=True)
class AnswerExecution:
    """Result of a script. `exit` is None if it hit its limit; `outputs` are the result files that it wrote, by path."""

    exit_code: int | None
    seconds: float
    outputs: Mapping[str, Any]
    base: Mapping[str, Any]
    output: str

    @property
    def is_done(self) -> bool:
        return self.exit_code == 0


def hash_files(folder: Path) -> dict[str, str]:
    """Return the sha256 of every plain file in a folder, by relative path."""
    return {
        name: hash_regular(folder, name) for name, status in iterate_entries(folder) if stat.S_ISREG(status.st_mode)
    }


async def execute_answer(
    answer: SubmittedAnswer, folder: Path, settings: SandboxSettings, *, seconds: float, cache: Path
) -> AnswerExecution:
    """Run the script of an answer in a masked copy, which is modified. Raises `ExecutorError`, `RepositoryError`."""
    base = read_results(folder, list_base_results(folder))
    write_answer_files(answer, folder)
    before = hash_files(folder)
    if SCRIPT_FILE not in answer.files:
        return AnswerExecution(127, 0.0, {}, base, f"there is no {SCRIPT_FILE}")
    texts = {
        name: text
        for name in ("requirements.txt", "pyproject.toml", "setup.cfg")
        if (folder / name).is_file() and (text := (folder / name).read_text(errors="replace"))
    }
    executor = LocalExecutor(
        1,
        cache / "views",
        labels=cache / "labels",
        cache=cache / "cache",
        settings=settings.model_copy(update={"network": "off"}),
    )
    try:
        environment = build_environment(texts, settings)
        outcome = await executor.run_command(
            CommandJob(
                name="the script",
                folder=folder,
                argv=("bash", SCRIPT_FILE),
                environment=environment.command_environment,
                timeout=seconds,
            )
        )
    finally:
        await executor.close()
        shutil.rmtree(cache, ignore_errors=True)
    failure = outcome.failure
    code = 0 if failure is None else None if failure.kind == "timeout" else 1
    return AnswerExecution(
        code, outcome.seconds, read_results(folder, list_result_files(before, hash_files(folder))), base, outcome.tail
    )
