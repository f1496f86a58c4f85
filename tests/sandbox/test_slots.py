"""The slots of an executor: limited, in order, and exclusive on request."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.sandbox.gpus import Slots
from tests.search import virtual_time


class Visitors:
    """Who is inside now, and the order of entry."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.entered: list[int] = []
        self.inside: dict[int, bool] = {}

    async def visit(self, name: int, alone: bool, stay: int) -> None:
        async with self.slots.hold(alone=alone):
            self.entered.append(name)
            self.inside[name] = alone
            assert len(self.inside) <= (1 if any(self.inside.values()) else self.slots.count)
            try:
                for _ in range(stay):
                    await asyncio.sleep(0)
            finally:
                del self.inside[name]


@given(
    count=st.integers(1, 4),
    visits=st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.one_of(st.none(), st.integers(0, 12))), max_size=12),
)
def test_all_who_are_not_cancelled_come_in_as_they_asked(
    count: int, visits: list[tuple[bool, int, int | None]]
) -> None:
    async def play() -> None:
        visitors = Visitors(Slots(count))
        tasks = [asyncio.create_task(visitors.visit(i, alone, stay)) for i, (alone, stay, _) in enumerate(visits)]
        for turn in range(14):
            for task, (_, _, cancelled) in zip(tasks, visits, strict=True):
                if cancelled == turn:
                    task.cancel()
            await asyncio.sleep(0)
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        stayed = [i for i, (_, _, cancelled) in enumerate(visits) if cancelled is None]
        assert [name for name in visitors.entered if name in stayed] == stayed
        await visitors.visit(-1, True, 0)  # no slot was lost

    virtual_time.run(play())


# --- slots that processes share ---------------------------------------------------------------------------------------

WORKER = """
import asyncio, os, sys, time
from pathlib import Path
from labwright.sandbox.gpus import Slots

folder, jobs, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])

async def main():
    slots = Slots(8, folder)
    async def work():
        async with slots.hold():
            with open(folder / "told", "a") as out:
                out.write(f"+ {os.getpid()} {time.monotonic()}\\n")
            await asyncio.sleep(seconds)
            with open(folder / "told", "a") as out:
                out.write(f"- {os.getpid()} {time.monotonic()}\\n")
    await asyncio.gather(*(work() for _ in range(jobs)))

asyncio.run(main())
"""


def shared(folder: Path, count: int) -> Path:
    for number in range(count):
        (folder / str(number)).touch()
    return folder


def begun(folder: Path, jobs: int, seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WORKER, str(folder), str(jobs), str(seconds)])


@pytest.mark.slow
def test_processes_never_hold_more_than_there_are_and_a_killed_one_leaves_its_own(tmp_path: Path) -> None:
    folder = shared(tmp_path, 3)
    first, others = begun(folder, 8, 200.0), [begun(folder, 12, 0.05) for _ in range(2)]
    until = time.monotonic() + 120
    while time.monotonic() < until and not (folder / "told").exists():
        time.sleep(0.02)
    time.sleep(0.3)
    first.kill()
    first.wait()
    assert [one.wait(timeout=600) for one in others] == [0, 0]
    lines = [line.split() for line in (folder / "told").read_text().splitlines()]
    inside: set[int] = set()
    held: dict[str, int] = {}
    for sign, pid, _ in sorted(lines, key=lambda line: float(line[2])):
        if pid == str(first.pid):
            continue
        held[pid] = held.get(pid, 0) + (1 if sign == "+" else -1)
        inside.add(sum(held.values()))
    assert max(inside) <= 3 and len(lines) >= 48
    assert len(held) == 2, "both came to their turn"


@pytest.mark.slow
async def test_work_of_many_parts_gives_way_to_who_holds_fewer(tmp_path: Path) -> None:
    folder = shared(tmp_path, 3)
    slots = Slots(3, folder)
    async with slots.hold(), slots.hold(), slots.hold():
        assert not slots.should_give_way(), "nobody waits"
        process = begun(folder, 1, 0.01)
        until = time.monotonic() + 120
        while time.monotonic() < until and not slots.should_give_way():
            await asyncio.sleep(0.05)
        assert slots.should_give_way() and not (folder / "told").exists()
    assert await asyncio.to_thread(process.wait, 120) == 0
    assert not slots.should_give_way(), "a process without a slot cannot release one"
