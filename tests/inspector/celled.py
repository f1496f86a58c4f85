"""A run of programs that measure cell by cell, told by hand: cells that were measured, taken over, that failed, that
diverged, that were left out and that wait."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from labwright.record.events.searching import CellExecuted, CellsOwed, Executed, Judged
from labwright.record.nouns.cells import Cell, CellLine
from labwright.record.nouns.data import Measurement
from labwright.record.nouns.nodes import Attempt, CellRun, ErrorClass, Failure
from tests.inspector.story import HOSTILE, Story


def key_of(cell: Cell) -> str:
    return hashlib.sha256(cell.model_dump_json().encode()).hexdigest()


def cell(arm: str, level: str = "", seed: int = 1) -> Cell:
    return Cell(dataset="digits", arm=arm, level=level, seed=seed)


def value_of(one: Cell, value: float) -> Measurement:
    return Measurement(
        name="log_loss",
        value=value,
        condition=one.condition,
        dataset=one.dataset,
        split="validation",
        seed=one.seed,
        grade="computed",
    )


def ran(one: Cell, value: float | None, *, seconds: float = 2.0, kind: ErrorClass = "timeout", n: int = 0) -> CellRun:
    """An execution of a cell; without a value it failed."""
    failure = Failure(kind=kind, message=HOSTILE) if value is None else None
    return CellRun(
        id=f"{key_of(one)[:24]}-{n}",
        cell=one,
        key=key_of(one),
        seconds=seconds,
        failure=failure,
        measurements=() if value is None else (value_of(one, value),),
    )


def owe(story: Story, node: str, cells: Iterable[Cell], taken: Iterable[CellRun] = ()) -> None:
    every = tuple(cells)
    story.tell(
        CellsOwed(node=node, cells=every, keys=tuple(map(key_of, every)), taken={run.key: run.id for run in taken})
    )


def line(run: CellRun, node: str = "") -> CellLine:
    outcome = "taken over" if node else "failed" if run.failure else "measured"
    return CellLine(
        cell=run.cell,
        outcome=outcome,
        id=run.id,
        node=node,
        seconds=run.seconds,
        why=run.failure.message if run.failure else "",
    )


def assembled(story: Story, node: str, runs: Iterable[CellRun], *lines: CellLine) -> None:
    """The attempt of a node over its cells, and its verdict."""
    values = tuple(value for run in runs for value in run.measurements)
    story.tell(
        Executed(node=node, attempt=Attempt(number=1, seconds=9.0, measurements=values, cells=lines)),
        Judged(node=node, status="good"),
    )


def celled() -> Story:
    """n0001 measured four cells; n0002 took two of them over, one failed, one diverged, one was left out; n0003 takes
    one over, measured one, and two wait."""
    story = Story()
    story.begin()
    arms, levels = ("plain", "smooth"), ("low", "high")
    cells = [cell(arm, level) for level in levels for arm in arms]
    first = story.expand("preliminary", "draft")
    owe(story, first, cells)
    runs = [ran(one, 0.5 + 0.1 * n, seconds=2.0 + n) for n, one in enumerate(cells)]
    story.tell(*(CellExecuted(node=first, run=run) for run in runs))
    assembled(story, first, runs, *map(line, runs))
    second = story.expand("preliminary", "improve", first)
    more = [cell("smooth", level, seed=2) for level in ("low", "high", "most")]
    owe(story, second, [*cells[:2], *more], runs[:2])
    failed = [ran(more[0], None, seconds=7.0), ran(more[1], None, kind="diverged")]
    story.tell(*(CellExecuted(node=second, run=run) for run in failed))
    assembled(
        story,
        second,
        runs[:2],
        *(line(run, first) for run in runs[:2]),
        *map(line, failed),
        CellLine(cell=more[2], outcome="left out", why="no time was left for it"),
    )
    third = story.expand("preliminary", "improve", first)
    rest = [cell("smooth", "low", seed=3), cell("smooth", "high", seed=3), cell("plain", "high", seed=3)]
    owe(story, third, [cells[0], *rest], runs[:1])
    story.tell(CellExecuted(node=third, run=ran(rest[0], 0.4, seconds=10.0)))
    return story
