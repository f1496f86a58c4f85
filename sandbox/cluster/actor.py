"""Run cells and commands on a machine of the cluster, in the same kernels as on a single machine.

One actor serves a machine. Its processes are started by the one thread of its event loop, which lives as long as the
actor, because bubblewrap ends with the thread that started it: a killed actor leaves no process in a sandbox. Labels
never reach it. Limits: without a sandbox, a command may outlive its killed actor.
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from labwright.record.run_folder import hash_file
from labwright.record.schema.cell import Cell
from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.schema.llm_exchanges import LLMExchange, LLMQuestion
from labwright.record.untrusted_files import BadFile, make_harmless, remove_tree
from labwright.sandbox import monitor
from labwright.sandbox.cell_runner import KernelHost
from labwright.sandbox.cell_scheduler import RunningCell
from labwright.sandbox.cluster.archives import CHUNK_BYTES, pack_archive, unpack_archive
from labwright.sandbox.cluster.machines import adapt_settings, open_machine_gpus
from labwright.sandbox.content_store import ContentStore, default_store_root, link_or_copy
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.file_clock import read_file_time
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


@dataclass(frozen=True)
class Content:
    """A file or folder that many cells read: its key in the content store, and its archive."""

    key: str
    kind: str
    name: str
    is_folder: bool
    parts: list[Any]


@dataclass(frozen=True)
class RemoteWork:
    """A script or a command to run in a folder."""

    parts: list[Any]
    """The archive of the folder."""
    now: float
    """Time of the folder's file system on the head."""
    needs: ResourceNeeds
    script: KernelScript | None = None
    datasets: tuple[str, ...] = ()
    """Datasets that the script's kernel mounts."""
    watched: bool = False
    command: CommandJob | None = None
    alone: bool = False
    packages: PackageOverlay | None = None
    contents: dict[Path, Content] = field(default_factory=dict[Path, Content])
    """Path on the head -> content."""


class Question(NamedTuple):
    """A question to a language model, which the head answers."""

    number: int
    key: str
    question: LLMQuestion
    ordinal: int


class WorkEnded(NamedTuple):
    """The code has ended; the parts of the folder's archive follow."""

    result: KernelExecution | CommandOutcome
    sha256: str
    answers: tuple[Counter[str], Counter[str], str] | None = None
    """Its session with language models: answered questions per model, draws per question, spent budget."""


News = Event | Question | str
"""A string is output."""


# --- a slot -----------------------------------------------------------------------------------------------------------


class ReportedCell(RunningCell):
    """The connection between running code and the head, also an `LlmGateway` whose questions the head answers."""

    names: tuple[str, ...] = ()

    def __init__(self, script: KernelScript | None) -> None:
        self.news: list[News] = []
        self.has_news = asyncio.Event()
        self._questions: list[asyncio.Future[LLMExchange]] = []
        cell, limit = (script.cell, script.limit) if script is not None else (Cell(dataset="", arm=""), 0.0)
        super().__init__(cell, limit, time.monotonic(), self._send)

    def mark_started(self, now: float) -> None:
        self._send(CellStarted(self.cell))

    async def ask(self, cell: str, question: LLMQuestion, ordinal: int) -> LLMExchange:
        self._questions.append(future := asyncio.get_running_loop().create_future())
        self._send(Question(len(self._questions) - 1, cell, question, ordinal))
        return await future

    def answer(self, question: int, answer: LLMExchange | Exception) -> None:
        """Pass on the head's answer to a question."""
        if not (future := self._questions[question]).done():
            _ = future.set_exception(answer) if isinstance(answer, Exception) else future.set_result(answer)

    def definition(self, name: str) -> str:
        raise NotImplementedError  # the head computes the keys of cells

    def find(self, cell: str, exchange: str) -> LLMExchange | None:
        raise NotImplementedError  # the head reads what a cell left

    async def close(self) -> None:
        """Do nothing, since the head closes its gateway."""

    def _send(self, news: News) -> None:
        self.news.append(news)
        self.has_news.set()


