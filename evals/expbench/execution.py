"""An answer's script, run once in a clean masked copy: behind the walls of experiments, without a network."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labwright.evals.expbench.answers import SCRIPT, Answer, put_in
from labwright.evals.expbench.conduct import base_results, results_in
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.repository.command import CommandJob
from labwright.sandbox.repository.environment import environment_for
from labwright.sandbox.settings import SandboxSettings
from labwright.stages.repository.question import hashes
from labwright.stages.repository.results import result_files


@dataclass(frozen=True)
class Execution:
    """`exit` is None where it met its limit. `outputs`: contents of the result files that it wrote, by path."""

    exit: int | None
    seconds: float
    outputs: Mapping[str, Any]
    base: Mapping[str, Any]
    said: str

    @property
    def done(self) -> bool:
        return self.exit == 0


async def execute(answer: Answer, folder: Path, settings: SandboxSettings, *, seconds: float, cache: Path) -> Execution:
    """Run the script of an answer in a masked copy, which is used up. Raises `ExecutorError`, `RepositoryError`."""
    base = results_in(folder, base_results(folder))
    put_in(answer, folder)
    before = hashes(folder)
    if SCRIPT not in answer.files:
        return Execution(127, 0.0, {}, base, f"there is no {SCRIPT}")
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
        settings=settings.model_copy(update={"pool": 0, "network": "off"}),
    )
    try:
        environment = environment_for(texts, settings)
        outcome = await executor.command(
            CommandJob(
                name="the script", folder=folder, argv=("bash", SCRIPT), ground=environment.ground, timeout=seconds
            )
        )
    finally:
        await executor.close()
        shutil.rmtree(cache, ignore_errors=True)
    failure = outcome.failure
    code = 0 if failure is None else None if failure.kind == "timeout" else 1
    return Execution(
        code, outcome.seconds, results_in(folder, result_files(before, hashes(folder))), base, outcome.tail
    )
