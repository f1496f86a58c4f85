"""A run of programs that measure cell by cell, told by hand: cells that were measured, taken over, that failed, that
diverged, that were left out and that wait."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from labwright.record.events.search_events import AttemptExecuted, CellExecuted, CellsRequired, NodeJudged
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.nodes import Attempt, Cell, CellOutcomeLine, CellRun, ErrorClass, Failure
from tests.inspector.sample_run import HOSTILE, EventStory


def make_key(cell: Cell) -> str:
    return hashlib.sha256(cell.model_dump_json().encode()).hexdigest()


def make_cell(arm: str, level: str = "", seed: int = 1) -> Cell:
    return Cell(dataset="digits", arm=arm, level=level, seed=seed)


def make_value(one: Cell, value: float) -> Measurement:
    return Measurement(
        name="log_loss",
        value=value,
        condition=one.condition,
        dataset=one.dataset,
        split="validation",
        seed=one.seed,
        grade="computed",
    )


def make_execution(
    one: Cell, value: float | None, *, seconds: float = 2.0, kind: ErrorClass = "timeout", n: int = 0
) -> CellRun:
    """An execution of a cell; without a value it failed."""
    failure = Failure(kind=kind, message=HOSTILE) if value is None else None
    return CellRun(
        id=f"{make_key(one)[:24]}-{n}",
        cell=one,
        key=make_key(one),
        seconds=seconds,
        failure=failure,
        measurements=() if value is None else (make_value(one, value),),
    )


def require_cells(story: EventStory, node: str, cells: Iterable[Cell], taken: Iterable[CellRun] = ()) -> None:
    every = tuple(cells)
    story.add(
        CellsRequired(
            node=node, cells=every, keys=tuple(map(make_key, every)), taken={run.key: run.id for run in taken}
        )
    )


def make_cell_line(run: CellRun, node: str = "") -> CellOutcomeLine:
    outcome = "taken over" if node else "failed" if run.failure else "measured"
    return CellOutcomeLine(
        cell=run.cell,
        outcome=outcome,
        id=run.id,
        node=node,
        seconds=run.seconds,
        why=run.failure.message if run.failure else "",
    )


def record_attempt(story: EventStory, node: str, runs: Iterable[CellRun], *lines: CellOutcomeLine) -> None:
    """The attempt of a node over its cells, and its verdict."""
    values = tuple(value for run in runs for value in run.measurements)
    story.add(
        AttemptExecuted(node=node, attempt=Attempt(number=1, seconds=9.0, measurements=values, cells=lines)),
        NodeJudged(node=node, status="good"),
    )


def make_cell_run() -> EventStory:
    """n0001 measured four cells; n0002 took two of them over, one failed, one diverged, one was left out; n0003 takes
    one over, measured one, and two wait."""
    story = EventStory()
    story.add_start()
    arms, levels = ("plain", "smooth"), ("low", "high")
    cells = [make_cell(arm, level) for level in levels for arm in arms]
    first = story.add_node("preliminary", "draft")
    require_cells(story, first, cells)
    runs = [make_execution(one, 0.5 + 0.1 * n, seconds=2.0 + n) for n, one in enumerate(cells)]
    story.add(*(CellExecuted(node=first, run=run) for run in runs))
    record_attempt(story, first, runs, *map(make_cell_line, runs))
    second = story.add_node("preliminary", "improve", first)
    more = [make_cell("smooth", level, seed=2) for level in ("low", "high", "most")]
    require_cells(story, second, [*cells[:2], *more], runs[:2])
    failed = [make_execution(more[0], None, seconds=7.0), make_execution(more[1], None, kind="diverged")]
    story.add(*(CellExecuted(node=second, run=run) for run in failed))
    record_attempt(
        story,
        second,
        runs[:2],
        *(make_cell_line(run, first) for run in runs[:2]),
        *map(make_cell_line, failed),
        CellOutcomeLine(cell=more[2], outcome="left out", why="no time was left for it"),
    )
    third = story.add_node("preliminary", "improve", first)
    rest = [make_cell("smooth", "low", seed=3), make_cell("smooth", "high", seed=3), make_cell("plain", "high", seed=3)]
    require_cells(story, third, [cells[0], *rest], runs[:1])
    story.add(CellExecuted(node=third, run=make_execution(rest[0], 0.4, seconds=10.0)))
    return story
