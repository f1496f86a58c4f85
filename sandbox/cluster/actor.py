"""Run cells and commands on a machine of the cluster, in the same kernels as on a single machine. Folders and files
travel by Ray's object store; what arrives is verified by its sha256, and has the times of the receiving file system.

One actor serves a machine. Its processes are started by the one thread of its event loop, which lives as long as the
actor, because bubblewrap ends with the thread that started it: a killed actor leaves no process in a sandbox. Labels
never reach it. Limits: without a sandbox, a command may outlive its killed actor.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import tempfile
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from labwright.record.untrusted_files import BadFile, make_harmless, remove_path, remove_tree
from labwright.sandbox import monitor
from labwright.sandbox.archives import pack_archive, unpack_archive
from labwright.sandbox.cell_runner import KernelHost
from labwright.sandbox.cell_scheduler import RunningCell
from labwright.sandbox.cluster.machines import adapt_settings, import_ray, open_machine_gpus
from labwright.sandbox.content_store import default_store_root, read_file_time
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.isolation.processes import ScratchFolder, remove_stale
from labwright.sandbox.job import CellStarted, Event
from labwright.sandbox.repository.command import CommandJob
from labwright.sandbox.results import failure_from_error
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.workspace import KernelScript

_CHUNK_BYTES = 32 * 2**20
"""Bytes per object of Ray's object store."""
_INLINE_BYTES = 2**16
"""A smaller part travels in the message itself."""


class SentFolder(NamedTuple):
    """A folder, or a folder with one file."""

    parts: list[Any]
    """The parts of an archive, by reference to the object store unless they are small."""
    sha256: str
    """Hash of the whole archive."""
    file: str
    """Name of the file; empty for a folder."""


def send_folder(folder: Path, scratch: Path, *, max_bytes: int = 2**60, **options: Any) -> SentFolder:
    """Put a folder or file into the object store; `options` are those of `pack_archive`. `scratch` is a folder for
    temporary files. Raises `BadFile`, `OSError`, `RayError`."""
    ray, parts, digest = import_ray(), list[Any](), hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=scratch) as archive:
        pack_archive(folder, Path(archive.name), max_bytes=max_bytes, **options)
        while part := archive.read(_CHUNK_BYTES):
            digest.update(part)
            parts.append(part if len(part) < _INLINE_BYTES else ray.put(part))
    return SentFolder(parts, digest.hexdigest(), "" if folder.is_dir() else folder.name)


def receive_folder(sent: SentFolder, folder: Path, scratch: Path, *, max_bytes: int = 2**62) -> None:
    """Replace a folder by what was sent. Raises `BadFile`, also if it was damaged on the way, `OSError`, `RayError`."""
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=scratch) as archive:
        for reference in sent.parts:
            part: bytes = reference if isinstance(reference, bytes) else import_ray().get(reference)
            digest.update(part)
            archive.write(part)
        archive.flush()
        if digest.hexdigest() != sent.sha256:
            raise BadFile("the archive was damaged on the way")
        remove_tree(folder)
        unpack_archive(Path(archive.name), folder, max_bytes=max_bytes)


NEWS_SECONDS = 1.0
"""Interval between messages to the head, which also are signs of life, in seconds."""


# --- messages: values, and references to bytes in Ray's object store --------------------------------------------------


@dataclass(frozen=True)
class RemoteWork:
    """A script or a command to run in its folder."""

    code: KernelScript | CommandJob
    sent: SentFolder
    """The folder."""
    now: float
    """Time of the folder's file system on the head."""
    contents: Mapping[str, SentFolder]
    """Path on the head -> file or folder that many cells read."""


class WorkEnded(NamedTuple):
    """The code has ended; the folder is what it left, empty if that cannot be sent."""

    result: Any
    """`KernelExecution` or `CommandOutcome`."""
    sent: SentFolder


News = Event | WorkEnded | str
"""A string is output."""


# --- the actor --------------------------------------------------------------------------------------------------------


