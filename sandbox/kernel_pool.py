"""A kernel that waits for work, with what experiments import already imported. It runs one attempt.

Kept: an attempt in a kernel that waited measures what it would in one of its own. Its kernel saw nothing before it but
an empty folder, which becomes the folder of the job when it is taken; nothing is drawn at random ahead; and whatever a
script could tell by (a file of its own with the name of a module that is imported already, data that the kernel was not
started for) makes it start in a kernel of its own.

Not kept: `sys.modules` shows what was imported, and so does the memory that an attempt takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from labwright.record.folder_descriptors import remove_tree
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.isolation.mounts import KernelConfig, KernelStartOptions
from labwright.sandbox.kernels import Kernel
from labwright.sandbox.workspace import list_dataset_folders

PRELOADED_MODULES = {
    "numpy": ("numpy",),
    "scipy": ("scipy.optimize", "scipy.stats"),
    "pandas": ("pandas",),
    "sklearn": ("sklearn.linear_model", "sklearn.metrics", "sklearn.model_selection"),
    "torch": ("torch", "torch._dynamo"),
    "torchvision": ("torchvision",),
    "matplotlib": ("matplotlib.pyplot",),
}
"""What is imported ahead for a package, if jobs of the run import from it, and it is installed. torch imports its
`_dynamo` with the first optimizer, which takes as long as torch itself: every cell would, being forked before that."""
PRELOAD_JOB_RATIO = 4
"""A package is imported ahead if one in so many jobs imports from it: the ladder's few want no other to wait."""
MATPLOTLIBRC = "matplotlibrc"
"""Which is read on import."""


class KernelPool:
    """One kernel ahead, or as many as the settings say. Everything happens in one event loop."""

    def __init__(
        self, config: KernelConfig, *, views: Path, readable: Iterable[Path] = (), folder: Path | None = None
    ) -> None:
        self.disabled_reason = ""
        """Why no kernels wait any more, where they cannot."""
        self.size = 1 if config.settings.pool is None else config.settings.pool
        """How many wait when it is full."""
        self._config = config
        self._views = views.absolute()
        self._readable = tuple(readable)
        self._slots_folder = folder or config.cache.parent / "slots"
        remove_tree(self._slots_folder, ignore_errors=True)  # of kernels whose program was killed
        self._job_count = 0
        self._package_counts: Counter[str] = Counter()
        """Package -> how many of the jobs import from it."""
        self._last_datasets: frozenset[str] | None = None
        """The datasets of the last job that said which it must see; before that all."""
        self._waiting: dict[Kernel, frozenset[str]] = {}
        """Kernels with the datasets that they see."""
        self._filling: asyncio.Task[None] | None = None
        self._closed = False

    def take(
        self, folder: Path, *, source: Mapping[str, str], datasets: Iterable[str], exact: bool = False
    ) -> Kernel | None:
        """A kernel whose folder is this one from now on, fit for that source and these datasets; or None.

        The folder must be empty or not there: else there is none to be had. With `exactly`, as cells need it, the
        kernel sees no other dataset, and has imported what the source imports: else each cell would, being forked from
        it. From now on those are started that would have been fit.
        """
        if (wanted := frozenset(datasets)) or exact:
            self._last_datasets = wanted
        imported = _find_imported_packages(source)
        self._job_count += 1
        self._package_counts.update(imported)
        own_names = find_local_modules(source)
        for kernel, seen in list(self._waiting.items()):
            if own_names & (kernel.preloaded_names | {MATPLOTLIBRC}):
                return None
            if kernel.process.get_exit_code() is not None or not (seen == wanted if exact else seen.issuperset(wanted)):
                self._discard(kernel)
                continue
            if exact and (lacking := imported - kernel.preloaded_names):
                if lacking & self._frequent_packages:
                    self._discard(kernel)
                continue
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
                kernel.move(folder)
            except OSError:
                return None
            del self._waiting[kernel]
            kernel.clear_start_traces()
            return kernel
        return None

    def add_readable(self, readable: Iterable[Path]) -> None:
        """More that every kernel from now on may read; those that wait are replaced."""
        if more := tuple(readable):
            self._readable = (*self._readable, *more)
            for kernel in list(self._waiting):
                self._discard(kernel)

    def __len__(self) -> int:
        return len(self._waiting)

    def refill(self) -> None:
        """Begin to start kernels until there are enough, one at a time, in the background."""
        if (self._filling is None or self._filling.done()) and not self._closed and not self.disabled_reason:
            self._filling = asyncio.create_task(self._fill(), name="refill of the pool")

    async def close(self) -> None:
        """Kill every kernel that waits. Idempotent."""
        self._closed = True
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.wait({self._filling})
        for kernel in list(self._waiting):
            self._discard(kernel)
        with contextlib.suppress(OSError):
            self._slots_folder.rmdir()

    async def choose_modules(self, source: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
        """What is imported ahead, as far as the interpreter has it: `lab`, what many jobs imported, and what a source
        does.

        What was installed for the run is not there for the process that imports ahead. A library may compute by one of
        these where it finds it, so then nothing is left to what other jobs import.
        """
        packages = (await asyncio.to_thread(inspect_interpreter, self._config.settings.python)).packages
        usable = {name.lower().replace("scikit-learn", "sklearn") for name in packages}
        often = self._frequent_packages if self._config.packages() is None else set[str]()
        wanted = usable & (often | _find_imported_packages(source))
        return ("lab", *(module for name in PRELOADED_MODULES if name in wanted for module in PRELOADED_MODULES[name]))

    @property
    def _frequent_packages(self) -> set[str]:
        return {name for name, jobs in self._package_counts.items() if jobs * PRELOAD_JOB_RATIO >= self._job_count}

    async def _fill(self) -> None:
        try:
            while len(self) < self.size:
                await self._add_kernel()
        except (ExecutorError, OSError) as error:
            self.disabled_reason = str(error)

    async def _add_kernel(self) -> None:
        """Start one more. Raises `ExecutorError`, `OSError`."""
        known = frozenset(path.stem for path in self._views.glob("*.npz"))
        datasets = known if self._last_datasets is None else self._last_datasets
        readable = (
            *(self._views / f"{name}.npz" for name in sorted(datasets)),
            *await asyncio.to_thread(list_dataset_folders, datasets, self._views),
            *self._readable,
        )
        modules = await self.choose_modules()
        self._slots_folder.mkdir(parents=True, exist_ok=True)
        kernel = Kernel(
            Path(tempfile.mkdtemp(dir=self._slots_folder)),
            config=self._config,
            options=KernelStartOptions(readable, modules=modules),
        )
        try:
            await kernel.start()
        except BaseException:
            self._discard(kernel)
            raise
        self._waiting[kernel] = datasets

    def _discard(self, kernel: Kernel) -> None:
        self._waiting.pop(kernel, None)
        kernel.kill()
        with contextlib.suppress(OSError):
            kernel.folder.rmdir()


def _find_imported_packages(source: Mapping[str, str]) -> set[str]:
    """The packages of `MODULES` that a source imports from."""
    return {
        name
        for name in PRELOADED_MODULES
        for text in source.values()
        if re.search(rf"^\s*(import|from)\b.*\b{name}\b", text, re.MULTILINE)
    }


def find_local_modules(source: Mapping[str, str]) -> frozenset[str]:
    """The modules that lie beside a script, which it must not find imported already."""
    return frozenset(name.partition("/")[0].removesuffix(".py") for name in source)
