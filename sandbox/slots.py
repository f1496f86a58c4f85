"""Slots: so many experiments run at a time, of one run, or of several that share a folder with a file for each slot.

A shared slot is a `flock` on its file, which the kernel drops when its process dies, however it dies. Who wants one
waits at the door, a lock as well: one process at a time, and those that hold fewer slots look more often whether they
may. Where one waits that holds clearly fewer, work of many parts gives way between two of them.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from labwright.record.whole_numbers import parse_whole_number
from labwright.sandbox.errors import ExecutorError

POLL_SECONDS = 0.05
"""Seconds between two looks for a slot; at the door, once more for each slot that is held."""
DOOR_FILE = "door"


class Slots:
    """Lets in `count` at a time, in the order in which they came.

    A caller that wants to be alone waits until all slots are free; later callers wait behind it, so it never starves.
    Nobody may ask for a second slot while holding one. With `shared`, all of the folder's slots are meant.
    """

    def __init__(self, count: int, shared: Path | None = None) -> None:
        if count < 1:
            raise ExecutorError(f"an executor needs at least one slot, not {count}")
        self._shared = shared
        self.count = count if shared is None else min(count, len(self._list_slot_files()))
        self._free_slots = asyncio.Semaphore(self.count)
        self._queue = asyncio.Lock()
        self._held_count = 0
        self._owner_id = f"{os.getpid()}-{id(self)}"

    @asynccontextmanager
    async def hold(self, *, alone: bool = False) -> AsyncGenerator[None]:
        """Holds a slot while inside; with `alone`, all of them."""
        taken = 0
        with ExitStack() as locks:
            try:
                async with self._queue:
                    while taken < (self.count if alone else 1):
                        await self._free_slots.acquire()
                        taken += 1
                    if self._shared is not None:
                        await self._acquire(locks, alone=alone)
                self._held_count += taken
                try:
                    yield
                finally:
                    self._held_count -= taken
            finally:
                for _ in range(taken):
                    self._free_slots.release()

    def should_give_way(self) -> bool:
        """Whether a process waits for a slot that holds fewer than this one would with one less."""
        if self._shared is None or self._held_count < 2:
            return False
        with ExitStack() as locks:
            if _try_lock(self._shared / DOOR_FILE, locks) is not None:
                return False
        try:
            text = (self._shared / DOOR_FILE).read_text()
        except OSError:
            return False
        who, _, held = text.partition(" ")
        number = parse_whole_number(held)
        return who != self._owner_id and number is not None and number < self._held_count - 1

    def _list_slot_files(self) -> list[Path]:
        assert self._shared is not None
        try:
            numbers = {
                number: one for one in self._shared.iterdir() if (number := parse_whole_number(one.name)) is not None
            }
        except OSError as error:
            raise ExecutorError(f"the slots in {self._shared} cannot be read: {error.strerror}") from None
        if not numbers:
            raise ExecutorError(f"{self._shared} holds no slots")
        return [numbers[number] for number in sorted(numbers)]

    async def _acquire(self, locks: ExitStack, *, alone: bool) -> None:
        """One slot of those that are shared, or all; kept until `locks` are closed."""
        assert self._shared is not None
        with ExitStack() as door:
            while (file := _try_lock(self._shared / DOOR_FILE, door)) is None:
                await asyncio.sleep(POLL_SECONDS * (1 + self._held_count))
            os.ftruncate(file, 0)
            os.pwrite(file, f"{self._owner_id} {self._held_count}".encode(), 0)
            missing = self._list_slot_files()
            while missing:
                free = next((one for one in missing if _try_lock(one, locks) is not None), None)
                if free is None:
                    await asyncio.sleep(POLL_SECONDS)
                elif alone:
                    missing.remove(free)
                else:
                    break


def _try_lock(path: Path, locks: ExitStack) -> int | None:
    """The file, locked until `locks` are closed; None where another has it. Never waits."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ExecutorError(f"cannot take a slot with {path}: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    locks.callback(os.close, file)
    return file