class ReportedCell(RunningCell):
    """The connection between running code and the head, which knows which cell it is."""

    def __init__(self) -> None:
        self.news = list[News]()
        super().__init__(emit=self.news.append)
        self.show = self.news.append

    def mark_started(self) -> None:
        self.news.append(CellStarted(self.cell))


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
        self._received = dict[Path, asyncio.Task[None]]()

    async def start(
        self, settings: SandboxSettings, slots: int, secret: tuple[Path, ...], watch_seconds: float
    ) -> None:
        """Prepare the machine: `slots` cells share its memory, and code never sees the paths in `secret`. Raises
        `SandboxError`, `OSError`."""
        monitor.WATCH_SECONDS = watch_seconds
        self._settings = settings = adapt_settings(settings)
        await asyncio.to_thread(inspect_interpreter, settings.python)  # once, not in each slot: it starts a process
        home = (settings.store or default_store_root()).with_name("actors") / socket.gethostname()
        home.parent.mkdir(parents=True, exist_ok=True)
        remove_stale(home)
        self._scratch = ScratchFolder(home)
        self._folder = folder = self._scratch.root
        (folder / "cache").mkdir()
        labels, gpus = folder / "labels", open_machine_gpus(settings)  # there are no labels
        self._executor = LocalExecutor(
            slots, folder / "views", labels=labels, settings=settings, cache=folder / "cache", gpus=gpus, secret=secret
        )

    async def run(self, number: int, work: RemoteWork) -> AsyncGenerator[list[News]]:
        """Run work in a slot and yield its news at least every `NEWS_SECONDS`; the last is `WorkEnded`."""
        if number in self._released:  # Ray may swap two calls
            return
        if (slot := self._slots.get(number)) is None:
            folder = self._folder / f"slot-{number}"
            folder.mkdir()
            slot = self._slots[number] = Slot(folder, KernelHost(self._executor.runner, folder / "kernel"))
        running = slot.running = ReportedCell()
        task = slot.task = asyncio.create_task(self._run_work(slot, work))
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=NEWS_SECONDS)
                yield [running.news.pop(0) for _ in tuple(running.news)]
            yield [task.result()]
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
        await asyncio.gather(*map(self.release, tuple(self._slots)))
        await asyncio.to_thread(self._scratch.remove)

    # --- the work -----------------------------------------------------------------------------------------------------

    async def _run_work(self, slot: Slot, work: RemoteWork) -> WorkEnded:
        code, folder = work.code, slot.folder / "work" / work.code.folder.name
        paths = {path: await self._provide(sent) for path, sent in work.contents.items()}
        shift = work.now - await asyncio.to_thread(read_file_time, slot.folder)
        await asyncio.to_thread(receive_folder, work.sent, folder, slot.folder)
        if isinstance(code, KernelScript):
            views = {name: str(paths[path]) for name, path in code.views.items()}
            models = {name: str(paths[path]) for name, path in code.pretrained.items()}
            packages = paths.get(str(code.packages))
            script = replace(code, folder=folder, views=views, pretrained=models, packages=packages)
            result = await slot.host.execute(script, slot.running)
        else:
            packages = paths.get(str(code.environment.packages))
            environment, readable = replace(code.environment, packages=packages), filter(Path.exists, code.readable)
            job = replace(code, folder=folder, environment=environment, readable=tuple(readable))
            result = await self._executor.runner.run_repository_command(job, slot.running)

        def send() -> WorkEnded:
            try:
                make_harmless(folder)
                if isinstance(code, KernelScript):
                    remove_path(folder, "inputs")
                most = int(self._settings.disk_gb * 1e9)
                return WorkEnded(result, send_folder(folder, slot.folder, max_bytes=most, clock_shift=shift))
            except BadFile as error:
                (empty := slot.folder / "empty").mkdir(exist_ok=True)
                failure = result.failure or failure_from_error(error)
                return WorkEnded(replace(result, failure=failure), send_folder(empty, slot.folder))
            finally:
                remove_tree(slot.folder / "work", ignore_errors=True)  # the head may use the slot again at once

        return await asyncio.to_thread(send)

    async def _provide(self, sent: SentFolder) -> Path:
        """Return the file or folder on this machine, after receiving it if it is missing."""
        place = self._folder / "contents" / sent.sha256
        if place not in self._received:
            receiving = asyncio.to_thread(receive_folder, sent, place, self._folder)
            self._received[place] = asyncio.create_task(receiving)
        await asyncio.shield(self._received[place])
        return place / sent.file
