"""Slots limit how many experiments run at the same time, in one run or in several runs that share a folder of slot
files.

A shared slot is a `flock` on a file, which the operating system releases when the process dies. A process that needs
a slot first locks the door file, so only one process waits for slots at a time; processes with fewer slots retry the
door file more often. If a waiting process has clearly fewer slots, jobs with many parts give up a slot between two
parts.
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
"""Interval between attempts to get a slot, in seconds; at the door file, the interval is multiplied by one plus the
number of slots already in use.
"""
DOOR_FILE = "door"


class Slots:
    """Lets `count` jobs run at a time, in order of arrival.

    A job that must run alone waits until all slots are free; later jobs wait until it has run, so that it never
    starves. A job must not request a second slot while holding one. With `shared`, the slots of the shared folder are
    used.
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
        """Hold a slot (with `alone`, all slots) while inside."""
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
        """Return whether a waiting process would still have fewer slots than this process after getting one of its
        slots.
        """
        if self._shared is None or self._held_count < 2:
            return False
        with ExitStack() as locks:
            if try_lock(self._shared / DOOR_FILE, locks) is not None:
                return False
        try:
            text = (self._shared / DOOR_FILE).read_text()
        except OSError:
            return False
        owner, _, count = text.partition(" ")
        number = parse_whole_number(count)
        return owner != self._owner_id and number is not None and number < self._held_count - 1

    def _list_slot_files(self) -> list[Path]:
        assert self._shared is not None
        try:
            numbers = {
                number: one for one in self._shared.iterdir() if (number := parse_whole_number(one.name)) is not None
            }
        except OSError as error:
            raise ExecutorError(f"cannot read the slots in {self._shared}: {error.strerror}") from None
        if not numbers:
            raise ExecutorError(f"{self._shared} contains no slots")
        return [numbers[number] for number in sorted(numbers)]

    async def _acquire(self, locks: ExitStack, *, alone: bool) -> None:
        """Acquire one shared slot, or all; held until `locks` is closed."""
        assert self._shared is not None
        with ExitStack() as door:
            while (file := try_lock(self._shared / DOOR_FILE, door)) is None:
                await asyncio.sleep(POLL_SECONDS * (1 + self._held_count))
            os.ftruncate(file, 0)
            os.pwrite(file, f"{self._owner_id} {self._held_count}".encode(), 0)
            missing = self._list_slot_files()
            while missing:
                free = next((one for one in missing if try_lock(one, locks) is not None), None)
                if free is None:
                    await asyncio.sleep(POLL_SECONDS)
                elif alone:
                    missing.remove(free)
                else:
                    break


def try_lock(path: Path, locks: ExitStack, *, shared: bool = False) -> int | None:
    """Return the locked file, held until `locks` is closed; None if another process has the lock. Never waits.

    Raises `ExecutorError` if the file cannot be opened.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ExecutorError(f"cannot lock {path}: {error.strerror}") from None
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    os.utime(file)  # protects the file from programs that clean /tmp by age
    locks.callback(os.close, file)
    return file
