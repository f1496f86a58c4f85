"""The process that works on a run: drives the graph, takes commands and signals, watches the clock, says how it ended.

What it does not guarantee: that it ends in an orderly way; after a `kill -9` the next process finds the log as it was.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from labwright.agent.budget import shares_of, subjects_of
from labwright.agent.code import opened, under_study
from labwright.agent.data import provided, sources_of
from labwright.agent.environment import environment_text, isolation_text, notice, packages
from labwright.agent.graph import Step, run_graph
from labwright.agent.settings import Settings, credentials, override
from labwright.agent.steering import Steering
from labwright.inspector.text import short
from labwright.literature.lookup import open_literature
from labwright.models.backend import Backend
from labwright.models.budget import Budget
from labwright.models.client import Models
from labwright.models.errors import BudgetSpent, ProviderDown
from labwright.models.retry import Retry
from labwright.record import prompts
from labwright.record.campaign import SLOTS, place_in
from labwright.record.events.running import Ended, SubjectsAsked
from labwright.record.exchanges import SubjectDown, uses_of
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder, write_file
from labwright.record.keeping import collect
from labwright.record.log import EventLog
from labwright.record.nouns.nodes import STAGES, Phase, StageName
from labwright.record.whole_numbers import parse_whole_number
from labwright.sandbox.datasets import files_of
from labwright.sandbox.errors import ClusterDown, ExecutorError, PackageError
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.hub import HubOffers
from labwright.sandbox.opening import open_executor
from labwright.sandbox.packages.of_run import RunPackages, again
from labwright.sandbox.packages.store import Overlay
from labwright.sandbox.repository.cells import Repository
from labwright.sandbox.scorers import scorers_of
from labwright.sandbox.store import Store, default_root, share_run
from labwright.search.signals import Signals
from labwright.stages.bench import Bench, SameFaultError, limit, note_time
from labwright.stages.evidence.scoring import score_tests
from labwright.stages.judging import judge
from labwright.stages.missing_ablations import missing_ablations
from labwright.stages.nodes.of_repository import BaselineError
from labwright.stages.paper import flow
from labwright.stages.prepare import PlanError, prepare
from labwright.stages.stage import NothingWorkedError, Research

RELEASED, FAILED, WRONG_USE, LIMITED, NOT_RELEASED, INTERRUPTED = 0, 1, 2, 3, 4, 130
POLL = 0.3
"""Seconds between looks at `control/` and the clock."""


def ending_of(state: RunState) -> tuple[int, str]:
    """The exit code of a run that is at its end, and why its paper was not released."""
    if state.released is None or not state.released.released:
        return NOT_RELEASED, "; ".join(state.released.reasons) if state.released else ""
    return LIMITED if state.limited else RELEASED, ""


def job_end(variable: str) -> float | None:
    """When the SLURM job ends, in seconds since the epoch; None outside a job, and in one without an end.

    Source: sbatch(1), output environment variables, SLURM_JOB_END_TIME.
    """
    return float(parse_whole_number(variable) or 0) or None


@dataclass
class Process:
    """Works on a run until it is at its end, or is asked to stop."""

    folder: RunFolder
    settings: Settings
    log: EventLog
    left: frozenset[str]
    """Commands that waited before this process took the run up."""
    backend: Backend

    async def run(self) -> int:
        self.signals, self.main, self.asked_by = Signals(), asyncio.current_task(), "interrupted"
        self.began, self.before = self.signals.clock(), self.log.state.active_seconds
        executor = open_executor(
            self.settings.search.num_workers,
            self.folder.views,
            labels=self.folder.labels,
            settings=self.settings.sandbox,
            cache=self.folder.cache,
            pretrained=provided(self.settings, self.folder, self.log.state),
            secret=files_of(sources_of(self.settings)),
            scorers=self.folder.scorers,
            subjects=subjects_of(self.settings, self.folder.root),
            shared=self.settings.campaign and self.settings.campaign / SLOTS,
        )
        if self.log.state.version == 1:  # a paper that is only written again needs none
            executor.packages = again(self.log.state.installed, self.folder.packages, self.settings.sandbox)
        repository: Repository | None = None
        if self.settings.code.repository is not None:
            repository = executor.repository = await asyncio.to_thread(opened, self.settings, self.folder)
        self._take_up(self._bench(executor, repository))
        with self._signalled():
            try:
                note_time(self.bench)
                async with self._watched(self.bench):
                    done = await run_graph(self._steps(), lambda: self.log.state)
            except (PlanError, PackageError, BaselineError) as error:
                return self._end(WRONG_USE, str(error))
            except (NothingWorkedError, flow.NoDraftError) as error:
                return self._end(NOT_RELEASED, str(error))
            except SameFaultError as error:
                return self._end(FAILED, str(error))
            except (ProviderDown, BudgetSpent, SubjectDown, ClusterDown) as error:
                return self._end(INTERRUPTED, str(error))
            except asyncio.CancelledError:
                if not self.signals.stop.is_set():
                    raise
                return self._end(INTERRUPTED, f"{self.asked_by}; work in flight was dropped")
            finally:
                self.main = None  # from here on nobody cancels: what is closed is closed whole
                await self.research.close()
                await executor.close()
                if repository is not None:
                    repository.mirror.forget_checkouts()
            if not done and self.log.state.phase != "done":
                return self._end(INTERRUPTED, f"{self.asked_by}; go on with 'scientist resume'")
            return self._end(*ending_of(self.log.state))

    def _take_up(self, bench: Bench) -> None:
        self.bench, self.research = bench, Research(bench)

    def _end(self, code: int, reason: str) -> int:
        self.log.append(Ended(exit_code=code, reason=reason))
        return code

    def _bench(self, executor: LocalExecutor, repository: Repository | None) -> Bench:
        settings = self.settings

        def equip(overlay: Overlay) -> None:
            executor.packages = overlay
            write_file(
                self.folder.root / "environment.txt", environment_text(settings.sandbox.python, overlay.installed)
            )

        budget = Budget(settings.budget, self.log, shares_of(settings, lambda: self.log.state.gpus), settings.models)
        return Bench(
            recorder=self.log,
            folder=self.folder,
            executor=executor,
            search=settings.search,
            paper=settings.paper,
            models=Models(
                self.backend,
                self.log,
                settings.models,
                time.monotonic,
                retry=Retry(settings.models, self.log.append, self._seconds_left),
                budget=budget,
                keep=partial(prompts.keep, self.folder.root),
            ),
            budget=budget,
            repository=under_study(
                settings, self.folder, repository.environment.digest if repository is not None else ""
            ),
            node_seconds=settings.sandbox.timeout,
            run_seconds=settings.time_limit,
            seconds_left=self._seconds_left,
            device=executor.device,
            network=settings.sandbox.network == "on",
            packages=packages(settings.sandbox.python),
            more_packages=RunPackages(settings.sandbox, equip),
            of_user=settings.sandbox.pretrained,
            hub=HubOffers(settings.sandbox, executor.equip),
            notice=notice(self.log.state),
            literature=(lambda: open_literature(settings.literature, credentials()))
            if settings.literature.sources
            else None,
            isolation=isolation_text,
            signals=self.signals,
            sources=sources_of(settings),
            scorers=scorers_of(sources_of(settings), settings.sandbox.scorers),
            subjects=settings.subjects,
        )

    def _steps(self) -> dict[Phase, Step]:
        async def unless_stopped(step: Callable[[Bench], Awaitable[None]]) -> bool:
            if await self.signals.going():
                await step(self.bench)
            return not self.signals.stop.is_set()

        async def prepared(bench: Bench) -> None:
            await prepare(bench)
            state = self.log.state
            if state.started is not None and state.overrides:  # what followed from the plan
                self._take_up(replace(bench, search=override(state.started.settings, state.overrides).search))

        async def searched(stage: StageName) -> bool:
            until = self.settings.until
            if until is not None and STAGES.index(stage) > STAGES.index(until):
                if await self.research.owed(stage):
                    self.asked_by = f"the {until} stage is done, after which it was to stop"
                return False
            return await self.research.stage(stage)

        async def tidied(step: Step) -> bool:
            await collect(self.folder, self.log)
            with suppress(ExecutorError):  # without a store the run has copies of its own
                await asyncio.to_thread(share_run, self.folder, Store(self.settings.sandbox.store or default_root()))
            if (
                self.settings.campaign is not None
                and self.log.state.tests
                and self.log.state.campaign is None
                and (place := await asyncio.to_thread(place_in, self.settings.campaign, self.folder.root)) is not None
            ):
                self.log.append(place)
            if self.settings.subjects and (uses := uses_of(self.folder.root)) != self.log.state.subjects:
                self.log.append(SubjectsAsked(uses=uses))
            return await step()

        async def missing() -> bool:
            return await self.signals.going() and await missing_ablations(self.bench)

        steps: dict[Phase, Callable[[Bench], Awaitable[None]]] = {
            "prepare": prepared,
            "score": score_tests,
            "judge": judge,
            **flow.STEPS,
        }
        every: dict[Phase, Step] = {
            "missing": missing,
            **{stage: partial(searched, stage) for stage in STAGES},
            **{phase: partial(unless_stopped, step) for phase, step in steps.items()},
        }
        return {phase: partial(tidied, step) for phase, step in every.items()}

    # --- attention to the outside -----------------------------------------------------------------------------------

    @contextmanager
    def _signalled(self) -> Generator[None]:
        """While inside: one signal stops gently, the second at once; while things are closed, none does."""
        loop = asyncio.get_running_loop()

        def interrupted() -> None:
            if self.signals.stop.is_set():
                self._drop()
            self._stop("interrupted")

        # SIGUSR1 is what SLURM is asked to send in advance
        handlers: dict[signal.Signals, Callable[[], None]] = dict.fromkeys(
            (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1), interrupted
        )
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup has it ignored: then the run goes on
            # the terminal is gone, as when an ssh connection breaks; shells say it twice, which is no haste
            handlers[signal.SIGHUP] = partial(self._stop, "stopped because its terminal was closed")
        if threading.current_thread() is not threading.main_thread():  # signals come to the main thread alone
            handlers.clear()
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    @asynccontextmanager
    async def _watched(self, bench: Bench) -> AsyncGenerator[None]:
        """While inside: commands are taken, and the clock is watched. What ends the watch ends the run, and is raised:
        nobody would stop, pause or limit it any more."""
        watch = asyncio.ensure_future(self._watch(bench))
        watch.add_done_callback(lambda watch: None if watch.cancelled() else self._drop())
        try:
            yield
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch

    async def _watch(self, bench: Bench) -> None:
        def asked_to_stop() -> None:
            request = self.log.state.steered[-1].command
            by = f" by {request.by}" if request.by else ""
            self._stop(f"stopped{by}" + (f": {short(request.text, 160)}" if request.text else ""))

        job = job_end(os.environ.get("SLURM_JOB_END_TIME", ""))
        job = job and time.monotonic() + job - time.time()  # the machine's clock may be set meanwhile
        steering = Steering(self.folder, self.log, self.signals, asked_to_stop, self.left)
        while True:
            with suppress(OSError):  # of a disk or a file server that is away for a moment: the next look may reach it
                steering.look()
                steering.mind_disk(self.settings.min_free_gb)
            note_time(bench)
            if job is not None and time.monotonic() > job - self.settings.slurm.margin_timeout:
                if self.settings.slurm.at_end == "report":
                    limit(self.log, "the SLURM job is about to end")
                else:
                    self._stop("stopped before the end of the SLURM job")
            await asyncio.sleep(POLL)

    def _seconds_left(self) -> float:
        return self.settings.time_limit - (self.before + self.signals.clock() - self.began)

    def _stop(self, why: str) -> None:
        """Ask to stop; what still runs after the grace is dropped (a resumed run does it again)."""
        if not self.signals.stop.is_set():
            self.asked_by = why
            asyncio.get_running_loop().call_later(self.settings.search.grace + 5.0, self._drop)
        self.signals.stop.set()

    def _drop(self) -> None:
        if self.main is not None:
            self.main.cancel()
