"""Run a repository's command; each run is identified by its files, words, environment, data, device and seed, and
executed once."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from labwright.record.event_log import Recorder
from labwright.record.events.repository_events import CommandEnded, CommandPurpose
from labwright.record.reducers.state_fields import RepositoryState
from labwright.record.repository_source import OUTPUT_FOLDER, build_command_line
from labwright.record.run_folder import RunFolder, create_draft_folder, seal_folder
from labwright.record.schema.repository import CommandRun, RepositoryCommand
from labwright.record.untrusted_files import make_folder, remove_path, remove_tree, write_file
from labwright.sandbox.file_clock import wait_for_next_time
from labwright.sandbox.repository import trace
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.repository.environment import RepositoryEnvironment
from labwright.sandbox.repository.git_mirror import GitMirror
from labwright.sandbox.repository.metric import (
    PREDICTIONS_KIND,
    MetricReading,
    parse_metric,
    prepare_checkout,
    read_metric,
)
from labwright.sandbox.repository.predictions import score_predictions
from labwright.search.run_control import RunControl

MAX_TAIL_CHARS = 4000


class CommandExecutor(Protocol):
    """Runs commands, at most `slots` at a time."""

    slots: int

    async def run_command(self, job: CommandJob) -> CommandOutcome:
        """Run a command to completion. Raises `ExecutorError`."""
        ...


@dataclass(frozen=True)
class CommandSetup:
    """Everything that defines a run except its seed: files, command and environment."""

    tree: str
    command: RepositoryCommand
    environment: RepositoryEnvironment


@dataclass
class CommandRunner:
    """Executes and records runs; a recorded run is not repeated."""

    recorder: Recorder
    executor: CommandExecutor
    mirror: GitMirror
    folder: Path
    """Folder of the record."""
    timeout: float
    device: str = "cpu"
    resume: tuple[str, ...] = ()
    """Command that resumes an interrupted run, for programs that save their state."""
    signals: RunControl = field(default_factory=RunControl)
    _running: dict[str, asyncio.Task[CommandRun]] = field(default_factory=dict[str, "asyncio.Task[CommandRun]"])

    @property
    def labels_folder(self) -> Path:
        """Folder of the labels for scoring predictions; no command can read it."""
        return RunFolder(self.folder).labels

    @property
    def running_count(self) -> int:
        """Number of unfinished runs."""
        return len(self._running)

    @property
    def code_state(self) -> RepositoryState:
        return self.recorder.state.repository_state

    def find_run_folder(self, run: CommandRun) -> Path:
        """Return the folder with the output of a run, and its trace if there is one."""
        return self.folder / "runs" / run.id

    def compute_key(self, setup: CommandSetup, words: Sequence[str], seed: int, repeat: int) -> str:
        """Return the key that identifies a run."""
        content = [
            setup.tree,
            list(words),
            sorted(setup.command.env.items()),
            setup.environment.digest,
            setup.command.metric,
            setup.command.scale,
            self.device,
            seed,
            repeat,
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def find_run(
        self, setup: CommandSetup, seed: int, *, words: Sequence[str] = (), repeat: int = 0
    ) -> CommandRun | None:
        """Return a run from the record; None if it was not executed."""
        seed, repeat = _split_seed(setup.command, seed, repeat)
        argv = build_command_line(setup.command, seed, words)
        known = self.code_state.runs.get(self.compute_key(setup, argv, seed, repeat))
        return known.run if known is not None else None

    async def run(
        self,
        setup: CommandSetup,
        seed: int,
        purpose: CommandPurpose,
        *,
        words: Sequence[str] = (),
        parts: Sequence[str] = (),
        repeat: int = 0,
        traced: bool = False,
    ) -> CommandRun:
        """Return the run, from the record or newly executed. If the program takes no seed, `seed` counts repetitions.

        Raises `ExecutorError`.
        """
        seed, repeat = _split_seed(setup.command, seed, repeat)
        argv = build_command_line(setup.command, seed, words)
        key = self.compute_key(setup, argv, seed, repeat)
        if (known := self.code_state.runs.get(key)) is not None:
            return known.run
        if key not in self._running:
            blank = CommandRun(
                id=key[:24], key=key, tree=setup.tree, argv=tuple(argv), seed=seed, repeat=repeat, seconds=0
            )
            self._running[key] = asyncio.create_task(self._run_new(setup, blank, purpose, tuple(parts), traced))
        try:
            return await asyncio.shield(self._running[key])
        finally:
            if (task := self._running.get(key)) is not None and task.done():
                del self._running[key]

    async def _run_new(
        self, setup: CommandSetup, run: CommandRun, purpose: CommandPurpose, parts: tuple[str, ...], traced: bool
    ) -> CommandRun:
        if not await self.signals.wait_to_continue():
            await asyncio.Event().wait()  # the process ends within its grace period and cancels this task
        place = self.folder / "work" / run.id
        await asyncio.to_thread(remove_tree, place, ignore_errors=True)
        kept = await asyncio.to_thread(self.mirror.checkout, setup.tree, place)
        metric = parse_metric(setup.command.metric, OUTPUT_FOLDER)
        (stale,) = await asyncio.to_thread(prepare_checkout, place, [metric], OUTPUT_FOLDER)
        env = dict(setup.command.env)
        if traced:
            remove_path(place, trace.TRACE_FOLDER)
            make_folder(place, trace.TRACE_FOLDER)
            env |= trace.build_trace_variables()
        began = await asyncio.to_thread(wait_for_next_time, place)
        env = trace.add_hook(env)
        outcome = await self.executor.run_command(
            CommandJob(
                name=f"{purpose} run {run.id}",
                folder=place,
                argv=run.argv,
                environment=setup.environment.command_environment,
                env=env,
                timeout=self.timeout,
                readable=(kept, trace.HOOK_FOLDER),
                resume=self.resume,
            )
        )
        reading = (
            MetricReading()
            if outcome.failure is not None
            else await asyncio.to_thread(
                score_predictions, metric, place, self.labels_folder, scale=setup.command.scale, since=began
            )
            if metric.kind == PREDICTIONS_KIND
            else await asyncio.to_thread(
                read_metric, metric, place, outcome.stdout, scale=setup.command.scale, stale=stale, since=began
            )
        )
        run = run.model_copy(
            update={
                "seconds": outcome.seconds,
                "value": reading.value,
                "note": reading.note,
                "failure": outcome.failure or reading.failure,
                "stdout_tail": outcome.tail[-MAX_TAIL_CHARS:],
                "peak_host_bytes": outcome.peak_host_bytes,
            }
        )
        await asyncio.to_thread(self._store_output, run, outcome, place)
        self.recorder.append(CommandEnded(run=run, purpose=purpose, parts=parts))
        return run

    def _store_output(self, run: CommandRun, outcome: CommandOutcome, place: Path) -> None:
        final = self.find_run_folder(run)
        final.parent.mkdir(parents=True, exist_ok=True)
        draft = create_draft_folder(final)
        write_file(draft, "output.txt", outcome.output)
        trace.copy_trace(place, draft)
        seal_folder(draft, final)
        remove_tree(place, ignore_errors=True)


def _split_seed(command: RepositoryCommand, seed: int, repeat: int) -> tuple[int, int]:
    return (seed, repeat) if command.seeded else (0, seed + 1000 * repeat)
