"""Scheduling of cells: order, number of workers and skipped cells, with an executor that runs no code."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from labwright.record.schema.data_plan import Measurement, ResourceNeeds
from labwright.record.schema.nodes import Cell, Failure
from labwright.sandbox.cell_scheduler import MAX_KERNEL_DEATHS, CellSchedule
from labwright.sandbox.job import CellEnded, CellResult, CellStarted, ExecutorError, Job, JobOutcome
from tests.fake_executor import FakeExecutor
from tests.jobs import cell_tasks, run_job
from tests.search import virtual_time

UNIT = 0.02
"""Seconds per second of the simulated study."""
MEASURES = "import lab\nlab.measure(print, reads={'late': 'early'})\n"


def cell(arm: str, level: str = "", dataset: str = "digits") -> Cell:
    return Cell(dataset=dataset, arm=arm, level=level)


def study(arms: str, levels: str = "1") -> tuple[Cell, ...]:
    """Return cells of every arm at every level, each named by a letter."""
    return tuple(cell(arm, level) for level in levels for arm in arms)


def job_of(cells: tuple[Cell, ...], folder: Path, *, timeout: float = 1000.0) -> Job:
    return Job(
        name="study", folder=folder, source={"experiment.py": MEASURES}, cells=cell_tasks(cells), timeout=timeout * UNIT
    )


def executor_of(
    seconds: Mapping[str, float],
    *,
    slots: int = 1,
    memory_gb: float = math.inf,
    failures: Mapping[str, Failure] | None = None,
    shared: Path | None = None,
) -> FakeExecutor:
    """Each cell takes the time of its arm, in `UNIT`; `failures` are keyed by cell name."""

    def script(job: Job, one: Cell) -> tuple[float, CellResult]:
        value = Measurement(
            name="size",
            value=1.0,
            condition=one.condition,
            dataset=one.dataset,
            split="validation",
            seed=one.seed,
            grade="logged",
        )
        return seconds[one.arm] * UNIT, CellResult(
            failure=(failures or {}).get(one.name), cell=one, measurements=(value,)
        )

    def plain(job: Job) -> tuple[float, JobOutcome]:
        raise ExecutorError("none of these jobs is a plain script")

    return FakeExecutor(plain, slots=slots, cell=script, start_seconds=UNIT, memory_gb=memory_gb, shared=shared)


def run(executor: FakeExecutor, job: Job) -> tuple[JobOutcome, list[str]]:
    """The outcome of the job and its cells in the order they started."""
    outcome = virtual_time.run(run_job(executor, job))
    return outcome, [name.removeprefix("study digits__") for name in executor.started]


def expecting(job: Job, seconds: float) -> Job:
    return replace(job, cells=cell_tasks(job.cells, expected=dict.fromkeys(job.cells, seconds)))


def finish(
    schedule: CellSchedule, result: CellResult, folder: Path, *, kernel_died: bool = False, is_first_cell: bool = False
) -> None:
    """An execution ends and is committed."""
    schedule.mark_ended(CellEnded(result, folder, kernel_died=kernel_died, is_first_cell=is_first_cell))
    schedule.mark_committed(CellEnded(result, folder))


def became(outcome: JobOutcome) -> dict[str, str]:
    return {line.cell.condition: line.outcome for line in outcome.cells}


def test_pilots_come_first_and_then_the_longest(tmp_path: Path) -> None:
    job = job_of(study("abc", "12"), tmp_path)
    outcome, order = run(executor_of({"a": 1, "b": 4, "c": 2}), job)
    assert order == ["a__2", "b__2", "c__2", "b__1", "c__1", "a__1"]
    assert outcome.failure is None and [line.cell for line in outcome.cells] == list(job.cells)
    assert [one.condition for one in outcome.measurements] == [one.condition for one in job.cells]


def test_a_small_study_has_one_worker_and_a_large_one_all_that_pay(tmp_path: Path) -> None:
    small, large = executor_of({"a": 0.1, "b": 0.1}, slots=4), executor_of({"a": 12, "b": 8}, slots=4)
    job = job_of(study("ab", "123"), tmp_path)
    run(small, expecting(job, 0.1 * UNIT))
    outcome, _ = run(large, expecting(job, 12 * UNIT))
    assert (small.workers["study"], large.workers["study"]) == (1, 4)
    assert large.max_at_once == 4 and set(became(outcome).values()) == {"measured"}


def test_what_does_not_fit_is_left_out_from_the_end(tmp_path: Path) -> None:
    job = job_of(study("ab", "1234"), tmp_path, timeout=24)
    outcome, order = run(executor_of({"a": 4, "b": 4}), job)
    assert order[:2] == ["a__4", "b__4"] and set(order[2:]) == {"a__1", "b__1", "a__2"}
    assert outcome.failure is None
    left = [line for line in outcome.cells if line.outcome == "left out"]
    assert [line.cell.condition for line in left] == ["b@2", "a@3", "b@3"]
    assert all("are expected" in line.why for line in left)
    assert outcome.seconds <= job.timeout
    outcome, order = run(executor_of({"a": 4, "b": 4}), replace(job, may_skip_cells=False))
    assert len(order) == 6 and sorted(became(outcome).values()).count("failed") <= 1  # until the budget is spent


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        ({"digits__a__1": Failure(kind="shape", message="no")}, "1 of 4 cells failed; the first, a@1 on digits: no"),
        ({"digits__a__1": Failure(kind="diverged", message="nan")}, ""),
    ],
)
def test_when_a_job_has_failed(tmp_path: Path, failed: dict[str, Failure], words: str) -> None:
    outcome, _ = run(executor_of({"a": 1, "b": 1}, failures=failed), job_of(study("ab", "12"), tmp_path))
    assert bool(outcome.failure) == bool(words)
    assert outcome.failure is None or outcome.failure.message.startswith(words)


def test_where_every_pilot_raises_the_rest_is_left_out(tmp_path: Path) -> None:
    raised = Failure(kind="other", message="NameError: x")
    failures = {one.name: raised for one in study("ab", "123")}
    outcome, order = run(executor_of({"a": 1, "b": 1}, failures=failures), job_of(study("ab", "123"), tmp_path))
    assert order == ["a__3", "b__3"] and outcome.failure is not None
    assert list(became(outcome).values()).count("left out") == 4


@pytest.mark.parametrize("is_first_cell", [True, False])
def test_kernels_that_die_before_finishing_a_cell_end_the_job(tmp_path: Path, is_first_cell: bool) -> None:
    schedule, tries = CellSchedule(job_of(study("abcde"), tmp_path), clock=lambda: 0.0), 0
    while (found := schedule.take_next()) is not None:
        tries += 1
        gone = CellResult(cell=found[0].cell, seconds=1.0, failure=Failure(kind="died", message="gone"))
        finish(schedule, gone, tmp_path, kernel_died=True, is_first_cell=is_first_cell)
    if not is_first_cell:
        assert tries == 2 * 5, "every cell was tried again"
        return
    assert MAX_KERNEL_DEATHS <= tries < 2 * MAX_KERNEL_DEATHS  # retries do not count
    schedule.finish()
    assert [line.outcome for line in schedule.build_lines()] == ["failed"] * 5
    failure = schedule.find_failure()
    assert failure is not None and failure.kind == "died"


def test_a_cell_may_take_ten_times_what_is_expected(tmp_path: Path) -> None:
    def clock() -> float:
        return 0.0

    job = replace(
        job_of(study("ab", "12"), tmp_path),
        timeout=3000.0,
        cells=cell_tasks(study("ab", "12"), expected={cell("a", "1"): 20.0, cell("b", "1"): 1.0}),
    )
    limits = {
        found[0].cell.arm: found[0].limit
        for found in iter(CellSchedule(job, clock, slots=4).take_next, None)
        if found[0].cell.level == "1"
    }
    assert (limits["a"], limits["b"]) == (200.0, 60.0)
    open_ended = CellSchedule(replace(job, may_skip_cells=False), clock)
    found = open_ended.take_next()
    assert found is not None and found[0].limit == 3000.0


@pytest.mark.parametrize("slots", [1, 3, 8])
@pytest.mark.parametrize("known", [(), ("d0", "d1"), ("d0", "d1", "d2", "d3")])
@pytest.mark.parametrize("leave_out", [True, False])
def test_cells_that_run_at_once_compute_no_longer_than_the_job_may(
    slots: int, known: tuple[str, ...], leave_out: bool, tmp_path: Path
) -> None:
    cells = tuple(cell(arm, dataset=f"d{number}") for number in range(4) for arm in "abc")
    job = replace(
        job_of(cells, tmp_path, timeout=4),
        may_skip_cells=leave_out,
        cells=cell_tasks(cells, expected={one: 0.1 * UNIT for one in cells if one.dataset in known}),
    )
    hangs = executor_of({"a": 1e6, "b": 0.2, "c": 1e6}, slots=slots)
    outcome, _ = run(hangs, job)
    assert outcome.seconds <= job.timeout + 1e-9
    assert hangs.max_at_once == 1 if slots == 1 else hangs.max_at_once > 1


# --- what arms need -------------------------------------------------------------------------------------------------


def test_cells_that_need_more_memory_than_a_slot_has_are_measured_alone(tmp_path: Path) -> None:
    cells = study("ab", "12")
    executor = executor_of({"a": 2, "b": 2}, slots=2, memory_gb=4.0)
    seen: list[tuple[str, int]] = []
    script = executor._cell  # pyrefly: ignore

    def watched(job: Job, one: Cell) -> tuple[float, CellResult]:
        seen.append((one.arm, executor.active_workers["study"]))
        return script(job, one)

    executor._cell = watched
    job = replace(
        job_of(cells, tmp_path),
        cells=cell_tasks(
            cells,
            needs={"b": ResourceNeeds(memory_gb=6.0), "a": ResourceNeeds(memory_gb=3.0)},
            expected=dict.fromkeys(cells, 2 * UNIT),
        ),
    )
    outcome, order = run(executor, job)
    assert set(became(outcome).values()) == {"measured"}
    assert [name[0] for name in order] == ["a", "a", "b", "b"]
    assert [at_work for arm, at_work in seen if arm == "b"] == [1, 1]


def test_an_arm_that_hangs_leaves_the_others_their_time(tmp_path: Path) -> None:
    job = job_of(study("abc", "12"), tmp_path, timeout=30)
    outcome, order = run(executor_of({"a": 100, "b": 1, "c": 1}), job)
    assert order[0] == "a__2" and outcome.cells[3].cell == cell("a", "2")
    assert outcome.cells[3].seconds == pytest.approx(10 * UNIT)
    assert [line.outcome for line in outcome.cells if line.cell.arm != "a"] == ["measured"] * 4


def test_hours_are_the_limit_of_a_cell(tmp_path: Path) -> None:
    needs = {"a": ResourceNeeds(hours=3 * UNIT / 3600)}
    job = replace(job_of(study("ab", "1"), tmp_path), cells=cell_tasks(study("ab", "1"), needs=needs))
    outcome, _ = run(executor_of({"a": 9, "b": 9}), job)
    assert became(outcome) == {"a@1": "failed", "b@1": "measured"}
    assert outcome.cells[0].why.startswith("timeout")


@virtual_time.in_virtual_time
async def test_a_long_study_gives_way_to_another_run_between_two_cells(tmp_path: Path) -> None:
    slots = tmp_path / "slots"
    slots.mkdir()
    for number in range(2):
        (slots / str(number)).touch()
    long, short = (executor_of({"a": 5, "b": 5}, slots=2, shared=slots) for _ in range(2))
    job, other = job_of(study("ab", "123456"), tmp_path / "long"), job_of(study("a"), tmp_path / "short")
    first = asyncio.create_task(run_job(long, job))
    while long.max_at_once < 2:
        await asyncio.sleep(0.01)
    found = await run_job(short, other)
    assert found.failure is None and not first.done(), "it did not wait for the other study to end"
    outcome = await first
    assert set(became(outcome).values()) == {"measured"} and len(long.started) == len(job.cells), "each cell once"


# --- the stream -----------------------------------------------------------------------------------------------------


@virtual_time.in_virtual_time
async def test_a_cell_that_reads_another_waits_until_it_is_committed_and_reads_it_where_it_is(tmp_path: Path) -> None:
    cells, executor = (cell("late", "1"), cell("early", "1")), executor_of({"late": 1, "early": 1}, slots=2)
    async with executor.measure(job_of(cells, tmp_path / "job")) as stream:
        async for event in stream:
            if isinstance(event, CellEnded) and event.result.cell.arm == "early":
                event.folder = event.folder.rename(tmp_path / "sealed")
                await asyncio.sleep(10 * UNIT)
                assert [name.rpartition("__")[0] for name in executor.started] == ["study digits__early"]
            if isinstance(event, CellStarted) and event.cell.arm == "late":
                break
    schedule = CellSchedule(job_of(cells, tmp_path))
    taken = schedule.take_next()
    assert taken is not None and schedule.take_next() is None
    result = CellResult(cell=taken[0].cell)
    schedule.mark_ended(CellEnded(result, tmp_path / "before"))
    assert schedule.take_next() is None and schedule.awaits_commit()
    schedule.mark_committed(CellEnded(result, tmp_path / "sealed"))
    taken = schedule.take_next()
    assert taken is not None and (taken[0].read_cell, taken[0].read_folder) == (result.cell, tmp_path / "sealed")


def test_after_a_hopeless_cell_no_other_starts_and_those_beside_it_end(tmp_path: Path) -> None:
    failures = {"digits__a__1": Failure(kind="hopeless", message="behind")}
    executor = executor_of({"a": 20, "b": 30}, slots=2, failures=failures)
    outcome, _ = run(executor, expecting(job_of(study("ab", "12"), tmp_path), 30 * UNIT))
    assert became(outcome) == {"a@1": "failed", "b@1": "measured", "a@2": "left out", "b@2": "left out"}
    assert outcome.failure is not None and outcome.failure.kind == "hopeless"
    why = {line.cell.condition: line.why for line in outcome.cells}
    assert why["a@1"] == "hopeless: behind"
    assert why["a@2"] == "the job was stopped early because a@1 on digits was hopeless"
