"""One run from its idea to its end: makes the folder, holds the lock, drives the graph, says how it ended.

`start` and `resume` return an exit code: 0 released, 3 ended by a limit with a partial report, 4 no paper released,
130 interrupted and resumable. What makes a run impossible is raised before anything is left behind.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import signal
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractContextManager, asynccontextmanager, closing, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from agent.alerts import Alerts
from agent.budget import check_budget, check_priced, shares_of
from agent.data import pinned, sources_of
from agent.environment import environment_text, isolation_text, machine_of, notice, packages
from agent.graph import Step, run_graph
from agent.pretrained import provided
from agent.settings import Settings, credentials, override
from agent.slurm import job_end
from agent.steering import Steering
from literature.desk import open_literature
from models.backend import open_backend
from models.breaker import Breaker
from models.budget import Budget
from models.door import Models
from models.errors import BudgetSpent, CatalogueError, ModelConfigError, ProviderDown
from models.tracing import Tracing, open_tracing
from record import control, prompts
from record.events import Ended, Event, Limited, Resumed, Rewriting, Started
from record.fold import RunState
from record.folder import RunFolder, write_file
from record.lock import hold
from record.log import EventLog, Listener, RecordError, open_log, read_state
from record.nouns import STAGES, Idea, StageName
from record.place import on_network
from sandbox.datasets import files_of
from sandbox.evaluation.scorers import scorers_of
from sandbox.executor import LocalExecutor
from sandbox.isolation.probe import terms_of
from sandbox.orphans import reap
from search.signals import Signals
from stages.ablations.work import missing_ablations
from stages.bench import Bench
from stages.context.reading import keep
from stages.evidence.score import score_tests
from stages.final_figures import final_figures
from stages.judging import judge
from stages.paper import template
from stages.prepare import prepare
from stages.stage import NothingWorkedError, Research
from stages.writing.citing import cite
from stages.writing.revising import reflect
from stages.writing.work import release, write

RELEASED, LIMITED, NOT_RELEASED, INTERRUPTED = 0, 3, 4, 130
POLL = 0.3
"""Seconds between looks at `control/` and the clock."""


class RunExistsError(Exception):
    """The name of a new run is taken."""


def start(idea: Idea, settings: Settings, *, runs: Path, name: str | None, listener: Listener) -> int:
    """Make a run of an idea and bring it to its end; returns the exit code.

    Raises: `ModelConfigError`, `CatalogueError`, `IsolationError`, `DatasetError`, `RunExistsError`, `RecordError`:
    nothing is left behind then.
    """
    open_backend(settings.models)  # refuses an impossible model before anything is created
    check_budget(settings)
    isolation = terms_of(settings.sandbox)
    settings = pinned(settings)
    chosen = template.load(settings.paper.template)
    root = runs / (name or f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{idea.name}")
    if root.exists():
        raise RunExistsError(f"{root} exists; choose another --name, or go on with it: scientist resume {root}")
    folder = RunFolder(root)
    folder.create()
    try:
        write_file(root / "idea.json", idea.model_dump_json(by_alias=True, indent=1))
        write_file(root / "config.yaml", as_yaml(settings))
        write_file(root / "environment.txt", environment_text(settings.sandbox.python))
        if settings.context is not None:
            keep(settings.context, folder.context)
        if settings.paper.bib is not None:
            write_file(folder.library, settings.paper.bib.read_bytes())
        copied = template.keep(chosen, folder.templates)
        started = Started(idea=idea, settings=settings.model_dump(mode="json"), seed=settings.seed,
                          version=version("scientist"), model=settings.models.called,
                          isolation=isolation, machine=machine_of(settings.sandbox), template=copied)
        return _drive(folder, settings, listener, first=started)
    except (ModelConfigError, CatalogueError):
        if read_state(root).data_plan is None:
            shutil.rmtree(root)
        raise


def resume(run: Path, overrides: dict[str, Any], *, listener: Listener) -> int:
    """Take a run up where it was left; returns the exit code.

    Raises: `RecordError`, `RunLockedError`, `SettingsError`, `IsolationError`, `ModelError`.
    """
    state = read_state(run)
    if state.started is None:
        raise RecordError(f"{run} was cut off before it began; start it again with 'scientist run'")
    if state.phase == "done" and state.ended is not None:  # nothing is left to do, and so nothing is written
        return _code(state)
    settings = override(state.started.settings, state.overrides | overrides)
    check_priced(settings)
    first = Resumed(settings=overrides, model=settings.models.called, isolation=terms_of(settings.sandbox),
                    machine=machine_of(settings.sandbox), template=_renamed(RunFolder(run), settings, overrides))
    return _drive(RunFolder(run), settings, listener, first=first)


def rewrite(run: Path, overrides: dict[str, Any], *, listener: Listener) -> int:
    """Write the paper of a finished run again, beside the one that is there; returns the exit code.

    Experiments and figures stay as they are. Raises: what `resume` raises.
    """
    state = read_state(run)
    if state.started is None or state.phase != "done":
        raise RecordError(f"{run} is not at its end: bring it there first: scientist resume {run}")
    settings = override(state.started.settings, state.overrides | overrides)
    open_backend(settings.models)
    first = Rewriting(version=state.version + 1, settings=overrides, model=settings.models.called,
                      template=_renamed(RunFolder(run), settings, overrides))
    return _drive(RunFolder(run), settings, listener, first=first)


def _renamed(folder: RunFolder, settings: Settings, overrides: dict[str, Any]) -> str:
    """The hash of the run's copy of a template that was named anew; empty where none was."""
    if "paper.template" not in overrides:
        return ""
    return template.keep(template.load(settings.paper.template), folder.templates)


