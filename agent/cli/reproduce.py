"""`scientist reproduce`: re-run the experiments behind a paper and compare the numbers."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from labwright.agent.cli.commands import Reproduce
from labwright.agent.cli.errors import DONE, FINDINGS, format_line, print_result, print_to_stderr
from labwright.agent.cli.preflight import check_isolation, settings_here
from labwright.agent.cli.status import read_run_state
from labwright.agent.data import fetch_models, list_sources
from labwright.agent.environment import REPORTED_PACKAGES, describe_machine
from labwright.agent.forecast import open_studied_llms
from labwright.agent.repository_setup import open_repository
from labwright.agent.settings import Settings
from labwright.inspector.safe_text import format_duration
from labwright.record.campaign import is_campaign
from labwright.record.errors import UsageError
from labwright.record.event_log import is_run
from labwright.record.llm_calls import copy_exchanges
from labwright.record.lock import acquire_lock, is_abandoned
from labwright.record.machine import describe_differences
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.nodes import KIND_NAMES
from labwright.record.table import Table, format_quantity
from labwright.record.zips import is_zip, open_run_folder
from labwright.sandbox.datasets import list_source_files
from labwright.sandbox.executor import LocalExecutor, open_executor
from labwright.sandbox.packages import PackageOverlay, restore_packages
from labwright.stages.evidence.reproduction import (
    ReproducedNumber,
    ReproductionSite,
    RunReproduction,
    copy_datasets,
    reproduce_nodes,
    select_nodes,
)

REMOVED_FOLDERS = ("data", "cache", "control", "code")
MAX_NUMBERS_SHOWN = 24
"""Maximum number of rows printed; `--json` has all."""


def run_reproduction(args: Reproduce) -> int:
    run = open_run_folder(args.run)
    state = read_run_state(run)
    if state.kind != "paper":
        raise UsageError(f"{args.run} has no paper: to measure again, repeat its command with another folder")
    if state.started is None or state.search.data_plan is None:
        raise UsageError(f"{args.run} was interrupted before it had a data plan: there is nothing to re-run")
    settings = settings_here(state, args.flags, RunFolder(run))
    check_isolation(settings.sandbox)
    packages = restore_packages(state.search.installed_packages, RunFolder(run).packages_lock, settings.sandbox)
    nodes = [one.id for one in select_nodes(state, tuple(args.node or ()), limit=args.limit)]
    scratch, began = _create_scratch_folder(args.run), time.monotonic()
    kept = None
    try:
        with acquire_lock(scratch):
            found = asyncio.run(_reproduce_nodes(state, nodes, settings, RunFolder(run), scratch, packages))
        kept = None if found.is_reproduced else str(scratch)
    finally:  # differing results are kept for inspection
        for folder in [scratch] if kept is None else [scratch / name for name in REMOVED_FOLDERS]:
            shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - began
    print_result(
        {
            "good": found.is_reproduced,
            "counts": count_verdicts(found),
            "unlike": found.environment_differences,
            "left_out": found.left_out,
            "nodes": [one.model_dump(mode="json", exclude={"measurements", "tests"}) for one in found.nodes],
            "numbers": [one.model_dump(mode="json") for one in found.numbers],
            "seconds": round(seconds, 1),
            "kept": kept,
        },
        format_reproduction(found, seconds=seconds, kept=kept),
        json=args.json,
    )
    return DONE if found.is_reproduced else FINDINGS


async def _reproduce_nodes(
    state: RunState,
    names: Sequence[str],
    settings: Settings,
    run: RunFolder,
    scratch: Path,
    packages: PackageOverlay | None,
) -> RunReproduction:
    sources, copy = list_sources(settings), RunFolder(scratch)
    has_pretrained = run.pretrained.is_dir()
    executor: LocalExecutor | None = None
    try:
        datasets = await asyncio.to_thread(copy_datasets, state, run, copy, sources)
        await asyncio.to_thread(copy_exchanges, run.root, scratch)
        executor = open_executor(
            settings.search.num_workers,
            copy.views,
            labels=copy.labels,
            settings=settings.sandbox,
            cache=copy.cache,
            pretrained=fetch_models(settings, run if has_pretrained else copy, state),
            secret=(*list_source_files(sources), run.labels),
            scorers=copy.scorers,
            subjects=open_studied_llms(settings, scratch, replay=True),
        )
        executor.packages = packages
        if settings.code.repository is not None:
            await asyncio.to_thread(shutil.copytree, run.root / "code", scratch / "code", symlinks=True)
            executor.repository = await asyncio.to_thread(open_repository, settings, copy)
        place = ReproductionSite(run, copy, executor, settings.sandbox.timeout, datasets, settings.subjects)
        return await reproduce_nodes(
            state,
            [state.nodes[name] for name in names],
            place,
            environment_differences=find_machine_differences(state, settings),
            report=lambda one, done, of: print_to_stderr(
                f"{done}/{of}: {one.node} ({KIND_NAMES[one.kind]}, seed {one.seed}) in "
                f"{format_duration(one.seconds)}{f': {one.failure}' if one.failure else ''}"
            ),
        )
    finally:
        if executor is not None:
            await executor.close()


def find_machine_differences(state: RunState, settings: Settings) -> tuple[str, ...]:
    """List reasons why digits may differ here: another processor, interpreter or number of threads, or a GPU."""
    here = describe_machine(settings.sandbox)
    found = [one for there in state.machines for one in describe_differences(there, here, packages=REPORTED_PACKAGES)]
    if not state.machines:
        found.append("the record does not name its machine")
    found += [
        f"{key} {state.read_setting(key)!r} in the run, {value!r} here"
        for key, value in (("sandbox.threads", settings.sandbox.threads), ("sandbox.device", settings.sandbox.device))
        if state.read_setting(key) != value
    ]
    deterministic = settings.sandbox.deterministic and state.read_setting("sandbox.deterministic")
    if "cuda" in (settings.sandbox.device, state.read_setting("sandbox.device")) and not deterministic:
        found.append("a GPU is used, whose order of summation may vary")
    return tuple(dict.fromkeys(found))


def _create_scratch_folder(run: Path) -> Path:
    """Create a new folder next to the run or its zip, or instead of one that a killed process left. Raises `UsageError`
    if that is not possible."""
    run = run.resolve().with_suffix("") if is_zip(run) else run.resolve()
    names = (f"{run.name}.reproduced{'' if number == 1 else f'-{number}'}" for number in itertools.count(1))
    path = next(path for name in names if not (path := run.with_name(name)).exists() or _is_left_over(path))
    try:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
    except OSError as error:
        raise UsageError(f"cannot write next to {run}: {error.strerror}; copy the run to a writable folder") from None
    return path


def _is_left_over(folder: Path) -> bool:
    """Return whether a killed reproduction left a folder; a run or campaign of that name has its log."""
    return is_abandoned(folder) and not is_run(folder) and not is_campaign(folder)


def count_verdicts(found: RunReproduction) -> dict[str, dict[str, int]]:
    """Count the verdicts on the paper's numbers and on other values."""
    return {
        what: dict(Counter[str](one.verdict for one in found.numbers if one.claim == claim))
        for what, claim in (("claims", True), ("others", False))
    }


