"""Reproduction and ablation of a repository, from the request to the report: folder, lock, log and executor.

Commands for runs ignore its folder. Repeating the same request resumes it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from labwright.agent.budget import check_prices_known, open_budgeted_models
from labwright.agent.repository_session import RepositorySession
from labwright.agent.settings import Settings
from labwright.models.failover import open_backend
from labwright.record.baseline_check import parse_expected
from labwright.record.errors import UsageError
from labwright.record.event_log import EventListener, EventLog
from labwright.record.line_store import EVENTS_FILE
from labwright.record.lock import acquire_lock, is_unused
from labwright.record.log_reader import is_study, read_events
from labwright.record.prompt_store import store_prompt
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.reducers.state_fields import RepositoryState
from labwright.record.schema.data_plan import DatasetFacts
from labwright.record.schema.repository import RepositoryCommand
from labwright.sandbox.repository.command import check_command_environment
from labwright.sandbox.repository.git_mirror import GitMirror, ImportedTree
from labwright.sandbox.repository.metric import parse_metric
from labwright.sandbox.repository.predictions import check_truth, read_truth, write_labels
from labwright.stages.repository.ablation_report import write_report
from labwright.stages.repository.ablation_study import RepositoryAblation
from labwright.stages.repository.baseline_reproduction import (
    BASELINE_SEEDS,
    RepositoryReproduction,
    choose_command,
    to_command_found,
)
from labwright.stages.repository.command_runs import CommandRunner, CommandSetup
from labwright.stages.repository.model_queries import ModelQueries

LARGE_REPOSITORY_GB = 2.0
"""Checkouts larger than this (GB) get a warning: large files are linked instead of copied for each run."""


@dataclass(frozen=True)
class AblationRequest:
    """The repository to ablate, and the options of the ablation. `command` contains {seed} in place of the seed."""

    repository: str
    command: tuple[str, ...] = ()
    metric: str = ""
    direction: str = "max"
    scale: float = 1.0
    truth: str = ""
    """Table of labels, if the metric is computed from predictions."""
    expect: str = ""
    top: int = 5
    budget: int | None = None
    timeout: float = 3600.0
    python: str = ""
    mounts: tuple[tuple[str, str], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    resume: tuple[str, ...] = ()
    proxy: tuple[str, ...] = ()
    dirty: bool = False
    reproduce_only: bool = False
    accept_baseline: bool = False

    @property
    def recorded_terms(self) -> dict[str, object]:
        """Return the request as it is recorded, so that the same request is recognised later."""
        return json.loads(json.dumps(asdict(self)))


LATER_TERMS = ("reproduce_only", "accept_baseline")
"""Options that may differ when a folder is continued: whether ablations follow the baseline."""


def ablate_repository(
    request: AblationRequest, settings: Settings, folder: Path, *, listener: EventListener
) -> RunState:
    """Complete a request in a folder and return the state of its log.

    Raises: `UsageError`, `ExecutorError`, `RecordError`, `RunLockedError`.
    """
    open_backend(settings.models)
    check_prices_known(settings)
    if request.metric:
        parse_metric(request.metric)
    if request.expect:
        parse_expected(request.expect)
    if request.truth:
        check_truth(Path(request.truth), Path(request.repository), [place for _, place in request.mounts])
    if not folder.exists():
        GitMirror(folder / "mirror").check_importable(Path(request.repository), dirty=request.dirty)
    elif not is_study(folder, "ablation") and not is_unused(folder):
        raise UsageError(f"{folder} is not empty and is not an ablation: choose another --out")
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with acquire_lock(folder), closing(EventLog(folder / EVENTS_FILE, kind="ablation", listener=listener)) as log:
            asyncio.run(_AblationSession(request, settings, log).run())
            write_report(log.state.repository_state, folder)
            return log.state
    except UsageError:
        if made and not _has_recorded_work(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _has_recorded_work(folder: Path) -> bool:
    """Return whether a run or a billed answer was recorded, so that the folder is kept for resuming."""
    if not (folder / EVENTS_FILE).exists():
        return False
    state = fold_events(read_events(folder / EVENTS_FILE))
    return bool(state.repository_state.runs or state.answers)


@dataclass
class _AblationSession:
    request: AblationRequest
    settings: Settings
    log: EventLog

    @property
    def code(self) -> RepositoryState:
        return self.log.state.repository_state

    async def run(self) -> None:
        session, request = RepositorySession(self.settings, self.log), self.request
        folder, mirror = session.folder, session.mirror
        if request.truth and not (folder / "labels").is_dir():
            truth = read_truth(Path(request.truth)).without_splits
            facts = DatasetFacts(
                name="labels", source=request.truth, features=0, classes=0, sizes={}, fingerprint="", seed=0
            )
            write_labels(truth, truth.add_facts(facts), folder / "labels")
        taken = session.import_code(
            request.repository,
            request.recorded_terms,
            dirty=request.dirty,
            later_terms=LATER_TERMS,
            find_faults=lambda taken: (*taken.faults, *_large_checkout_warnings(taken)),
        )
        async with session.open_executor() as executor:
            texts = mirror.read_texts(taken.tree)
            environment = session.build_environment(
                texts, python=request.python, mounts={name: Path(path) for name, path in request.mounts}
            )
            check_command_environment(environment.command_environment, executor.config)
            runs = CommandRunner(
                self.log, executor, mirror, folder, request.timeout, self.settings.sandbox.device, request.resume
            )
            asking = ModelQueries(
                open_budgeted_models(self.settings, self.log, partial(store_prompt, folder)), self.log
            )
            command = await self._find_command(texts, asking)
            await self._study_parts(runs, CommandSetup(taken.tree, command, environment), asking)

    async def _study_parts(self, runs: CommandRunner, setup: CommandSetup, asking: ModelQueries) -> None:
        assert self.code.command is not None
        setup, baseline = await RepositoryReproduction(
            runs, self.settings.sandbox, setup, self.code.command.expected, queries=asking
        ).reproduce()
        accepted = baseline.verdict in ("reproduced", "unchecked") or (
            baseline.verdict == "differs" and self.request.accept_baseline
        )
        if accepted and not self.request.reproduce_only:
            proxy = setup.command.model_copy(update={"argv": self.request.proxy}) if self.request.proxy else None
            await RepositoryAblation(
                runs, setup, BASELINE_SEEDS, self.request.top, self.request.budget, proxy, asking
            ).ablate()

    async def _find_command(self, texts: dict[str, str], asking: ModelQueries) -> RepositoryCommand:
        if self.code.command is None:
            order = self.request
            given = (
                RepositoryCommand(
                    argv=order.command,
                    env=dict(order.env),
                    metric=order.metric,
                    direction="min" if order.direction == "min" else "max",
                    scale=order.scale,
                    seeded=any("{seed}" in word for word in order.command),
                )
                if order.command
                else None
            )
            found = choose_command(texts, given, order.metric, direction=order.direction, scale=order.scale)
            if found is None:
                found = to_command_found(await asking.choose_command(texts, given, order.metric), order.scale)
            expected = parse_expected(order.expect) if order.expect else found.expected
            self.log.append(
                found.model_copy(
                    update={
                        "expected": expected,
                        "command": found.command.model_copy(update={"env": found.command.env | dict(order.env)}),
                    }
                )
            )
        assert self.code.command is not None
        return self.code.command.command


def _large_checkout_warnings(taken: ImportedTree) -> tuple[str, ...]:
    size = taken.bytes / 1e9
    return (
        (f"the checkout has {size:.1f} GB: its large files are linked, not copied",)
        if size > LARGE_REPOSITORY_GB
        else ()
    )