def _drive(
    folder: RunFolder, settings: Settings, listener: Listener, *, first: Started | Resumed | Rewriting
) -> int:
    network = on_network(folder.root) if settings.network_folder is None else settings.network_folder
    left = control.names(folder.root)
    alerts = Alerts(settings.alerts, folder.root)

    def tell(event: Event, state: RunState) -> None:
        listener(event, state)
        alerts(event, state)

    with (hold(folder.root, network=network), closing(open_log(folder.root, network=network, listener=tell)) as log,
          closing(open_tracing(settings.models, folder.root.name)) as tracing):
        try:
            if isinstance(first, Rewriting) and log.state.phase != "done":  # another process was faster
                raise RecordError(f"{folder.root} is being written again already: scientist resume {folder.root}")
            if isinstance(first, Resumed):
                if log.state.phase == "done":
                    return _over(log)
                first = first.model_copy(update={"reaped": len(reap(folder.cache))})
            log.append(first)
            process = _Process(replace(folder, version=log.state.version), settings, log, tracing, left)
            return asyncio.run(process.run())
        except OSError as error:
            alerts.send("failure", str(error), log.state)
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                raise RecordError(f"cannot write to {folder.root}: {error.strerror}; free disk space (or mend the "
                                  "mount), then resume") from error
            raise
        except Exception as error:
            alerts.send("failure", f"{type(error).__name__}: {error}", log.state)
            raise
        finally:
            alerts.close()


def _over(log: EventLog) -> int:
    """The exit code of a run that is at its end; a kill may have come before that was recorded."""
    code = _code(log.state)
    if log.state.ended is None:
        log.append(Ended(exit_code=code, reason=_reasons(log.state)))
    return code


def _reasons(state: RunState) -> str:
    return "; ".join(state.released.reasons) if state.released else ""


def _code(state: RunState) -> int:
    if state.released is None or not state.released.released:
        return NOT_RELEASED
    return LIMITED if state.limited else RELEASED


