"""Scheduling of cells: order, number of workers and skipped cells, with an executor that runs no code."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from labwright.record.schema.data_plan import Measurement, ResourceNeeds
from labwright.record.schema.nodes import Cell, CellOutcomeLine, Failure
from labwright.sandbox.cell_scheduler import MAX_KERNEL_DEATHS, CellRunResult, CellSchedule, summarize_failures
from labwright.sandbox.job import (
    CellEnded,
    CellProgress,
    CellResult,
    CellStarted,
    ExecutorError,
    Job,
    JobEnded,
    JobOutcome,
)
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
    ran = CellRunResult(result, folder, kernel_died=kernel_died, is_first_cell=is_first_cell)
    schedule.mark_ended(result.cell, ran)
    schedule.mark_committed(CellEnded(result, folder))


def became(outcome: JobOutcome) -> dict[str, str]:
    return {line.cell.condition: line.outcome for line in outcome.cells}


def test_pilots_come_first_and_then_the_longest(tmp_path: Path) -> None:
    job = job_of(study("abc", "12"), tmp_path)
    outcome, order = run(executor_of({"a": 1, "b": 4, "c": 2}), job)
    assert order == ["a__2", "b__2", "c__2", "b__1", "c__1", "a__1"]
    assert outcome.failure is None and [line.cell for line in outcome.cells] == list(job.cells)
    assert [one.condition for one in outcome.measurements] == [one.condition for one in job.cells]
    expected = {cell("a", "1"): 9.0, cell("b", "1"): 3.0}
    chosen = replace(job, cells=cell_tasks(job.cells, pilots=(cell("c", "1"),), expected=expected))
    assert run(executor_of({"a": 1, "b": 4, "c": 2}), chosen)[1][:2] == ["c__1", "a__1"]


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


@pytest.mark.parametrize("leave_out", [True, False])
def test_where_not_all_fits_it_is_the_less_important_that_comes_last(tmp_path: Path, leave_out: bool) -> None:
    cells = study("ab", "1234")
    job = replace(
        job_of(cells, tmp_path),
        timeout=10.0,
        may_skip_cells=leave_out,
        cells=cell_tasks(cells, expected={one: {"a": 1.0, "b": 4.0}[one.arm] for one in cells}),
    )
    schedule, taken = CellSchedule(job, lambda: 0.0, slots=2), list[str]()
    while (found := schedule.take_next()) is not None:
        one = found[0].cell
        taken.append(one.condition)
        finish(schedule, CellResult(cell=one, seconds=job.cells[one].expected_seconds or 0.0), tmp_path)
    assert taken == ["a@1", "b@1", "a@2", "b@2"], "by importance, up to what does not fit"


def test_a_job_does_not_wait_for_a_slot_that_it_no_longer_needs(tmp_path: Path) -> None:
    executor = executor_of({"long": 1e6, "a": 12}, slots=2)
    job = job_of(study("a", "12"), tmp_path)

    async def beside() -> JobOutcome:
        other = asyncio.create_task(
            run_job(executor, replace(job_of((cell("long"),), tmp_path, timeout=1e9), name="other"))
        )
        await asyncio.sleep(0.01)
        async with asyncio.timeout(1000 * UNIT):
            outcome = await run_job(executor, expecting(job, 12 * UNIT))
        other.cancel()
        return outcome

    outcome = virtual_time.run(beside())
    assert set(became(outcome).values()) == {"measured"} and executor.workers["study"] == 1


def test_cells_that_were_ready_are_not_run(tmp_path: Path) -> None:
    cells = study("ab", "12")
    job = replace(
        job_of(cells, tmp_path),
        cells=cell_tasks(cells, measured=dict.fromkeys(cells[:3], tmp_path), expected={cells[0]: 5.0}),
    )
    outcome, order = run(executor_of({"a": 1, "b": 1}), job)
    assert order == ["b__2"] and set(became(outcome).values()) == {"measured"}
    assert outcome.cells[0].seconds == 5.0


def test_who_reads_another_comes_after_it(tmp_path: Path) -> None:
    cells = (cell("late", "1"), cell("early", "1"), cell("late", "2"), cell("early", "2"))
    _, order = run(executor_of({"late": 1, "early": 3}, slots=2), job_of(cells, tmp_path))
    assert order.index("early__1") < order.index("late__1") and order.index("early__2") < order.index("late__2")
    broken = executor_of(
        {"late": 1, "early": 1}, failures={"digits__early__1": Failure(kind="timeout", message="too slow")}
    )
    outcome, order = run(broken, job_of(cells, tmp_path))
    assert "late__1" not in order and outcome.failure is None
    assert became(outcome) == {"late@1": "left out", "early@1": "failed", "late@2": "measured", "early@2": "measured"}
    assert outcome.cells[0].why == "it reads early@1 on digits, which was not measured"


def test_what_cells_read_is_known_of_a_program_that_another_script_runs(tmp_path: Path) -> None:
    job = job_of((cell("late", "1"), cell("early", "1")), tmp_path)
    probe = replace(job, entry="probe.py", source={**job.source, "probe.py": "exec(open('experiment.py').read())"})
    assert run(executor_of({"late": 1, "early": 1}), probe)[1] == ["early__1", "late__1"]


MEMORY = Failure(kind="memory", message="too much")


def test_what_met_its_memory_limit_is_tried_once_more_alone(tmp_path: Path) -> None:
    executor = executor_of({"a": 4, "b": 4}, slots=2, failures={"digits__a__1": MEMORY})
    outcome, order = run(executor, job_of(study("ab", "12"), tmp_path))
    assert order.count("a__1") == 2 and order[-1] == "a__1"
    assert outcome.cells[0].outcome == "failed" and outcome.cells[0].why == "memory: too much"
    assert outcome.failure is None  # the other level of arm a was measured


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        ({"digits__a__1": Failure(kind="shape", message="no")}, "1 of 4 cells failed; the first, a@1 on digits: no"),
        (
            {
                "digits__a__1": Failure(kind="died", message="no"),
                "digits__a__2": Failure(kind="timeout", message="late"),
            },
            "2 of 4 cells failed; the first, a@1 on digits: no",
        ),
        ({"digits__a__1": Failure(kind="diverged", message="nan")}, ""),
        ({"digits__a__1": Failure(kind="hopeless", message="behind")}, "1 of 4 cells failed; the first, a@1"),
    ],
)
def test_when_a_job_has_failed(tmp_path: Path, failed: dict[str, Failure], words: str) -> None:
    outcome, _ = run(executor_of({"a": 1, "b": 1}, failures=failed), job_of(study("ab", "12"), tmp_path))
    assert bool(outcome.failure) == bool(words)
    assert outcome.failure is None or outcome.failure.message.startswith(words)


def test_an_arm_that_diverged_with_another_seed_is_a_result_of_a_replicate() -> None:
    lines = [
        CellOutcomeLine(cell=cell("a"), outcome="failed", id="one", diverged=True),
        CellOutcomeLine(cell=cell("b"), outcome="measured", id="two"),
    ]
    failures = {"one": Failure(kind="diverged", message="nan")}
    failure = summarize_failures(lines, failures)
    assert failure is not None and failure.kind == "diverged", "for a new program it is a failure"
    assert summarize_failures(lines, failures, replicate=True) is None
    raised = summarize_failures(lines, {"one": Failure(kind="shape", message="no")}, replicate=True)
    assert raised is not None and raised.kind == "shape"
    swapped = lines[0].cell.model_copy(update={"setting_of": "b"})
    lines[0] = CellOutcomeLine(cell=swapped, outcome="failed", id="one")
    assert summarize_failures(lines, {"one": Failure(kind="shape", message="no")}) is None, "it decides nothing"


def test_where_every_pilot_raises_the_rest_is_left_out(tmp_path: Path) -> None:
    raised = Failure(kind="other", message="NameError: x")
    failures = {one.name: raised for one in study("ab", "123")}
    outcome, order = run(executor_of({"a": 1, "b": 1}, failures=failures), job_of(study("ab", "123"), tmp_path))
    assert order == ["a__3", "b__3"] and outcome.failure is not None
    assert list(became(outcome).values()).count("left out") == 4


def test_pilots_that_raised_before_a_kill_end_the_job_as_they_would_have_without(tmp_path: Path) -> None:
    raised, cells = Failure(kind="other", message="NameError: x"), study("ab", "123")
    failed = {one: CellResult(cell=one, seconds=1.0, failure=raised) for one in cells[-2:]}
    executor = executor_of({"a": 1, "b": 1}, failures={one.name: raised for one in cells})
    whole, _ = run(executor, job_of(cells, tmp_path))
    outcome, order = run(
        executor_of({"a": 1, "b": 1}), replace(job_of(cells, tmp_path), cells=cell_tasks(cells, known=failed))
    )
    assert order == [] and became(outcome) == became(whole) and outcome.failure == whole.failure


def test_where_every_pilot_raises_the_first_of_them_is_told_whatever_began_beside_it(tmp_path: Path) -> None:
    schedule = CellSchedule(job_of(study("a", "123"), tmp_path), lambda: 0.0, slots=2)
    pilot, beside = (found[0].cell for found in iter(schedule.take_next, None))
    assert (pilot.level, beside.level) == ("3", "1")
    for one in (beside, pilot):
        raised = Failure(kind="other", message=f"ValueError: {one.level}")
        finish(schedule, CellResult(cell=one, seconds=1.0, failure=raised), tmp_path)
    schedule.finish()
    failure = schedule.find_failure()
    assert failure is not None and failure.message.endswith("the first, a@3 on digits: ValueError: 3")


def test_kernels_that_die_end_the_job(tmp_path: Path) -> None:
    schedule, tries = CellSchedule(job_of(study("abcde"), tmp_path), clock=lambda: 0.0), 0
    while (found := schedule.take_next()) is not None:
        tries += 1
        gone = CellResult(cell=found[0].cell, seconds=1.0, failure=Failure(kind="died", message="gone"))
        finish(schedule, gone, tmp_path, kernel_died=True, is_first_cell=True)
    assert MAX_KERNEL_DEATHS <= tries < 2 * MAX_KERNEL_DEATHS  # retries do not count
    schedule.finish()
    assert [line.outcome for line in schedule.build_lines()] == ["failed"] * 5
    failure = schedule.find_failure()
    assert failure is not None and failure.kind == "died"


def test_cells_that_end_their_kernel_again_leave_the_others(tmp_path: Path) -> None:
    schedule, deadly, order = (CellSchedule(job_of(study("abcdefg"), tmp_path), clock=lambda: 0.0), "bdf", list[str]())
    fresh = True
    while (found := schedule.take_next()) is not None:
        cell = found[0].cell
        order.append(cell.arm)
        failure = Failure(kind="died", message="gone") if cell.arm in deadly else None
        result = CellResult(cell=cell, seconds=1.0, failure=failure)
        finish(schedule, result, tmp_path, kernel_died=failure is not None, is_first_cell=fresh)
        fresh = failure is not None
    assert sorted(order) == sorted("abcdefg" + deadly)
    assert {line.cell.arm for line in schedule.build_lines() if line.outcome == "measured"} == set("aceg")


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


def test_no_two_limits_are_promised_out_of_the_same_seconds(tmp_path: Path) -> None:
    now = 0.0
    job = replace(job_of(study("abcd", "123"), tmp_path), timeout=1200.0)
    schedule = CellSchedule(job, lambda: now, slots=8)
    begun = {order.cell: order.limit for order, _ in iter(schedule.take_next, None)}
    assert set(begun.values()) == {150.0} and len(begun) == 8, "equal parts while nothing is known"
    now = 30.0
    first = next(iter(begun))
    finish(schedule, CellResult(cell=first, seconds=30.0), tmp_path)
    assert sum(begun.values()) - 150 + 30 + sum(order.limit for order, _ in iter(schedule.take_next, None)) <= 1200
    two = CellSchedule(replace(job, cells=cell_tasks(study("ab", "123456"))), lambda: 0.0, slots=8)
    assert [order.limit for order, _ in iter(two.take_next, None)] == [300.0] * 4, (
        "fewer at once, so that each gets more"
    )


def test_a_job_whose_stream_is_left_and_a_cancelled_one_end(tmp_path: Path) -> None:
    executor = executor_of({"a": 500})

    async def work() -> None:
        async with executor.measure(job_of(study("a"), tmp_path)) as stream:
            assert await anext(stream) == CellStarted(cell("a", "1"))
        task = asyncio.create_task(run_job(executor, job_of(study("a"), tmp_path)))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await executor.close()
        with pytest.raises(ExecutorError, match="closed"):
            await run_job(executor, job_of(study("a"), tmp_path))

    virtual_time.run(work())


# --- what arms need -------------------------------------------------------------------------------------------------


def test_cells_that_need_more_memory_than_a_slot_has_are_measured_alone(tmp_path: Path) -> None:
    cells = study("ab", "12")
    executor = executor_of({"a": 2, "b": 2}, slots=2, memory_gb=4.0)
    seen: list[tuple[str, int]] = []
    script = executor._cell  # pyright: ignore[reportPrivateUsage]

    def watched(job: Job, one: Cell) -> tuple[float, CellResult]:
        seen.append((one.arm, executor.active_workers["study"]))
        return script(job, one)

    executor._cell = watched  # pyright: ignore[reportPrivateUsage]
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


def test_what_reads_a_cell_that_is_measured_alone_comes_after_it(tmp_path: Path) -> None:
    cells = (cell("late", "1"), cell("early", "1"))
    job = replace(job_of(cells, tmp_path), cells=cell_tasks(cells, needs={"early": ResourceNeeds(memory_gb=6.0)}))
    outcome, order = run(executor_of({"late": 1, "early": 1}, slots=2, memory_gb=4.0), job)
    assert order == ["early__1", "late__1"] and set(became(outcome).values()) == {"measured"}
    job = replace(job, cells=cell_tasks(cells, needs={"late": ResourceNeeds(memory_gb=6.0)}))
    outcome, order = run(executor_of({"late": 1, "early": 1}, slots=2, memory_gb=4.0), job)
    assert order == ["early__1", "late__1"] and set(became(outcome).values()) == {"measured"}


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
async def test_a_consumer_that_commits_slowly_stops_no_cell(tmp_path: Path) -> None:
    cells = study("ab", "12")
    executor = executor_of({"a": 1, "b": 1})
    async with executor.measure(job_of(cells, tmp_path)) as stream:
        async for event in stream:
            if isinstance(event, CellEnded):
                await asyncio.sleep(20 * UNIT)
                assert len(executor.started) == len(cells), "all ran while the first was being committed"
                break


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
    schedule.mark_ended(result.cell, CellRunResult(result, tmp_path / "before"))
    assert schedule.take_next() is None and schedule.awaits_commit()
    schedule.mark_committed(CellEnded(result, tmp_path / "sealed"))
    taken = schedule.take_next()
    assert taken is not None and (taken[0].read_cell, taken[0].read_folder) == (result.cell, tmp_path / "sealed")


@virtual_time.in_virtual_time
async def test_a_hopeless_cell_is_stopped_and_those_beside_it_end(tmp_path: Path) -> None:
    executor = FakeExecutor(
        slots=2, cell=lambda job, one: (30 * UNIT, CellResult(cell=one)), start_seconds=UNIT, watch_seconds=UNIT
    )
    job = replace(expecting(job_of(study("ab", "12"), tmp_path), 30 * UNIT), watched=True)
    async with executor.measure(job) as stream:
        async for event in stream:
            if isinstance(event, CellProgress) and event.cell == cell("a", "1") and len(executor.started) == 2:
                stream.stop("behind", event.cell)
                stream.stop("ignored", cell("b", "2"))
            if isinstance(event, JobEnded):
                outcome = event.outcome
                assert became(outcome) == {"a@1": "failed", "b@1": "measured", "a@2": "left out", "b@2": "left out"}
                assert outcome.failure is not None and outcome.failure.kind == "hopeless"
                why = {line.cell.condition: line.why for line in outcome.cells}
                assert why["a@1"] == "hopeless: behind"
                assert why["a@2"] == "the job was stopped early because a@1 on digits was hopeless"
                return
    raise AssertionError("no outcome")
