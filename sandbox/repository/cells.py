"""Measures cells of a repository: each is one run of its command, in a checkout of the tree of its arm.

Kept: nothing of a checkout outlives its cell but the metric, what was printed, and curves; a test metric is read by us
and sealed, and what tells it is withheld (`sandbox.repository.hiding`). Not kept: that the number is right, where the
code computes it itself: it is graded `logged`. Predictions are scored by us (`sandbox.repository.predictions`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from labwright.record.nouns.cells import Cell, place_of
from labwright.record.nouns.data import LARGEST, Measurement
from labwright.record.nouns.nodes import Failure
from labwright.record.repository_source import OUT, arm_in, code_in, command_line
from labwright.sandbox.cells import Ran, Schedule
from labwright.sandbox.errors import RepositoryError, SubmissionRefused
from labwright.sandbox.file_clock import next_time
from labwright.sandbox.job import MEASUREMENTS, CellOutcome, Job
from labwright.sandbox.output import TAIL_CHARS, LiveOutput
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.repository.curves import curves_of
from labwright.sandbox.repository.environment import Environment
from labwright.sandbox.repository.hiding import Hidden
from labwright.sandbox.repository.left_files import cleared_away
from labwright.sandbox.repository.metric import PREDICTIONS, Reading, make_ready, parse_metric, read_metric
from labwright.sandbox.repository.mirror import Mirror
from labwright.sandbox.repository.predictions import submit
from labwright.sandbox.results import Measured, measure
from labwright.sandbox.running import Runner
from labwright.sandbox.scoring import score_submissions
from labwright.sandbox.untrusted import names_in, open_regular, write_whole
from labwright.sandbox.workspace import CELLS, KERNELS

TEST = "test_metric"
"""Beginning of the names of sealed files that hold one value each."""


@dataclass(frozen=True)
class Repository:
    """What the cells of a study of a repository are run from."""

    mirror: Mirror
    environment: Environment
    hidden: Hidden = field(default_factory=Hidden)
    resume: tuple[str, ...] = ()
    device: str = "cpu"


@dataclass(frozen=True)
class _Left:
    """A run of the command that is over: its checkout, the folder of its cell, and when it began, by the clock of the
    checkout's file system."""

    ran: CommandOutcome
    place: Path
    folder: Path
    began: float

    def curves(self, cell: Cell, hidden: Hidden) -> bytes:
        """The lines of `measurements.jsonl` of the curves that it left. What the repository held before is older."""
        return "".join(f"{one.model_dump_json()}\n" for one in curves_of(self.place, cell, hidden, self.began)).encode()