def format_reproduction(found: RunReproduction, *, seconds: float, kept: str | None) -> Iterator[Text | Table]:
    """Format failed nodes, a table of numbers, and the overall verdict."""
    yield from (format_line(f"{one.node}: {one.failure}", "red") for one in found.nodes if one.failure)
    order = {"missing": 0, "different": 0, "within noise": 1, "equal": 2}
    numbers = sorted(found.numbers, key=lambda one: (order[one.verdict], not one.claim))
    rows = (
        (one.key, f"{len(one.nodes)}/{one.replicates}", one.recorded, one.reproduced, _format_verdict(one))
        for one in numbers[:MAX_NUMBERS_SHOWN]
    )
    yield Table.of(("number", "n", "recorded", "reproduced", "verdict"), rows)
    if len(numbers) > MAX_NUMBERS_SHOWN:
        yield Text(f"... {len(numbers) - MAX_NUMBERS_SHOWN} more: --json", style="dim")
    for what, by in count_verdicts(found).items():
        total = sum(by.values())
        verdicts = ", ".join(f"{by[verdict]}/{total} {verdict}" for verdict in sorted(by)) or "none"
        yield Text(f"{'numbers of the paper' if what == 'claims' else 'other values'}: {verdicts}")
    yield from (format_line(f"digits may differ: {why}", "yellow") for why in found.environment_differences)
    if found.left_out:
        yield format_line(f"not re-run: {', '.join(found.left_out)}", "yellow")
    if kept:
        yield format_line(f"files of this reproduction are kept in {kept}")
    verdict = "reproduced" if found.is_reproduced else "NOT reproduced"
    yield Text(
        f"{verdict}: {format_quantity(len(found.nodes), 'node')} in {format_duration(seconds)}",
        style="green" if found.is_reproduced else "red",
    )


def _format_verdict(one: ReproducedNumber) -> Text:
    known = one.verdict == "within noise" and one.difference is not None and one.noise is not None
    return Text(
        f"within noise ({one.difference:.2g} of {one.noise:.2g})" if known else one.verdict,
        style={"equal": "green", "within noise": "yellow"}.get(one.verdict, "red"),
    )
