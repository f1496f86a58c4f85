"""`scientist reproduce`: do the experiments behind a paper give its numbers again?"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from labwright.agent.budget import subjects_of
from labwright.agent.cli.checks import check_isolation, settings_here
from labwright.agent.cli.edge import DONE, FINDINGS, say
from labwright.agent.cli.paper_commands import Reproduce
from labwright.agent.cli.shown import answer, line, table
from labwright.agent.cli.status import state_of
from labwright.agent.code import opened
from labwright.agent.data import provided, sources_of
from labwright.agent.environment import SHOWN as IMPORTED
from labwright.agent.environment import machine_of
from labwright.agent.settings import Settings
from labwright.inspector.text import duration
from labwright.record.errors import WrongUse
from labwright.record.exchanges import copy_exchanges
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder
from labwright.record.machine import unlike as machines_unlike
from labwright.record.zips import is_zip, open_run_folder
from labwright.sandbox.datasets import files_of
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.opening import open_executor
from labwright.sandbox.packages.of_run import again
from labwright.sandbox.packages.store import Overlay
from labwright.stages.evidence.agreement import Number, Reproduction
from labwright.stages.evidence.reproduction import Place, chosen, lay_out_data
from labwright.stages.evidence.reproduction import reproduce as reproduce_nodes

SHOWN = 24
"""Lines of numbers that are printed at most; `--json` has all."""


def reproduce(asked: Reproduce) -> int:
    run = open_run_folder(asked.run)
    state = state_of(run)
    if state.started is None or state.data_plan is None:
        raise WrongUse(f"{asked.run} was cut off before it had a data plan: there is nothing to execute again")
    settings = settings_here(state, asked.flags, RunFolder(run))
    check_isolation(settings.sandbox)
    packages = again(state.installed, RunFolder(run).packages, settings.sandbox)
    nodes = [one.id for one in chosen(state, tuple(asked.node or ()), limit=asked.limit)]
    scratch, began = _scratch(asked.run), time.monotonic()
    found = asyncio.run(_reproduced(state, nodes, settings, RunFolder(run), scratch, packages))
    # what came out otherwise is kept, to be looked into
    for folder in [scratch] if found.good else [scratch / name for name in ("data", "cache", "control", "code")]:
        shutil.rmtree(folder, ignore_errors=True)
    kept, seconds = None if found.good else str(scratch), time.monotonic() - began
    answer(
        {
            "good": found.good,
            "counts": counts(found),
            "unlike": found.unlike,
            "left_out": found.left_out,
            "nodes": [one.model_dump(mode="json", exclude={"measurements", "tests"}) for one in found.nodes],
            "numbers": [one.model_dump(mode="json") for one in found.numbers],
            "seconds": round(seconds, 1),
            "kept": kept,
        },
        lines(found, seconds=seconds, kept=kept),
        json=asked.json,
    )
    return DONE if found.good else FINDINGS


async def _reproduced(
    state: RunState, names: Sequence[str], settings: Settings, run: RunFolder, scratch: Path, packages: Overlay | None
) -> Reproduction:
    sources, copy = sources_of(settings), RunFolder(scratch)
    has_pretrained = run.pretrained.is_dir()
    executor: LocalExecutor | None = None
    try:
        datasets = await asyncio.to_thread(lay_out_data, state, run, copy, sources)
        await asyncio.to_thread(copy_exchanges, run.root, scratch)
        executor = open_executor(
            settings.search.num_workers,
            copy.views,
            labels=copy.labels,
            settings=settings.sandbox,
            cache=copy.cache,
            pretrained=provided(settings, run if has_pretrained else copy, state),
            secret=(*files_of(sources), run.labels),
            scorers=copy.scorers,
            subjects=subjects_of(settings, scratch, replay=True),
        )
        executor.packages = packages
        if settings.code.repository is not None:
            await asyncio.to_thread(shutil.copytree, run.root / "code", scratch / "code", symlinks=True)
            executor.repository = await asyncio.to_thread(opened, settings, copy)
        place = Place(run, copy, executor, settings.sandbox.timeout, datasets, settings.subjects)
        return await reproduce_nodes(
            state,
            [state.nodes[name] for name in names],
            place,
            unlike=unlike(state, settings),
            tell=lambda one, done, of: say(
                f"{done}/{of}: {one.node} ({one.kind}, seed {one.seed}) in "
                f"{duration(one.seconds)}{f': {one.failure}' if one.failure else ''}"
            ),
        )
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    finally:
        if executor is not None:
            await executor.close()


def unlike(state: RunState, settings: Settings) -> tuple[str, ...]:
    """Why digits need not be equal here: another processor, interpreter, or number of threads; or a GPU."""
    here = machine_of(settings.sandbox)
    found = [one for there in state.machines for one in machines_unlike(there, here, packages=IMPORTED)]
    if not state.machines:
        found.append("the record does not say which machine it was made on")
    found += [
        f"{key} {state.setting(key)!r} there, {value!r} here"
        for key, value in (("sandbox.threads", settings.sandbox.threads), ("sandbox.device", settings.sandbox.device))
        if state.setting(key) != value
    ]
    held = settings.sandbox.deterministic and state.setting("sandbox.deterministic")
    if "cuda" in (settings.sandbox.device, state.setting("sandbox.device")) and not held:
        found.append("a GPU is used, whose sums need not come in the same order twice")
    return tuple(dict.fromkeys(found))


def _scratch(run: Path) -> Path:
    """A new folder beside the run, or beside its zip. Raises `WrongUse` where none can be made."""
    run = run.resolve().with_suffix("") if is_zip(run) else run.resolve()
    names = (f"{run.name}.reproduced{'' if number == 1 else f'-{number}'}" for number in itertools.count(1))
    path = next(path for name in names if not (path := run.with_name(name)).exists())
    try:
        path.mkdir()
    except OSError as error:
        raise WrongUse(f"cannot write beside {run}: {error.strerror}; copy the run to where you may") from None
    return path


def counts(found: Reproduction) -> dict[str, dict[str, int]]:
    """Verdicts of the paper's numbers, and of the others."""
    return {
        what: dict(Counter(one.verdict for one in found.numbers if one.claim == claim))
        for what, claim in (("claims", True), ("others", False))
    }


