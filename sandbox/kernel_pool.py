"""Kernels that wait for work with common imports preloaded. Each runs one attempt.

Guarantees: an attempt gives the same measurements in a waiting kernel as in a new one. The kernel has seen only an
empty folder, which becomes the job's folder, and has drawn no random numbers. If a script could notice a difference (a
file named like a preloaded module, data that the kernel was not started for), the script gets a new kernel.

Limits: `sys.modules` shows the preloaded modules, and they count towards the attempt's memory.
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

from labwright.record.untrusted_files import remove_tree
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
"""Modules to preload for an installed package that the run's jobs import from. torch imports `_dynamo` with the
first optimizer, which takes as long as importing torch itself; without preloading, every forked cell would repeat
this import.
"""
PRELOAD_JOB_RATIO = 4
"""A package is preloaded if at least one in this many jobs imports from it: the few jobs of reference models must
not delay the others.
"""
MATPLOTLIBRC = "matplotlibrc"
"""A local file of this name is read on import."""


class KernelPool:
    """Keeps one kernel ready, or the number in the settings. Used from one event loop."""

    def __init__(
        self, config: KernelConfig, *, views: Path, readable: Iterable[Path] = (), folder: Path | None = None
    ) -> None:
        self.disabled_reason = ""
        """The reason why no kernels are kept ready any more; empty while they are."""
        self.size = 1 if config.settings.pool is None else config.settings.pool
        """Number of kernels to keep ready."""
        self._config = config
        self._views = views.absolute()
        self._readable = tuple(readable)
        self._slots_folder = folder or config.cache.parent / "slots"
        remove_tree(self._slots_folder, ignore_errors=True)  # left by kernels whose host process was killed
        self._job_count = 0
        self._package_counts: Counter[str] = Counter()
        """Package -> number of jobs that import from it."""
        self._last_datasets: frozenset[str] | None = None
        """Datasets of the last job that listed any; all datasets if no job did."""
        self._waiting: dict[Kernel, frozenset[str]] = {}
        """Waiting kernels with the datasets that they see."""
        self._filling: asyncio.Task[None] | None = None
        self._closed = False

    def take(
        self, folder: Path, *, source: Mapping[str, str], datasets: Iterable[str], exact: bool = False
    ) -> Kernel | None:
        """Return a waiting kernel that fits the source and datasets, moved to `folder`; None if there is none.

        The folder must be empty or missing. With `exact`, which cells need, the kernel sees no other dataset and has
        preloaded the imports of the source, which each forked cell would otherwise import again. Future kernels are
        started for such jobs.
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
        """Let every future kernel read these paths too; waiting kernels are discarded."""
        if more := tuple(readable):
            self._readable = (*self._readable, *more)
            for kernel in list(self._waiting):
                self._discard(kernel)

    def __len__(self) -> int:
        return len(self._waiting)

    def refill(self) -> None:
        """Start kernels in the background, one at a time, until enough are waiting."""
        if (self._filling is None or self._filling.done()) and not self._closed and not self.disabled_reason:
            self._filling = asyncio.create_task(self._fill(), name="refill of the pool")

    async def close(self) -> None:
        """Kill every waiting kernel. Idempotent."""
        self._closed = True
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.wait({self._filling})
        for kernel in list(self._waiting):
            self._discard(kernel)
        with contextlib.suppress(OSError):
            self._slots_folder.rmdir()

    async def choose_modules(self, source: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
        """Return the available modules to preload: `lab`, the modules that many jobs import, and those that `source`
        imports.

        Packages installed for the run are not available while preloading. In this case imports of other jobs are
        ignored, since a library may use another library if it is present.
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
        """Start another kernel. Raises `ExecutorError`, `OSError`."""
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
    """Return the packages of `PRELOADED_MODULES` that a source imports from."""
    return {
        name
        for name in PRELOADED_MODULES
        for text in source.values()
        if re.search(rf"^\s*(import|from)\b.*\b{name}\b", text, re.MULTILINE)
    }


def find_local_modules(source: Mapping[str, str]) -> frozenset[str]:
    """Return the module names in a script's folder; modules with these names must not be preloaded."""
    return frozenset(name.partition("/")[0].removesuffix(".py") for name in source)
