"""An `Executor` whose experiments run on the machines of a Ray cluster: one writer, labels and record stay here.

A slot is held while work is out, as on one machine, so that order, stopping and campaigns are the same. Not kept: what
asks language models (`subjects`) does not run there; scorers of your own run here, on the CPU.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

from labwright.record.schema.data_plan import ResourceNeeds
from labwright.sandbox import monitor
from labwright.sandbox.cluster.machines import compute_max_cell_capacity, list_machines
from labwright.sandbox.cluster.messages import WorkerTerms
from labwright.sandbox.cluster.ray_cluster import RayCluster
from labwright.sandbox.cluster.remote_runner import FileTransfer, RemoteHost, RemoteRunner
from labwright.sandbox.content_store import ContentStore, default_store_root
from labwright.sandbox.errors import ClusterError
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.gpu_leases import GpuLeases
from labwright.sandbox.gpus import describe_devices
from labwright.sandbox.job_runner import JobRunner
from labwright.sandbox.kernel_host import ScriptHost
from labwright.sandbox.settings import SandboxSettings


class RayExecutor(LocalExecutor):
    """An `Executor` over a cluster. Raises `ClusterError` where it cannot be used as it is, and as `LocalExecutor`."""

    def __init__(self, slots: int, views: Path, *, settings: SandboxSettings, cache: Path, **rest: Any) -> None:
        if rest.get("subjects") is not None:
            raise ClusterError(
                "experiments that ask language models do not run on a cluster: run this one without --ray"
            )
        machines = list_machines(settings)
        rest |= {"gpus": GpuLeases(None, (), settings)}
        super().__init__(min(slots, sum(one.slots for one in machines)), views, settings=settings, cache=cache, **rest)
        held = hashlib.sha256(f"{socket.gethostname()}:{self.config.cache}".encode()).hexdigest()[:16]
        places: Counter[str] = Counter()
        for one in machines:
            places[one.host] += one.slots
        terms = WorkerTerms(
            settings=settings,
            run=held,
            slots=dict(places),
            secret=self.config.secret,
            watch_seconds=monitor.WATCH_SECONDS,
        )
        self.cluster = RayCluster(settings.ray, machines, terms)
        self.file_transfer = FileTransfer(
            self.cluster,
            ContentStore(settings.store or default_store_root()),
            cache.absolute().parent / "parcels",
            self.config.packages,
            int(settings.disk_gb * 1e9),
        )
        local = self._runner
        self._runner = RemoteRunner(
            **{one.name: getattr(local, one.name) for one in fields(JobRunner)}, file_transfer=self.file_transfer
        )

    @property
    def device(self) -> str:
        """As `LocalExecutor.device`."""
        devices = [device for one in self.cluster.machines for device in one.devices]
        return describe_devices(devices, each=self._settings.gpus_per_node, shared_by=self._settings.slots_per_gpu)

    @property
    def cell_capacity(self) -> ResourceNeeds:
        """The most that one cell can have, on the machine with most."""
        return compute_max_cell_capacity(self.cluster.machines, self._settings)

    @property
    def environment_fingerprint(self) -> str:
        """Of all machines; that of one where they are alike."""
        found = {self._add_package_fingerprint(one.environment_fingerprint) for one in self.cluster.machines}
        return found.pop() if len(found) == 1 else json.dumps(sorted(found))

    async def close(self) -> None:
        await super().close()
        await self.cluster.close()

    def _open_host(self, folder: Path) -> ScriptHost:
        return RemoteHost(self.file_transfer, folder)

    def _add_package_fingerprint(self, ground: str) -> str:
        installed = {"installed": self.packages.installed.sha256} if self.packages and self.packages.folder else {}
        return json.dumps(json.loads(ground) | installed, sort_keys=True)
