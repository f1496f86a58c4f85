"""The process of a run: executes the state machine, handles commands and signals, watches the clock, and records
how it ended.

Limits: after a `kill -9` it cannot end gracefully; the next process continues from the log.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from labwright.agent.data import fetch_models, list_sources
from labwright.agent.environment import describe_isolation_for_readers, list_packages, paper_notice
from labwright.agent.forecast import build_cost_table, forecast_remaining, open_studied_llms
from labwright.agent.repository_setup import build_report_files, open_repository
from labwright.agent.settings import Settings, override_settings, read_credentials
from labwright.agent.state_machine import Step, run_state_machine
from labwright.inspector.safe_text import shorten
from labwright.literature.lookup import open_literature
from labwright.models.backend import Backend
from labwright.models.budget import Budget
from labwright.models.client import ModelClient, Models
from labwright.models.errors import BudgetSpent, ProviderDown
from labwright.models.retry import Retry
from labwright.record import control_files
from labwright.record.campaign import SLOTS_FOLDER, count_campaign_peers
from labwright.record.claims.hypothesis_tests import UnmeasuredEffectError
from labwright.record.claims.open_questions import build_earlier_study, keep_study
from labwright.record.event_log import EventLog, Recorder
from labwright.record.events.run_events import (
    CTRL_C,
    CommandIgnored,
    CommandReceived,
    ProcessEnded,
    StudiedLLMsAsked,
    StudyKept,
)
from labwright.record.events.search_events import PlanAmended
from labwright.record.float_compare import parse_whole_number
from labwright.record.llm_calls import LLMUnavailable, read_exchanges, store_prompt
from labwright.record.reducers.run_state import RunState
from labwright.record.retention import delete_unreferenced
from labwright.record.run_folder import RunFolder, hash_file, read_free_gb, write_file
from labwright.record.schema.nodes import PHASES, STAGES, Phase, StageName
from labwright.sandbox.content_store import ContentStore, default_store_root, share_run
from labwright.sandbox.datasets import list_source_files
from labwright.sandbox.executor import LocalExecutor, open_executor
from labwright.sandbox.hub import HubOffers
from labwright.sandbox.isolation.interpreter import format_environment
from labwright.sandbox.job import ClusterDown, ExecutorError, PackageError, RepositoryError
from labwright.sandbox.packages import PackageOverlay, RunPackages, restore_packages
from labwright.sandbox.repository.environment import StudyRepository
from labwright.sandbox.scorers import parse_scorers
from labwright.search.scheduler import RunControl
from labwright.stages.data_planning import PlanError, prepare
from labwright.stages.evidence.scoring import score_tests
from labwright.stages.measuring import TooLate
from labwright.stages.nodes.repository_program import BaselineError
from labwright.stages.paper import paper_steps
from labwright.stages.paper.paper_steps import judge_paper
from labwright.stages.paper.response import respond
from labwright.stages.repository.ablation_study import ablate
from labwright.stages.repository.arm_runs import prepare_repository
from labwright.stages.repository.baseline_reproduction import reproduce
from labwright.stages.repository.question import answer
from labwright.stages.reviewer_requests import run_addendum, run_missing_ablations
from labwright.stages.run_context import (
    RepeatedFaultError,
    RunContext,
    StopRequested,
    record_limit,
    record_time_limit,
    run_once,
)
from labwright.stages.stage_runner import NoWorkingNodeError, StageRunner

# Process user commands of a running run: from `control/` into the record, then apply them.
#
# Each command is committed before it is applied, and its file is deleted afterwards; a file named by an event is not
# processed again. Ignored commands are reported in an event.
#
# The program pauses a run with such a command while the disk is nearly full.

PROGRAM_AUTHOR = "the program"
"""Author of pauses because of a nearly full disk."""
RESUME_DISK_MARGIN = 1.1
MAX_PROBLEMS_LISTED = 5
"""Maximum ignored files that an event names; it counts the others."""


@dataclass
class CommandHandler:
    """Handles the commands of one process. `pending` names the files that existed before it started."""

    folder: RunFolder
    recorder: Recorder
    signals: RunControl
    stop: Callable[[], None]
    pending_files: frozenset[str] = frozenset()
    _handled: set[str] = field(default_factory=set[str])
    """Names of processed files that still exist, because they cannot be deleted or belong to another user."""

    def process_commands(self) -> None:
        """Process all waiting commands. Raises `RecordError`."""
        found = control_files.read_pending_commands(self.folder.root)
        problems = [f"{name} is not a plain .json file" for name in found.ignored_entries if name not in self._handled]
        self._handled.update(found.ignored_entries)
        taken = {one.command.file for one in self.recorder.state.user_commands} if found.commands else set[str]()
        for path, command in found.commands:
            if path.name not in self._handled and path.name not in taken:
                why = command if isinstance(command, str) else self._apply_command(command)
                problems += [why] if why else []
            try:
                path.unlink()
            except OSError:
                self._handled.add(path.name)
        if problems:
            self.recorder.append(CommandIgnored(number=len(problems), messages=tuple(problems[:MAX_PROBLEMS_LISTED])))

    def pause_on_full_disk(self, min_free_gb: float) -> None:
        """Pause the run while its disk has less free space than this (10^9 bytes), then resume it.

        Resuming requires 10 % more, so that a run does not keep pausing and resuming. Raises `RecordError`, `OSError`.
        """
        pause, free = self.recorder.state.paused_by, read_free_gb(self.folder.root)
        if pause is None and free < min_free_gb and not self.signals.stop_event.is_set():
            text = (
                f"only {free:.2f} GB are free on the run's disk, but min_free_gb is {min_free_gb:g}: it "
                f"resumes automatically once {RESUME_DISK_MARGIN * min_free_gb:.3g} GB are free"
            )
            self.recorder.append(CommandReceived(verb="pause", by=PROGRAM_AUTHOR, text=text))
            self.signals.pause()
        elif pause is not None and pause.by == PROGRAM_AUTHOR and free >= RESUME_DISK_MARGIN * min_free_gb:
            text = f"{free:.2f} GB are free again"
            self.recorder.append(CommandReceived(verb="resume", by=PROGRAM_AUTHOR, text=text))
            self._continue()

    def _continue(self) -> None:
        """Allow new work, unless another reason for a pause remains: a full disk, or a gate."""
        if not self.recorder.state.is_paused:
            self.signals.resume()

    def _apply_command(self, command: CommandReceived) -> str | None:
        """Record and apply a command; return why it is ignored, if it is."""
        state, is_pending = self.recorder.state, command.file in self.pending_files
        why = control_files.find_refusal(state, command, is_running=not is_pending)
        if why is not None:
            return f"{command.verb} {command.target[:40]}".strip() + f": {why}"
        if command.verb == "note" and not command.target:  # record the stage in the log
            command = command.model_copy(update={"target": state.search.stage or ""})
        if command.verb == "approve" and state.open_gate is not None:
            command = command.model_copy(update={"target": state.open_gate.reached.gate})
        # first: after a kill here the command is refused, but the plan is amended
        if command.plan is not None and command.target != "plan":
            self.recorder.append(
                PlanAmended(
                    number=len(state.search.amendments) + 1,
                    data_plan=command.plan,
                    why=command.text or "changed at the gate, without a reason",
                    by=command.by or "the user",
                    seen=control_files.describe_seen_results(state),
                )
            )
            write_file(self.folder.root / "data_plan.json", command.plan.model_dump_json(indent=1))
            command = command.model_copy(update={"plan": None})  # the amendment has the plan
        self.recorder.append(command)
        match command.verb:
            case "stop":
                self.stop()
            case "pause":
                self.signals.pause()
            case "resume" | "approve":
                self._continue()
            case "kill":
                self.signals.kill_node(command.target)
            case "mark" | "note" | "amend":
                pass  # recording is enough
        return None


RELEASED, FAILED, WRONG_USE, LIMITED, NOT_RELEASED, FINDINGS, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
FINISHED_CODES = (RELEASED, LIMITED, NOT_RELEASED)
"""Exit codes of a study on an idea that has a result, if only the reason why it has no paper."""
POLL_SECONDS = 0.3
"""Seconds between checks of `control/` and the clock."""


def find_ending(state: RunState) -> tuple[int, str]:
    """Return the exit code of a finished study, and why its paper was not released, or nothing was found."""
    if state.kind != "paper":
        code, reason = _find_repository_ending(state)
        return (code, reason) if state.limit_reason is None else (LIMITED, state.limit_reason)
    if state.paper.released is None or not state.paper.released.released:
        return NOT_RELEASED, "; ".join(state.paper.released.reasons) if state.paper.released else ""
    return LIMITED if state.limit_reason else RELEASED, ""


def _find_repository_ending(state: RunState) -> tuple[int, str]:
    if (answer := state.question.answer) is not None:
        return (RELEASED, "") if answer.conclusion else (NOT_RELEASED, answer.why)
    if (found := state.ablation.results) is not None:
        nothing = f"nothing was ablated: {found.stopped or 'no part was found'}"
        return (RELEASED, "") if found.results else (FINDINGS, nothing)
    baseline = state.repository.baseline
    if baseline is not None and baseline.verdict in ("reproduced", "unchecked"):
        return RELEASED, ""
    if baseline is not None and baseline.verdict == "differs":
        given = any(state.read_setting(f"ablation.{one}") for one in ("reproduce_only", "accept_baseline"))
        advice = "" if given else ": to ablate it anyway, give --accept-baseline"
        why = f"; {baseline.why}" if baseline.why else ""
        return FINDINGS, f"the result differs from the expected one{advice}{why}"
    return FINDINGS, (baseline is not None and baseline.why) or "the result was not reproduced"


def record_end(folder: RunFolder, settings: Settings, log: EventLog, code: int, reason: str) -> None:
    """Record how the process ended; a finished study on an idea first leaves its record in the memory, if any."""
    if settings.memory is not None and log.state.kind == "paper" and code in FINISHED_CODES:
        study = build_earlier_study(log.state, folder, failed=reason if code == NOT_RELEASED else "")
        kept = StudyKept(memory=str(settings.memory), id=study.id, sha256="")
        try:
            kept = kept.model_copy(update={"sha256": hash_file(keep_study(settings.memory, study))})
        except OSError as error:
            kept = kept.model_copy(update={"why": error.strerror or str(error)})
        log.append(kept)
    log.append(ProcessEnded(exit_code=code, reason=reason))


def read_job_end(variable: str) -> float | None:
    """Return when the SLURM job ends, in seconds since the epoch; None outside a job or without a time limit."""
    return float(parse_whole_number(variable) or 0) or None


@dataclass
class RunProcess:
    """Executes a run until it is finished or a stop is requested."""

    folder: RunFolder
    settings: Settings
    log: EventLog
    pending_commands: frozenset[str]
    """Commands that waited before this process started."""
    backend: Backend
    repository: StudyRepository | None = None
    """The repository, if the start of the study has opened it."""

    async def run(self) -> int:
        self.signals, self.stop_reason = RunControl(), ""
        self.main: asyncio.Task[object] | None = asyncio.current_task()
        self.began, self.before = self.signals.read_clock(), self.log.state.active_seconds
        executor = open_executor(
            self.settings.search.num_workers,
            self.folder.views,
            labels=self.folder.labels,
            settings=self.settings.sandbox,
            cache=self.folder.cache,
            pretrained=fetch_models(self.settings, self.folder, self.log.state),
            secret=list_source_files(list_sources(self.settings)),
            scorers=self.folder.scorers,
            subjects=open_studied_llms(self.settings, self.folder.root),
            shared=self.settings.campaign and self.settings.campaign / SLOTS_FOLDER,
        )
        if self.log.state.paper.version == 1 or self.log.state.paper.reviews:  # not needed to rewrite a paper
            executor.packages = restore_packages(
                self.log.state.search.installed_packages, self.folder.packages_lock, self.settings.sandbox
            )
        repository = self.repository
        if repository is None and self.settings.code.repository is not None:
            repository = await asyncio.to_thread(open_repository, self.settings, self.folder, self.log.state)
        executor.repository = repository
        self._attach(self._build_context(executor, repository))
        if self.log.state.open_gate is not None:
            self.signals.pause()
        with self._handling_signals():
            try:
                record_time_limit(self.context)
                async with self._watching(self.context):
                    is_paper = self.log.state.kind == "paper"
                    steps = self._list_paper_steps() if is_paper else self._list_repository_steps()
                    done = await run_state_machine(steps, lambda: self.log.state)
            except (PlanError, PackageError, BaselineError, RepositoryError) as error:
                return self._record_end(WRONG_USE, str(error))
            except (NoWorkingNodeError, paper_steps.NoDraftError) as error:
                return self._record_end(NOT_RELEASED, str(error))
            except (RepeatedFaultError, UnmeasuredEffectError) as error:
                return self._record_end(FAILED, str(error))
            except (ProviderDown, BudgetSpent, LLMUnavailable, ClusterDown) as error:
                return self._record_end(INTERRUPTED, str(error))
            except asyncio.CancelledError:
                if not self.signals.stop_event.is_set():
                    raise
                return self._record_end(INTERRUPTED, f"{self.stop_reason}; work in flight was dropped")
            finally:
                self.main = None  # no cancellation from here on, so that everything is closed completely
                await self.research.close()
                await executor.close()
                if repository is not None:
                    repository.mirror.forget_checkouts()
            if not done and self.log.state.phase != "done":
                return self._record_end(INTERRUPTED, self.stop_reason)
            return self._record_end(*find_ending(self.log.state))

    def _attach(self, context: RunContext) -> None:
        self.context, self.research = context, StageRunner(context)

    def _record_end(self, code: int, reason: str) -> int:
        record_end(self.folder, self.settings, self.log, code, reason)
        return code

    def _build_context(self, executor: LocalExecutor, repository: StudyRepository | None) -> RunContext:
        settings = self.settings

        def equip(overlay: PackageOverlay) -> None:
            executor.packages = overlay
            found = overlay.installed
            text = format_environment(settings.sandbox.python, found.packages, found.sha256)
            write_file(self.folder.environment, text)

        is_paper = self.log.state.kind == "paper"
        costs = build_cost_table(settings, lambda: self.log.state.gpus_per_experiment) if is_paper else None
        budget = Budget(settings.budget, self.log, settings.models, costs)
        return RunContext(
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
                retry=Retry(settings.models, self.log.append, self._compute_seconds_left),
                budget=budget,
                keep=partial(store_prompt, self.folder.root),
            ),
            budget=budget,
            repository=repository,
            ablation=settings.ablation,
            question=settings.question,
            sandbox=settings.sandbox,
            node_seconds=settings.sandbox.timeout,
            run_seconds=settings.time_limit,
            seconds_left=self._compute_seconds_left,
            device=executor.device,
            packages=list_packages(settings.sandbox.python),
            run_packages=RunPackages(settings.sandbox, equip),
            hub=HubOffers(settings.sandbox, executor.add_pretrained),
            memory=settings.memory,
            forecast=forecast_remaining,
            notice=paper_notice,
            literature=(lambda: open_literature(settings.literature, read_credentials()))
            if settings.literature.sources
            else None,
            isolation=describe_isolation_for_readers,
            signals=self.signals,
            sources=list_sources(settings),
            scorers=parse_scorers(list_sources(settings), settings.sandbox.scorers),
            subjects=settings.subjects,
        )

    def _list_repository_steps(self) -> dict[Phase, Step]:
        """Return the steps of an ablation or a question. A limit ends measuring; then the report is written."""

        async def complete(phase: Phase) -> bool:
            async def work(_: ModelClient) -> None:
                with suppress(BudgetSpent, TooLate):  # recorded as a limit
                    await steps[phase](self.context)
                record_time_limit(self.context)

            with suppress(StopRequested):
                await run_once(self.context, phase, work)
            return not self.signals.stop_event.is_set()

        async def report(context: RunContext) -> None:
            for name, text in build_report_files(context.state, context.folder).items():
                write_file(context.folder.root / name, text)

        steps: dict[Phase, Callable[[RunContext], Awaitable[None]]] = {
            "prepare": prepare_repository,
            "reproduce": reproduce,
            "ablate": ablate,
            "answer": answer,
            "report": report,
        }
        return {phase: partial(complete, phase) for phase in PHASES[self.log.state.kind][:-1]}

    def _list_paper_steps(self) -> dict[Phase, Step]:
        async def unless_stopped(step: Callable[[RunContext], Awaitable[None]]) -> bool:
            if await self.signals.wait_to_continue():
                with suppress(StopRequested):
                    await step(self.context)
            return not self.signals.stop_event.is_set()

        async def prepared(context: RunContext) -> None:
            await prepare(context)
            state = self.log.state
            if state.started is not None and state.overrides:  # settings derived from the plan
                self._attach(replace(context, search=override_settings(state.started.settings, state.overrides).search))

        async def searched(stage: StageName) -> bool:
            until = self.settings.until
            if until is not None and STAGES.index(stage) > STAGES.index(until):
                if await self.research.run_follow_ups(stage):
                    self.stop_reason = f"stopped after the {until} stage, as requested"
                return False
            return await self.research.run_stage(stage)

        async def tidied(step: Step) -> bool:
            await delete_unreferenced(self.folder, self.log)
            with suppress(ExecutorError):  # without a store, the run keeps its own copies
                await asyncio.to_thread(
                    share_run, self.folder, ContentStore(self.settings.sandbox.store or default_store_root())
                )
            state, campaign = self.log.state, self.settings.campaign
            if campaign is not None and state.search.scored_at is not None and state.campaign is None:
                place = await asyncio.to_thread(count_campaign_peers, campaign, self.folder.root)
                if place is not None:
                    self.log.append(place)
            uses = read_exchanges(self.folder.root).usage if self.settings.subjects else state.calls.llm_usage
            if uses != state.calls.llm_usage:
                self.log.append(StudiedLLMsAsked(uses=uses))
            return await step()

        async def requested(work: Callable[[RunContext], Awaitable[bool]]) -> bool:
            return await self.signals.wait_to_continue() and await work(self.context)

        steps: dict[Phase, Callable[[RunContext], Awaitable[None]]] = {
            "prepare": prepared,
            "score": score_tests,
            "respond": respond,
            "judge": judge_paper,
            **paper_steps.PAPER_STEPS,
        }
        every: dict[Phase, Step] = {
            "missing": partial(requested, run_missing_ablations),
            "addendum": partial(requested, run_addendum),
            **{stage: partial(searched, stage) for stage in STAGES},
            **{phase: partial(unless_stopped, step) for phase, step in steps.items()},
        }
        return {phase: partial(tidied, step) for phase, step in every.items()}

    # --- signals, commands and clock --------------------------------------------------------------------------------

    @contextmanager
    def _handling_signals(self) -> Generator[None]:
        """Handle signals: the first one stops gracefully, the second one at once; while closing, signals are
        ignored.
        """
        loop = asyncio.get_running_loop()

        def interrupted(by: str) -> None:
            if self.signals.stop_event.is_set():
                self._cancel()
            else:
                self._request_stop(f"stopped by {by}")
                self.log.append(CommandReceived(verb="stop", by=by))

        # SLURM sends SIGUSR1 in advance
        handlers: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGINT: partial(interrupted, CTRL_C),
            **{one: partial(interrupted, one.name) for one in (signal.SIGTERM, signal.SIGUSR1)},
        }
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored under nohup: the run continues
            # the terminal is gone, e.g. a broken ssh connection; shells signal twice, which must not force a stop
            handlers[signal.SIGHUP] = partial(self._request_stop, "stopped because its terminal was closed")
        if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
            handlers.clear()
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    @asynccontextmanager
    async def _watching(self, context: RunContext) -> AsyncGenerator[None]:
        """Process commands and watch the clock in the background. If the watch fails, the run ends and the error is
        raised, since the run could no longer be stopped, paused or limited."""
        watch = asyncio.ensure_future(self._watch(context))
        watch.add_done_callback(lambda watch: None if watch.cancelled() else self._cancel())
        try:
            yield
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch

    async def _watch(self, context: RunContext) -> None:
        def handle_stop() -> None:
            request = self.log.state.user_commands[-1].command
            by = f" by {request.by}" if request.by else ""
            self._request_stop(f"stopped{by}" + (f": {shorten(request.text, 160)}" if request.text else ""))

        job = read_job_end(os.environ.get("SLURM_JOB_END_TIME", ""))
        job = job and time.monotonic() + job - time.time()  # the system clock may be changed meanwhile
        commands = CommandHandler(self.folder, self.log, self.signals, handle_stop, self.pending_commands)
        while True:
            with suppress(OSError):  # a disk or file server may be briefly unavailable; retry at the next check
                commands.process_commands()
                commands.pause_on_full_disk(self.settings.min_free_gb)
            record_time_limit(context)
            if job is not None and time.monotonic() > job - self.settings.slurm.margin_timeout:
                if self.settings.slurm.at_end == "report" and self.log.state.open_gate is None:
                    record_limit(self.log, "the SLURM job is about to end")
                else:
                    self._request_stop("stopped before the end of the SLURM job")
            await asyncio.sleep(POLL_SECONDS)

    def _compute_seconds_left(self) -> float:
        return self.settings.time_limit - (self.before + self.signals.read_clock() - self.began)

    def _request_stop(self, why: str) -> None:
        """Request a stop; work that is still running after the grace period is dropped, and repeated on resume."""
        if not self.signals.stop_event.is_set():
            self.stop_reason = why
            asyncio.get_running_loop().call_later(self.settings.search.grace + 5.0, self._cancel)
        self.signals.stop_event.set()

    def _cancel(self) -> None:
        if self.main is not None:
            self.main.cancel()
