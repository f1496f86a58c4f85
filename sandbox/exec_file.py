"""Run one file exactly as a node is run: `scientist exec FILE`."""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from labwright.record.python_syntax import collect_reads, collect_strings, parse_python
from labwright.record.schema.data_plan import HyperparameterSetting
from labwright.record.schema.nodes import Cell
from labwright.record.untrusted_files import remove_tree
from labwright.sandbox.datasets import DatasetSources, build_registry, list_source_files, materialise
from labwright.sandbox.executor import LocalExecutor, open_executor
from labwright.sandbox.hub import parse_pretrained, provide_models
from labwright.sandbox.job import CellTask, ExecutorError, Job, JobOutcome, measure_all
from labwright.sandbox.llm_gateway import LlmGateway
from labwright.sandbox.packages import RunPackages
from labwright.sandbox.results import write_job_output
from labwright.sandbox.scorers import freeze_scorer, parse_scorers
from labwright.sandbox.settings import SandboxSettings

FILE_NAME_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}")
"""A path below the folder of a file, as it appears in source code."""
_MAX_TEXT_BYTES = 1_000_000
"""Size limit of a text file that is copied along, in bytes."""


async def run_file(
    path: Path,
    *,
    timeout: float | None = None,
    seed: int = 0,
    settings: SandboxSettings | None = None,
    sources: DatasetSources | None = None,
    cells: Mapping[Cell, HyperparameterSetting] | None = None,
    subjects: Callable[[Path], LlmGateway | None] = lambda _: None,
) -> JobOutcome:
    """Run the file and return its outcome. Raises `ExecutorError`, `PackageError`.

    `timeout` is wall-clock time in seconds. The file runs in a temporary folder. Modules that it imports from the same
    folder are copied along, and so are text files there whose paths occur as strings in the source. If it measures
    cells, all of `arms/` is copied too; `cells` are the cells to measure, with their hyperparameters. Registered
    datasets (`sources`, including the user's own) and pretrained models of the settings are available if their names
    occur as strings in the source; datasets are split with `seed`.
    """
    chosen, known = settings or SandboxSettings(), sources or build_registry()
    try:
        source = _read_with_neighbours(path)
        strings = {word for text in source.values() for word in collect_strings(text)}
    except (OSError, UnicodeDecodeError) as error:
        raise ExecutorError(f"cannot read {path}: {error}") from error
    if (collect_reads(source[path.name]) is not None) != bool(cells):
        raise ExecutorError(
            f"{path} does not call lab.measure, so it has no cells: remove --cells and --on"
            if cells
            else f"{path} measures cells (lab.measure): choose some, e.g. --cells baseline@low,method@low --on digits"
        )
    on = {one.dataset for one in cells or ()}
    if unknown := sorted(on - known.keys()):
        raise ExecutorError(f"--on: unknown dataset {unknown[0]!r}; choose from {', '.join(sorted(known))}")
    around = Path(tempfile.mkdtemp(prefix="scientist-exec-"))
    executor: LocalExecutor | None = None
    try:
        names = tuple(name for name in known if name in strings | on)
        for name in names:
            materialise(name, views=around / "views", labels=around / "labels", seed=seed, sources=known)
        for name, place in parse_scorers(known, chosen.scorers).items():
            if name in names:
                freeze_scorer(name, place, around / "scorers")
        named = (str(model) for model in parse_pretrained(chosen.pretrained) if model.id in strings)
        pretrained = provide_models(named, around / "pretrained")
        packages = RunPackages(chosen).build_overlay()
        executor = open_executor(
            1,
            around / "views",
            labels=around / "labels",
            settings=chosen,
            cache=around / "cache",
            pretrained=pretrained,
            secret=list_source_files(known),
            scorers=around / "scorers",
            subjects=subjects(around),
        )
        executor.packages = packages
        job = Job(
            name=path.name,
            folder=around / "job",
            source=source,
            entry=path.name,
            timeout=timeout or chosen.timeout,
            datasets=names,
            cells={
                one: CellTask(key=path.name if one.is_script else str(one), setting=setting)
                for one, setting in (cells or {Cell(dataset="", arm="", seed=seed): {}}).items()
            },
            subjects=executor.subjects.names if executor.subjects is not None else (),
        )
        outcome = await measure_all(executor, job)
        if outcome.cells:
            outcome = outcome.model_copy(update={"stdout_tail": write_job_output(job.folder, job, outcome)})
        return outcome
    finally:
        if executor is not None:
            await executor.close()
        remove_tree(around, ignore_errors=True)


def _read_with_neighbours(path: Path) -> dict[str, str]:
    """Return the file and, recursively, the files next to it that it needs: path -> text."""
    texts: dict[str, str] = {}
    of_cells = collect_reads(path.read_text(encoding="utf-8-sig")) is not None
    waiting = [path, *(sorted((path.parent / "arms").glob("*.py")) if of_cells else ())]
    while waiting:
        file = waiting.pop()
        texts[file.relative_to(path.parent).as_posix()] = text = file.read_text(encoding="utf-8-sig")
        try:
            nodes = list(ast.walk(parse_python(text)))
        except SyntaxError:  # the kernel reports this more clearly
            continue
        imported = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        imported += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
        for top in {name.partition(".")[0] for name in imported} - {""}:
            near = [path.with_name(f"{top}.py"), *path.with_name(top).rglob("*.py")]
            missing = (one for one in near if one.relative_to(path.parent).as_posix() not in texts)
            waiting += [one for one in missing if one.is_file() and one not in waiting]
    return texts | _read_named_files(path, texts)


def _read_named_files(path: Path, texts: Mapping[str, str]) -> dict[str, str]:
    """Return small text files next to the file whose paths occur in a source as strings."""
    contents: dict[str, str] = {}
    for word in sorted({word for text in texts.values() for word in collect_strings(text)} - texts.keys()):
        if FILE_NAME_PATTERN.fullmatch(word) and ".." not in word and (path.parent / word).is_file():
            with suppress(OSError, UnicodeDecodeError):
                if (path.parent / word).stat().st_size <= _MAX_TEXT_BYTES:
                    contents[word] = (path.parent / word).read_text(encoding="utf-8")
    return contents
