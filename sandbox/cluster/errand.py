"""One order carried out at a place: its folder is unpacked, its script or command run, and what it left packed again.

What it says while it works waits until the head asks (`news`), and so does what the head has to say (`call_off`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from labwright.record.descriptors import remove_tree
from labwright.record.folder import sha256
from labwright.sandbox.cluster.messages import Done, News, Order, script_of
from labwright.sandbox.cluster.parcels import pack, unpack
from labwright.sandbox.errors import ExecutorError, SandboxError
from labwright.sandbox.execution import Execution, Script
from labwright.sandbox.file_clock import time_at
from labwright.sandbox.job import Progress
from labwright.sandbox.monitor import Monitor
from labwright.sandbox.output import LiveOutput, Transcript
from labwright.sandbox.places import KernelPlace
from labwright.sandbox.results import failure_of
from labwright.sandbox.store import Store, link_or_copy
from labwright.sandbox.untrusted import BadFile, disarm
from labwright.sandbox.workspace import CELLS

SHOWN = 100_000
"""Characters of output that travel while code runs; all that is kept comes with its end."""


class Errand:
    """An order under way, in the event loop of its place. `parcel` holds its folder, and then what it left."""

    def __init__(
        self,
        order: Order,
        place: KernelPlace,
        store: Store,
        parcel: Path,
        watch_seconds: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._order, self._place, self._store, self._parcel = order, place, store, parcel
        self._runner, self._watch_seconds = place.runner, watch_seconds
        self._shift = order.now - time_at(parcel.parent)
        self._begun, self._shown = False, 0
        self._output: list[str] = []
        self._glances: list[Progress] = []
        self._news = asyncio.Event()
        self._verdict: asyncio.Future[str] = loop.create_future()
        self._task = loop.create_task(self._carry_out())
        self._task.add_done_callback(lambda _: self._news.set())

    async def until_news(self, seconds: float) -> None:
        """Go on until there is something to say, or for so long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), seconds)
        self._news.clear()

    def news(self) -> News:
        """What is new since it was asked last."""
        shown, self._output = "".join(self._output), []
        glances, self._glances = tuple(self._glances), []
        done, error = None, ""
        if self._task.done():
            self._news.set()
            try:
                done = self._task.result()
            except (SandboxError, OSError) as failed:
                error = " ".join(str(failed).split())
        return News(begun=self._begun, shown=shown, glances=glances, done=done, error=error)

    def call_off(self, reason: str) -> None:
        """Have the code ended."""
        if not self._verdict.done():
            self._verdict.set_result(reason)

    async def end(self) -> None:
        """Drop it. Idempotent."""
        self._task.cancel()
        await asyncio.wait({self._task})

    # --- the work -----------------------------------------------------------------------------------------------------

    async def _carry_out(self) -> Done:
        return await (self._script() if self._order.command is None else self._command())

    async def _script(self) -> Done:
        order, place = self._order, self._place
        folder, views = place.folder.parent / CELLS / "whole", self._views()
        if order.cell is not None:
            folder = folder.with_name(order.cell.name)
            await place.ready(order.cell.arm, order.fields["source"], order.sees, order.needs.gpus)
        await asyncio.to_thread(unpack, self._parcel, folder)
        models = {name: str(self._content(key)) for name, key in order.pretrained.items()}
        script = replace(script_of(order, folder, views=views, pretrained=models), live=_Shown(self._show))
        monitor = _Reporting(folder, self._watch_seconds, self._glance, self._verdict) if order.watched else None
        return await self._packed(folder, await self._executed(script, monitor), without=("inputs",))

    async def _executed(self, script: Script, monitor: Monitor | None) -> Execution:
        if script.cell is not None:
            return await self._place.execute(script, begins=self._begins, monitor=monitor)
        self._begins()
        return await self._runner.execute(script, None, monitor)

    async def _command(self) -> Done:
        order, job = self._order, self._order.command
        folder = self._place.folder.parent / CELLS / "command"
        assert job is not None
        await asyncio.to_thread(unpack, self._parcel, folder)
        ground = replace(job.ground, packages=self._content(order.packages)) if order.packages else job.ground
        job = replace(job, folder=folder, ground=ground, readable=tuple(filter(Path.exists, job.readable)))
        outcome = await self._runner.command(job, order.needs, alone=order.alone, begins=self._begins)
        done = await self._packed(folder, Execution(outcome.seconds, outcome.failure, Transcript(2)))
        return done.model_copy(update={"outcome": outcome})

    async def _packed(self, folder: Path, execution: Execution, without: tuple[str, ...] = ()) -> Done:
        """What came of it, once its folder is in the parcel."""
        most = int(self._runner.config.settings.disk_gb * 1e9)

        def make() -> Done:
            failed = execution
            try:
                disarm(folder)
                pack(folder, self._parcel, most=most, shift=self._shift, without=without)
            except BadFile as error:
                failed = replace(execution, failure=execution.failure or failure_of(error))
                remove_tree(folder)
                folder.mkdir()
                pack(folder, self._parcel, most=0)
            return Done.of(failed, size=self._parcel.stat().st_size, sha256=sha256(self._parcel))

        return await asyncio.to_thread(make)

    def _views(self) -> dict[str, str]:
        """Views under their names, where kernels that wait look for them."""
        found: dict[str, str] = {}
        for name, key in self._order.views.items():
            path, content = self._runner.views / f"{name}.npz", self._content(key)
            if not path.exists() or not path.samefile(content):
                path.unlink(missing_ok=True)
                link_or_copy(content, path)
            found[name] = str(path)
        return found

    def _content(self, key: str) -> Path:
        found = self._store.find(key)
        if found is None:
            raise ExecutorError(f"{key[:12]}... is gone from the store {self._store.root}")
        return found

    # --- what is told while it works ----------------------------------------------------------------------------------

    def _begins(self) -> None:
        self._begun = True
        self._news.set()

    def _show(self, text: str) -> None:
        if self._shown < SHOWN:
            self._output.append(text[: SHOWN - self._shown])
            self._shown += len(text)

    def _glance(self, glance: Progress) -> None:
        self._glances.append(glance)
        self._news.set()


class _Shown(LiveOutput):
    """Output that is handed on."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(None, 0)
        self._show = show

    def add(self, text: str) -> None:
        self._show(text)


class _Reporting(Monitor):
    """A monitor whose watch is on another machine: what it sees travels, and the verdict comes back."""

    def __init__(
        self, folder: Path, seconds: float, tell: Callable[[Progress], None], verdict: asyncio.Future[str]
    ) -> None:
        super().__init__(lambda _: None, folder)
        self._seconds, self._tell, self._verdict = seconds, tell, verdict

    async def follow(self, transcript: Transcript) -> str:
        looking = asyncio.ensure_future(self._look_on(transcript))
        try:
            return await asyncio.shield(self._verdict)
        finally:
            looking.cancel()

    async def _look_on(self, transcript: Transcript) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(self._seconds)
            self._tell(await asyncio.to_thread(self.glance, time.monotonic() - began, transcript.chars))