@dataclass
class _Process:
    """The process that works on a run."""

    folder: RunFolder
    settings: Settings
    log: EventLog
    tracing: Tracing
    left: frozenset[str]
    """Commands that waited before this process took the run up."""

    async def run(self) -> int:
        self.signals = Signals()
        self.began, self.before = self.signals.clock(), self.log.state.active_seconds
        self.asked_by = "interrupted"
        executor = LocalExecutor(
            self.settings.search.num_workers, self.folder.views, labels=self.folder.labels,
            settings=self.settings.sandbox, cache=self.folder.cache, pretrained=provided(self.settings, self.folder),
            secret=files_of(sources_of(self.settings)), scorers=self.folder.scorers)
        bench = self._bench(executor)
        research = Research(bench)
        try:
            async with self._attended(asyncio.current_task()):
                done = await run_graph(self._steps(bench, research), lambda: self.log.state)
        except NothingWorkedError as error:
            return self._end(NOT_RELEASED, str(error))
        except (ProviderDown, BudgetSpent) as error:
            return self._end(INTERRUPTED, str(error))
        except asyncio.CancelledError:
            if not self.signals.stop.is_set():
                raise
            return self._end(INTERRUPTED, f"{self.asked_by}; work in flight was dropped")
        finally:
            await research.close()
            await executor.close()
        if not done and self.log.state.phase != "done":
            return self._end(INTERRUPTED, f"{self.asked_by}; go on with 'scientist resume'")
        return self._end(_code(self.log.state), _reasons(self.log.state))

    def _end(self, code: int, reason: str) -> int:
        self.log.append(Ended(exit_code=code, reason=reason))
        return code

    def _bench(self, executor: LocalExecutor) -> Bench:
        settings = self.settings
        budget = Budget(settings.budget, self.log, shares_of(settings), settings.models)
        return Bench(
            recorder=self.log, folder=self.folder, executor=executor, search=settings.search, paper=settings.paper,
            models=Models(
                open_backend(settings.models), self.log, settings.models, time.monotonic,
                breaker=Breaker(settings.models, self.log.append, self._seconds_left), budget=budget,
                keep=partial(prompts.keep, self.folder.root), tracing=self.tracing),
            budget=budget,
            node_seconds=settings.sandbox.timeout, run_seconds=settings.time_limit, device=executor.device,
            network=settings.sandbox.network == "on",
            packages=packages(settings.sandbox.python), pretrained=settings.sandbox.pretrained,
            notice=notice(self.log.state),
            literature=(lambda: open_literature(settings.literature, credentials())) if settings.literature.sources
            else None,
            isolation=isolation_text(self.log.state), signals=self.signals, sources=sources_of(settings),
            scorers=scorers_of(sources_of(settings), settings.sandbox.scorers))

    def _steps(self, bench: Bench, research: Research) -> dict[str, Step]:
        async def whole(step: Callable[[Bench], Coroutine[Any, Any, None]]) -> bool:
            if await self.signals.going():
                await step(bench)
            return not self.signals.stop.is_set()

        async def missing() -> bool:
            return await self.signals.going() and await missing_ablations(bench)

        def searched(stage: StageName) -> Step:
            return lambda: research.stage(stage)

        return {
            "prepare": lambda: whole(prepare), "score": lambda: whole(score_tests),
            "figures": lambda: whole(final_figures), "write": lambda: whole(write), "cite": lambda: whole(cite),
            "reflect": lambda: whole(reflect), "release": lambda: whole(release), "judge": lambda: whole(judge),
            "missing": missing,
            **{stage: searched(stage) for stage in STAGES},
        }

    # --- attention to the outside -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def _attended(self, main: asyncio.Task[Any] | None) -> AsyncGenerator[None]:
        """While inside: commands are taken, the clock is watched, one signal stops gently and the second at once."""
        loop = asyncio.get_running_loop()

        def interrupted() -> None:
            if self.signals.stop.is_set() and main is not None:
                main.cancel()
            self._stop(main)

        def hung_up() -> None:
            """The terminal is gone, as when an ssh connection breaks. Shells tell it twice, which is no haste."""
            if not self.signals.stop.is_set():
                self.asked_by = "stopped as its terminal was closed"
                self._stop(main)

        # SIGUSR1 is what SLURM is asked to send in advance
        handled: dict[signal.Signals, Callable[[], None]] = dict.fromkeys(
            (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1), interrupted)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup has it ignored: then the run goes on
            handled[signal.SIGHUP] = hung_up
        with _quiet():
            for number, handler in handled.items():
                loop.add_signal_handler(number, handler)
        watch = asyncio.ensure_future(self._watch(main))
        try:
            yield
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch
            with _quiet():
                for number in handled:
                    loop.remove_signal_handler(number)

    async def _watch(self, main: asyncio.Task[Any] | None) -> None:
        job = job_end(os.environ)
        steering = Steering(self.folder, self.log, self.signals, lambda: self._stop(main), self.left)
        while True:
            steering.look()
            if self._seconds_left() < 0:
                self._limit(f"the time limit of {self.settings.time_limit:g} s was reached")
            if job is not None and time.time() > job - self.settings.slurm.margin_timeout:
                self._job_ends(main)
            await asyncio.sleep(POLL)

    def _seconds_left(self) -> float:
        return self.settings.time_limit - (self.before + self.signals.clock() - self.began)

    def _limit(self, reason: str) -> None:
        state = self.log.state  # a released paper is not made partial by the time that its judge takes
        if state.limited is None and state.released is None and state.version == 1:
            self.log.append(Limited(reason=reason))

    def _job_ends(self, main: asyncio.Task[Any] | None) -> None:
        if self.settings.slurm.at_end == "report":
            self._limit("the SLURM job is about to end")
        elif not self.signals.stop.is_set():
            self.asked_by = "stopped before the end of the SLURM job"
            self._stop(main)

    def _stop(self, main: asyncio.Task[Any] | None) -> None:
        """Ask to stop; what still runs after the grace is dropped (a resumed run does it again)."""
        if not self.signals.stop.is_set() and main is not None:
            asyncio.get_running_loop().call_later(self.settings.search.grace + 5.0, main.cancel)
        self.signals.stop.set()


def _quiet() -> AbstractContextManager[None]:
    """Signal handlers can only be set in the main thread; elsewhere (tests) there are none."""
    import threading

    in_main = threading.current_thread() is threading.main_thread()
    return nullcontext() if in_main else suppress(RuntimeError, ValueError)


def as_yaml(settings: Settings) -> str:
    """Settings as the run's configuration file has them."""
    import yaml

    return yaml.safe_dump(json.loads(settings.model_dump_json()), sort_keys=False)