def lines(found: Reproduction, *, seconds: float, kept: str | None) -> Iterator[Text | Table]:
    """Nodes that ended otherwise, a table of numbers, and the sum of it."""
    yield from (line(f"{one.node}: {one.failure}", "red") for one in found.nodes if one.failure)
    order = {"missing": 0, "different": 0, "within noise": 1, "equal": 2}
    numbers = sorted(found.numbers, key=lambda one: (order[one.verdict], not one.claim))
    yield table(
        "number",
        "n",
        "recorded",
        "again",
        "verdict",
        rows=(
            (one.key, f"{len(one.nodes)}/{one.of}", one.recorded, one.again, _verdict(one)) for one in numbers[:SHOWN]
        ),
    )
    if len(numbers) > SHOWN:
        yield Text(f"... {len(numbers) - SHOWN} more: --json", style="dim")
    for what, by in counts(found).items():
        total = sum(by.values())
        verdicts = ", ".join(f"{by[verdict]}/{total} {verdict}" for verdict in sorted(by)) or "none"
        yield Text(f"{'numbers of the paper' if what == 'claims' else 'other values'}: {verdicts}")
    yield from (line(f"digits need not be equal: {why}", "yellow") for why in found.unlike)
    if found.left_out:
        yield line(f"not executed again: {', '.join(found.left_out)}", "yellow")
    if kept:
        yield line(f"what ran again is kept in {kept}")
    verdict = "reproduced" if found.good else "NOT reproduced"
    yield Text(f"{verdict}: {len(found.nodes)} nodes in {duration(seconds)}", style="green" if found.good else "red")


def _verdict(one: Number) -> Text:
    known = one.verdict == "within noise" and one.off is not None and one.noise is not None
    return Text(
        f"within noise ({one.off:.2g} of {one.noise:.2g})" if known else one.verdict,
        style={"equal": "green", "within noise": "yellow"}.get(one.verdict, "red"),
    )
