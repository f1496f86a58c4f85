"""A worker on a machine of the cluster; it runs one task at a time in the same kernels as a single machine.

Every method of `WorkerActor` takes and returns bytes and runs in the main thread of its own process, because bubblewrap
dies with the thread that started it. No method may be a coroutine: Ray would run it in another thread. The event loop
runs only during a call, so the head node repeats calls immediately. Guarantees: a worker whose process ended leaves
only folders, which the next worker removes; labels never reach a worker. Limits: without a sandbox, a command may
outlive its killed worker.
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

from labwright.record.run_folder import hash_file
from labwright.record.untrusted_files import remove_tree
from labwright.sandbox.cluster.archives import CHUNK_BYTES, MAX_INLINE_BYTES, unpack_archive
from labwright.sandbox.cluster.messages import MachineFacts, PollRequest, RemoteTaskSpec, WorkerTerms
from labwright.sandbox.cluster.remote_task import RemoteTask
from labwright.sandbox.content_store import ContentStore, default_store_root
from labwright.sandbox.environment_fingerprint import compute_environment_fingerprint
from labwright.sandbox.errors import SandboxError
from labwright.sandbox.gpu_leases import open_gpu_leases
from labwright.sandbox.gpus import GpuDevice, read_cuda_visible_devices
from labwright.sandbox.isolation.limits import read_machine_memory
from labwright.sandbox.isolation.mounts import KernelConfig
from labwright.sandbox.isolation.probe import determine_isolation
from labwright.sandbox.isolation.scratch import remove_stale
from labwright.sandbox.job_runner import JobRunner
from labwright.sandbox.kernel_host import KernelHost
from labwright.sandbox.kernel_pool import KernelPool
from labwright.sandbox.monitor import MemoryMeter
from labwright.sandbox.result_collector import ResultCollector
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.workspace import CELLS_FOLDER, KERNELS_FOLDER


def compute_code_version() -> str:
    """Return a hash of the code that must be the same on both sides."""
    root, digest = Path(__file__).resolve().parents[2], hashlib.sha256()
    for package in ("record", "sandbox"):
        for path in sorted((root / package).rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()[:12]


def describe_machine(sent: bytes) -> bytes:
    """Return this machine's encoded `MachineFacts` under the given `WorkerTerms`."""
    settings = _adapt_settings(WorkerTerms.decode(sent).settings)
    isolation_fault = fingerprint = ""
    devices: tuple[GpuDevice, ...] = ()
    try:
        devices = open_gpu_leases(settings, None).devices  # Ray shows no GPU to a task that requests none
        fingerprint = compute_environment_fingerprint(settings, devices)
        found = determine_isolation(settings)
        isolation_fault = found.reason if settings.isolation != "none" and not found.is_on else ""
    except SandboxError as error:
        isolation_fault = str(error)
    return MachineFacts(
        host=socket.gethostname(),
        version=compute_code_version(),
        environment_fingerprint=fingerprint,
        isolation_fault=isolation_fault,
        devices=devices,
        tokens=os.environ.get("RAY_AUTH_MODE", "") == "token",
        memory=read_machine_memory(),
    ).encoded


def _adapt_settings(settings: SandboxSettings) -> SandboxSettings:
    """Return the settings with this machine's interpreter if the configured one does not exist here."""
    return settings if Path(settings.python).exists() else settings.model_copy(update={"python": sys.executable})


