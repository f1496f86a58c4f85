"""A place on a machine of the cluster: it carries out one order at a time with the same kernels as a single machine.

Every method of `Node` takes and returns bytes, and is called in the main thread of a process of its own: what dies with
its parent (bubblewrap) dies with that thread. So none of them may be a coroutine, which Ray would call in another one.
Between two calls nothing of its event loop moves; the head calls again at once. Kept: nothing is left of a place whose
process ended but folders, which the next one removes; labels never come here. Not kept: without a sandbox, a command
that outlives its killed place.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from labwright.record.descriptors import remove_tree
from labwright.record.folder import sha256
from labwright.sandbox.cluster.errand import Errand
from labwright.sandbox.cluster.messages import Facts, Order, Terms, Wish
from labwright.sandbox.cluster.parcels import CHUNK, SMALL, unpack
from labwright.sandbox.collecting import Collector
from labwright.sandbox.errors import SandboxError
from labwright.sandbox.gpu_leases import open_leases
from labwright.sandbox.gpus import Device, cuda_visible_devices
from labwright.sandbox.ground import ground_of
from labwright.sandbox.isolation.limits import machine_memory
from labwright.sandbox.isolation.mounts import KernelConfig
from labwright.sandbox.isolation.probe import isolation_of
from labwright.sandbox.isolation.scratch import sweep
from labwright.sandbox.monitor import Meter
from labwright.sandbox.places import KernelPlace
from labwright.sandbox.pool import Pool
from labwright.sandbox.running import Runner
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.store import Store, default_root
from labwright.sandbox.workspace import CELLS, KERNELS


def code_version() -> str:
    """A hash of the code that both sides must have in common."""
    root, digest = Path(__file__).resolve().parents[2], hashlib.sha256()
    for room in ("record", "sandbox"):
        for path in sorted((root / room).rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\0{sha256(path)}\n".encode())
    return digest.hexdigest()[:12]


def survey(sent: bytes) -> bytes:
    """What this machine says of itself under these terms (`Facts`)."""
    settings = _here(Terms.read(sent).settings)
    walls = ground = ""
    devices: tuple[Device, ...] = ()
    try:
        devices = open_leases(settings, None).devices  # Ray shows none to what asks for none
        ground = ground_of(settings, devices)
        found = isolation_of(settings)
        walls = found.why if settings.isolation != "none" and not found.on else ""
    except SandboxError as error:
        walls = str(error)
    return Facts(
        host=socket.gethostname(),
        version=code_version(),
        ground=ground,
        walls=walls,
        devices=devices,
        tokens=os.environ.get("RAY_AUTH_MODE", "") == "token",
        memory=machine_memory(),
    ).sent


def _here(settings: SandboxSettings) -> SandboxSettings:
    """The settings with what this machine calls otherwise: its interpreter where the head's is the program's own."""
    return settings if Path(settings.python).exists() else settings.model_copy(update={"python": sys.executable})


class Node:
    """One place. `terms` are `Terms`."""

    def __init__(self, terms: bytes) -> None:
        self._terms = Terms.read(terms)
        self._settings = _here(self._terms.settings)
        self._loop = asyncio.new_event_loop()
        self._store = Store(self._settings.store or default_root())
        home = default_root().with_name("nodes") / self._terms.run
        self._work, self._lock = _own_folder(home)
        self._parcel = self._work / "parcel"
        self._packages: Path | None = None
        self._runner = self._new_runner(home / "cache")
        self._place = KernelPlace(self._runner, self._work / KERNELS)
        self._errand: Errand | None = None

    def _new_runner(self, cache: Path) -> Runner:
        settings, views = self._settings, self._work / "views"
        sweep()
        for folder in (cache, views):
            folder.mkdir(parents=True, exist_ok=True)
        config = KernelConfig(
            settings, isolation_of(settings), cache, secret=self._terms.secret, packages=lambda: self._packages
        )
        gpus = open_leases(settings, cuda_visible_devices())
        unused = Collector(self._work, cache, settings.artifact_bytes, "logged")
        return Runner(
            self._terms.slots.get(socket.gethostname(), 1),
            config,
            views,
            None,
            unused,
            {},
            gpus,
            Meter(gpus.nvml, alone=gpus.alone),
            Pool(config, views=views, folder=self._work / "slots"),
        )

    def hello(self) -> bytes:
        """Says that it is there, and on which machine."""
        return socket.gethostname().encode()

    def lacking(self, keys: bytes) -> bytes:
        """Which of these keys are not in the store of this machine."""
        return json.dumps([key for key in json.loads(keys) if self._store.find(key) is None]).encode()

    def load(self, part: bytes, first: bool) -> bytes:
        """Take in a part of a parcel."""
        with open(self._parcel, "wb" if first else "ab") as file:
            file.write(part)
        return b""

    def stock(self, about: bytes) -> bytes:
        """Put the parcel that was loaded into the store; `about` has its key, kind and name."""
        told = json.loads(about)
        self._store.root.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".part-", dir=self._store.root))
        try:
            unpack(self._parcel, part / "content" if told["folder"] else part)
            self._store.finish(part, told["key"], told["kind"], told["name"])
        finally:
            remove_tree(part, ignore_errors=True)
            self._parcel.unlink(missing_ok=True)
        return b""

    def begin(self, sent: bytes, parcel: bytes) -> bytes:
        """Begin to carry out an order, whose folder is this parcel, or (empty) was loaded."""
        order = Order.read(sent)
        if parcel:
            self.load(parcel, True)
        self._packages = self._store.find(order.packages) if order.packages else None
        self._errand = Errand(order, self._place, self._store, self._parcel, self._terms.watch_seconds, self._loop)
        return b""

    def step(self, sent: bytes) -> bytes:
        """Go on until there is news, or for so many seconds; the news, and behind a line feed what it left,
        if small.
        """
        assert self._errand is not None
        wish = Wish.read(sent)
        if wish.reason:
            self._errand.call_off(wish.reason)
        self._loop.run_until_complete(self._errand.until_news(wish.seconds))
        news = self._errand.news()
        small = news.done is not None and news.done.size <= SMALL
        return news.sent + b"\n" + (self.fetch(0) if small else b"")

    def fetch(self, offset: int) -> bytes:
        """A part of the parcel that came of the order."""
        with open(self._parcel, "rb") as file:
            file.seek(offset)
            return file.read(CHUNK)

    def clear(self) -> bytes:
        """Forget the order: the head has all of it."""
        self._errand = None
        self._parcel.unlink(missing_ok=True)
        for place in (self._work / CELLS, self._work / KERNELS / CELLS):
            remove_tree(place, ignore_errors=True)
        return b""

    def rest(self) -> bytes:
        """End what runs, and wait for other work."""
        if self._errand is not None:
            self._loop.run_until_complete(self._errand.end())
        self._loop.run_until_complete(self._place.close())
        return self.clear()

    def close(self) -> bytes:
        """End everything."""
        self.rest()
        self._loop.run_until_complete(self._runner.pool.close())
        self._loop.run_until_complete(self._runner.gpus.close())
        os.close(self._lock)
        remove_tree(self._work, ignore_errors=True)
        return b""


def _own_folder(home: Path) -> tuple[Path, int]:
    """A new folder for one place, with its lock, which ends with us; those whose place is gone are removed."""
    home.mkdir(parents=True, exist_ok=True)
    for old in home.glob("place-*"):
        with suppress(OSError):
            lock = os.open(old, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(old, ignore_errors=True)
            finally:
                os.close(lock)
    made = Path(tempfile.mkdtemp(prefix=".new-", dir=home))
    lock = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    folder = made.with_name(made.name.replace(".new-", "place-"))
    made.rename(folder)
    return folder, lock
