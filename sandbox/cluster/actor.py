"""Run cells and commands on a machine of the cluster, in the same kernels as on a single machine.

One actor serves a machine. Its processes are started by the one thread of its event loop, which lives as long as the
actor, because bubblewrap ends with the thread that started it: a killed actor leaves no process in a sandbox. Labels
never reach it. Limits: without a sandbox, a command may outlive its killed actor.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from labwright.record.schema.cell import Cell
from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.untrusted_files import BadFile, make_harmless, remove_path, remove_tree
from labwright.sandbox import monitor
from labwright.sandbox.cell_runner import KernelHost
from labwright.sandbox.cell_scheduler import RunningCell
from labwright.sandbox.cluster.machines import adapt_settings, open_machine_gpus
from labwright.sandbox.cluster.sent_folders import SentFolder, receive_folder, send_folder
from labwright.sandbox.content_store import default_store_root
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.file_clock import read_file_time
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.isolation.scratch import ScratchFolder, remove_stale
from labwright.sandbox.job import CellStarted, Event
from labwright.sandbox.monitor import ProgressReader
from labwright.sandbox.output import MAX_KEPT_CHARS, LiveOutput
from labwright.sandbox.packages.package_store import PackageOverlay
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.results import KernelExecution, failure_from_error
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.workspace import KernelScript

NEWS_SECONDS = 1.0
"""Maximum delay of output, and interval between signs of life, in seconds."""


# --- messages: values, and references to bytes in Ray's object store --------------------------------------------------


class Content(NamedTuple):
    """A file or folder that many cells read."""

    name: str
    is_folder: bool
    sent: SentFolder


@dataclass(frozen=True)
class RemoteWork:
    """A script or a command to run in its folder."""

    code: KernelScript | CommandJob
    sent: SentFolder
    """The folder."""
    now: float
    """Time of the folder's file system on the head."""
    needs: ResourceNeeds
    alone: bool
    contents: Mapping[Path, Content]
    """Path on the head -> content."""
    watched: bool = False
    packages: PackageOverlay | None = None


class WorkEnded(NamedTuple):
    """The code has ended; the folder is what it left, None if that cannot be sent."""

    result: Any
    """`KernelExecution` or `CommandOutcome`."""
    sent: SentFolder | None


News = Event | WorkEnded | str
"""A string is output."""


# --- the actor --------------------------------------------------------------------------------------------------------


class ReportedCell(RunningCell):
    """The connection between running code and the head."""

    def __init__(self) -> None:
        super().__init__(Cell(dataset="", arm=""), 0.0, 0.0, self.send)  # the head knows which cell it is
        self.news, self.has_news = list[News](), asyncio.Event()

    def send(self, news: News) -> None:
        self.news.append(news)
        self.has_news.set()

    def mark_started(self, now: float) -> None:
        self.send(CellStarted(self.cell))


@dataclass
class Slot:
    """A place for one cell at a time, with its kernel."""

    folder: Path
    host: KernelHost
    running: ReportedCell = field(default_factory=ReportedCell)
    task: asyncio.Task[WorkEnded] | None = None