@dataclass
class CommandWorker:
    """Measures one cell after the other, each in a checkout of its own."""

    repository: Repository
    runner: Runner
    job: Job
    live: LiveOutput
    number: int
    alone: bool
    dataset: str = ""
    arm: str = ""

    async def measure(self, cell: Cell, limit: float, schedule: Schedule) -> Ran:
        """Measure a cell in so many seconds. Raises `ExecutorError`."""
        place = self.job.folder / KERNELS / str(self.number) / cell.name
        folder = self.job.folder / CELLS / cell.name
        for one in (place, folder):
            await asyncio.to_thread(cleared_away, one)
        folder.mkdir(parents=True)
        try:
            outcome = await self._measured(cell, limit, schedule, place, folder)
        except RepositoryError as error:
            outcome = CellOutcome(cell=cell, seconds=0.0, failure=Failure(kind="other", message=str(error)))
        finally:
            await asyncio.to_thread(cleared_away, place)
        return Ran(outcome, folder)

    async def close(self) -> None:
        """Nothing is left running between cells."""

    async def _measured(self, cell: Cell, limit: float, schedule: Schedule, place: Path, folder: Path) -> CellOutcome:
        code, arm = code_in(self.job.source), arm_in(self.job.source, cell.arm)
        assert code is not None
        mirror = self.repository.mirror
        tree = await asyncio.to_thread(mirror.patched, code.tree, arm.patch)
        place.parent.mkdir(parents=True, exist_ok=True)
        kept = await asyncio.to_thread(mirror.checkout, tree, place)
        predictions = f"{PREDICTIONS}:{code.predictions}@" if code.predictions else ""
        metrics = [parse_metric(one, OUT) for one in (predictions or code.command.metric, code.test_metric) if one]
        stale = await asyncio.to_thread(make_ready, place, metrics, OUT)
        argv = command_line(
            code.command,
            cell.seed,
            code.words(arm, cell, self.job.settings.get(cell, {})),
            device=self.repository.device,
        )
        resume = self.repository.resume
        began = await asyncio.to_thread(next_time, place)
        ran = await self.runner.command(
            CommandJob(
                name=f"{self.job.name} {cell.name}",
                folder=place,
                argv=tuple(argv),
                env=code.command.env,
                timeout=limit / 2 if resume else limit,  # both runs together are within it
                ground=self.repository.environment.ground,
                readable=(kept,),
                resume=resume,
            ),
            schedule.needs(cell),
            alone=self.alone,
            begins=lambda: schedule.begun(cell),
        )
        left = _Left(ran, place, folder, began)
        if predictions:
            return await asyncio.to_thread(self._scored, cell, metrics[0].place, left)
        readings = [
            await asyncio.to_thread(
                read_metric, metric, place, ran.stdout, scale=code.command.scale, stale=old, since=began
            )
            for metric, old in zip(metrics, stale, strict=True)
        ]
        return await asyncio.to_thread(self._kept, cell, code.name, left, readings, code.command.scale)

    def _scored(self, cell: Cell, predictions: str, left: _Left) -> CellOutcome:
        """What its predictions come to, those of the test sealed. What it printed does not tell their scores."""
        ran, folder = left.ran, left.folder
        if ran.failure is not None:
            return self._outcome(cell, ran, ran.failure, self.repository.hidden, folder)
        collector, failure, hidden = self.runner.collector, None, self.repository.hidden
        measured = Measured((), {}, None)
        try:
            submit(
                folder,
                predictions,
                left.place,
                labels=collector.labels,
                dataset=cell.dataset,
                condition=cell.condition,
                since=left.began,
            )
            tests = score_submissions(folder, collector.labels, split="test", seed=cell.seed)
            hidden = hidden.knowing(*(one.value for one in tests))
            write_whole(folder, MEASUREMENTS, left.curves(cell, hidden))
            measured = measure(folder, collector.labels, seed=cell.seed, grade=collector.grade)
        except SubmissionRefused as error:
            failure = Failure(kind="diverged" if "not finite" in str(error) else "other", message=str(error))
        outcome = self._outcome(cell, ran, failure, hidden, folder)
        return replace(
            outcome, measurements=measured.final, sealed=measured.sealed, curves_sha256=measured.curves_sha256
        )

    def _kept(self, cell: Cell, name: str, left: _Left, readings: list[Reading], scale: float) -> CellOutcome:
        """What came of a cell, its files written to its folder."""
        ran, folder, value = left.ran, left.folder, readings[0]
        test = readings[1] if len(readings) > 1 else Reading()
        hidden = self.repository.hidden.knowing(test.value, None if test.value is None else test.value / scale)
        failure = ran.failure or _failure(value) or _failure(test)
        outcome = self._outcome(cell, ran, failure, hidden, folder)
        if failure is not None or value.value is None:
            return outcome
        found = Measurement(
            name=name,
            value=value.value,
            condition=cell.condition,
            dataset=cell.dataset,
            split="validation",
            seed=cell.seed,
            grade="logged",
        )
        lines = (found.model_dump_json() + "\n").encode() + left.curves(cell, hidden)
        write_whole(folder, MEASUREMENTS, lines)
        return replace(
            outcome,
            measurements=(found,),
            curves_sha256=hashlib.sha256(lines).hexdigest(),
            sealed={} if test.value is None else _sealed(folder, found, test.value),
        )

    def _outcome(
        self, cell: Cell, ran: CommandOutcome, failure: Failure | None, hidden: Hidden, folder: Path
    ) -> CellOutcome:
        """What is known of a run without its values; what it printed is written down, but for what is withheld."""
        output = hidden.shown(ran.output)
        write_whole(folder, "stdout.txt", output)
        self.live.add(f"\n--- {cell} ---\n{output}")
        return CellOutcome(
            cell=cell,
            seconds=ran.seconds,
            failure=_told(failure, hidden),
            stdout_tail=output[-TAIL_CHARS:],
            resumed=ran.resumed,
            peak_host_bytes=ran.peak_host_bytes,
        )


def _failure(reading: Reading) -> Failure | None:
    """Why there is no value; one that is not finite is training that diverged."""
    failure = reading.failure
    if failure is None and reading.value is not None and abs(reading.value) > LARGEST:
        return Failure(kind="diverged", message=f"the metric is larger than {LARGEST:g}")
    if failure is not None and "is not finite" in failure.message:
        return failure.model_copy(update={"kind": "diverged"})
    return failure


def _told(failure: Failure | None, hidden: Hidden) -> Failure | None:
    """A failure without what is withheld."""
    if failure is None:
        return None
    return failure.model_copy(
        update={"message": hidden.shown(failure.message), "traceback": hidden.shown(failure.traceback)}
    )


def _sealed(folder: Path, found: Measurement, value: float) -> dict[str, str]:
    content = found.model_copy(update={"split": "test", "value": value}).model_dump_json().encode()
    name = f"{TEST}__{place_of(found.dataset, found.condition)}.json"
    (folder / "sealed").mkdir()
    write_whole(folder, f"sealed/{name}", content)
    return {name: hashlib.sha256(content).hexdigest()}


def unsealed(folder: Path, sealed: Mapping[str, str] | None) -> tuple[Measurement, ...]:
    """The test values of an attempt's cells, checked against recorded sha256, or all that lie there (None).

    Raises `RepositoryError` where one is not what was sealed.
    """
    found: list[Measurement] = []
    for name in names_in(folder, "sealed", ".json") if sealed is None else sealed:
        if name.startswith(TEST):
            with open_regular(folder, f"sealed/{name}", 10_000) as file:
                content = file.read()
            if sealed is not None and hashlib.sha256(content).hexdigest() != sealed[name]:
                raise RepositoryError(f"sealed/{name} is not what was sealed: its sha256 is not {sealed[name][:12]}...")
            found.append(Measurement.model_validate(json.loads(content)))
    return tuple(found)
