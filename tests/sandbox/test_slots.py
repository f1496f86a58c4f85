"""The gate of an executor: as many as there are slots, in order, and alone where asked."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import ExecutorError
from sandbox.slots import Slots


class Visitors:
    """Who is inside now, and in which order they came in."""

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


@given(count=st.integers(1, 4), visits=st.lists(
    st.tuples(st.booleans(), st.integers(0, 5), st.one_of(st.none(), st.integers(0, 12))), max_size=12))
def test_all_who_are_not_cancelled_come_in_as_they_asked(
    count: int, visits: list[tuple[bool, int, int | None]],
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
                await asyncio.wait_for(task, 5)
        stayed = [i for i, (_, _, cancelled) in enumerate(visits) if cancelled is None]
        assert [name for name in visitors.entered if name in stayed] == stayed
        await asyncio.wait_for(visitors.visit(-1, True, 0), 5)  # no slot was lost

    asyncio.run(play())


async def test_who_is_alone_keeps_later_ones_waiting_and_is_not_passed() -> None:
    visitors = Visitors(Slots(2))
    first = asyncio.create_task(visitors.visit(0, False, 5))
    lonely = asyncio.create_task(visitors.visit(1, True, 5))
    later = asyncio.create_task(visitors.visit(2, False, 0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert set(visitors.inside) == {0}
    await first
    await lonely
    await later
    assert visitors.entered == [0, 1, 2]


def test_there_must_be_a_slot() -> None:
    with pytest.raises(ExecutorError, match="at least one slot, not 0"):
        Slots(0)
