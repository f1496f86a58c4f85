"""Consume the results of an executor: commit ended cells, and leave out what is too late."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable
from pathlib import Path

from labwright.record.event_log import RecordError
from labwright.record.run_folder import is_disk_full, sync_tree
from labwright.sandbox.job import CellEnded, CellResult, CellStarted, ExecutorError, Job, JobEnded, JobOutcome
from labwright.stages.run_context import RunContext

CommitCell = Callable[[CellResult, Path], Path]
"""Move the folder of an ended cell to its place, commit the result, and return the place."""


class TooLate(Exception):
    """Raised when a job is skipped because the time limit has passed before its first cell could start."""


async def measure_job(
    context: RunContext,
    job: Job,
    *,
    on_start: Callable[[], None] = lambda: None,
    commit: CommitCell | None = None,
    has_deadline: bool = True,
    decision: int | None = None,
) -> JobOutcome:
    """Measure a job and return its outcome. With a `decision`, its time limit is first reserved in the budget of the
    run under the job's name.

    Raises `ExecutorError`; `BudgetSpent`; `RecordError` if code failed while the run's disk is full; with
    `has_deadline`, `TooLate` if the run's time limit has passed when the job could start.
    """
    if context.budget is not None and decision is not None:
        await context.budget.reserve_attempt(decision, job.name, job.timeout)
    has_started = False
    async with context.executor.measure(job) as stream:
        async for event in stream:
            match event:
                case CellStarted():
                    if has_deadline and not has_started and context.seconds_left() <= 0:
                        if context.budget is not None and decision is not None:
                            context.budget.release(job.name)
                        raise TooLate(job.name)
                    if not has_started:
                        on_start()
                    has_started = True
                case CellEnded(result=result, folder=folder):
                    await to_thread(sync_tree, folder)
                    root = context.folder.root
                    if result.failure is not None and is_disk_full(root):  # not a failure of the experiment
                        raise RecordError(
                            f"No space left on device at {root}: free disk space, then resume; {job.name} is repeated"
                        )
                    if commit is not None:
                        event.folder = commit(result, folder)
                case JobEnded(outcome):
                    return outcome
    raise ExecutorError(f"{job.name} ended without an outcome")