class MachineActor:
    """Runs work on its machine, in slots that the head numbers. A slot keeps its kernel until it is released."""

    def __init__(self) -> None:
        self._slots, self._released = dict[int, Slot](), set[int]()

    async def start(
        self, settings: SandboxSettings, slots: int, secret: tuple[Path, ...], watch_seconds: float
    ) -> None:
        """Prepare the machine: `slots` cells share its memory, and code never sees the paths in `secret`. Raises
        `SandboxError`, `OSError`."""
        monitor.WATCH_SECONDS = watch_seconds
        self._settings = settings = adapt_settings(settings)
        await asyncio.to_thread(inspect_interpreter, settings.python)  # once, not in each slot: it starts a process
        self._receiving = asyncio.Lock()
        home = (settings.store or default_store_root()).with_name("actors") / socket.gethostname()
        home.parent.mkdir(parents=True, exist_ok=True)
        remove_stale(home)
        self._scratch = ScratchFolder(home)
        self._folder = folder = self._scratch.root
        for name in ("cache", "contents", "views"):
            (folder / name).mkdir()
        labels, gpus = folder / "labels", open_machine_gpus(settings)  # there are no labels
        self._executor = LocalExecutor(
            slots, folder / "views", labels=labels, settings=settings, cache=folder / "cache", gpus=gpus, secret=secret
        )

    async def run(self, number: int, work: RemoteWork) -> AsyncGenerator[list[News]]:
        """Run work in a slot and yield its news as they come up; the last is `WorkEnded`."""
        if number in self._released:  # Ray may swap two calls
            return
        if (slot := self._slots.get(number)) is None:
            folder = self._folder / f"slot-{number}"
            folder.mkdir()
            slot = self._slots[number] = Slot(folder, KernelHost(self._executor.runner, folder / "kernel"))
        running = slot.running = ReportedCell()
        output = LiveOutput(slot.folder / "output", MAX_KEPT_CHARS // 2)
        task = slot.task = asyncio.create_task(self._run_work(slot, output, work))
        task.add_done_callback(lambda _: running.has_news.set())
        try:
            with open(slot.folder / "output", encoding="utf-8", errors="replace", newline="") as printed:
                while not task.done():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(NEWS_SECONDS):
                            await running.has_news.wait()
                    running.has_news.clear()
                    news, running.news = running.news, []
                    yield [*news, printed.read()]
                yield [*running.news, printed.read(), task.result()]
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def stop(self, number: int, reason: str) -> None:
        """Interrupt the running cell in a slot."""
        if (slot := self._slots.get(number)) is not None:
            slot.running.stop(reason)

    async def release(self, number: int) -> None:
        """Kill the code in a slot and its kernel; the slot runs nothing any more. Idempotent."""
        self._released.add(number)
        if (slot := self._slots.pop(number, None)) is not None:
            if slot.task is not None:
                slot.task.cancel()
                await asyncio.wait({slot.task})
            await slot.host.close()
            await asyncio.to_thread(remove_tree, slot.folder, ignore_errors=True)

    async def close(self) -> None:
        """Kill all code and delete the actor's folder."""
        for number in list(self._slots):
            await self.release(number)
        await self._executor.close()
        await asyncio.to_thread(self._scratch.remove)

    # --- the work -----------------------------------------------------------------------------------------------------

    async def _run_work(self, slot: Slot, output: LiveOutput, work: RemoteWork) -> WorkEnded:
        paths = {path: await self._provide(content) for path, content in work.contents.items()}
        if work.packages is not None and work.packages.folder is not None:
            self._executor.packages = replace(work.packages, folder=paths[work.packages.folder])
        shift = work.now - await asyncio.to_thread(read_file_time, slot.folder)
        folder, code = slot.folder / "work" / work.code.folder.name, work.code
        if isinstance(code, KernelScript):
            result = await self._run_script(slot, work, replace(code, folder=folder, live=output), paths)
        else:
            result = await self._run_command(slot, work, replace(code, folder=folder), paths)

        def send() -> WorkEnded:
            try:
                make_harmless(folder)
                if isinstance(code, KernelScript):
                    remove_path(folder, "inputs")
                most = int(self._settings.disk_gb * 1e9)
                return WorkEnded(result, send_folder(folder, slot.folder, max_bytes=most, clock_shift=shift))
            except BadFile as error:
                return WorkEnded(replace(result, failure=result.failure or failure_from_error(error)), None)
            finally:
                remove_tree(slot.folder / "work", ignore_errors=True)  # the head may use the slot again at once

        return await asyncio.to_thread(send)

    async def _run_script(
        self, slot: Slot, work: RemoteWork, script: KernelScript, paths: Mapping[Path, Path]
    ) -> KernelExecution:
        await asyncio.to_thread(receive_folder, work.sent, script.folder, slot.folder)
        reader = ProgressReader(script.folder) if work.watched else None
        views, models = (
            {name: str(paths[Path(path)]) for name, path in one.items()} for one in (script.views, script.pretrained)
        )
        return await slot.host.execute(replace(script, views=views, pretrained=models), slot.running, reader)

    async def _run_command(
        self, slot: Slot, work: RemoteWork, job: CommandJob, paths: Mapping[Path, Path]
    ) -> CommandOutcome:
        await asyncio.to_thread(receive_folder, work.sent, job.folder, slot.folder)
        if (packages := job.environment.packages) is not None:
            job = replace(job, environment=replace(job.environment, packages=paths[packages]))
        return await self._executor.runner.run_repository_command(
            replace(job, readable=tuple(filter(Path.exists, job.readable))),
            work.needs,
            alone=work.alone,
            on_start=lambda: slot.running.mark_started(0.0),
        )

    async def _provide(self, content: Content) -> Path:
        """Return the content on this machine, after receiving it if it is missing."""
        place, part = self._folder / "contents" / content.sent.sha256, self._folder / "part"

        def receive() -> None:
            remove_tree(part)
            receive_folder(content.sent, part, self._folder)
            part.rename(place)

        async with self._receiving:
            if not place.exists():
                await asyncio.to_thread(receive)
        return place if content.is_folder else place / content.name
