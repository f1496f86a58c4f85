"""The runs of a repository's command, each made once: by its files, words, environment, data, device and seed."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from labwright.record.events.repository import CommandEnded, Purpose
from labwright.record.fold.facts import CodeState
from labwright.record.folder import draft_of, seal
from labwright.record.log import EventLog
from labwright.record.nouns.nodes import Failure
from labwright.record.nouns.repository import Command, CommandRun
from labwright.record.repository_source import OUT, command_line
from labwright.sandbox.file_clock import next_time
from labwright.sandbox.repository import trace
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.repository.environment import Environment
from labwright.sandbox.repository.left_files import cleared_away
from labwright.sandbox.repository.metric import PREDICTIONS, Reading, make_ready, parse_metric, read_metric
from labwright.sandbox.repository.mirror import Mirror
from labwright.sandbox.repository.predictions import read_score
from labwright.sandbox.untrusted import remove

TAIL = 4000


class Executor(Protocol):
    """Runs commands, so many at a time."""

    slots: int

    async def command(self, job: CommandJob) -> CommandOutcome:
        """Run a command to its end. Raises `ExecutorError`."""
        ...


@dataclass(frozen=True)
class Setup:
    """What a run is made of, but for its seed: files, command and environment."""

    tree: str
    command: Command
    environment: Environment


@dataclass
class Runs:
    """Makes runs and commits each; one that was made is not made again."""

    recorder: EventLog
    executor: Executor
    mirror: Mirror
    folder: Path
    """The record's."""
    timeout: float
    device: str = "cpu"
    resume: tuple[str, ...] = ()
    """The command after a cut, for programs that go on from what they left."""
    _under_way: dict[str, asyncio.Task[CommandRun]] = field(default_factory=dict[str, "asyncio.Task[CommandRun]"])

    @property
    def labels(self) -> Path:
        """Where labels lie that predictions are scored against; no command sees it."""
        return self.folder / "labels"

    @property
    def under_way(self) -> int:
        """Runs that have not ended."""
        return len(self._under_way)

    @property
    def code(self) -> CodeState:
        return self.recorder.state.code

    def folder_of(self, run: CommandRun) -> Path:
        """Where what it printed lies, and what a traced run saw."""
        return self.folder / "runs" / run.id

    def key(self, setup: Setup, words: Sequence[str], seed: int, repeat: int) -> str:
        """What a run is known by."""
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

    def made(self, setup: Setup, seed: int, *, words: Sequence[str] = (), repeat: int = 0) -> CommandRun | None:
        """A run that was made before."""
        seed, repeat = _numbers(setup.command, seed, repeat)
        argv = command_line(setup.command, seed, words)
        known = self.code.runs.get(self.key(setup, argv, seed, repeat))
        return known.run if known is not None else None

    async def make(
        self,
        setup: Setup,
        seed: int,
        purpose: Purpose,
        *,
        words: Sequence[str] = (),
        parts: Sequence[str] = (),
        repeat: int = 0,
        traced: bool = False,
    ) -> CommandRun:
        """The run, made now or before. Of a program that takes no seed, `seed` counts its repeats.

        Raises: `ExecutorError`.
        """
        seed, repeat = _numbers(setup.command, seed, repeat)
        argv = command_line(setup.command, seed, words)
        key = self.key(setup, argv, seed, repeat)
        if (known := self.code.runs.get(key)) is not None:
            return known.run
        if key not in self._under_way:
            blank = CommandRun(
                id=key[:24], key=key, tree=setup.tree, argv=tuple(argv), seed=seed, repeat=repeat, seconds=0
            )
            self._under_way[key] = asyncio.create_task(self._make(setup, blank, purpose, tuple(parts), traced))
        try:
            return await asyncio.shield(self._under_way[key])
        finally:
            if (task := self._under_way.get(key)) is not None and task.done():
                del self._under_way[key]

    async def _make(
        self, setup: Setup, run: CommandRun, purpose: Purpose, parts: tuple[str, ...], traced: bool
    ) -> CommandRun:
        place = self.folder / "work" / run.id
        await asyncio.to_thread(cleared_away, place)
        kept = await asyncio.to_thread(self.mirror.checkout, setup.tree, place)
        metric = parse_metric(setup.command.metric, OUT)
        (stale,) = await asyncio.to_thread(make_ready, place, [metric], OUT)
        env = dict(setup.command.env)
        if traced:
            remove(place, trace.FOLDER)
            (place / trace.FOLDER).mkdir()
            env |= trace.variables()
        began = await asyncio.to_thread(next_time, place)
        env = trace.hooked(env)
        outcome = await self.executor.command(
            CommandJob(
                name=f"{purpose} run {run.id}",
                folder=place,
                argv=run.argv,
                ground=setup.environment.ground,
                env=env,
                timeout=self.timeout,
                readable=(kept, trace.HOOK),
                resume=self.resume,
            )
        )
        reading = (
            Reading()
            if outcome.failure is not None
            else await asyncio.to_thread(read_score, metric, place, self.labels, scale=setup.command.scale, since=began)
            if metric.kind == PREDICTIONS
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
                "stdout_tail": outcome.tail[-TAIL:],
                "peak_host_bytes": outcome.peak_host_bytes,
            }
        )
        await asyncio.to_thread(self._keep, run, outcome, place)
        self.recorder.append(CommandEnded(run=run, purpose=purpose, parts=parts))
        return run

    def _keep(self, run: CommandRun, outcome: CommandOutcome, place: Path) -> None:
        final = self.folder_of(run)
        final.parent.mkdir(parents=True, exist_ok=True)
        draft = draft_of(final)
        (draft / "output.txt").write_text(outcome.output, encoding="utf-8", errors="replace")
        trace.keep(place, draft)
        seal(draft, final)
        cleared_away(place)


def failed(run: CommandRun) -> Failure | None:
    """Why a run gave no value."""
    return run.failure if run.value is None else None


def _numbers(command: Command, seed: int, repeat: int) -> tuple[int, int]:
    return (seed, repeat) if command.seeded else (0, seed + 1000 * repeat)
