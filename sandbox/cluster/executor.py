"""An `Executor` that runs experiments on a Ray cluster; the labels and the record stay on the head node.

Remote work occupies a slot, as on a single machine, so ordering, stopping and campaigns work in the same way. Limits:
experiments that call language models (`subjects`) do not run on a cluster; user scorers run on the head node's CPU.
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
    """An `Executor` over a cluster. Raises `ClusterError` if the cluster is unusable, and the errors of
    `LocalExecutor`."""

    def __init__(self, slots: int, views: Path, *, settings: SandboxSettings, cache: Path, **rest: Any) -> None:
        if rest.get("subjects") is not None:
            raise ClusterError(
                "experiments that call language models cannot run on a cluster: run this one without --ray"
            )
        machines = list_machines(settings)
        rest |= {"gpus": GpuLeases(None, (), settings)}
        super().__init__(
            min(slots, sum(machine.slots for machine in machines)), views, settings=settings, cache=cache, **rest
        )
        run_id = hashlib.sha256(f"{socket.gethostname()}:{self.config.cache}".encode()).hexdigest()[:16]
        slots_by_host: Counter[str] = Counter()
        for machine in machines:
            slots_by_host[machine.host] += machine.slots
        terms = WorkerTerms(
            settings=settings,
            run=run_id,
            slots=dict(slots_by_host),
            secret=self.config.secret,
            watch_seconds=monitor.WATCH_SECONDS,
        )
        self.cluster = RayCluster(settings.ray, machines, terms)
        self.file_transfer = FileTransfer(
            self.cluster,
            ContentStore(settings.store or default_store_root()),
            cache.absolute().parent / "archives",
            self.config.packages,
            int(settings.disk_gb * 1e9),
        )
        local = self._runner
        self._runner = RemoteRunner(
            **{f.name: getattr(local, f.name) for f in fields(JobRunner)}, file_transfer=self.file_transfer
        )

    @property
    def device(self) -> str:
        """Describe the devices of the cluster, as `LocalExecutor.device` does."""
        devices = [device for machine in self.cluster.machines for device in machine.devices]
        return describe_devices(devices, each=self._settings.gpus_per_node, shared_by=self._settings.slots_per_gpu)

    @property
    def cell_capacity(self) -> ResourceNeeds:
        """The maximum resources of one cell, on the largest machine."""
        return compute_max_cell_capacity(self.cluster.machines, self._settings)

    @property
    def environment_fingerprint(self) -> str:
        """The fingerprint shared by all machines, or the list of fingerprints if they differ."""
        found = {self._add_package_fingerprint(machine.environment_fingerprint) for machine in self.cluster.machines}
        return found.pop() if len(found) == 1 else json.dumps(sorted(found))

    async def close(self) -> None:
        await super().close()
        await self.cluster.close()

    def _open_host(self, folder: Path) -> ScriptHost:
        return RemoteHost(self.file_transfer, folder)

    def _add_package_fingerprint(self, fingerprint: str) -> str:
        installed = {"installed": self.packages.installed.sha256} if self.packages and self.packages.folder else {}
        return json.dumps(json.loads(fingerprint) | installed, sort_keys=True)