class ReportedOutput(LiveOutput):
    """Output that is sent to the head, up to the limit that is shown there."""

    def __init__(self, running: ReportedCell) -> None:
        super().__init__(None, 0)
        self._news, self._room = running, MAX_KEPT_CHARS // 2

    def add(self, text: str) -> None:
        if self._room > 0:
            self._news.news.append(text[: self._room])
            self._room -= len(text)


@dataclass
class Slot:
    """A place for one cell at a time, with its kernel. `folder` has the folder of the work and its archive."""

    host: KernelHost
    folder: Path
    running: ReportedCell | None = None
    task: asyncio.Task[WorkEnded] | None = None


# --- the actor --------------------------------------------------------------------------------------------------------


class MachineActor:
    """Runs work on its machine, in slots that the head numbers. A slot keeps its kernel until it is released."""

    def __init__(self, settings: SandboxSettings, slots: int, secret: tuple[Path, ...], watch_seconds: float) -> None:
        """`slots` cells share the machine's memory; code never sees the paths in `secret`."""
        monitor.WATCH_SECONDS = watch_seconds
        self._settings, self._slot_count, self._secret = adapt_settings(settings), slots, secret
        self._slots, self._unpacking = dict[int, Slot](), asyncio.Lock()

    async def start(self) -> None:
        """Prepare the machine. Raises `SandboxError`, `OSError`."""
        settings = self._settings
        self._store = ContentStore(settings.store or default_store_root())
        home = default_store_root().with_name("actors") / socket.gethostname()
        for folder in (self._store.root, home.parent):
            folder.mkdir(parents=True, exist_ok=True)
        remove_stale(home)
        self._scratch = ScratchFolder(home)
        self._work = self._scratch.root
        for name in ("cache", "views"):
            (self._work / name).mkdir()
        self._executor = LocalExecutor(
            self._slot_count,
            self._work / "views",
            labels=self._work / "labels",  # unused
            settings=settings,
            cache=self._work / "cache",
            gpus=open_machine_gpus(settings),
            secret=self._secret,
        )

    async def run(self, number: int, work: RemoteWork) -> AsyncGenerator[list[News] | WorkEnded | bytes]:
        """Run work in a slot: yield its news as they come up, `WorkEnded`, and the parts of the archive."""
        if (slot := self._slots.get(number)) is None:
            folder = self._work / f"slot-{number}"
            slot = self._slots[number] = Slot(KernelHost(self._executor.runner, folder / "kernel"), folder)
        running = slot.running = ReportedCell(work.script)
        task = slot.task = asyncio.create_task(self._run_work(slot, running, work))
        task.add_done_callback(lambda _: running.has_news.set())
        try:
            while not task.done():
                with suppress(TimeoutError):
                    await asyncio.wait_for(running.has_news.wait(), NEWS_SECONDS)
                running.has_news.clear()
                news, running.news = running.news, []
                yield news
            yield running.news
            yield task.result()
            with open(slot.folder / "archive", "rb") as file:
                while part := await asyncio.to_thread(file.read, CHUNK_BYTES):
                    yield part
        finally:
            task.cancel()
            await asyncio.wait({task})
            for name in ("archive", "work"):
                await asyncio.to_thread(remove_tree, slot.folder / name, ignore_errors=True)

    async def pass_on(self, number: int, method: Literal["stop", "answer"], *arguments: Any) -> None:
        """Call a method of the running cell in a slot."""
        if (slot := self._slots.get(number)) is not None and slot.running is not None:
            getattr(slot.running, method)(*arguments)

    async def release(self, number: int) -> None:
        """Kill the code in a slot and its kernel. Idempotent."""
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

    async def _run_work(self, slot: Slot, running: ReportedCell, work: RemoteWork) -> WorkEnded:
        paths = {path: await self._provide(content) for path, content in work.contents.items()}
        shift = work.now - await asyncio.to_thread(read_file_time, self._work)
        if work.packages is not None and work.packages.folder is not None:
            self._executor.packages = replace(work.packages, folder=paths[work.packages.folder])
        if work.script is not None:
            folder = slot.folder / "work" / work.script.folder.name
            result = await self._run_script(slot, running, work, replace(work.script, folder=folder), paths)
        else:
            folder = slot.folder / "work" / "checkout"
            result = await self._run_command(slot, running, work, folder, paths)

        def pack() -> WorkEnded:
            nonlocal result
            archive, most = slot.folder / "archive", int(self._settings.disk_gb * 1e9)
            try:
                make_harmless(folder)
                left_out = ("inputs",) if work.script is not None else ()
                pack_archive(folder, archive, max_bytes=most, clock_shift=shift, excluded=left_out)
            except BadFile as error:
                result = replace(result, failure=result.failure or failure_from_error(error))
                remove_tree(folder)
                folder.mkdir()
                pack_archive(folder, archive, max_bytes=0)
            if isinstance(result, CommandOutcome) or (session := result.llm_session) is None:
                return WorkEnded(result, hash_file(archive))
            answers = session.answer_counts, session.draw_counts, session.budget_message
            return WorkEnded(replace(result, llm_session=None), hash_file(archive), answers)

        return await asyncio.to_thread(pack)

    async def _run_script(
        self, slot: Slot, running: ReportedCell, work: RemoteWork, script: KernelScript, paths: dict[Path, Path]
    ) -> KernelExecution:
        runner = self._executor.runner
        models = {name: str(paths[Path(path)]) for name, path in script.pretrained.items()}
        if new := {name: Path(path) for name, path in models.items() if name not in runner.pretrained}:
            self._executor.add_pretrained(new)
        views = {name: runner.views / f"{name}.npz" for name in script.views}
        for name, path in views.items():  # waiting kernels look for them under their names
            if not path.exists() or not path.samefile(paths[Path(script.views[name])]):
                path.unlink(missing_ok=True)
                link_or_copy(paths[Path(script.views[name])], path)
        slot.host.runner = replace(runner, subjects=running) if script.job.subjects else runner
        await slot.host.prepare(script.cell, script.job.source, work.datasets, work.needs.gpus)
        await self._unpack(work.parts, slot.folder / "archive", script.folder)
        reader = ProgressReader(script.folder) if work.watched else None
        live, texts = ReportedOutput(running), {name: str(path) for name, path in views.items()}
        script = replace(script, views=texts, pretrained=models, live=live)
        return await slot.host.execute(script, running, reader)

    async def _run_command(
        self, slot: Slot, running: ReportedCell, work: RemoteWork, folder: Path, paths: dict[Path, Path]
    ) -> CommandOutcome:
        assert work.command is not None
        await self._unpack(work.parts, slot.folder / "archive", folder)
        environment = work.command.environment
        if environment.packages is not None:
            environment = replace(environment, packages=paths[environment.packages])
        readable = tuple(filter(Path.exists, work.command.readable))
        job = replace(work.command, folder=folder, environment=environment, readable=readable)
        return await self._executor.runner.run_repository_command(
            job, work.needs, alone=work.alone, on_start=lambda: running.mark_started(0.0)
        )

    async def _provide(self, content: Content) -> Path:
        """Return the content in this machine's store, after unpacking it there if it is missing."""
        async with self._unpacking:
            if (found := self._store.find(content.key)) is None:
                part = Path(tempfile.mkdtemp(prefix=".part-", dir=self._store.root))
                try:
                    await self._unpack(content.parts, part / "archive", part / "files")
                    os.rename(part / "files" / ("" if content.is_folder else content.name), part / "content")
                    await asyncio.to_thread(self._store.finish, part, content.key, content.kind, content.name)
                finally:
                    await asyncio.to_thread(remove_tree, part, ignore_errors=True)
                found = self._store.find(content.key)
        assert found is not None
        return found

    async def _unpack(self, parts: list[Any], archive: Path, folder: Path) -> None:
        """Fetch the parts of an archive and extract it."""
        archive.parent.mkdir(parents=True, exist_ok=True)
        with open(archive, "wb") as file:
            for part in parts:
                await asyncio.to_thread(file.write, await part)
        await asyncio.to_thread(unpack_archive, archive, folder)
        archive.unlink()
