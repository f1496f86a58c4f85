"""Kernels that wait for work, with what experiments import already imported. Each runs one attempt.

Kept: an attempt in a kernel of the pool measures what it would in one of its own. Its kernel saw nothing before it but
an empty folder (its slot), which becomes the folder of the job when it is taken; nothing is drawn at random ahead; and
whatever a script could tell by (a file of its own with the name of a module that is imported already, data that the
kernel was not started for) makes it start in a kernel of its own. Refilling is one kernel at a time, and gives way to
running code where we may raise a priority again that we lowered (root, or RLIMIT_NICE; else it does not).

Not kept: `sys.modules` shows what was imported, and so does the memory that an attempt takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from sandbox.errors import ExecutorError
from sandbox.isolation.interpreter import interpreter
from sandbox.isolation.limits import SHARE, machine_memory
from sandbox.isolation.mounts import KernelConfig, StartOptions
from sandbox.isolation.processes import process_tree, resource_use
from sandbox.kernels import Kernel
from sandbox.workspace import dataset_folders

MODULES = {
    "numpy": ("numpy",), "scipy": ("scipy.optimize", "scipy.stats"), "pandas": ("pandas",),
    "sklearn": ("sklearn.linear_model", "sklearn.metrics", "sklearn.model_selection"), "torch": ("torch",),
    "torchvision": ("torchvision",), "matplotlib": ("matplotlib.pyplot",)}
"""What is imported ahead for a package, if jobs of the run import from it, and it is installed."""

FRESH = 4 * 3600.0
"""Seconds after which a kernel that waited is replaced."""



@dataclass(frozen=True)
class _Waiting:
    kernel: Kernel
    since: float
    datasets: frozenset[str]
    """Those that it sees."""
    names: frozenset[str]
    """Names of files and folders beside a script that it would not look at any more."""


class Pool:
    """At most `slots` kernels, or as many as the settings say. Everything happens in one event loop."""

    def __init__(self, config: KernelConfig, *, slots: int, views: Path, readable: Iterable[Path] = ()) -> None:
        self.why_off = ""
        """Why no kernels wait any more, where they cannot."""
        self.bytes = 0
        """Memory of the kernel that was started last; 0 before there was one."""
        self.slots = slots if config.settings.pool is None else config.settings.pool
        """The most that may wait."""
        self._config = config
        self._views = views.absolute()
        self._readable = tuple(readable)
        self._folders = config.cache.parent / "slots"
        self._used: set[str] = set()
        self._waiting: list[_Waiting] = []
        self._nice = True
        self._filling: asyncio.Task[None] | None = None
        self._closed = False

    def take(self, folder: Path, *, source: Mapping[str, str], datasets: Iterable[str]) -> Kernel | None:
        """A kernel whose folder is this one from now on, fit for that source and these datasets; or None.

        The folder must be empty or not there: else there is none to be had.
        """
        self._used |= {name for name in MODULES for text in source.values()
                       if re.search(rf"^\s*(import|from)\b.*\b{name}\b", text, re.MULTILINE)}
        own_names = {name.partition("/")[0].removesuffix(".py") for name in source}
        if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir() or any(folder.iterdir())):
            return None
        while self._waiting and not own_names & self._waiting[0].names:
            candidate = self._waiting.pop(0)
            kernel = candidate.kernel
            if (time.monotonic() - candidate.since < FRESH and kernel.process.exit_code() is None
                    and candidate.datasets.issuperset(datasets) and _move(kernel, folder)):
                kernel.forget_start()
                return kernel
            _discard(kernel)
        return None

    def __len__(self) -> int:
        return len(self._waiting)

    def refill(self) -> None:
        """Begin to start kernels until there are enough, in the background."""
        busy = self._filling is not None and not self._filling.done()
        if not (busy or self._closed or self.why_off) and len(self) < self._room():
            self._filling = asyncio.create_task(self._fill(), name="refill of the pool")

    async def close(self) -> None:
        """Kill every kernel that waits. Idempotent."""
        self._closed = True
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.wait({self._filling})
        while self._waiting:
            _discard(self._waiting.pop().kernel)
        with contextlib.suppress(OSError):
            self._folders.rmdir()

    # --- kernels that are started -------------------------------------------------------------------------------------

    async def _fill(self) -> None:
        try:
            await asyncio.to_thread(self._sweep)
            while len(self) < self._room():
                await self._add()
        except (ExecutorError, OSError) as error:
            self.why_off = str(error)

    def _room(self) -> int:
        """How many may wait; before one was measured, one."""
        if self._config.settings.pool is not None:
            return self._config.settings.pool
        return room(self.slots, size=self.bytes, waiting=len(self)) if self.bytes else 1

    async def _add(self) -> None:
        """Start one more. Raises `ExecutorError`, `OSError`."""
        datasets = frozenset(path.stem for path in self._views.glob("*.npz"))
        readable = (self._views, *await asyncio.to_thread(dataset_folders, datasets, self._views), *self._readable)
        packages = (await asyncio.to_thread(interpreter, self._config.settings.python)).packages
        usable = self._used & {name.lower().replace("scikit-learn", "sklearn") for name in packages}
        modules = ("lab", *(module for name in MODULES if name in usable for module in MODULES[name]))
        start = StartOptions(readable, modules=modules, nice=self._nice)
        kernel = Kernel(Path(tempfile.mkdtemp(dir=self._folders)), config=self._config, options=start)
        try:
            await kernel.start()
            if self._nice and not _restore_priority(kernel):  # it would run its script as slowly as it was started
                self._nice = False
                _discard(kernel)
                return
            self.bytes = resource_use(process_tree(kernel.pid)).private
        except BaseException:
            _discard(kernel)
            raise
        names = kernel.loaded
        if "matplotlib" in names:
            names |= {"matplotlibrc"}  # it reads this file of the working folder when it is imported
        self._waiting.append(_Waiting(kernel, time.monotonic(), datasets, names))

    def _sweep(self) -> None:
        """Remove the slots of kernels whose program was killed, known by their age."""
        self._folders.mkdir(parents=True, exist_ok=True)
        for slot in self._folders.iterdir():
            with contextlib.suppress(OSError):
                if time.time() - slot.lstat().st_mtime > FRESH:
                    slot.rmdir()


def room(slots: int, *, size: int, waiting: int) -> int:
    """How many kernels of that size (bytes) may wait: no more than fit into what experiments leave of the memory."""
    free = min((1 - SHARE) * machine_memory(), psutil.virtual_memory().available + waiting * size)
    return min(slots, int(free * (1 + 1e-9) / size))



def _move(kernel: Kernel, folder: Path) -> bool:
    """Whether its folder could be made the one that is given, still empty."""
    with contextlib.suppress(OSError):
        if not any(kernel.folder.iterdir()):
            folder.parent.mkdir(parents=True, exist_ok=True)
            kernel.move(folder)
            return True
    return False


def _discard(kernel: Kernel) -> None:
    kernel.kill()
    with contextlib.suppress(OSError):
        kernel.folder.rmdir()


def _restore_priority(kernel: Kernel) -> bool:
    """Give all its threads our own priority; False where we may not raise it."""
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    for process in process_tree(kernel.pid):
        for thread in os.listdir(f"/proc/{process}/task"):
            try:
                os.setpriority(os.PRIO_PROCESS, int(thread), ours)
            except PermissionError:
                return False
    return True
