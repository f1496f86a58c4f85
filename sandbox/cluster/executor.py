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

from labwright.record.nouns.data import Needs
from labwright.sandbox import monitor
from labwright.sandbox.cluster.engine import Cluster
from labwright.sandbox.cluster.machines import machines_of, room_in
from labwright.sandbox.cluster.messages import Terms
from labwright.sandbox.cluster.remote import Courier, RemotePlace, RemoteRunner
from labwright.sandbox.errors import ClusterError
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.gpu_leases import GpuLeases
from labwright.sandbox.gpus import describe_devices
from labwright.sandbox.places import Place
from labwright.sandbox.running import Runner
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.store import Store, default_root


class RayExecutor(LocalExecutor):
    """An `Executor` over a cluster. Raises `ClusterError` where it cannot be used as it is, and as `LocalExecutor`."""

    def __init__(self, slots: int, views: Path, *, settings: SandboxSettings, cache: Path, **rest: Any) -> None:
        if rest.get("subjects") is not None:
            raise ClusterError(
                "experiments that ask language models do not run on a cluster: run this one without --ray"
            )
        machines = machines_of(settings)
        rest |= {"gpus": GpuLeases(None, (), settings)}
        super().__init__(min(slots, sum(one.places for one in machines)), views, settings=settings, cache=cache, **rest)
        held = hashlib.sha256(f"{socket.gethostname()}:{self.config.cache}".encode()).hexdigest()[:16]
        places: Counter[str] = Counter()
        for one in machines:
            places[one.host] += one.places
        terms = Terms(
            settings=settings,
            run=held,
            slots=dict(places),
            secret=self.config.secret,
            watch_seconds=monitor.WATCH_SECONDS,
        )
        self.cluster = Cluster(settings.ray, machines, terms)
        self.courier = Courier(
            self.cluster,
            Store(settings.store or default_root()),
            cache.absolute().parent / "parcels",
            self.config.packages,
            int(settings.disk_gb * 1e9),
        )
        local = self._runner
        self._runner = RemoteRunner(
            **{one.name: getattr(local, one.name) for one in fields(Runner)}, courier=self.courier
        )

    @property
    def device(self) -> str:
        """As `LocalExecutor.device`."""
        devices = [device for one in self.cluster.machines for device in one.devices]
        return describe_devices(devices, each=self._settings.gpus_per_node, shared_by=self._settings.slots_per_gpu)

    @property
    def room(self) -> Needs:
        """The most that one cell can have, on the machine with most."""
        return room_in(self.cluster.machines, self._settings)

    @property
    def ground(self) -> str:
        """Of all machines; that of one where they are alike."""
        found = {self._with_packages(one.ground) for one in self.cluster.machines}
        return found.pop() if len(found) == 1 else json.dumps(sorted(found))

    async def close(self) -> None:
        await super().close()
        await self.cluster.close()

    def _opened(self, folder: Path) -> Place:
        return RemotePlace(self.courier, folder)

    def _with_packages(self, ground: str) -> str:
        installed = {"installed": self.packages.installed.sha256} if self.packages and self.packages.folder else {}
        return json.dumps(json.loads(ground) | installed, sort_keys=True)