class WorkerActor:
    """One worker. `terms` is an encoded `WorkerTerms`."""

    def __init__(self, terms: bytes) -> None:
        self._terms = WorkerTerms.decode(terms)
        self._settings = _adapt_settings(self._terms.settings)
        self._loop = asyncio.new_event_loop()
        self._store = ContentStore(self._settings.store or default_store_root())
        home = default_store_root().with_name("nodes") / self._terms.run
        self._work, self._lock = _create_worker_folder(home)
        self._archive = self._work / "archive"
        self._packages: Path | None = None
        self._runner = self._create_runner(home / "cache")
        self._host = KernelHost(self._runner, self._work / KERNELS_FOLDER)
        self._task: RemoteTask | None = None

    def _create_runner(self, cache: Path) -> JobRunner:
        settings, views = self._settings, self._work / "views"
        remove_stale()
        for folder in (cache, views):
            folder.mkdir(parents=True, exist_ok=True)
        config = KernelConfig(
            settings, determine_isolation(settings), cache, secret=self._terms.secret, packages=lambda: self._packages
        )
        gpus = open_gpu_leases(settings, read_cuda_visible_devices())
        unused = ResultCollector(self._work, cache, settings.artifact_bytes, "logged")
        return JobRunner(
            self._terms.slots.get(socket.gethostname(), 1),
            config,
            views,
            None,
            unused,
            {},
            gpus,
            MemoryMeter(gpus.nvml, alone=gpus.is_alone),
            KernelPool(config, views=views, folder=self._work / "slots"),
        )

    def ping(self) -> bytes:
        """Return the host name, to show that the worker is alive."""
        return socket.gethostname().encode()

    def list_missing(self, keys: bytes) -> bytes:
        """Return the keys that are not in this machine's store."""
        return json.dumps([key for key in json.loads(keys) if self._store.find(key) is None]).encode()

    def receive_part(self, part: bytes, first: bool) -> bytes:
        """Append a part to the archive."""
        with open(self._archive, "wb" if first else "ab") as file:
            file.write(part)
        return b""

    def add_to_store(self, about: bytes) -> bytes:
        """Put the received archive into the store; `about` gives its key, its kind, its name, and whether it is a
        folder.
        """
        item = json.loads(about)
        self._store.root.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".part-", dir=self._store.root))
        try:
            unpack_archive(self._archive, part / "content" if item["folder"] else part)
            self._store.finish(part, item["key"], item["kind"], item["name"])
        finally:
            remove_tree(part, ignore_errors=True)
            self._archive.unlink(missing_ok=True)
        return b""

    def start_task(self, sent: bytes, archive: bytes) -> bytes:
        """Start a task whose folder is in `archive`, or in the received archive if that is empty."""
        spec = RemoteTaskSpec.decode(sent)
        if archive:
            self.receive_part(archive, True)
        self._packages = self._store.find(spec.packages) if spec.packages else None
        self._task = RemoteTask(spec, self._host, self._store, self._archive, self._terms.watch_seconds, self._loop)
        return b""

    def poll(self, sent: bytes) -> bytes:
        """Run until there is news or the time is up; return the news, then a line feed and, if small, the
        output."""
        assert self._task is not None
        request = PollRequest.decode(sent)
        if request.reason:
            self._task.call_off(request.reason)
        self._loop.run_until_complete(self._task.wait_for_news(request.seconds))
        news = self._task.take_news()
        small = news.result is not None and news.result.size <= MAX_INLINE_BYTES
        return news.encoded + b"\n" + (self.read_part(0) if small else b"")

    def read_part(self, offset: int) -> bytes:
        """Return a part of the output archive."""
        with open(self._archive, "rb") as file:
            file.seek(offset)
            return file.read(CHUNK_BYTES)

    def clear_task(self) -> bytes:
        """Delete the task and its files after the head node has fetched the output."""
        self._task = None
        self._archive.unlink(missing_ok=True)
        for folder in (self._work / CELLS_FOLDER, self._work / KERNELS_FOLDER / CELLS_FOLDER):
            remove_tree(folder, ignore_errors=True)
        return b""

    def go_idle(self) -> bytes:
        """Stop the running task and wait for the next."""
        if self._task is not None:
            self._loop.run_until_complete(self._task.cancel())
        self._loop.run_until_complete(self._host.close())
        return self.clear_task()

    def close(self) -> bytes:
        """Stop the worker and delete its folder."""
        self.go_idle()
        self._loop.run_until_complete(self._runner.pool.close())
        self._loop.run_until_complete(self._runner.gpus.close())
        os.close(self._lock)
        remove_tree(self._work, ignore_errors=True)
        return b""


def _create_worker_folder(home: Path) -> tuple[Path, int]:
    """Create a locked folder for one worker and delete the folders of workers that have ended. The lock is released
    when the process ends.
    """
    home.mkdir(parents=True, exist_ok=True)
    for old in home.glob("worker-*"):
        with suppress(OSError):
            lock = os.open(old, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(old, ignore_errors=True)
            finally:
                os.close(lock)
    new_folder = Path(tempfile.mkdtemp(prefix=".new-", dir=home))
    lock = os.open(new_folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    folder = new_folder.with_name(new_folder.name.replace(".new-", "worker-"))
    new_folder.rename(folder)
    return folder, lock
